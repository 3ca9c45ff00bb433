//! Converts rmcp's types into the log's: tools, prompts and results of calls.

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, Prompt as McpPrompt, ReadResourceResult, Resource,
    ResourceContents, Role as McpRole, Tool as McpTool,
};
use shared::{Content, Message, Prompt, PromptArgument, Response, ResponseExtras, Safety, Tool, ToolOutput};

use super::{Server, corrections::Correction, doubt, resources::READ_RESOURCE, structured};
use crate::text::truncate;

/// Maximum characters of an output; more than any model can use.
pub(crate) const MAX_OUTPUT_CHARS: usize = 1 << 20;

/// Converts tools, sorted by name, without those that the operator's filter hides.
pub(super) fn tools(server: &Server, listed: Vec<McpTool>) -> Vec<Tool> {
    let names: Vec<String> = listed.iter().map(|tool| tool.name.to_string()).collect();
    let tool = |tool: McpTool| Tool {
        safety: safety(server, &tool, &names),
        max_repeats: server.tools.get(tool.name.as_ref()).and_then(|settings| settings.max_repeats),
        read_back: None,
        description: tool.description.map(String::from).or(tool.title).unwrap_or_default(),
        parameters: tool.input_schema.as_ref().clone().into(),
        name: tool.name.into_owned(),
    };
    for name in server.tool_filter.allow.iter().flatten().chain(&server.tool_filter.deny) {
        if name != READ_RESOURCE && !listed.iter().any(|tool| tool.name == *name) {
            tracing::warn!(
                tool = name,
                "allow or deny of [mcp.NAME] names a tool that the server does not have"
            );
        }
    }
    let mut tools: Vec<Tool> =
        listed.into_iter().filter(|tool| server.tool_filter.permits(&tool.name)).map(tool).collect();
    // Sorted, so that prompts and logs do not depend on the server's order.
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools.dedup_by(|a, b| {
        let is_same = a.name == b.name;
        if is_same {
            tracing::warn!(
                tool = a.name,
                "MCP server lists two tools of one name; only one of them can be called"
            );
        }
        is_same
    });
    tools
}

/// Returns the operator's setting, or the one derived from the server's annotations, which are wrong for some public servers.
fn safety(server: &Server, tool: &McpTool, listed: &[String]) -> Safety {
    let hints = tool.annotations.as_ref();
    match server.tools.get(tool.name.as_ref()).and_then(|settings| settings.safety) {
        Some(safety) => safety,
        None if hints.is_some_and(|hints| hints.read_only_hint == Some(true)) => {
            Correction::of_name(&tool.name, listed.iter().map(String::as_str))
                .map_or(Safety::Read, |correction| correction.safety)
        }
        None if hints.is_some_and(|hints| hints.idempotent_hint == Some(true)) => Safety::Idempotent,
        None => Safety::Write,
    }
}

/// Converts prompts, in the server's order, which may be meaningful.
pub(super) fn prompts(listed: Vec<McpPrompt>) -> Vec<Prompt> {
    let prompt = |prompt: McpPrompt| Prompt {
        name: prompt.name,
        description: prompt.description.or(prompt.title).unwrap_or_default(),
        arguments: prompt.arguments.into_iter().flatten().map(argument).collect(),
    };
    listed.into_iter().map(prompt).collect()
}

fn argument(argument: rmcp::model::PromptArgument) -> PromptArgument {
    PromptArgument {
        name: argument.name,
        description: argument.description.or(argument.title).unwrap_or_default(),
        required: argument.required == Some(true),
    }
}

/// Converts the messages of a prompt.
pub(super) fn messages(result: GetPromptResult) -> Vec<Message> {
    let message = |message: rmcp::model::PromptMessage| {
        let text = truncate(&block(&message.content), MAX_OUTPUT_CHARS);
        match message.role {
            McpRole::User => Message::user(text),
            McpRole::Assistant => Message::assistant(text),
        }
    };
    result.messages.into_iter().map(message).collect()
}

