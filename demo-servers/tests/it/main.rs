//! The servers as a client sees them: over MCP, in process, with the lifecycle that the workers use.

mod concurrent_writes;
mod descriptions;
mod writes;

use std::path::Path;

use demo_servers::{Expert, IDEMPOTENCY_KEY, serve_over};
use rmcp::{
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ProtocolVersion,
        RequestMetaObject, RequestParamsMeta as _,
    },
    service::{ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient, RunningService, ServiceError},
};
use serde_json::{Value, json};

type Client = RunningService<RoleClient, ()>;

/// Connects a client to a new server, which ends with the client.
async fn connect(expert: Expert, data: &Path) -> Client {
    // In order of preference: KNOWN_VERSIONS begins with the oldest.
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    connect_with(ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }, expert, data).await
}

async fn connect_with(lifecycle: ClientLifecycleMode, expert: Expert, data: &Path) -> Client {
    let (server, client) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(server);
    tokio::spawn(serve_over(expert, data.to_owned(), reader, writer));
    ().serve_with_lifecycle(client, lifecycle).await.expect("the server initializes")
}

/// The text of an answer, or of a tool's error.
type Answer = Result<String, String>;

async fn call(client: &Peer<RoleClient>, tool: &'static str, arguments: Value) -> Answer {
    answer_of(send(client, tool, arguments, None).await.expect("the server answers"))
}

async fn call_as(client: &Peer<RoleClient>, key: &str, tool: &'static str, arguments: Value) -> Answer {
    answer_of(send(client, tool, arguments, Some(json!(key))).await.expect("the server answers"))
}

async fn send(
    client: &Peer<RoleClient>,
    tool: &'static str,
    arguments: Value,
    key: Option<Value>,
) -> Result<CallToolResult, ServiceError> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let mut params = CallToolRequestParams::new(tool).with_arguments(arguments);
    if let Some(key) = key {
        let mut meta = RequestMetaObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), key);
        params.set_meta(meta);
    }
    let response = client.call_tool_once(params).await?;
    let CallToolResponse::Complete(result) = response else { panic!("not an answer: {response:?}") };
    Ok(result)
}

fn answer_of(result: CallToolResult) -> Answer {
    let text = text_of(&result.content[0]);
    if result.is_error == Some(true) { Err(text) } else { Ok(text) }
}

fn text_of(content: &ContentBlock) -> String {
    content.as_text().expect("an answer is a text").text.clone()
}

fn ok(text: &str) -> Answer {
    Ok(text.to_owned())
}

fn refused(text: &str) -> Answer {
    Err(text.to_owned())
}
