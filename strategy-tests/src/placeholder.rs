//! Placeholders of removed values. Equal values have the same placeholder, so what was equal stays equal.

/// Form of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placeholder {
    /// `SECRET_1`.
    Secret,
    /// `person1@example.com`, which is still an email address.
    Email,
    /// `PHONE_1`.
    Phone,
    /// `CARD_1`.
    Card,
    /// `IBAN_1`.
    Iban,
    /// `ID_1`.
    Id,
    /// `ADDRESS_1`.
    Address,
    /// `DATE_1`.
    Date,
    /// `NAME_1`.
    Name,
}

const ALL: [Placeholder; 9] = {
    use Placeholder::{Address, Card, Date, Email, Iban, Id, Name, Phone, Secret};
    [Secret, Email, Phone, Card, Iban, Id, Address, Date, Name]
};

impl Placeholder {
    /// The placeholder of the nth value.
    pub(crate) fn nth(self, nth: usize) -> String {
        let (before, after) = self.around();
        format!("{before}{nth}{after}")
    }

    /// The value without what does not distinguish it from others: letter case, and marks between digits.
    pub(crate) fn key(self, value: &str) -> String {
        match self {
            Self::Secret => value.to_owned(),
            Self::Phone | Self::Card | Self::Iban | Self::Id => {
                value.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>().to_uppercase()
            }
            Self::Email | Self::Address | Self::Date | Self::Name => value.to_lowercase(),
        }
    }

    fn around(self) -> (&'static str, &'static str) {
        match self {
            Self::Secret => ("SECRET_", ""),
            Self::Email => ("person", "@example.com"),
            Self::Phone => ("PHONE_", ""),
            Self::Card => ("CARD_", ""),
            Self::Iban => ("IBAN_", ""),
            Self::Id => ("ID_", ""),
            Self::Address => ("ADDRESS_", ""),
            Self::Date => ("DATE_", ""),
            Self::Name => ("NAME_", ""),
        }
    }
}

/// Reports whether the text is a placeholder.
pub(crate) fn is_placeholder(text: &str) -> bool {
    ALL.iter().any(|form| {
        let (before, after) = form.around();
        let nth = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        nth.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    })
}
