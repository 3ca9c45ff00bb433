//! turnfold as an MCP server, used by rmcp's client over a socket.

use std::{collections::HashMap, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, Request, StatusCode},
};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
        ClientConfig, CreateTaskResult, ElicitRequestParams, ElicitResult, ElicitationAction, GetTaskParams,
        Implementation, ProtocolVersion, TaskPayload, TaskStatus, UpdateTaskParams,
    },
    service::{ClientLifecycleMode, ClientServiceExt as _, RequestContext, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    keys::{api_with_keys, create, secret},
    test_api::{TestApi, thread_of},
};

/// A client whose user answers every question with `green`.
#[derive(Clone)]
struct User(ClientCapabilities);

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(self.0.clone(), Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("{request:?}")
        };
        assert_eq!(message, "Which colour?");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": "green"})))
    }
}

/// An MCP client that is connected to the API.
struct Client(RunningService<RoleClient, User>);

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

/// Serves the API on a socket and returns the address of its MCP server.
async fn served(api: &TestApi) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, api.router.clone()).into_future());
    address
}

impl Client {
    async fn new(
        address: &str,
        key: Option<&str>,
        user: ClientCapabilities,
        mode: ClientLifecycleMode,
    ) -> Self {
        let mut config = StreamableHttpClientTransportConfig::with_uri(address);
        config.auth_header = key.map(str::to_owned);
        config.custom_headers =
            HashMap::from([("x-turnfold-user".parse().unwrap(), HeaderValue::from_static("ann"))]);
        let transport = StreamableHttpClientTransport::from_config(config);
        Self(User(user).serve_with_lifecycle(transport, mode).await.unwrap())
    }

