//! Resources of MCP servers: a model reads them with a tool that the engine adds to the server's own.
//!
//! ## Why a tool and not a request of its own
//!
//! Every strategy can call tools, and limits, budgets, filters, retries and the log treat a read as they treat a call.
//! A server's own tool of the same name takes precedence: it does the same.

use futures::FutureExt as _;
use rmcp::model::{
    ClientRequest, JsonObject, ReadResourceRequest, ReadResourceRequestParams, RequestMetaObject,
};
use serde_json::json;
use shared::{Fault, Safety, Tool, ToolCall};

use super::{IDEMPOTENCY_KEY, Servers, elicitation};
use crate::{text::truncate, world::RequestContext};

/// Name of the tool that reads a resource.
pub(super) const READ_RESOURCE: &str = "read_resource";

/// Maximum resources, and maximum templates, that the tool's description lists.
const MAX_LISTED: usize = 20;

/// Maximum characters of one resource in the description.
const MAX_ITEM_CHARS: usize = 300;

/// Maximum characters of a URI.
const MAX_URI_CHARS: usize = 4_096;

/// Resource that a server lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) description: String,
    /// URI, or an RFC 6570 template of URIs.
    pub(super) uri: String,
    pub(super) is_template: bool,
}

impl Servers {
    /// Adds the tool that reads resources, if the server lists any and has no tool of that name.
    ///
    /// A server whose resources cannot be listed keeps its tools.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the server is unknown.
    pub async fn with_read_tool(&self, name: &str, mut tools: Vec<Tool>) -> Result<Vec<Tool>, Fault> {
        let filter = &self.pool(name)?.server.tool_filter;
        if tools.iter().any(|tool| tool.name == READ_RESOURCE) || !filter.permits(READ_RESOURCE) {
            return Ok(tools);
        }
        match self.query(name, |connection, server| connection.resources(server).boxed()).await {
            Ok(resources) if resources.is_empty() => (),
            Ok(resources) => {
                tools.push(read_tool(resources));
                tools.sort_by(|a, b| a.name.cmp(&b.name));
            }
            Err(failure) => {
                let error = failure.of_query(name).error;
                tracing::warn!(server = name, error, "cannot list the resources of MCP server");
            }
        }
        Ok(tools)
    }

    /// Returns true if a call is one of the tool that reads resources, and not of a server's own.
    pub(super) async fn reads_resource(&self, name: &str, call: &ToolCall) -> Result<bool, Fault> {
        if call.name != READ_RESOURCE {
            return Ok(false);
        }
        let listed = self.query(name, |connection, server| connection.tools(server).boxed()).await;
        let tools = listed.map_err(|failure| failure.of_query(name))?;
        Ok(!tools.iter().any(|tool| tool.name == READ_RESOURCE))
    }
}

fn read_tool(mut resources: Vec<Resource>) -> Tool {
    // Sorted, so that prompts and logs do not depend on the server's order.
    resources.sort();
    resources.dedup();
    let (templates, resources): (Vec<_>, Vec<_>) = resources.into_iter().partition(|it| it.is_template);
    let mut lines = vec!["Reads a resource of this server by its URI.".to_owned()];
    for (title, items) in [("Resources:", resources), ("Templates, to be filled in:", templates)] {
        if items.is_empty() {
            continue;
        }
        lines.push(title.to_owned());
        lines.extend(items.iter().take(MAX_LISTED).map(line));
        if MAX_LISTED < items.len() {
            lines.push(format!("- and {} more, not listed here", items.len() - MAX_LISTED));
        }
    }
    Tool {
        name: READ_RESOURCE.to_owned(),
        description: lines.join("\n"),
        parameters: json!({
            "type": "object",
            "properties": { "uri": { "type": "string", "maxLength": MAX_URI_CHARS } },
            "required": ["uri"],
            "additionalProperties": false,
        }),
        safety: Safety::Read,
        max_repeats: None,
        read_back: None,
    }
}

fn line(resource: &Resource) -> String {
    let purpose = resource.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let purpose = if purpose.is_empty() { String::new() } else { format!(": {purpose}") };
    truncate(&format!("- {} ({}){purpose}", resource.uri, resource.name), MAX_ITEM_CHARS)
}

/// Builds the request that reads a resource. The schema check has ensured that the URI is a text.
pub(super) fn read_request(call: &ToolCall, ask: &RequestContext<'_>) -> ClientRequest {
    let mut params = ReadResourceRequestParams::new(call.arguments["uri"].as_str().unwrap_or_default());
    let meta = JsonObject::from_iter([(IDEMPOTENCY_KEY.to_owned(), ask.key.into())]);
    params.meta = Some(RequestMetaObject::from(meta));
    if let Some(supplies) = &ask.due.input_responses {
        let (answers, state) = elicitation::responses(supplies);
        (params.input_responses, params.request_state) = (Some(answers), state);
    }
    ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(nth: usize, is_template: bool) -> Resource {
        let uri = format!("file:///{nth:02}");
        Resource { name: format!("r{nth:02}"), description: "x\ny ".repeat(200), uri, is_template }
    }

    #[test]
    fn the_description_is_bounded_and_says_so() {
        let many = (0..25).map(|nth| resource(nth, false)).chain((0..20).map(|nth| resource(nth, true)));
        let text = read_tool(many.rev().collect()).description;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 1 + 20 + 1 + 1 + 20, "{text}");
        assert!(lines[2].starts_with("- file:///00 (r00): x y x y"), "{text}");
        assert!(lines[2].chars().count() <= MAX_ITEM_CHARS + 1, "{text}");
        assert_eq!(lines[22], "- and 5 more, not listed here");
        assert_eq!(lines[23], "Templates, to be filled in:");
    }
}
