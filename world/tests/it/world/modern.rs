//! An MCP server of the newest protocol version, built with rmcp and started like [the handwritten one](super::child).

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequest,
        InputRequiredResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
        ServerNotification, SubscriptionFilter, Tool,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use shared::{
    Elicitation, InputResponse, InputResponses, PendingRequest, Request, Response, Safety, ToolCall,
    ToolOutput,
};
use tokio::sync::Notify;
use world::{IDEMPOTENCY_KEY, LiveWorld, Server, ToolRule};

use super::{Stage, child, due, live, perform, servers};

const AS_SERVER: &str = "TURNFOLD_TEST_MODERN_MCP_SERVER";

struct ModernServer;

/// Number of running calls, and the maximum so far.
static HERE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Number of tool listings, and of subscriptions to changes.
static LISTED: AtomicUsize = AtomicUsize::new(0);
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Number of calls started that end only when cancelled, and number of them that were cancelled.
static ENDLESS: AtomicUsize = AtomicUsize::new(0);
static CALLED_OFF: AtomicUsize = AtomicUsize::new(0);

/// Notified to make the server change its tools.
static CHANGE: Notify = Notify::const_new();

impl ServerHandler for ModernServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = LISTED.fetch_add(1, Ordering::SeqCst) + 1;
        let about = format!("says the key, and was listed {listed} times");
        Ok(ListToolsResult::with_all_items(vec![Tool::new("key", about, serde_json::Map::new())]))
    }

    fn accepted_subscription_filter(&self, wanted: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        LISTENERS.fetch_add(1, Ordering::SeqCst);
        Some(wanted.clone())
    }

    async fn listen(&self, listener: SubscriptionContext) -> Result<(), ErrorData> {
        loop {
            tokio::select! {
                () = listener.cancelled() => return Ok(()),
                () = CHANGE.notified() => {
                    let changed = ServerNotification::ToolListChangedNotification(Default::default());
                    listener.sink().send(changed).await.unwrap();
                }
            }
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "key" => {
                let key = context.meta.get(IDEMPOTENCY_KEY).cloned().unwrap_or_default();
                Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(
                    key.to_string(),
                )])))
            }
            "sure" if request.input_responses.is_some() => {
                let received = json!([request.input_responses, request.request_state]);
                Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(
                    received.to_string(),
                )])))
            }
            "sure" => wanting(&json!({ "method": "elicitation/create", "params": {
                "message": "Sure?", "requestedSchema": { "type": "object", "properties": { "sure": { "type": "boolean" } } } } })),
            "change" => {
                CHANGE.notify_one();
                let listeners = LISTENERS.load(Ordering::SeqCst).to_string();
                Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(listeners)])))
            }
            "meet" => {
                // Any other call within the duration of one call overlaps with it.
                let now = HERE.fetch_add(1, Ordering::SeqCst) + 1;
                MOST.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(300)).await;
                HERE.fetch_sub(1, Ordering::SeqCst);
                let most = MOST.load(Ordering::SeqCst).to_string();
                Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(most)])))
            }
            "hang" => {
                ENDLESS.fetch_add(1, Ordering::SeqCst);
                context.ct.cancelled().await;
                CALLED_OFF.fetch_add(1, Ordering::SeqCst);
                Err(ErrorData::internal_error("called off", None))
            }
            "hung" => {
                let hung = json!([ENDLESS.load(Ordering::SeqCst), CALLED_OFF.load(Ordering::SeqCst)]);
                Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(
                    hung.to_string(),
                )])))
            }
            "mortal" => match request.request_state.as_deref() {
                None => wanting(&json!({ "method": "elicitation/create", "params": {
                    "message": "Order?", "requestedSchema": { "type": "object", "properties": {} } } })),
                Some("s") => {
                    Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(
                        json!(request.input_responses).to_string(),
                    )])))
                }
                Some(_) => Err(ErrorData::invalid_params("Invalid or expired requestState", None)),
            },
            "visit" => wanting(&json!({ "method": "elicitation/create", "params": {
                "mode": "url", "message": "Sign in", "url": "https://example.org/in" } })),
            "think" => wanting(
                &json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } }),
            ),
            "look" => wanting(&json!({ "method": "roots/list" })),
            _ => Err(ErrorData::invalid_params("no such tool", None)),
        }
    }
}