/// Converts the result of a call, with the session that the server keeps for the thread, if any.
pub(super) fn output(result: CallToolResult, session: Option<String>) -> Response {
    let mut blocks: Vec<String> = result.content.iter().map(block).collect();
    if let Some(structured) = &result.structured_content
        && !structured::is_told_by(&blocks.join("\n"), structured)
    {
        blocks.push(structured.to_string());
    }
    let text = truncate(&blocks.join("\n"), MAX_OUTPUT_CHARS);
    let output = match result.is_error == Some(true) {
        true if doubt::is_of_output(&text) => ToolOutput::Error(format!("{text}; the call was carried out")),
        true => ToolOutput::Error(text),
        false => ToolOutput::Ok(text),
    };
    let structured = result.structured_content.map(|value| Content::Structured { value });
    let content = limit_size(result.content.into_iter().filter_map(extra_content).chain(structured));
    if content.is_empty() && session.is_none() {
        return Response::Output(output);
    }
    Response::OutputWithExtras { output, extras: Box::new(ResponseExtras { content, session }) }
}

/// Converts a resource to the result of the call that read it.
pub(super) fn resource(result: ReadResourceResult, session: Option<String>) -> Response {
    let blocks = result.contents.into_iter().map(ContentBlock::resource).collect();
    output(CallToolResult::success(blocks), session)
}

/// Maximum bytes kept of one result in addition to its text, as JSON.
const MAX_EXTRA_BYTES: usize = 2 << 20;

/// Keeps content up to the limit, and a description of the rest.
fn limit_size(content: impl Iterator<Item = Content>) -> Vec<Content> {
    let mut left = MAX_EXTRA_BYTES;
    let bound = |content: Content| {
        let size = serde_json::to_string(&content).map_or(usize::MAX, |text| text.len());
        match left.checked_sub(size) {
            Some(rest) => {
                left = rest;
                content
            }
            None => Content::Omitted {
                description: format!(
                    "{}: omitted, a result keeps at most {MAX_EXTRA_BYTES} bytes",
                    truncate(&content.to_string(), MAX_DESCRIPTION_CHARS)
                ),
            },
        }
    };
    content.map(bound).collect()
}

/// Maximum characters of a description of omitted content.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Returns the content of a block other than text.
fn extra_content(block: ContentBlock) -> Option<Content> {
    match block {
        ContentBlock::Text(_) => None,
        ContentBlock::Image(image) => Some(Content::Image { mime_type: image.mime_type, data: image.data }),
        ContentBlock::Audio(audio) => Some(Content::Audio { mime_type: audio.mime_type, data: audio.data }),
        ContentBlock::ResourceLink(link) => {
            Some(Content::Link { uri: link.uri, name: link.name, mime_type: link.mime_type })
        }
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, mime_type, .. } => {
                Some(Content::Resource { uri, mime_type, data: None })
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                Some(Content::Resource { uri, mime_type, data: Some(blob) })
            }
            // Its JSON is part of the text.
            _ => None,
        },
        _ => None,
    }
}

/// Renders a block as text. Other content leaves a marker, so that a model knows of it.
fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image {}, {}]", image.mime_type, size(&image.data)),
        ContentBlock::Audio(audio) => format!("[audio {}, {}]", audio.mime_type, size(&audio.data)),
        ContentBlock::ResourceLink(link) => link_line(link),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let media_type = mime_type.iter().map(|kind| format!("{kind}, ")).collect::<String>();
                format!("[resource {uri}, {media_type}{}]", size(blob))
            }
            other => serde_json::to_string(other).unwrap_or_default(),
        },
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// Renders a link with what it says about its target, so that a model can decide whether to read it.
fn link_line(link: &Resource) -> String {
    let media_type = link.mime_type.iter().map(|kind| format!(", {kind}")).collect::<String>();
    let about: Vec<&str> =
        [&link.title, &link.description].into_iter().flatten().map(String::as_str).collect();
    let about = if about.is_empty() { String::new() } else { format!(": {}", about.join(". ")) };
    format!("[resource {} {}{media_type}{about}]", link.name, link.uri)
}

/// Formats the decoded size of base64 data.
fn size(base64: &str) -> String {
    match base64.len() / 4 * 3 {
        bytes @ 0..1_000 => format!("{bytes} B"),
        bytes => format!("{} kB", bytes.div_ceil(1_000)),
    }
}

/// Error for a response that is not a result of a call.
pub(super) fn not_a_result(tool: &str) -> String {
    format!("{tool} returned no result: the response is not a result of a tool")
}
