//! Mark with which a model begins the answer to the person, in a node whose model may call tools instead.
//!
//! ## Why a mark
//!
//! Calls follow the text of a reply. Without a mark, the text may be the answer or a remark before a call until the reply
//! is complete, so nothing of it could be shown before.

use shared::Reply;

/// Mark at the beginning of an answer, as the prompts name it.
const MARK: &str = "[answer]";

/// Returns the marked answer in a reply, or the reply without a mark that nothing follows. Case and white space before the
/// mark are ignored.
///
/// **Invariant:** a marked text is the answer, whatever calls stand beside it, because the person may have read it.
pub(super) fn answer(reply: Reply) -> Result<String, Reply> {
    match marked(&reply.content) {
        Some("") => Err(Reply { content: String::new(), ..reply }),
        Some(words) => Ok(words.to_owned()),
        None => Err(reply),
    }
}

/// Returns the part of a marked answer that the person may read while the model writes it, or an empty text.
pub(super) fn preview(partial: &str) -> &str {
    marked(partial).unwrap_or_default()
}

fn marked(reply: &str) -> Option<&str> {
    let (mark, words) = reply.trim_start().split_at_checked(MARK.len())?;
    mark.eq_ignore_ascii_case(MARK).then(|| words.trim())
}

#[test]
fn only_a_mark_at_the_beginning_counts() {
    assert_eq!(marked("[answer] At noon. "), Some("At noon."));
    assert_eq!(marked("\n [ANSWER]\nAt noon."), Some("At noon."));
    for other in ["At noon [answer]", "[answe", "[ask] Which?", "ä[answer]", "[ansŵer] a", ""] {
        assert_eq!((marked(other), preview(other)), (None, ""), "{other}");
    }
    assert_eq!(marked("[answer]"), Some(""));
}