fn wanting(request: &Value) -> Result<CallToolResponse, ErrorData> {
    let request: InputRequest = serde_json::from_value(request.clone()).unwrap();
    let wanted =
        InputRequiredResult::new(Some([("confirm".to_owned(), request)].into()), Some("s".to_owned()));
    Ok(CallToolResponse::InputRequired(wanted))
}

/// The server that another test starts. It returns at once unless its environment variable is set.
#[tokio::test]
async fn speaks_mcp() {
    if std::env::var_os(AS_SERVER).is_some() {
        child::say_raw("");
        let serving = ModernServer.serve(rmcp::transport::stdio()).await.unwrap();
        serving.waiting().await.unwrap();
    }
}

#[tokio::test]
async fn the_newest_protocol_is_spoken_where_it_is_understood() {
    let world =
        live([], servers([("desk", child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]))]));
    assert_eq!(world.servers().describe("desk").await.unwrap().protocol, "2026-07-28");
    assert_eq!(world.servers().tools("desk").await.unwrap()[0].name, "key");
    assert_eq!(call(&world, "key", None).await, output("\"thread:2:0\""));
    assert_eq!(
        call(&world, "other", None).await,
        Response::Output(ToolOutput::Error("no such tool".to_owned()))
    );
}

async fn call(world: &LiveWorld, name: &str, supplies: Option<InputResponses>) -> Response {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: json!({}) };
    let request = Request::CallTool { server: "desk".to_owned(), call };
    let due = PendingRequest { input_responses: supplies, ..due(request) };
    perform(world, &Stage::default(), &due).await.0.unwrap().0
}

fn output(words: &str) -> Response {
    Response::Output(ToolOutput::Ok(words.to_owned()))
}

#[tokio::test]
async fn what_a_tool_wants_of_a_person_comes_back_and_what_was_supplied_goes_along() {
    let world =
        live([], servers([("desk", child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]))]));
    let Response::InputRequired { input_requests: forms, request_state: state } =
        call(&world, "sure", None).await
    else {
        panic!("it wants nothing")
    };
    assert_eq!(state.as_deref(), Some("s"));
    let schema = json!({ "type": "object", "properties": { "sure": { "type": "boolean" } } });
    assert_eq!(forms["confirm"], Elicitation { question: "Sure?".to_owned(), schema, url: None });
    let Response::InputRequired { input_requests: forms, .. } = call(&world, "visit", None).await else {
        panic!("it wants nothing")
    };
    assert_eq!(forms["confirm"].url.as_deref(), Some("https://example.org/in"));

    for (answer, expected) in [
        (
            InputResponse::Accept(json!({ "sure": true })),
            json!({ "action": "accept", "content": { "sure": true } }),
        ),
        (InputResponse::Accept(Value::Null), json!({ "action": "accept" })),
        (InputResponse::Decline, json!({ "action": "decline" })),
        (InputResponse::Cancel, json!({ "action": "cancel" })),
    ] {
        let answers = [("confirm".to_owned(), answer)].into();
        let supplies = InputResponses {
            request_state: Some("s".to_owned()),
            responses: answers,
            ..InputResponses::default()
        };
        let response = call(&world, "sure", Some(supplies)).await;
        assert_eq!(response, output(&json!([{ "confirm": expected }, "s"]).to_string()));
    }
    for (tool, method) in [("think", "sampling/createMessage"), ("look", "roots/list")] {
        let Response::Output(ToolOutput::Error(words)) = call(&world, tool, None).await else {
            panic!("{method} is refused")
        };
        assert!(words.contains(method) && words.contains("only elicitation/create"), "{words}");
    }
}

/// A state that the server refuses, because it was restarted or because time has passed, does not cost the answer of a person.
#[tokio::test]
async fn an_answer_survives_the_state_of_its_question() {
    let world =
        live([], servers([("desk", child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]))]));
    let Response::InputRequired { input_requests: questions, .. } = call(&world, "mortal", None).await else {
        panic!("it asks nothing")
    };
    let supplied = InputResponses {
        request_state: Some("of a server that is gone".to_owned()),
        responses: [("confirm".to_owned(), InputResponse::Accept(Value::Null))].into(),
        questions,
    };
    let answered = output(&json!({ "confirm": { "action": "accept" } }).to_string());
    assert_eq!(call(&world, "mortal", Some(supplied.clone())).await, answered);

    let mut other = supplied;
    other.questions.get_mut("confirm").unwrap().question = "Order two?".to_owned();
    let asked = call(&world, "mortal", Some(other)).await;
    assert!(matches!(asked, Response::InputRequired { .. }), "another question is asked: {asked:?}");
}

