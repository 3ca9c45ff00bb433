//! `turnfold model check`, and the proxies between turnfold and its models.

use std::{
    fs,
    path::Path,
    process::Output,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
    routing::any,
};
use serde_json::{Value, json};

use crate::engine::turnfold;

/// An endpoint, or a proxy in front of one, and the addresses that it was asked for.
struct Endpoint {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    /// Serves an endpoint that refuses `stream_options` and `response_format`.
    async fn serve() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let app = Router::new().fallback(any(complete)).with_state(Arc::clone(&asked));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn complete(
    State(asked): State<Arc<Mutex<Vec<String>>>>,
    uri: Uri,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let host = uri.host().map(str::to_owned).unwrap_or_else(|| headers["host"].to_str().unwrap().to_owned());
    asked.lock().unwrap().push(host);
    for name in ["stream_options", "response_format"] {
        if body.get(name).is_some() {
            let error =
                json!({"error": {"message": format!("Unrecognized request argument supplied: {name}")}});
            return (StatusCode::BAD_REQUEST, Json(error)).into_response();
        }
    }
    let messages = body["messages"].as_array().unwrap();
    let (first, last) = (messages[0]["content"].as_str().unwrap(), &messages[messages.len() - 1]);
    let call = |nth: usize, name: &str, arguments: Value| json!({"index": nth, "id": format!("c{nth}"), "function": {"name": name, "arguments": arguments.to_string()}});
    let weather = |nth, city: &str| call(nth, "get_weather", json!({"city": city}));
    let text = last["content"].as_str().unwrap();
    let (deltas, finish) = match text {
        _ if body["max_tokens"] == 16 => (vec![json!({"content": "Once upon a"})], "length"),
        _ if body["tool_choice"].is_object() => (
            vec![json!({"tool_calls": [call(0, "answer", json!({"city": "Paris", "country": "France"}))]})],
            "stop",
        ),
        _ if last["role"] == "tool" => (vec![json!({"content": "In Rome."})], "stop"),
        _ if text.contains("twice") => {
            (vec![json!({"tool_calls": [weather(0, "Paris"), weather(1, "Rome")]})], "stop")
        }
        _ if text.contains("Use the tool") => (vec![json!({"content": "It is sunny."})], "stop"),
        _ if first.contains("banana") => (vec![json!({"content": "Banana"})], "stop"),
        _ => (
            vec![json!({"reasoning": "Easy."}), json!({"content": "one "}), json!({"content": "two"})],
            "stop",
        ),
    };
    let end = json!({"choices": [{"delta": {}, "finish_reason": finish}]});
    let chunks = deltas.into_iter().map(|delta| json!({"choices": [{"delta": delta}]})).chain([end]);
    let events: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
    ([("content-type", "text/event-stream")], events + "data: [DONE]\n\n").into_response()
}

/// Runs `turnfold model check local/small` with a provider at this address.
async fn check(
    folder: &Path,
    base_url: &str,
    args: &[&str],
    env: &[(&str, String)],
) -> (i32, String, String) {
    let config = format!("[providers.local]\nbase_url = '{base_url}'\napi_key = 'env:LOCAL_KEY'\n");
    fs::write(folder.join("turnfold.toml"), config).unwrap();
    let mut command = turnfold(folder);
    command
        .args(["model", "check", "local/small"])
        .args(args)
        .env("LOCAL_KEY", "s3cret-key")
        .envs(env.iter().cloned());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let Output { status, stdout, stderr } = run.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_check_reports_capabilities_and_workarounds() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::serve().await;
    let base_url = format!("http://127.0.0.1:{}/v1", endpoint.port);
    let (exit, shown, err) = check(folder.path(), &base_url, &[], &[]).await;
    assert_eq!((exit, err.as_str()), (5, ""), "{shown}");
    let expected = "\
local/small, dialect compatible

 CAPABILITY           VERDICT        DETAIL
 reply                works          \"one two\"
 streaming            works          2 pieces
 token counts         missing        stream_options is refused; with `stream = false` they may be reported
 reasoning            works          5 characters, kept apart from the reply
 system message       works          obeyed
 order of messages    worked around  rearranged: one system message, then user first
 tool calls           missing        no call: \"It is sunny.\"
 parallel tool calls  works          2 calls in one reply
 tool results         works          read
 structured answers   worked around  by tool: json_schema is refused
 length limit         works          max_tokens is obeyed and reported
";
    assert_eq!(shown, expected, "\n{shown}");

    let (exit, shown, _) = check(folder.path(), &base_url, &["-o", "json"], &[]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((exit, &shown["model"], &shown["dialect"]), (5, &json!("local/small"), &json!("compatible")));
    let structured = json!({"capability": "structured answers", "verdict": "worked_around", "detail": "by tool: json_schema is refused"});
    assert_eq!(shown["capabilities"][9], structured);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_check_reports_an_unusable_model_once() {
    let folder = tempfile::tempdir().unwrap();
    let base_url = format!("http://127.0.0.1:{}/v1", test_servers::free_port());
    let (exit, shown, _) = check(folder.path(), &base_url, &[], &[]).await;
    assert_eq!((exit, shown.lines().count()), (4, 4), "{shown}");
    assert!(shown.contains("failed   cannot reach provider local"), "{shown}");
    let unknown = turnfold(folder.path()).args(["model", "check", "nobody/small"]).output().unwrap();
    let err = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err.contains("provider \"nobody\" is unknown (known: local, openai)"), "{err}");
}

/// `0.0.0.0` reaches this machine and is no loopback address, so it serves as another machine here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_are_used_for_other_machines_only() {
    let folder = tempfile::tempdir().unwrap();
    let (endpoint, proxy) = (Endpoint::serve().await, Endpoint::serve().await);
    let url = |host: &str| format!("http://{host}:{}/v1", endpoint.port);
    let proxies = || {
        ["HTTP_PROXY", "http_proxy", "ALL_PROXY"]
            .map(|variable| (variable, format!("http://127.0.0.1:{}", proxy.port)))
    };
    let asked = |env: Vec<(&'static str, String)>, host: &'static str| {
        let url = url(host);
        let folder = folder.path();
        async move {
            let (_, shown, err) = check(folder, &url, &[], &env).await;
            assert!(shown.contains("obeyed"), "{shown}{err}");
        }
    };
    for host in ["127.0.0.1", "localhost"] {
        asked(proxies().to_vec(), host).await;
        assert!(proxy.asked().is_empty() && !endpoint.asked().is_empty(), "{host} is on this machine");
    }
    asked(proxies().to_vec(), "0.0.0.0").await;
    assert!(!proxy.asked().is_empty() && endpoint.asked().is_empty(), "the proxy is used");
    let excepted = [("NO_PROXY", "0.0.0.0".to_owned()), ("no_proxy", "0.0.0.0".to_owned())];
    asked([&proxies()[..], &excepted].concat(), "0.0.0.0").await;
    assert!(proxy.asked().is_empty() && !endpoint.asked().is_empty(), "NO_PROXY is honoured");
}
