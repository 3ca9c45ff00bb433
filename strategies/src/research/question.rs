//! The question of a research, what was said before it, and what it may still cost.

use shared::{Message, Role, Thread};

use super::Research;

/// Maximum length of the earlier conversation that a model receives, in characters.
const EARLIER_MAX: usize = 4_000;

/// Returns the topic: the person's last message when the turn began.
pub(super) fn topic(thread: &Thread<Research>) -> &str {
    let asked = &thread.messages[thread.state.question.clone()];
    asked.iter().rfind(|message| message.role == Role::User).map_or("", |message| message.content.trim())
}

/// Returns the range of the question and its findings, the only messages that may be cited.
pub(super) fn since(thread: &Thread<Research>) -> std::ops::Range<usize> {
    thread.state.question.start..thread.messages.len()
}

/// Returns the conversation before the question, for models that receive only the later messages.
///
/// The result is text and not messages, because tokens in an earlier turn refer to other sources.
pub(super) fn earlier(thread: &Thread<Research>) -> String {
    let spoken = |message: &&Message| {
        matches!(message.role, Role::User | Role::Assistant) && message.tool_calls.is_empty()
    };
    let said = thread.messages[..thread.state.question.start].iter().filter(spoken);
    let all: Vec<String> =
        said.map(|message| format!("{}: {}", message.role.name(), message.content)).collect();
    let all = all.join("\n");
    if all.is_empty() {
        return "none".to_owned();
    }
    let skip = all.chars().count().saturating_sub(EARLIER_MAX);
    all.chars().skip(skip).collect()
}

/// Returns the reason that no more models may be called in this turn, if the limit is reached.
pub(super) fn spent(thread: &Thread<Research>) -> Option<String> {
    let limit = thread.config.model_calls;
    (limit <= thread.turn.model_calls)
        .then(|| format!("the limit of {limit} model calls for a turn is reached"))
}
