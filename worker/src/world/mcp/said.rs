//! What a server said, in our words: its tools and prompts, and what a call came to.

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, Prompt as TheirPrompt, ResourceContents,
    Role as TheirRole, ServerResult, Tool as Theirs,
};
use shared::{Content, Kept, Message, Prompt, PromptArgument, Response, Safety, Tool, ToolOutput};

use super::Server;
use crate::world::cut;

/// The longest output that is taken, in characters: more than any model can hear.
pub(in crate::world) const OUTPUT_MAX: usize = 1 << 20;

/// The tools as the log keeps them, by name, as far as the operator lets them be seen.
pub(super) fn tools(server: &Server, theirs: Vec<Theirs>) -> Vec<Tool> {
    let tool = |it: Theirs| Tool {
        safety: safety(server, &it),
        description: it.description.map(String::from).or(it.title).unwrap_or_default(),
        parameters: it.input_schema.as_ref().clone().into(),
        name: it.name.into_owned(),
    };
    for name in server.sight.allow.iter().flatten().chain(&server.sight.deny) {
        if !theirs.iter().any(|it| it.name == *name) {
            tracing::warn!(
                tool = name,
                "a list of [mcp.NAME] allow or deny names a tool that its server does not have"
            );
        }
    }
    let mut tools: Vec<Tool> =
        theirs.into_iter().filter(|it| server.sight.permits(&it.name)).map(tool).collect();
    // Sorted, so that a prompt and a log do not depend on the order in which a server happens to list.
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools.dedup_by(|a, b| a.name == b.name);
    tools
}

/// The operator's word, or else the server's.
fn safety(server: &Server, tool: &Theirs) -> Safety {
    let hints = tool.annotations.as_ref();
    match server.tools.get(tool.name.as_ref()).and_then(|it| it.safety) {
        Some(safety) => safety,
        None if hints.is_some_and(|it| it.read_only_hint == Some(true)) => Safety::Read,
        None if hints.is_some_and(|it| it.idempotent_hint == Some(true)) => Safety::Idempotent,
        None => Safety::Write,
    }
}

/// The prompts as the log keeps them, in the server's order: it may mean something.
pub(super) fn prompts(theirs: Vec<TheirPrompt>) -> Vec<Prompt> {
    let prompt = |it: TheirPrompt| Prompt {
        name: it.name,
        description: it.description.or(it.title).unwrap_or_default(),
        arguments: it.arguments.into_iter().flatten().map(argument).collect(),
    };
    theirs.into_iter().map(prompt).collect()
}

fn argument(it: rmcp::model::PromptArgument) -> PromptArgument {
    PromptArgument {
        name: it.name,
        description: it.description.or(it.title).unwrap_or_default(),
        required: it.required == Some(true),
    }
}

/// What a prompt says.
pub(super) fn messages(result: GetPromptResult) -> Vec<Message> {
    let message = |it: rmcp::model::PromptMessage| {
        let words = cut(&block(&it.content), OUTPUT_MAX);
        match it.role {
            TheirRole::User => Message::user(words),
            TheirRole::Assistant => Message::assistant(words),
        }
    };
    result.messages.into_iter().map(message).collect()
}

/// What a call came to, in the session that the server keeps for the thread, if it does.
pub(super) fn output(result: CallToolResult, session: Option<String>) -> Response {
    let has_text = result.content.iter().any(|it| matches!(it, ContentBlock::Text(_)));
    let structured = result.structured_content.iter().filter(|_| !has_text).map(ToString::to_string);
    let blocks: Vec<String> = result.content.iter().map(block).chain(structured).collect();
    let text = cut(&blocks.join("\n"), OUTPUT_MAX);
    let output = if result.is_error == Some(true) { ToolOutput::Error(text) } else { ToolOutput::Ok(text) };
    let structured = result.structured_content.map(|value| Content::Structured { value });
    let content = bounded(result.content.into_iter().filter_map(besides).chain(structured));
    if content.is_empty() && session.is_none() {
        return Response::Output(output);
    }
    Response::Whole { output, kept: Box::new(Kept { content, session }) }
}

/// The most that is kept of one result besides its words, in bytes as they are written.
const KEPT_MAX: usize = 2 << 20;

/// As much as may be kept; of the rest, what it was.
fn bounded(content: impl Iterator<Item = Content>) -> Vec<Content> {
    let mut left = KEPT_MAX;
    let bound = |it: Content| {
        let size = serde_json::to_string(&it).map_or(usize::MAX, |it| it.len());
        match left.checked_sub(size) {
            Some(rest) => {
                left = rest;
                it
            }
            None => Content::Cut {
                what: format!("{}: of one result {KEPT_MAX} bytes are kept", cut(&it.to_string(), CUT_MAX)),
            },
        }
    };
    content.map(bound).collect()
}

/// How much is told of what is not kept, in characters.
const CUT_MAX: usize = 200;

/// What a block holds besides words.
fn besides(block: ContentBlock) -> Option<Content> {
    match block {
        ContentBlock::Text(_) => None,
        ContentBlock::Image(it) => Some(Content::Image { mime_type: it.mime_type, data: it.data }),
        ContentBlock::Audio(it) => Some(Content::Audio { mime_type: it.mime_type, data: it.data }),
        ContentBlock::ResourceLink(it) => {
            Some(Content::Link { uri: it.uri, name: it.name, mime_type: it.mime_type })
        }
        ContentBlock::Resource(it) => match it.resource {
            ResourceContents::TextResourceContents { uri, mime_type, .. } => {
                Some(Content::Resource { uri, mime_type, data: None })
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                Some(Content::Resource { uri, mime_type, data: Some(blob) })
            }
            // Its JSON stands among the words.
            _ => None,
        },
        _ => None,
    }
}

/// A block of a result as text; what is no text leaves a marker, so that a model knows of it.
fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(it) => it.text.clone(),
        ContentBlock::Image(it) => format!("[image {}, {}]", it.mime_type, size(&it.data)),
        ContentBlock::Audio(it) => format!("[audio {}, {}]", it.mime_type, size(&it.data)),
        ContentBlock::ResourceLink(it) => format!("[resource {} {}]", it.name, it.uri),
        ContentBlock::Resource(it) => match &it.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                format!("[resource {uri}, {}]", size(blob))
            }
            other => serde_json::to_string(other).unwrap_or_default(),
        },
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// How much some base64 is.
fn size(base64: &str) -> String {
    match base64.len() / 4 * 3 {
        bytes @ 0..1_000 => format!("{bytes} B"),
        bytes => format!("{} kB", bytes.div_ceil(1_000)),
    }
}

/// Why an answer is no result.
pub(super) fn no_result(tool: &str, answer: &ServerResult) -> String {
    let why = if let ServerResult::CreateTaskResult(_) = answer {
        "it began a task of its own instead, which is not supported yet"
    } else {
        "it answered with something that is no result of a tool"
    };
    format!("{tool} gave no result: {why}")
}
