//! Values that cannot be kept as they were sent.

/// Maximum depth of lists and objects. Events and pages of the API nest a value some levels deeper.
pub const JSON_DEPTH_MAX: usize = 64;

/// A value that cannot be kept as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfaithfulJson {
    /// Path of the value, as in `messages[0].content`; empty for the whole text.
    pub at: String,
    /// Cause of the refusal.
    pub kind: UnfaithfulKind,
}

/// Causes of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfaithfulKind {
    /// A number that 64 bits cannot hold exactly.
    Number(String),
    /// Half of a surrogate pair.
    Surrogate(String),
    /// More levels than [`JSON_DEPTH_MAX`].
    Depth,
}

impl UnfaithfulJson {
    /// Describes what is wrong, without the place.
    pub fn detail(&self) -> String {
        match &self.kind {
            UnfaithfulKind::Number(text) => format!("the number {text} cannot be kept exactly"),
            UnfaithfulKind::Surrogate(text) => format!("{text} is half a character"),
            UnfaithfulKind::Depth => {
                format!("lists and objects are nested deeper than {JSON_DEPTH_MAX} levels")
            }
        }
    }

    /// Describes what the sender can do.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            UnfaithfulKind::Number(_) => "send it as a string",
            UnfaithfulKind::Surrogate(_) => "send both halves of the surrogate pair",
            UnfaithfulKind::Depth => "send the inner part as a string",
        }
    }
}

impl std::fmt::Display for UnfaithfulJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        write!(f, "{}; hint: {}", self.detail(), self.hint())
    }
}

impl std::error::Error for UnfaithfulJson {}
