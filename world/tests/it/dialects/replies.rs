//! Writes a reply as the endpoints of each dialect write theirs.

use serde_json::{Value, json};
use shared::{Reply, ToolCall};
use world::Dialect;

/// Reasoning in the replies of dialects whose models reason.
const REASONING: &str = "The person wants {\"this\": 1} or that.";

/// Returns true if replies of the dialect hold reasoning.
pub(super) fn reasons(dialect: Dialect) -> bool {
    match dialect {
        Dialect::Vllm
        | Dialect::LlamaCpp
        | Dialect::Ollama
        | Dialect::Gemini
        | Dialect::Mistral
        | Dialect::Groq
        | Dialect::OpenRouter => true,
        Dialect::OpenAi | Dialect::Azure | Dialect::Anthropic | Dialect::Compatible => false,
    }
}

/// Writes the reply to a request, streamed or whole.
pub(super) fn written(dialect: Dialect, reply: &Reply, request: &Value) -> String {
    let reply = &answered(reply, request);
    if request["stream"] != true {
        return whole(dialect, reply).to_string();
    }
    let finish = |usual| if reply.cut_off { "length" } else { usual };
    match dialect {
        Dialect::OpenAi | Dialect::Azure => events(&in_pieces(reply), finish("stop"), "\n\n", true),
        Dialect::Anthropic => named_events(&in_pieces(reply), finish("end_turn")),
        Dialect::Vllm => {
            let thoughts = vec![json!({ "reasoning_content": REASONING })];
            events(&[thoughts, in_pieces(reply)].concat(), finish("stop"), "\n\n", true)
        }
        // The whole text at once, with its reasoning.
        Dialect::LlamaCpp => {
            let text = format!("<think>{REASONING}</think>\n\n{}", reply.content);
            let text = json!({ "content": text, "annotations": annotations(reply) });
            let calls = calls(
                reply,
                |nth, call| json!({ "index": nth, "id": call.id, "function": { "name": call.name, "arguments": text_of(call) } }),
            );
            events(&[vec![text], calls].concat(), finish("stop"), "\n\n", true)
        }
        // All calls have one number.
        Dialect::Ollama => {
            let thoughts = vec![json!({ "content": "", "reasoning": REASONING })];
            let calls = calls(
                reply,
                |_, call| json!({ "index": 0, "id": call.id, "function": { "name": call.name, "arguments": text_of(call) } }),
            );
            events(&[thoughts, text(reply), calls].concat(), finish("stop"), "\n\n", true)
        }
        // Calls have neither distinct numbers nor ids, and the stream has no end mark.
        Dialect::Gemini => {
            let thoughts = vec![json!({ "content": format!("<thought>{REASONING}</thought>") })];
            let calls = calls(
                reply,
                |_, call| json!({ "index": 0, "id": "", "type": "function", "function": { "name": call.name, "arguments": text_of(call) } }),
            );
            events(&[thoughts, text(reply), calls].concat(), finish("stop"), "\n\n", false)
        }
        // Content in parts, calls without numbers.
        Dialect::Mistral => {
            let thoughts =
                json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": REASONING }] }]);
            let parts = json!([{ "type": "text", "text": reply.content }]);
            let calls = calls(
                reply,
                |_, call| json!({ "id": call.id, "function": { "name": call.name, "arguments": text_of(call) } }),
            );
            let parts = json!({ "content": parts, "annotations": annotations(reply) });
            events(
                &[vec![json!({ "content": thoughts }), parts], calls].concat(),
                finish("stop"),
                "\n\n",
                true,
            )
        }
        // Arguments as an object.
        Dialect::Groq => {
            let thoughts = vec![json!({ "reasoning": REASONING })];
            let calls = calls(
                reply,
                |nth, call| json!({ "index": nth, "id": call.id, "function": { "name": call.name, "arguments": call.arguments } }),
            );
            events(&[thoughts, text(reply), calls].concat(), finish("tool_calls"), "\r\n\r\n", true)
        }
        Dialect::OpenRouter => {
            let thoughts = vec![json!({ "content": "", "reasoning": REASONING, "reasoning_details": [] })];
            // No reason at the end, unless the reply would look unfinished without it.
            let is_empty = reply.content.trim().is_empty() && reply.tool_calls.is_empty();
            let is_open = reply.tool_calls.iter().any(|call| !call.arguments.is_object());
            let finish = finish(if is_empty || is_open { "stop" } else { "" });
            let events = events(&[thoughts, in_pieces(reply)].concat(), finish, "\n\n", true);
            format!(": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n{events}")
        }
        // No stream at all.
        Dialect::Compatible => format!("\u{feff}{:#}", whole(dialect, reply)),
    }
}