/// The timeout of a call is shorter than the total time of all calls run one after the other: waiting for a free place
/// does not count.
#[tokio::test]
async fn a_call_without_a_place_waits_and_loses_no_time() {
    let most = async |safety: Safety, change: &dyn Fn(&mut Server)| {
        let mut server = child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]);
        server.call_timeout = Duration::from_millis(900);
        change(&mut server);
        let world = live([], servers([("desk", server)]));
        world.servers().tools("desk").await.unwrap();
        let calls = (0..5).map(|_| {
            let call = ToolCall { id: "c1".to_owned(), name: "meet".to_owned(), arguments: json!({}) };
            let request = Request::CallTool { server: "desk".to_owned(), call };
            let due = PendingRequest { safety, ..due(request) };
            let world = &world;
            async move { perform(world, &Stage::default(), &due).await.0.unwrap().0 }
        });
        let met = futures::future::join_all(calls).await;
        let most = |response| match response {
            Response::Output(ToolOutput::Ok(most)) => most,
            other => panic!("everybody has their turn: {other:?}"),
        };
        met.into_iter().map(most).max().unwrap()
    };
    assert_eq!(most(Safety::Read, &|_| ()).await, "5", "reads go side by side");
    assert_eq!(most(Safety::Read, &|server| server.concurrency = Some(2)).await, "2");
    let alone = ToolRule { concurrency: Some(1), ..ToolRule::default() };
    assert_eq!(
        most(Safety::Read, &|server| server.tools = [("meet".to_owned(), alone.clone())].into()).await,
        "1"
    );
    for safety in [Safety::Write, Safety::Idempotent] {
        assert_eq!(most(safety, &|_| ()).await, "1", "a server may keep one of several writes at once");
        assert_eq!(most(safety, &|server| server.concurrency = Some(2)).await, "2", "the operator decides");
    }
}

#[tokio::test]
async fn a_tool_has_as_much_time_as_is_said_of_it() {
    let mut server = child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]);
    server.call_timeout = Duration::from_millis(50);
    let world = async |server: &Server| {
        let world = live([], servers([("desk", server.clone())]));
        world.servers().describe("desk").await.unwrap();
        world
    };
    let meet = ToolCall { id: "c1".to_owned(), name: "meet".to_owned(), arguments: json!({}) };
    let request = Request::CallTool { server: "desk".to_owned(), call: meet };
    let lost = perform(&world(&server).await, &Stage::default(), &due(request)).await.0.unwrap_err();
    assert!(lost.error.contains("did not answer meet within 50ms"), "{lost:?}");
    let patient = ToolRule { timeout: Some(Duration::from_secs(20)), ..ToolRule::default() };
    server.tools.insert("meet".to_owned(), patient);
    assert_eq!(call(&world(&server).await, "meet", None).await, output("1"));
}

#[tokio::test]
async fn a_call_whose_answer_nobody_waits_for_is_called_off() {
    let world =
        live([], servers([("desk", child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]))]));
    let until = async |hung: &str| {
        let began = std::time::Instant::now();
        while call(&world, "hung", None).await != output(hung) {
            assert!(began.elapsed() < Duration::from_secs(10), "it never came to {hung}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    {
        let endless = std::pin::pin!(call(&world, "hang", None));
        let arrived = std::pin::pin!(until("[1,0]"));
        let futures::future::Either::Right(_) = futures::future::select(endless, arrived).await else {
            panic!("nothing has called it off yet")
        };
    }
    until("[1,1]").await;
}

/// A tool list is cached for 30 seconds, unless the server announces a change.
#[tokio::test]
async fn a_server_of_the_newest_protocol_is_listened_to() {
    let world =
        live([], servers([("desk", child::started("world::modern::speaks_mcp", [(AS_SERVER, "yes")]))]));
    let listed = async || {
        let about = world.servers().tools("desk").await.unwrap()[0].description.clone();
        about.split(' ').rev().nth(1).unwrap().parse::<usize>().unwrap()
    };
    listed().await;
    // One listing when the subscription starts, because changes before it went unnoticed, and one for the announced
    // change.
    let began = std::time::Instant::now();
    while listed().await < 3 {
        let listeners = call(&world, "change", None).await;
        assert!([output("0"), output("1")].contains(&listeners), "{listeners:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "nobody listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
