//! `turnfold thread prompt`: what a model was sent, as text.

use api_types::{Message, SentPrompt, SentPrompts, SentTool};
use serde_json::Value;
use shared::SUMMARISE_NODE;
use store::ThreadId;

use crate::{
    client::{Client, path},
    commands::Context,
    exit::Exit,
    output::{self, counted},
};

/// Characters of a hash that are shown.
const HASH_SHOWN: usize = 12;

pub(super) async fn run(
    ctx: &Context,
    client: &Client,
    id: ThreadId,
    at: Option<u64>,
    full: bool,
) -> anyhow::Result<Exit> {
    let up_to = at.map(|at| format!("?at={at}")).unwrap_or_default();
    let path = path(&["threads", &id.to_string(), "prompt"])?;
    let sent: SentPrompts = client.get(&format!("{path}{up_to}")).await?;
    output::one(ctx.format, &sent, || {
        sent.requests.iter().map(|request| text(&sent, request, full)).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Ok)
}

fn text(sent: &SentPrompts, request: &SentPrompt, full: bool) -> String {
    let hash =
        request.prompt.hash.as_ref().map(|hash| format!(" {}", hash.get(..HASH_SHOWN).unwrap_or(hash)));
    let mut out = format!(
        "event {}: {} asks {} · prompt {}{}\n",
        sent.seq,
        sent.node,
        request.model,
        request.prompt.origin,
        hash.unwrap_or_default()
    );
    if !request.system.is_empty() {
        out += &section("system", &request.system);
    }
    for (place, message) in request.messages.iter().enumerate() {
        let title = match place.checked_sub(request.earlier) {
            None => format!("{} · in place of earlier messages", role(message)),
            Some(_) if sent.node == SUMMARISE_NODE => role(message),
            Some(nth) => format!("{} · message {}", role(message), request.first_message + nth),
        };
        out += &section(&title, &message_text(message));
    }
    if let Some(error) = &request.previous_error {
        out += &section("to be corrected", error);
    }
    out += &tools(&request.tools, full);
    if let (Some(name), Some(schema)) = (&request.schema_name, &request.schema) {
        out += &folded(&format!("answer as {name}"), schema, full);
    }
    let rest = [("parameters", &request.parameters), ("use of tools", &request.tool_use)];
    for (title, value) in rest.into_iter().filter_map(|(title, value)| Some((title, value.as_ref()?))) {
        out += &section(title, &value.to_string());
    }
    out
}

fn role(message: &Message) -> String {
    output::json_name(&message.role)
}

fn message_text(message: &Message) -> String {
    let calls = message.tool_calls.iter().map(|call| format!("calls {} {}", call.name, call.arguments));
    let files = message.attachments.iter().map(|file| format!("with {} {}", file.kind, file.media_type));
    let text = (!message.content.is_empty()).then(|| message.content.clone());
    text.into_iter().chain(calls).chain(files).collect::<Vec<_>>().join("\n")
}

fn section(title: &str, text: &str) -> String {
    format!("── {title}\n{}\n", text.trim_end())
}

/// Renders tools by name, and in full on request.
fn tools(tools: &[SentTool], full: bool) -> String {
    if tools.is_empty() {
        return String::new();
    }
    if !full {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        return section(&format!("{} (--full shows them)", counted(tools.len(), "tool")), &names.join(", "));
    }
    tools.iter().map(|tool| section(&format!("tool {}", tool.name), &tool_text(tool))).collect()
}

fn tool_text(tool: &SentTool) -> String {
    let server = tool.server.iter().map(|server| format!("of the server {server}"));
    let parameters = (!tool.parameters.is_null()).then(|| pretty(&tool.parameters));
    server.chain([tool.description.clone()]).chain(parameters).collect::<Vec<_>>().join("\n")
}

fn folded(title: &str, schema: &Value, full: bool) -> String {
    match full {
        true => section(title, &pretty(schema)),
        false => {
            let bytes = schema.to_string().len();
            section(title, &format!("a schema of {bytes} bytes (--full shows it)"))
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
