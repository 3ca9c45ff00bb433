//! Tool filters: the tools that each node may see and call.

use std::time::Duration;

use serde_json::json;
use shared::{Request, Response, ToolCall, ToolOutput};
use world::{LiveWorld, RequestContext, Server, ToolFilter, World};

use super::{
    Pad, Stage, chat, child, due,
    endpoint::{Answer, Endpoint, provider},
    live, servers,
};

/// Returns the server `desk` with filters for the nodes `plan` and `act` of this strategy.
fn filtered_server() -> Server {
    let mut server = child::server([]);
    let sight = |allow: Option<&[&str]>, deny: &[&str]| ToolFilter {
        allow: allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        deny: deny.iter().map(|name| (*name).to_owned()).collect(),
    };
    let named = [("plan", sight(Some(&[]), &[])), ("act", sight(Some(&["look", "put"]), &["put"]))];
    let named = named.into_iter().map(|(node, filter)| (node.to_owned(), filter)).collect();
    server.node_tool_filters = [("strategy".to_owned(), named)].into();
    server
}

/// Performs a request on behalf of that node.
async fn at(world: &LiveWorld, stage: &Stage, node: &str, request: Request) -> Response {
    let (due, pad) = (due(request), Pad::default());
    let ask = RequestContext { thread: uuid::Uuid::nil(), due: &due, key: "thread:2:0", node, deltas: &pad };
    world.perform(stage, &ask).await.unwrap().0
}

/// Returns a thread of this strategy with the tools of `desk`.
async fn seen(world: &LiveWorld) -> Stage {
    let mut stage = Stage::default();
    let request = Request::ListTools { server: "desk".to_owned() };
    let Response::Tools { tools } = at(world, &stage, "equip", request).await else { panic!("no tools") };
    stage.tool_servers.insert("desk".to_owned(), tools);
    stage
}

#[tokio::test]
async fn a_strategy_has_the_tools_that_one_of_its_named_nodes_may_see() {
    let world = live([], servers([("desk", filtered_server())]));
    let stage = seen(&world).await;
    let names: Vec<&str> = stage.tool_servers["desk"].iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["look"]);
    let mut elsewhere = filtered_server();
    elsewhere.node_tool_filters =
        [("other".to_owned(), elsewhere.node_tool_filters["strategy"].clone())].into();
    let world = live([], servers([("desk", elsewhere)]));
    assert_eq!(
        seen(&world).await.tool_servers["desk"].len(),
        4,
        "what is said of another strategy is not for this one"
    );
}

#[tokio::test]
async fn a_node_is_offered_only_what_it_may_see() {
    let answers = || {
        Answer::Stream(vec![
            json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}),
        ])
    };
    let endpoint = Endpoint::serve([answers(), answers(), answers()]).await;
    let provider = provider(&endpoint.base_url, Duration::from_secs(20));
    let world = live([("local", provider)], servers([("desk", filtered_server())]));
    let stage = seen(&world).await;
    for node in ["plan", "act", "call"] {
        let mut request = chat("local/m", 0..0);
        let Request::Chat { tool_servers, .. } = &mut request else { panic!("a chat") };
        tool_servers.push("desk".to_owned());
        at(&world, &stage, node, request).await;
    }
    let offered = |body: &serde_json::Value| {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let offered: Vec<_> = endpoint.received().iter().map(|(_, body)| offered(body)).collect();
    assert_eq!(offered, [vec![], vec!["look".to_owned()], vec!["look".to_owned()]]);
}

#[tokio::test]
async fn what_a_node_may_not_see_it_may_not_call() {
    let world = live([], servers([("desk", filtered_server())]));
    let stage = Stage::default();
    for (node, tool, is_called) in [
        ("plan", "look", false),
        ("act", "look", true),
        ("act", "put", false),
        ("call", "look", true),
        ("call", "send", false),
    ] {
        let call = ToolCall { id: "c1".to_owned(), name: tool.to_owned(), arguments: json!({}) };
        let request = Request::CallTool { server: "desk".to_owned(), call };
        let done = at(&world, &stage, node, request).await;
        match done {
            Response::Output(ToolOutput::Ok(_)) => assert!(is_called, "{tool} at {node}"),
            Response::Output(ToolOutput::Refused(why)) => {
                assert!(!is_called && why.contains("the operator has disabled"), "{tool} at {node}: {why}");
            }
            other => panic!("{tool} at {node}: {other:?}"),
        }
    }
}
