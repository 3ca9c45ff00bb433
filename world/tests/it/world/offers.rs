//! MCP prompts, and the text that describes everything a server offers.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    Description, FaultKind, Message, Prompt, PromptArgument, Request, Response, Safety, Tool, ToolCall,
    ToolOutput,
};
use world::{LiveWorld, Server, Transport};

use super::{Outcome, Stage, again, child, due, fault, live, perform, servers};

const AS_EXPERT: &str = "TURNFOLD_TEST_EXPERT_DATA";

/// The notebook server that another test starts. It returns at once unless the location of its data is set.
#[tokio::test]
async fn serves_notes() {
    if let Some(data) = std::env::var_os(AS_EXPERT) {
        child::say_raw("");
        demo_servers::serve(demo_servers::Expert::Notes, data.into()).await.unwrap();
    }
}

fn notes(data: &std::path::Path) -> Server {
    let mut server = child::started("world::offers::serves_notes", []);
    if let Transport::Stdio { env, .. } = &mut server.transport {
        env.insert(AS_EXPERT.to_owned(), data.display().to_string());
    }
    server
}

fn world_with(env: impl IntoIterator<Item = (&'static str, &'static str)>) -> LiveWorld {
    live([], servers([("desk", child::server(env))]))
}

async fn ask(world: &LiveWorld, request: Request) -> Outcome {
    perform(world, &Stage::default(), &due(request)).await.0
}

fn list() -> Request {
    Request::ListPrompts { server: "desk".to_owned() }
}

fn get(name: &str, arguments: &[(&str, &str)]) -> Request {
    let arguments = arguments.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Request::GetPrompt { server: "desk".to_owned(), name: name.to_owned(), arguments }
}

async fn described(world: &LiveWorld, server: &str) -> Description {
    match ask(world, Request::Describe { server: server.to_owned() }).await {
        Ok((Response::Described(it), None)) => it,
        other => panic!("a description was expected: {other:?}"),
    }
}

#[tokio::test]
async fn prompts_come_in_the_servers_order() {
    let (response, _) = ask(&world_with([(child::GENEROUS, "yes")]), list()).await.unwrap();
    let argument = |name: &str, description: &str, required| PromptArgument {
        name: name.to_owned(),
        description: description.to_owned(),
        required,
    };
    let zeta = Prompt {
        name: "zeta".to_owned(),
        description: "the usual".to_owned(),
        arguments: vec![argument("day", "which", true), argument("tone", "", false)],
    };
    let alpha = Prompt { name: "alpha".to_owned(), description: "seldom".to_owned(), arguments: Vec::new() };
    assert_eq!(response, Response::Prompts { prompts: vec![zeta, alpha] });
    let none = ask(&world_with([]), list()).await.unwrap().0;
    assert_eq!(none, Response::Prompts { prompts: Vec::new() }, "it does not say that it has any");
}

#[tokio::test]
async fn a_prompt_is_filled_in_by_its_server() {
    let world = world_with([(child::GENEROUS, "yes")]);
    let (response, _) = ask(&world, get("zeta", &[("day", "today"), ("tone", "dry")])).await.unwrap();
    let messages = [
        Message::user(json!({ "day": "today", "tone": "dry" }).to_string()),
        Message::assistant("gladly"),
        Message::user("[image image/png, 3 B]"),
    ];
    assert_eq!(response, Response::Prompt { messages: messages.to_vec() });

    let refused = fault(ask(&world, get("omega", &[])).await);
    assert_eq!(
        (refused.kind, refused.error.as_str()),
        (FaultKind::Permanent, "MCP server desk rejected the request: no such prompt")
    );
    again(&fault(ask(&world, get("die", &[])).await));
}

#[tokio::test]
async fn a_real_server_fills_in_its_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let world = live([], servers([("desk", notes(&folder.path().join("notes.json")))]));
    let Ok((Response::Prompts { prompts }, _)) = ask(&world, list()).await else {
        panic!("prompts were expected")
    };
    assert_eq!(prompts.len(), 1, "{prompts:?}");
    assert_eq!((prompts[0].name.as_str(), prompts[0].arguments[0].required), ("summarise", true));

    let call = shared::ToolCall {
        id: "c1".to_owned(),
        name: "write".to_owned(),
        arguments: json!({ "title": "Paris", "text": "two nights" }),
    };
    ask(&world, Request::CallTool { server: "desk".to_owned(), call }).await.unwrap();
    let filled = ask(&world, get("summarise", &[("title", "Paris")])).await;
    let Ok((Response::Prompt { messages }, _)) = filled else { panic!("a prompt was expected: {filled:?}") };
    assert!(messages[0].content.contains("two nights"), "{messages:?}");
    for unhelpful in [get("summarise", &[]), get("summarise", &[("title", "Rome")]), get("translate", &[])] {
        let refused = fault(ask(&world, unhelpful).await);
        assert_eq!(refused.kind, FaultKind::Permanent, "{refused:?}");
    }

    let text = described(&world, "desk").await.text;
    assert!(text.starts_with("What lies on a desk.\nTools:\n- "), "{text}");
    assert!(text.contains("\nPrompts:\n- summarise: Summarises a note."), "{text}");
}