    async fn once(&self, tool: &'static str, arguments: Value) -> CallToolResponse {
        let arguments = arguments.as_object().unwrap().clone();
        self.0.call_tool_once(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let response = self.once(tool, arguments).await;
        let CallToolResponse::Complete(result) = response else { panic!("{response:?}") };
        result
    }

    async fn start_task(&self, tool: &'static str, arguments: Value) -> CreateTaskResult {
        let response = self.once(tool, arguments).await;
        let CallToolResponse::Task(task) = response else { panic!("{response:?}") };
        task
    }

    async fn payload(&self, id: &str) -> TaskPayload {
        self.0.get_task(GetTaskParams::new(id)).await.unwrap().task.payload
    }

    async fn tools(&self) -> Vec<String> {
        self.0.list_all_tools().await.unwrap().iter().map(|tool| tool.name.to_string()).collect()
    }
}

fn text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

fn structured(result: &CallToolResult) -> &Value {
    result.structured_content.as_ref().unwrap()
}

/// Runs the threads that become runnable until `work` ends.
async fn working<T>(api: &TestApi, work: impl Future<Output = T>) -> T {
    let worker = async {
        loop {
            for thread in api.enqueued().await {
                api.run_until_idle(thread).await;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = work => done,
        () = worker => panic!("the worker never ends"),
    }
}

#[tokio::test]
async fn a_strategy_is_a_tool_of_old_and_new_clients() {
    let api = TestApi::new().await;
    let address = served(&api).await;
    for mode in [modern(), ClientLifecycleMode::Initialize] {
        let client = Client::new(&address, None, ClientCapabilities::default(), mode.clone()).await;
        let tools = client.0.list_all_tools().await.unwrap();
        let probe = tools.iter().find(|tool| tool.name == "probe").unwrap();
        assert_eq!(probe.input_schema["required"], json!(["input"]), "{mode:?}");
        for (name, property) in
            tools.iter().flat_map(|tool| tool.input_schema["properties"].as_object().unwrap())
        {
            assert!(property["type"].is_string(), "some clients lose it: {name} {property}");
            assert!(!["config", "runtime", "run_manager"].contains(&&**name), "some clients lose {name}");
        }
        assert!(probe.description.as_deref().unwrap().starts_with("exercises the engine"), "{probe:?}");
        for own in ["turn_status", "list_waiting", "answer", "thread_events"] {
            assert!(tools.iter().any(|tool| tool.name == own), "{own}");
        }
        let answer = working(&api, client.call("probe", json!({"input": "echo hi"}))).await;
        assert_eq!((text(&answer).as_str(), answer.is_error), ("Done: hi.", Some(false)), "{mode:?}");
        let fields = structured(&answer);
        assert_eq!((&fields["status"], &fields["strategy"]), (&json!("completed"), &json!("probe")));
        let turn = api.get(&format!("/v1/turns/{}", fields["turn_id"].as_str().unwrap())).await.json();
        assert_eq!(turn["author"], "ann", "headers reach the routes");

        let again = json!({"input": "echo more", "thread_id": fields["thread_id"]});
        let again = working(&api, client.call("probe", again)).await;
        assert_eq!(structured(&again)["thread_id"], fields["thread_id"], "the thread goes on");
        let page = json!({"thread_id": fields["thread_id"], "after": 0, "limit": 1});
        let events = client.call("thread_events", page).await;
        assert_eq!(structured(&events)["data"][0]["kind"], "turn_started", "{events:?}");

        let failed = working(&api, client.call("probe", json!({"input": "fail badly"}))).await;
        assert_eq!(failed.is_error, Some(true), "{failed:?}");
        assert!(text(&failed).starts_with("The turn failed: "), "{failed:?}");
    }
}

#[tokio::test]
async fn a_question_waits_and_is_answered() {
    let api = TestApi::new().await;
    let address = served(&api).await;
    let client =
        Client::new(&address, None, ClientCapabilities::default(), ClientLifecycleMode::Initialize).await;
    let ask = json!({"input": "ask Which colour? | red | green"});
    let asked = working(&api, client.call("probe", ask.clone())).await;
    assert_eq!(asked.is_error, Some(false));
    assert!(text(&asked).starts_with("The agent asks: Which colour?\nOptions: red, green\n"), "{asked:?}");
    let waiting = client.call("list_waiting", json!({"kind": "choice"})).await;
    let item = &structured(&waiting)["data"][0];
    assert_eq!(item["turn_id"], structured(&asked)["turn_id"]);
    let wrong = client.call("answer", json!({"thread_id": item["thread_id"], "answer": "blue"})).await;
    assert_eq!(wrong.is_error, Some(true));
    assert!(text(&wrong).contains("not one of the options"), "{wrong:?}");
    let answer = json!({"thread_id": item["thread_id"], "answer": "green", "seq": item["seq"]});
    let answered = working(&api, client.call("answer", answer)).await;
    assert!(text(&answered).contains("green"), "{answered:?}");
    let left = client.call("list_waiting", json!({})).await;
    assert_eq!(structured(&left)["data"], json!([]));

    // A client that can ask its user gets the question itself, and sends the call again with the answer.
    let user = ClientCapabilities::builder().enable_elicitation().build();
    let user = Client::new(&address, None, user, modern()).await;
    let call = CallToolRequestParams::new("probe").with_arguments(ask.as_object().unwrap().clone());
    let answered = working(&api, user.0.call_tool(call)).await.unwrap();
    assert!(text(&answered).contains("green"), "{answered:?}");
}

#[tokio::test]
async fn a_turn_is_a_task() {
    let api = TestApi::new().await;
    let address = served(&api).await;
    let able = ClientCapabilities::builder().enable_tasks().enable_elicitation().build();
    let client = Client::new(&address, None, able, modern()).await;
    let started = client.start_task("probe", json!({"input": "ask Which colour? | red | green"})).await;
    let id = started.task.task_id.as_str();
    assert_eq!(started.task.status, TaskStatus::Working);
    let turn = api.get(&format!("/v1/turns/{id}")).await.json();
    assert_eq!(turn["status"], "queued", "the id of the task is that of the turn");
    api.run_until_idle(thread_of(&turn)).await;
    let TaskPayload::InputRequired { input_requests } = client.payload(id).await else {
        panic!("no question")
    };
    let (key, request) = input_requests.into_iter().next().unwrap();
    assert!(
        json!(request)["params"]["requestedSchema"]["properties"]["answer"]["enum"]
            == json!(["red", "green"])
    );
    // An answer to another question is not taken.
    let response = json!({"action": "accept", "content": {"answer": "green"}});
    let stale = UpdateTaskParams::new(id, [("question-0".to_owned(), response.clone())].into());
    client.0.update_task(stale).await.unwrap();
    assert!(matches!(client.payload(id).await, TaskPayload::InputRequired { .. }));
    client.0.update_task(UpdateTaskParams::new(id, [(key, response)].into())).await.unwrap();
    assert_eq!(client.payload(id).await, TaskPayload::Working, "the answer is queued");
    api.run_until_idle(thread_of(&turn)).await;
    let TaskPayload::Completed { result } = client.payload(id).await else { panic!("not completed") };
    assert!(result["content"][0]["text"].as_str().unwrap().contains("green"), "{result:?}");
    client.0.cancel_task(CancelTaskParams::new(id)).await.unwrap();
    assert!(
        matches!(client.payload(id).await, TaskPayload::Completed { .. }),
        "a task that has ended stays so"
    );

    let other = client.start_task("probe", json!({"input": "wait 60"})).await.task.task_id;
    client.0.cancel_task(CancelTaskParams::new(&other)).await.unwrap();
    assert_eq!(client.payload(&other).await, TaskPayload::Cancelled);
    client.0.get_task(GetTaskParams::new("019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d")).await.unwrap_err();
    client.0.get_task(GetTaskParams::new("../keys")).await.unwrap_err();
}

#[tokio::test]
async fn keys_limit_tools_and_tenants() {
    let api = api_with_keys().await;
    let address = served(&api).await;
    let reader = create(&api, Some("acme"), json!({"name": "reader", "scopes": ["read"]})).await;
    let other =
        create(&api, Some("other"), json!({"name": "other", "scopes": ["read", "submit", "answer"]})).await;
    let able = ClientCapabilities::builder().enable_tasks().build();
    let acme = Client::new(&address, Some("acme-key"), able.clone(), modern()).await;
    let started = acme.start_task("probe", json!({"input": "ask Well?"})).await;
    let id = started.task.task_id.as_str();
    let turn = api.backends.store.turn(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(turn.tenant, "acme");
    api.run_until_idle(turn.thread).await;

    let reader = Client::new(&address, Some(secret(&reader)), ClientCapabilities::default(), modern()).await;
    assert_eq!(reader.tools().await, ["turn_status", "list_waiting", "thread_events"]);
    let refused = reader.call("probe", json!({"input": "echo hi"})).await;
    assert_eq!((refused.is_error, &structured(&refused)["status"]), (Some(true), &json!(403)), "{refused:?}");
    let refused = reader.call("answer", json!({"thread_id": turn.thread, "answer": "yes"})).await;
    assert_eq!(structured(&refused)["status"], 403, "{refused:?}");
    let shown = reader.call("turn_status", json!({"turn_id": id})).await;
    assert_eq!(structured(&shown)["status"], "interrupted", "{shown:?}");

    let other = Client::new(&address, Some(secret(&other)), able, modern()).await;
    let waiting = other.call("list_waiting", json!({})).await;
    assert_eq!(structured(&waiting)["data"], json!([]));
    for (tool, arguments) in [
        ("turn_status", json!({"turn_id": id})),
        ("thread_events", json!({"thread_id": turn.thread})),
        ("answer", json!({"thread_id": turn.thread, "answer": "yes"})),
        ("probe", json!({"thread_id": turn.thread, "input": "echo hi"})),
    ] {
        let hidden = other.call(tool, arguments).await;
        assert_eq!((hidden.is_error, &structured(&hidden)["status"]), (Some(true), &json!(404)), "{tool}");
    }
    let own = acme.0.get_task(GetTaskParams::new(id)).await.unwrap();
    assert_eq!(own.task.status(), TaskStatus::InputRequired);
    other.0.get_task(GetTaskParams::new(id)).await.unwrap_err();
    other.0.cancel_task(CancelTaskParams::new(id)).await.unwrap_err();
    other.0.update_task(UpdateTaskParams::new(id, [].into())).await.unwrap_err();
}

#[tokio::test]
async fn wrong_calls_name_their_fault() {
    let api = TestApi::new().await;
    let address = served(&api).await;
    let client = Client::new(&address, None, ClientCapabilities::default(), modern()).await;
    let started = client.call("probe", json!({"input": "echo hi", "wait_seconds": 0})).await;
    assert_eq!((started.is_error, &structured(&started)["status"]), (Some(false), &json!("queued")));
    let thread = structured(&started)["thread_id"].clone();
    for (tool, arguments, fault) in [
        ("probe", json!({}), "input"),
        ("probe", json!({"input": "a", "strategy": "planner"}), "strategy: the tool probe is the strategy"),
        ("probe", json!({"input": "a", "wait_seconds": 61}), "wait_seconds"),
        ("probe", json!({"input": "a", "colour": "red"}), "colour"),
        (
            "planner",
            json!({"input": "a", "thread_id": thread}),
            "thread_id: this thread runs the strategy probe",
        ),
        ("probe", json!({"input": "a", "settings": 1}), "settings: "),
        ("probe", json!({"input": "a", "settings": {"colour": 1}}), "settings: "),
        ("probe", json!({"input": "a", "thread_id": thread, "settings": {}}), "settings can only be set"),
        ("probe", json!({"input": "a", "config": 1}), "config: "),
        ("probe", json!({"input": "a", "settings": {}, "config": {}}), "settings: there is config too"),
        ("answer", json!({"thread_id": thread, "answer": "a", "form": {}}), "form: there is an answer too"),
        ("turn_status", json!({"turn_id": "x"}), "turn_id"),
        ("thread_events", json!({"thread_id": thread, "limit": 5000}), "limit"),
        ("list_waiting", json!({"kind": "none"}), "kind"),
    ] {
        let refused = client.call(tool, arguments.clone()).await;
        assert_eq!(refused.is_error, Some(true), "{tool} {arguments}");
        assert!(text(&refused).contains(fault), "{tool} {arguments}: {refused:?}");
    }
    for name in ["settings", "config"] {
        let refused = client.call("probe", json!({"input": "a", name: 1})).await;
        assert_eq!(structured(&refused)["error"]["param"], name, "{refused:?}");
    }
    client.0.call_tool(CallToolRequestParams::new("nobody")).await.unwrap_err();
}

#[tokio::test]
async fn other_sites_and_large_bodies_are_refused() {
    let api = TestApi::with(|config| {
        config.cors_origins = vec!["https://console.example.org".parse().unwrap()];
        config.body_limit = 10_000;
    })
    .await;
    let send = async |headers: &[(&str, &str)], padding: usize| {
        let mut request = Request::post("/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {"a": "x".repeat(padding)}}});
        api.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let local = ("host", "localhost");
    assert_eq!(send(&[local], 0).await.status, StatusCode::OK);
    for origin in ["https://console.example.org", "http://localhost:5173"] {
        assert_eq!(send(&[local, ("origin", origin)], 0).await.status, StatusCode::OK, "{origin}");
    }
    for origin in
        ["https://evil.example", "https://console.example.org:8443", "http://localhost.evil.example", "null"]
    {
        assert_eq!(send(&[local, ("origin", origin)], 0).await.status, StatusCode::FORBIDDEN, "{origin}");
    }
    assert_eq!(send(&[("host", "rebound.example")], 0).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(send(&[local], 20_000).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let keyed = Arc::new(api_with_keys().await);
    let body = Body::from(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string());
    let request = Request::post("/mcp").header("content-type", "application/json");
    assert_eq!(keyed.send(request.body(body).unwrap()).await.status, StatusCode::UNAUTHORIZED);
}
