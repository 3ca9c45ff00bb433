//! Calls of tools: put together from pieces, and the names under which tools are offered.

use serde_json::{Value, json};
use shared::{Request, ToolCall};

use super::{hello, reply, stream};
use crate::world::{
    chat, due,
    endpoint::{Endpoint, call, words},
    perform, tool,
};

#[tokio::test]
async fn calls_are_put_together_from_pieces() {
    let pieces = [
        words("Let me look."),
        call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{\"wh" } })),
        call(json!({ "index": 1, "id": "b", "function": { "name": "list", "arguments": "" } })),
        call(json!({ "index": 0, "function": { "arguments": "ere\":\"here\"}" } })),
        // Another call with the same index, a call without an id, and a call whose arguments are not JSON.
        call(json!({ "index": 1, "id": "c", "function": { "name": "cal_book", "arguments": "null" } })),
        call(json!({ "index": 2, "function": { "name": "odd", "arguments": "{at: 9}" } })),
    ];
    let endpoint = Endpoint::serve([stream(pieces, "tool_calls")]).await;
    let mut stage = hello();
    stage.tool_servers.insert("cal".to_owned(), vec![tool("cal.book")]);
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tool_servers, .. } = &mut request {
        tool_servers.push("cal".to_owned());
    }
    let (reply, _) = reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    assert_eq!(reply.content, "Let me look.");
    let call = |id: &str, name: &str, arguments: Value| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    };
    assert_eq!(
        reply.tool_calls,
        [
            call("a", "look", json!({ "where": "here" })),
            call("b", "list", json!({})),
            call("c", "cal_book", json!({})),
            call("call_1_3", "odd", json!("{at: 9}")),
        ]
    );
}

#[tokio::test]
async fn calls_without_a_number_are_told_apart_by_their_names() {
    let pieces = [
        call(json!({ "id": "", "function": { "name": "look", "arguments": "{}" } })),
        call(json!({ "id": "", "function": { "name": "look", "arguments": "{\"a\":" } })),
        call(json!({ "function": { "arguments": "1}" } })),
    ];
    let endpoint = Endpoint::serve([stream(pieces, "tool_calls")]).await;
    let (reply, _) = reply(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
    let calls: Vec<_> =
        reply.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments.clone())).collect();
    assert_eq!(calls, [("call_1_0", json!({})), ("call_1_1", json!({ "a": 1 }))]);
}

#[tokio::test]
async fn the_nodes_own_tools_come_first_and_keep_their_names() {
    let endpoint = Endpoint::serve([stream([words("ok")], "stop")]).await;
    let mut stage = hello();
    stage.tools = vec![tool("hidden"), tool("submit"), tool("plan")];
    stage.tool_servers.insert("cal".to_owned(), vec![tool("book"), tool("submit"), tool("cancel.all")]);
    stage.tool_servers.insert("other".to_owned(), vec![tool("strange")]);
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tool_servers, tools, .. } = &mut request {
        tool_servers.push("cal".to_owned());
        *tools = vec!["plan".to_owned(), "submit".to_owned()];
    }
    reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    let (_, body) = endpoint.received().remove(0);
    let names: Vec<_> =
        body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    // The server has a tool of the same name as the node, and it is offered too.
    assert_eq!(names, ["plan", "submit", "book", "submit_89ba31", "cancel_all"]);
}