/// Returns the reply with its answer as the call that the request forces.
fn answered(reply: &Reply, request: &Value) -> Reply {
    let Some(name) = request["tool_choice"]["function"]["name"].as_str() else { return reply.clone() };
    let arguments = Value::from(reply.content.as_str());
    let call = ToolCall { id: "answer_id".to_owned(), name: name.to_owned(), arguments };
    Reply {
        content: String::new(),
        tool_calls: vec![call],
        citations: reply.citations.clone(),
        ..Reply::default()
    }
}

/// Arguments as the model wrote them.
fn text_of(call: &ToolCall) -> String {
    call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned)
}

fn calls(reply: &Reply, call: impl Fn(usize, &ToolCall) -> Value) -> Vec<Value> {
    let calls = reply.tool_calls.iter().enumerate();
    calls.map(|(nth, tool_call)| json!({ "tool_calls": [call(nth, tool_call)] })).collect()
}

fn text(reply: &Reply) -> Vec<Value> {
    vec![json!({ "content": reply.content, "annotations": annotations(reply) })]
}

fn annotations(reply: &Reply) -> Vec<Value> {
    let annotation = |citation: &shared::Citation| {
        let cited = json!({ "url": citation.url, "title": citation.title, "end_index": citation.end });
        json!({ "type": "url_citation", "url_citation": cited })
    };
    reply.citations.iter().map(annotation).collect()
}

/// Words one by one, and arguments in halves.
fn in_pieces(reply: &Reply) -> Vec<Value> {
    let mut pieces: Vec<Value> =
        reply.content.split_inclusive(' ').map(|word| json!({ "content": word })).collect();
    if !reply.citations.is_empty() {
        pieces.push(json!({ "annotations": annotations(reply) }));
    }
    for (nth, call) in reply.tool_calls.iter().enumerate() {
        let arguments = text_of(call);
        let half = (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
        let (one, other) = arguments.split_at(half);
        let first = json!({ "index": nth, "id": call.id, "type": "function", "function": { "name": call.name, "arguments": one } });
        pieces.push(json!({ "tool_calls": [first] }));
        pieces.push(json!({ "tool_calls": [{ "index": nth, "function": { "arguments": other } }] }));
    }
    pieces
}

fn chunk(delta: &Value, finish: &Value) -> Value {
    json!({ "id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

/// Writes events with this reason at the end, or none, and the end mark if the dialect has it.
fn events(deltas: &[Value], finish: &str, gap: &str, has_mark: bool) -> String {
    let empty = if finish.is_empty() { json!("") } else { Value::Null };
    let mut chunks: Vec<Value> = deltas.iter().map(|delta| chunk(delta, &empty)).collect();
    if !finish.is_empty() {
        chunks.push(chunk(&json!({}), &finish.into()));
    }
    chunks.push(json!({ "choices": [], "usage": { "prompt_tokens": 11, "completion_tokens": 7 } }));
    let mark = has_mark.then(|| format!("data: [DONE]{gap}"));
    chunks.iter().map(|chunk| format!("data: {chunk}{gap}")).chain(mark).collect()
}

/// Events with names and ids, and one line break between them.
fn named_events(deltas: &[Value], finish: &str) -> String {
    let mut events: String = deltas
        .iter()
        .map(|delta| {
            format!("event: message\nid: 1\ndata: {}\n\nevent: ping\n\n", chunk(delta, &Value::Null))
        })
        .collect();
    events.push_str(&format!("data: {}\n", chunk(&json!({}), &finish.into())));
    events.push_str("data: [DONE]");
    events
}

fn whole(dialect: Dialect, reply: &Reply) -> Value {
    let calls: Vec<Value> = reply
        .tool_calls
        .iter()
        .map(|call| json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": text_of(call) } }))
        .collect();
    let mut message =
        json!({ "role": "assistant", "content": reply.content, "annotations": annotations(reply) });
    if reasons(dialect) {
        message["reasoning"] = REASONING.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": if reply.cut_off { "max_tokens" } else { "stop" } }],
        "usage": { "prompt_tokens": 11, "completion_tokens": 7 },
    })
}