#[tokio::test]
async fn a_server_is_described_in_an_order_of_our_own() {
    let world = world_with([(child::GENEROUS, "yes")]);
    let one = described(&world, "desk").await;
    assert_eq!(
        one.text,
        "What lies on a desk.\nTools:\n- asked_3_times: does asked_3_times\n- look: does look\n- put: does put\n- send: \
         does send\nPrompts:\n- alpha: seldom\n- zeta: the usual\nResources:\n- b: the other side\n- room: a room"
    );
    // Computed with `sha256sum`: its first 16 characters.
    assert_eq!(one.hash, "463186063ba9a05d");
    assert_eq!(described(&world, "desk").await, one);
    let other = described(&world_with([]), "desk").await;
    assert!(!other.text.contains("Prompts") && other.hash != one.hash, "{other:?}");
}

async fn tools_of(world: &LiveWorld) -> Vec<Tool> {
    match ask(world, Request::ListTools { server: "desk".to_owned() }).await {
        Ok((Response::Tools { tools }, None)) => tools,
        other => panic!("tools were expected: {other:?}"),
    }
}

#[tokio::test]
async fn resources_are_read_with_a_tool_that_the_engine_adds() {
    let world = world_with([(child::GENEROUS, "yes")]);
    let tools = tools_of(&world).await;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["asked_3_times", "look", "put", "read_resource", "send"]);
    assert_eq!(tools[3].safety, Safety::Read);
    assert_eq!(
        tools[3].description,
        "Reads a resource of this server by its URI.\nResources:\n- file:///b (b): the other side\n\
         Templates, to be filled in:\n- file:///rooms/{id} (room): a room"
    );
    let stage = Stage { tool_servers: [("desk".to_owned(), tools)].into(), ..Stage::default() };
    let read = async |arguments: Value| {
        let call = ToolCall { id: "c1".to_owned(), name: "read_resource".to_owned(), arguments };
        perform(&world, &stage, &due(Request::CallTool { server: "desk".to_owned(), call }))
            .await
            .0
            .unwrap()
            .0
    };
    let Response::OutputWithExtras { output, extras } = read(json!({ "uri": "file:///b" })).await else {
        panic!("a picture was expected beside the text")
    };
    let text = "[resource file:///b]\nthe other side\n[resource file:///b.png, image/png, 3 B]";
    assert_eq!(output, ToolOutput::Ok(text.to_owned()));
    assert_eq!(extras.content.len(), 2, "{extras:?}");
    let output = |response| match response {
        Response::Output(output) => output,
        Response::OutputWithExtras { output, .. } => output,
        other => panic!("an output was expected: {other:?}"),
    };
    let resource = output(read(json!({ "uri": "file:///rooms/9" })).await);
    assert_eq!(resource, ToolOutput::Ok("[resource file:///rooms/9]\nthis is file:///rooms/9".to_owned()));
    let ToolOutput::Ok(huge) = output(read(json!({ "uri": "file:///huge" })).await) else {
        panic!("a cut text was expected")
    };
    assert_eq!(huge.chars().count(), (1 << 20) + 1, "it is cut, with a sign");
    let none = output(read(json!({ "uri": "file:///none" })).await);
    assert_eq!(none, ToolOutput::Error("no resource \"file:///none\"".to_owned()));
    for unfit in [json!({}), json!({ "uri": 3 }), json!({ "uri": "x".repeat(4_097) })] {
        assert!(matches!(output(read(unfit).await), ToolOutput::Refused(_)));
    }
}

#[tokio::test]
async fn a_server_without_resources_has_only_its_own_tools() {
    let names: Vec<String> = tools_of(&world_with([])).await.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["asked_3_times", "look", "put", "send"]);
    let mut server = child::server([(child::GENEROUS, "yes")]);
    server.tool_filter.deny.insert("read_resource".to_owned());
    let denied = tools_of(&live([], servers([("desk", server)]))).await;
    assert_eq!(denied.len(), 4, "an operator may hide it as any tool");
}

#[tokio::test]
async fn a_server_that_is_down_is_asked_again() {
    let transport =
        Transport::Stdio { command: "false".to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
    let world = live([], servers([("desk", child::command_of(transport))]));
    for request in [list(), get("zeta", &[]), Request::Describe { server: "desk".to_owned() }] {
        again(&fault(ask(&world, request).await));
    }
}
