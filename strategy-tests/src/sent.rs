//! Parts of requests that no event shows: the error that a model is to correct, inputs of people, and conversations that are not shown
//! whole.

use shared::{DynThread, InputResponses, InvalidLog, Message, Next, PendingRequest, Request, visible_line};

/// Maximum characters of a message at each of its ends.
const END_MAX: usize = 60;

/// A part of a request, after its title.
pub(crate) type Part = (&'static str, String);

/// Returns the parts of the requests that the thread of this fixture makes next.
///
/// # Errors
///
/// [`InvalidLog`] if today's code cannot continue the thread.
pub(crate) fn parts(fixture: &str, thread: &dyn DynThread) -> Result<Vec<Part>, InvalidLog> {
    let Next::Perform(due) = thread.next()? else { return Ok(Vec::new()) };
    let parts = |due: &PendingRequest| {
        let error = due.previous_error.clone().map(|error| (" · error to correct", error));
        let inputs = due.input_responses.as_ref().map(|inputs| (" · inputs", inputs_text(inputs)));
        let list = list_text(thread, due);
        let list = list.map(|text| (" · tools listed again before", format!("{fixture}: {text}")));
        let shown = shown_text(thread, &due.request).map(|text| (" · messages", text));
        [error, inputs, list, shown].into_iter().flatten().collect::<Vec<_>>()
    };
    Ok(due.iter().flat_map(parts).collect())
}

fn inputs_text(inputs: &InputResponses) -> String {
    let state = inputs.request_state.iter().map(|state| format!("state {state}"));
    let answers = inputs.responses.iter().map(|(name, response)| {
        let response = serde_json::to_string(response).unwrap_or_else(|error| error.to_string());
        format!("{name}: {response}")
    });
    state.chain(answers).collect::<Vec<_>>().join("\n")
}

/// Names the call before which the list of its server is read again.
fn list_text(thread: &dyn DynThread, due: &PendingRequest) -> Option<String> {
    let Request::CallTool { server, .. } = &due.request else { return None };
    (due.is_write() && thread.is_first_approved_write(server)).then(|| due.request.to_string())
}

/// Lists the messages of a request that leaves some out or shortens them.
fn shown_text(thread: &dyn DynThread, request: &Request) -> Option<String> {
    let Request::Chat { summarised, tool_result_tokens, attachments_max, .. } = request else { return None };
    if !summarised && tool_result_tokens.is_none() && attachments_max.is_none() {
        return None;
    }
    let messages = thread.messages_of(request);
    Some(messages.iter().map(message_text).collect::<Vec<_>>().join("\n"))
}

fn message_text(message: &Message) -> String {
    let text = visible_line(&message.content);
    let letters: Vec<char> = text.chars().collect();
    let text = if letters.len() <= 2 * END_MAX {
        text
    } else {
        let end = |letters: &[char]| letters.iter().collect::<String>();
        let left_out = letters.len() - 2 * END_MAX;
        let (start, last) = (end(&letters[..END_MAX]), end(&letters[letters.len() - END_MAX..]));
        format!("{start} … {left_out} characters … {last}")
    };
    let calls: String = message.tool_calls.iter().map(|call| format!(" + {}", call.name)).collect();
    let files: String = match message.attachments.len() {
        0 => String::new(),
        count => format!(" + {count} images and files"),
    };
    format!("{}: {text}{calls}{files}", message.role.name())
}
