//! HTTP commands against a real endpoint.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, Method as Sent, StatusCode},
    response::{IntoResponse, Response as Http},
    routing::any,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::{COMMANDS, FaultKind, Request, Response, Safety, Tool, ToolCall, ToolOutput};
use store::MemoryIndex;
use world::{Command, Index, LiveWorld, Method, describe_commands};

use super::{Outcome, Stage, again, commands, due, fault, models, named, nobody, perform};

const SECRET: &str = "Bearer the-key-of-the-commands";

type Received = Arc<Mutex<Vec<(Sent, HeaderMap, Value)>>>;

/// Responds with the requested status; without one, never responds.
async fn answer(
    State(received): State<Received>,
    Path(status): Path<u16>,
    method: Sent,
    headers: HeaderMap,
    body: Bytes,
) -> Http {
    received.lock().unwrap().push((method, headers, serde_json::from_slice(&body).unwrap()));
    match StatusCode::from_u16(status) {
        Ok(status) => (status, [("retry-after", "3"), ("location", "/204")], "as you wish").into_response(),
        Err(_) => std::future::pending().await,
    }
}

async fn endpoint() -> (String, Received) {
    let received = Received::default();
    let app = Router::new().route("/{status}", any(answer)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    (url, received)
}

fn page(url: String) -> Command {
    Command {
        description: "Pages somebody.".to_owned(),
        parameters: json!({ "type": "object", "required": ["who"] }),
        url,
        method: Method::Put,
        headers: BTreeMap::from([("authorization".to_owned(), SecretString::from(SECRET))]),
        safety: Safety::Idempotent,
        max_repeats: Some(9),
        read_back: None,
        timeout: Duration::from_secs(20),
    }
}

fn world(command: Command) -> LiveWorld {
    LiveWorld::new(
        models([]),
        nobody(),
        commands([("page", command)]),
        Index::lexical(Arc::new(MemoryIndex::default())),
    )
}

async fn ask(world: &LiveWorld, stage: &Stage, request: Request) -> Outcome {
    perform(world, stage, &due(request)).await.0
}

async fn call(command: Command, name: &str) -> Outcome {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: json!({ "who": "ann" }) };
    ask(&world(command), &Stage::default(), Request::CallTool { server: COMMANDS.to_owned(), call }).await
}

fn output(outcome: Outcome) -> ToolOutput {
    match outcome {
        Ok((Response::Output(output), None)) => output,
        other => panic!("an output was expected: {other:?}"),
    }
}

#[tokio::test]
async fn commands_are_the_tools_of_one_more_server() {
    let world = world(page("http://127.0.0.1:9".to_owned()));
    let mut stage = Stage::default();
    let tools = vec![Tool {
        name: "page".to_owned(),
        description: "Pages somebody.".to_owned(),
        parameters: json!({ "type": "object", "required": ["who"] }),
        safety: Safety::Idempotent,
        max_repeats: Some(9),
        read_back: None,
    }];
    let list = || Request::ListTools { server: COMMANDS.to_owned() };
    assert_eq!(ask(&world, &stage, list()).await.unwrap().0, Response::Tools { tools: tools.clone() });
    stage.tool_servers.insert(COMMANDS.to_owned(), tools);
    assert_eq!(ask(&world, &stage, list()).await.unwrap().0, Response::ToolsUnchanged);

    let prompts = ask(&world, &stage, Request::ListPrompts { server: COMMANDS.to_owned() }).await.unwrap().0;
    assert_eq!(prompts, Response::Prompts { prompts: Vec::new() });
    let described = ask(&world, &stage, Request::Describe { server: COMMANDS.to_owned() }).await.unwrap().0;
    let Response::Described(description) = described else {
        panic!("a description was expected: {described:?}")
    };
    assert_eq!(description.text, "Single commands.\nTools:\n- page: Pages somebody.");
    assert_eq!(
        describe_commands([("page", "Pages somebody."), ("wake", "rings")]),
        "Single commands: page (Pages somebody); wake (rings)."
    );

    let call = ToolCall { id: "c1".to_owned(), name: "page".to_owned(), arguments: json!({}) };
    let unfit = ask(&world, &stage, Request::CallTool { server: COMMANDS.to_owned(), call }).await;
    assert!(matches!(output(unfit), ToolOutput::Refused(_)), "nobody answers there, so it was not sent");
}

#[tokio::test]
async fn a_command_is_sent_once_with_its_key() {
    let (url, received) = endpoint().await;
    assert_eq!(
        output(call(page(format!("{url}/201")), "page").await),
        ToolOutput::Ok("as you wish".to_owned())
    );
    let received = received.lock().unwrap();
    let [(method, headers, body)] = received.as_slice() else {
        panic!("one request was expected: {received:?}")
    };
    assert_eq!((method, body), (&Sent::PUT, &json!({ "who": "ann" })));
    assert_eq!(
        (&headers["idempotency-key"], &headers["authorization"]),
        (&"thread:2:0".parse().unwrap(), &SECRET.parse().unwrap())
    );
}

#[tokio::test]
async fn an_endpoint_that_refuses_answers_and_one_that_fails_leaves_a_doubt() {
    let (url, received) = endpoint().await;
    let at = |status: u16| page(format!("{url}/{status}"));
    assert_eq!(output(call(at(422), "page").await), ToolOutput::Error("as you wish".to_owned()));
    assert_eq!(output(call(at(201), "wake").await), ToolOutput::Error("there is no command wake".to_owned()));
    let pause = fault(call(at(429), "page").await);
    assert!(named(again(&pause), 3_000), "{pause:?}");
    let failed = fault(call(at(503), "page").await);
    let FaultKind::InDoubt { retry_after_ms } = failed.kind else {
        panic!("it may have happened: {failed:?}")
    };
    assert!(named(retry_after_ms, 3_000), "it names a pause as well: {failed:?}");
    let silent = fault(call(Command { timeout: Duration::from_millis(300), ..at(9) }, "page").await);
    assert_eq!(silent.kind, FaultKind::InDoubt { retry_after_ms: None }, "{silent:?}");
    assert_eq!(fault(call(at(307), "page").await).kind, FaultKind::Permanent);
    assert_eq!(received.lock().unwrap().len(), 5, "each was sent once, and no redirect was followed");
}

#[tokio::test]
async fn a_command_that_cannot_be_sent_says_why_and_no_secret() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?key=hunter2", closed.local_addr().unwrap());
    drop(closed);
    let fault_of = async |command| fault(call(command, "page").await);
    let unreached = fault_of(page(url)).await;
    again(&unreached);
    assert!(unreached.error.starts_with("cannot reach command page: "), "{unreached:?}");
    let nowhere = fault_of(page("hunter2".to_owned())).await;
    assert_eq!(nowhere.kind, FaultKind::Permanent, "{nowhere:?}");
    let headers = BTreeMap::from([("a".to_owned(), SecretString::from("hunter2\n"))]);
    let illegal = fault_of(Command { headers, ..page("http://127.0.0.1:9".to_owned()) }).await;
    assert_eq!(illegal.kind, FaultKind::Permanent, "{illegal:?}");
    for fault in [unreached, nowhere, illegal] {
        assert!(!fault.error.contains("hunter2") && fault.error.contains("commands.page."), "{fault:?}");
    }
}
