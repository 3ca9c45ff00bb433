//! Ids on the command line: in full, or a prefix that only one of them has.

use uuid::Uuid;

use crate::exit::{CliError, Exit};

/// Fewest characters of a prefix.
const MIN_PREFIX: usize = 4;

/// Maximum candidates that an error about an ambiguous prefix lists.
pub(crate) const MAX_CANDIDATES: usize = 5;

/// An id as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdArg {
    Full(Uuid),
    /// All ids from `first` to `last` begin with the prefix.
    Prefix {
        first: Uuid,
        last: Uuid,
    },
}

impl IdArg {
    /// Parses an id or a prefix of at least [`MIN_PREFIX`] hexadecimal digits. `kind` and `list` name the command that lists
    /// such ids, for the error.
    pub(crate) fn parse(text: &str, kind: &str, list: &str) -> anyhow::Result<Self> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Full(id));
        }
        let digits = text.replace('-', "");
        let pad = |with: &str| {
            Uuid::try_parse(&format!("{digits}{}", with.repeat(32_usize.saturating_sub(digits.len()))))
        };
        let is_prefix =
            (MIN_PREFIX..32).contains(&digits.len()) && digits.chars().all(|char| char.is_ascii_hexdigit());
        match (is_prefix, pad("0"), pad("f")) {
            (true, Ok(first), Ok(last)) => Ok(Self::Prefix { first, last }),
            _ => Err(CliError::with_exit(
                Exit::Usage,
                format!(
                    "{text:?} is not the id of a {kind}\nhint: give an id or at least its first {MIN_PREFIX} characters; \
                     list them with: turnfold {list}"
                ),
            )),
        }
    }

    /// Returns true if an id begins with the prefix.
    pub(crate) fn matches(self, id: Uuid) -> bool {
        match self {
            Self::Full(full) => full == id,
            Self::Prefix { first, last } => first <= id && id <= last,
        }
    }
}

/// Returns the only candidate.
///
/// # Errors
///
/// [`Exit::NotFound`] if there is none, [`Exit::Usage`] with the candidates if there are several.
pub(crate) fn only(text: &str, kind: &str, list: &str, candidates: &[String]) -> anyhow::Result<String> {
    match candidates {
        [id] => Ok(id.clone()),
        [] => Err(CliError::with_exit(
            Exit::NotFound,
            format!("there is no {kind} {text}\nhint: list them with: turnfold {list}"),
        )),
        several => {
            let listed: String = several.iter().take(MAX_CANDIDATES).map(|id| format!("\n  {id}")).collect();
            let more = if several.len() > MAX_CANDIDATES { "\n  and more" } else { "" };
            Err(CliError::with_exit(
                Exit::Usage,
                format!(
                    "{text:?} is ambiguous: the id of more than one {kind} begins with it{listed}{more}\nhint: write more characters of the id"
                ),
            ))
        }
    }
}

#[test]
fn a_prefix_matches_the_ids_that_begin_with_it() {
    let parse = |text: &str| IdArg::parse(text, "thread", "thread list");
    let id: Uuid = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d".parse().unwrap();
    for text in ["019a", "019aa7f0", "019aa7f0-7d5e-7", "019AA7F07D5E"] {
        assert!(parse(text).unwrap().matches(id), "{text}");
    }
    assert!(!parse("019aa7f1").unwrap().matches(id));
    assert_eq!(parse(&id.to_string()).unwrap(), IdArg::Full(id));
    for text in ["", "019", "last", "zzzz", "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d0"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.contains("is not the id of a thread") && error.contains("turnfold thread list"),
            "{error}"
        );
    }
    let two = ["a".to_owned(), "b".to_owned()];
    let error = only("019a", "thread", "thread list", &two).unwrap_err();
    assert!(error.to_string().contains("ambiguous") && error.to_string().contains("\n  a\n  b"), "{error}");
}
