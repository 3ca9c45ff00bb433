//! Ids on the command line: in full, by their first characters, or by their last, as lists and the console show them.

use api_types::{FoundId, IdKind, Page};
use store::{PartOfId, SHORT_ID};
use uuid::Uuid;

use crate::{
    client::{Client, path},
    exit::{CliError, Exit},
};

/// Maximum candidates that an error about an ambiguous part lists.
const MAX_CANDIDATES: usize = 5;

/// Returns the only id of a kind that begins or ends with a text, or the id itself. A whole id is not looked up: the request that
/// follows fails if it does not exist.
pub(crate) async fn resolve(client: &Client, kind: IdKind, text: &str) -> anyhow::Result<String> {
    let digits = text.strip_prefix("batch_").unwrap_or(text);
    if let Ok(id) = digits.parse::<Uuid>() {
        return Ok(if kind == IdKind::Batch { format!("batch_{}", id.simple()) } else { id.to_string() });
    }
    if PartOfId::parse(digits).is_none() {
        return Err(CliError::with_exit(
            Exit::Usage,
            format!(
                "{text:?} is not the id of a {kind}\nhint: give an id, its first 4 characters or more, or its last {SHORT_ID}; list \
                 them with: turnfold {kind} list"
            ),
        ));
    }
    let found: Page<FoundId> = client.get(&format!("{}?kind={kind}", path(&["ids", digits])?)).await?;
    only(text, kind, &found)
}

/// Returns the only candidate.
///
/// # Errors
///
/// [`Exit::NotFound`] if there is none, [`Exit::Usage`] with the candidates if there are several.
fn only(text: &str, kind: IdKind, found: &Page<FoundId>) -> anyhow::Result<String> {
    match &found.data[..] {
        [one] if !found.has_more => Ok(one.id.clone()),
        [] => Err(CliError::with_exit(
            Exit::NotFound,
            format!("there is no {kind} {text}\nhint: list them with: turnfold {kind} list"),
        )),
        several => {
            let listed: String =
                several.iter().take(MAX_CANDIDATES).map(|one| format!("\n  {}", one.id)).collect();
            let more = if found.has_more || MAX_CANDIDATES < several.len() { "\n  and more" } else { "" };
            Err(CliError::with_exit(
                Exit::Usage,
                format!(
                    "{text:?} is ambiguous: the id of more than one {kind} begins or ends with it{listed}{more}\nhint: write more \
                     characters of the id"
                ),
            ))
        }
    }
}

/// Returns the short form of an id: its last characters, which are random. The first ones are a time.
pub(crate) fn short(id: &str) -> &str {
    let is_id = id.strip_prefix("batch_").unwrap_or(id).parse::<Uuid>().is_ok();
    id.get(id.len().saturating_sub(SHORT_ID)..).filter(|_| is_id).unwrap_or(id)
}

#[test]
fn an_id_is_shown_by_its_end() {
    assert_eq!(short("019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d"), "1a2b4c5d");
    assert_eq!(short("batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"), "1a2b4c5d");
    assert_eq!((short("default"), short("")), ("default", ""));
}

#[test]
fn an_ambiguous_part_lists_the_candidates() {
    let found = |ids: &[&str]| Page {
        data: ids
            .iter()
            .map(|id| FoundId { kind: IdKind::Thread, id: (*id).to_owned(), short: String::new() })
            .collect(),
        has_more: false,
    };
    assert_eq!(only("019a", IdKind::Thread, &found(&["a"])).unwrap(), "a");
    let error = only("019a", IdKind::Thread, &found(&["a", "b"])).unwrap_err().to_string();
    assert!(error.contains("ambiguous") && error.contains("\n  a\n  b"), "{error}");
    let error = only("019a", IdKind::Thread, &found(&[])).unwrap_err().to_string();
    assert!(error.contains("turnfold thread list"), "{error}");
}
