//! An MCP server of the newest protocol, as rmcp serves it; started like [the hand-made one](super::child).

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use shared::{Request, Response, ToolCall, ToolOutput};
use worker::world::IDEMPOTENCY_KEY;

use super::{Stage, child, due, live, perform, servers};

const AS_SERVER: &str = "TURNFOLD_TEST_MODERN_MCP_SERVER";

struct Desk;

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Tool::new("key", "says the key", serde_json::Map::new())]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        heard: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "key" => {
                let key = heard.meta.get(IDEMPOTENCY_KEY).cloned().unwrap_or_default();
                Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(
                    key.to_string(),
                )])))
            }
            "sure" => Ok(CallToolResponse::InputRequired(InputRequiredResult::from_request_state("s"))),
            _ => Err(ErrorData::invalid_params("no such tool", None)),
        }
    }
}

/// The server that another test starts. Not told so, it is no test.
#[tokio::test]
async fn speaks_mcp() {
    if std::env::var_os(AS_SERVER).is_some() {
        child::say_raw("");
        let serving = Desk.serve(rmcp::transport::stdio()).await.unwrap();
        serving.waiting().await.unwrap();
    }
}

#[tokio::test]
async fn the_newest_protocol_is_spoken_where_it_is_understood() {
    let world =
        live([], servers([("desk", child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]))]));
    assert_eq!(world.servers().describe("desk").await.unwrap().protocol, "2026-07-28");
    assert_eq!(world.servers().tools("desk").await.unwrap()[0].name, "key");
    let call = async |name: &str| {
        let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: json!({}) };
        let request = Request::CallTool { server: "desk".to_owned(), call };
        match perform(&world, &Stage::default(), &due(request)).await.0 {
            Ok((Response::Output(output), _)) => output,
            other => panic!("an output was expected: {other:?}"),
        }
    };
    assert_eq!(call("key").await, ToolOutput::Ok("\"thread:2:0\"".to_owned()));
    assert_eq!(call("other").await, ToolOutput::Error("no such tool".to_owned()));
    let asks = call("sure").await;
    assert!(matches!(&asks, ToolOutput::Error(it) if it.contains("wants something of a person")), "{asks:?}");
}
