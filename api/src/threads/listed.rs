//! Threads of a list, each with the beginning of its first turn and the end of its last one.

use std::collections::BTreeMap;

use api_types::{ListedThread, Turn, Usage};
use store::ThreadId;

use crate::{
    server::{problem::ApiError, state::AppState},
    turns::lookup::show_with_usage,
    views,
};

/// Maximum length of a text in a list, in characters.
const TEXT_MAX: usize = 200;

/// Converts the rows of threads, in the same order.
pub(crate) async fn listed(app: &AppState, rows: Vec<store::Thread>) -> Result<Vec<ListedThread>, ApiError> {
    let ids: Vec<ThreadId> = rows.iter().map(|row| row.id).collect();
    let mut inputs: BTreeMap<ThreadId, String> = BTreeMap::new();
    let mut last = BTreeMap::new();
    for turn in app.backends.store.end_turns(&ids).await? {
        let input = turn.messages.last().map(|message| beginning(&message.content)).unwrap_or_default();
        inputs.entry(turn.thread).or_insert(input);
        last.insert(turn.thread, turn);
    }
    let shown = show_with_usage(app, last.into_values().collect()).await?;
    let mut ends: BTreeMap<ThreadId, _> =
        shown.into_iter().map(|(turn, usage)| (turn.thread_id, (turn, usage))).collect();
    let listed = rows.into_iter().map(|row| {
        let id = row.id;
        let (turn, usage) = ends.remove(&id).unzip();
        ListedThread {
            summary: views::thread_summary(row),
            input: inputs.remove(&id),
            outcome: turn.as_ref().and_then(|turn| turn.outcome),
            result: turn.and_then(result),
            usage: usage.flatten().as_ref().map(Usage::from),
        }
    });
    Ok(listed.collect())
}

/// Returns the error, question or reply of a turn.
fn result(turn: Turn) -> Option<String> {
    let question = turn.interrupt.map(|interrupt| interrupt.question);
    let reply = turn.output.and_then(|output| output.reply);
    turn.error.or(question).or(reply).or(turn.cause).as_deref().map(beginning)
}

/// Returns a text that fits a list, with a sign if something was cut off.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX - 1) {
        Some((end, letter)) if end + letter.len_utf8() < text.len() => format!("{}…", &text[..end]),
        Some(_) | None => text.to_owned(),
    }
}

#[test]
fn a_long_text_is_cut_with_a_sign() {
    let text = "ä".repeat(TEXT_MAX);
    assert_eq!(beginning(&text), text);
    assert_eq!(beginning(&format!("{text}b")), format!("{}…", "ä".repeat(TEXT_MAX - 1)));
    assert_eq!(beginning(""), "");
}
