//! Mark with which a model begins the answer to the person, in a node whose model may call tools instead.
//!
//! ## Why a mark
//!
//! Calls follow the text of a reply. Without a mark, the text may be the answer or a remark before a call until the reply
//! is complete, so nothing of it could be shown before.

use shared::Reply;

/// Mark at the beginning of an answer, as the prompts name it.
const MARK: &str = "[answer]";

/// Returns the text after the mark if the reply has no calls, or else the reply without the mark. Case and white space before the
/// mark are ignored.
///
/// **Invariant:** a text never replaces a call. It may say that something was done which only the call does. A person who has
/// read a part of it sees it discarded.
pub(super) fn answer(reply: Reply) -> Result<String, Reply> {
    match marked(&reply.content) {
        Some(words) if !words.is_empty() && reply.tool_calls.is_empty() => Ok(words.to_owned()),
        Some(words) => Err(Reply { content: words.to_owned(), ..reply }),
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
fn a_call_beside_a_mark_is_made() {
    let call = shared::ToolCall {
        id: "c1".to_owned(),
        name: "create_ticket".to_owned(),
        arguments: serde_json::Value::Null,
    };
    let content = "[answer] I have created your ticket.".to_owned();
    let reply = Reply { content, tool_calls: vec![call], ..Reply::default() };
    assert_eq!(
        answer(Reply { tool_calls: Vec::new(), ..reply.clone() }).unwrap(),
        "I have created your ticket."
    );
    let kept = answer(reply).unwrap_err();
    assert_eq!((kept.tool_calls.len(), &*kept.content), (1, "I have created your ticket."));
}

#[test]
fn a_mark_counts_only_at_the_beginning() {
    assert_eq!(marked("[answer] At noon. "), Some("At noon."));
    assert_eq!(marked("\n [ANSWER]\nAt noon."), Some("At noon."));
    for other in ["At noon [answer]", "[answe", "[ask] Which?", "ä[answer]", "[ansŵer] a", ""] {
        assert_eq!((marked(other), preview(other)), (None, ""), "{other}");
    }
    assert_eq!(marked("[answer]"), Some(""));
}
