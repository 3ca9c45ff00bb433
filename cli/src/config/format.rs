//! Formats of strings in the schema that concern secrets.

/// String formats that concern secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A reference to a secret.
    Secret,
    /// A reference, or a literal that is treated as a secret.
    MaybeSecret,
    /// A URL that may contain a password.
    Address,
}

impl Format {
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Secret => "secret-reference",
            Format::MaybeSecret => "maybe-secret",
            Format::Address => "address",
        }
    }
}
