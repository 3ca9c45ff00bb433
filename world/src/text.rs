//! Texts of bounded length, and ids of calls.

/// Id for a tool call without one: the reply's position in the conversation and the call's position in the reply.
pub(crate) fn call_id(position: usize, nth: usize) -> String {
    format!("call_{position}_{nth}")
}

/// Formats an error with all its causes on one line.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source()).map(ToString::to_string);
    let mut messages: Vec<String> = Vec::new();
    for cause in causes {
        // Many errors already end with the message of their cause.
        if !messages.last().is_some_and(|message| message.contains(&cause)) {
            messages.push(cause);
        }
    }
    messages.join(": ")
}

/// Truncates `text` to `max` characters.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
