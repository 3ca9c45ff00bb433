//! OpenAI's API: models, chat completions whole and streamed, and errors.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};

use crate::test_api::{Reply, TestApi, key_ring, thread_of};

const CHAT: &str = "/v1/chat/completions";

/// Sends a request and runs all threads until it returns.
pub(crate) async fn answered(api: &TestApi, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
    let work = async {
        loop {
            for thread in api.enqueued().await {
                api.run_until_idle(thread).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(30), api.post_with(path, headers, body));
    tokio::select! {
        reply = asked => reply.unwrap(),
        () = work => panic!("the worker does not stop"),
    }
}

async fn chat_with(api: &TestApi, headers: &[(&str, &str)], body: Value) -> Reply {
    answered(api, CHAT, headers, body).await
}

async fn chat(api: &TestApi, body: Value) -> Reply {
    chat_with(api, &[], body).await
}

fn say(text: &str) -> Value {
    json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": text}]})
}

/// Asserts an error with this status, code and parameter, and returns its message.
#[track_caller]
fn error(reply: &Reply, status: u16, code: &str, param: Option<&str>) -> String {
    assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    assert_eq!(reply.headers[header::CONTENT_TYPE], "application/json");
    let message = reply.openai_error(status, code);
    assert_eq!(reply.json()["error"]["param"], json!(param), "{reply:?}");
    message
}

#[tokio::test]
async fn every_strategy_is_a_model() {
    let api = TestApi::new().await;
    let list = api.get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"turnfold/probe") && ids.contains(&"turnfold/planner"), "{ids:?}");
    for path in ["turnfold/probe", "turnfold%2Fprobe", "probe"] {
        let model = api.get(&format!("/v1/models/{path}")).await.json();
        assert_eq!((&model["id"], &model["object"]), (&json!("turnfold/probe"), &json!("model")), "{path}");
        assert!(model["created"].as_i64().unwrap() > 1_700_000_000, "the time is not zero: {model}");
    }
    for path in ["turnfold/unknown", "unknown", "openai/probe"] {
        let reply = api.get(&format!("/v1/models/{path}")).await;
        let message = error(&reply, 404, "model_not_found", Some("model"));
        assert!(message.contains("turnfold/probe"), "{message}");
    }
}

/// Returns the strategy and the configuration of a thread.
async fn opened(api: &TestApi, reply: &Reply) -> (Value, Value) {
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap();
    let opened = &api.get(&format!("/v1/threads/{thread}/events")).await.json()["data"][0]["event"];
    (opened["strategy"].clone(), opened["config"].clone())
}

#[tokio::test]
async fn a_model_of_a_provider_is_asked_by_the_strategy_chat() {
    let api = TestApi::with(|config| {
        config.providers = Some(["openai".to_owned(), "local".to_owned()].into());
        config.chat_wait = Duration::ZERO;
    })
    .await;
    let ask = |model: &str, more: Value| {
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": "Hello"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.post(CHAT, body)
    };
    let parameters = json!({
        "temperature": 0.5, "max_tokens": 7, "max_completion_tokens": 9, "seed": 3, "stop": ["x"], "top_p": null,
        "store": true,
    });
    let reply = ask("local/qwen3", parameters.clone()).await;
    let asked = json!({"temperature": 0.5, "max_tokens": 9, "extra": {"seed": 3, "stop": ["x"]}});
    let config = json!({"model": "local/qwen3", "nodes": {"reply": asked}});
    assert_eq!(opened(&api, &reply).await, (json!("chat"), config));
    let reply = ask("gpt-4o-mini", json!({})).await;
    assert_eq!(opened(&api, &reply).await, (json!("chat"), json!({"model": "openai/gpt-4o-mini"})));
    let reply = ask("turnfold/chat", json!({"temperature": 1})).await;
    assert_eq!(opened(&api, &reply).await.1, json!({"nodes": {"reply": {"temperature": 1}}}));
    let reply = ask("probe", parameters).await;
    assert_eq!(opened(&api, &reply).await, (json!("probe"), Value::Null), "only chat takes parameters");
    for model in ["opnai/gpt-4o", "plannr", "turnfold/gpt-4o"] {
        error(&ask(model, json!({})).await, 404, "model_not_found", Some("model"));
    }
    let hot = ask("gpt-4o", json!({"temperature": 9})).await;
    let message = error(&hot, 400, "invalid", Some("temperature"));
    assert!(message.contains("temperature"), "{message}");
}

#[tokio::test]
async fn a_conversation_starts_a_thread_and_the_response_names_it() {
    let api = TestApi::new().await;
    let body = json!({
        "model": "probe",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "echo one"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": [{"type": "text", "text": "echo two"}]},
        ],
        "temperature": 0.2, "max_tokens": 10, "n": 1, "tools": [], "logprobs": null, "stop": "x",
        "user": "ada", "metadata": {"order": "17"},
        "turnfold": {"config": {"padding": 3}, "budget": {"turn": {"tokens": 5}}, "priority": "high"},
    });
    let reply = chat(&api, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let completion = reply.json();
    assert_eq!(
        (&completion["object"], &completion["model"]),
        (&json!("chat.completion"), &json!("turnfold/probe"))
    );
    assert_eq!(
        completion["choices"][0]["message"],
        json!({"role": "assistant", "content": "Done: two.", "refusal": null})
    );
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    let usage = &completion["usage"];
    assert_eq!([&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]], [0, 0, 0]);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 0);
    let (thread, turn) = (
        completion["turnfold"]["thread_id"].as_str().unwrap(),
        completion["turnfold"]["turn_id"].as_str().unwrap(),
    );
    assert_eq!(reply.headers["x-turnfold-thread"], thread);
    assert_eq!(reply.headers["x-turnfold-turn"], turn);
    assert_eq!(completion["id"], format!("chatcmpl-{turn}"));

    let row = api.get(&format!("/v1/turns/{turn}")).await.json();
    let roles: Vec<&str> =
        row["input"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!((&row["author"], &row["priority"]), (&json!("ada"), &json!("high")));
    assert_eq!(row["metadata"], json!({"order": "17"}));
    let opened = api.get(&format!("/v1/threads/{thread}/events")).await.json()["data"][0]["event"].clone();
    assert_eq!(
        (&opened["config"]["padding"], &opened["budget"]["turn"]["tokens"]),
        (&json!(3), &json!(5)),
        "{opened}"
    );
}

#[tokio::test]
async fn a_question_is_a_completion_and_the_next_message_answers_it() {
    let api = TestApi::new().await;
    let asked = chat(&api, say("ask Which colour? | red | green")).await.json();
    assert_eq!(asked["choices"][0]["message"]["content"], "Which colour?\n1. red\n2. green");
    assert_eq!(asked["choices"][0]["finish_reason"], "stop");
    let turnfold = &asked["turnfold"];
    assert_eq!(
        (&turnfold["status"], &turnfold["interrupt"]["options"]),
        (&json!("interrupted"), &json!(["red", "green"]))
    );
    let thread = thread_of(turnfold).to_string();

    // Only the last user message is used: the thread contains the others.
    let mut more = say("ask Which colour? | red | green");
    let more_messages = json!([
        {"role": "assistant", "content": "Which colour?"},
        {"role": "user", "content": "green"},
        {"role": "assistant", "content": "(thinks)"},
    ]);
    more["messages"].as_array_mut().unwrap().extend(more_messages.as_array().unwrap().clone());
    more["metadata"] = json!({"thread_id": thread});
    let answered = chat(&api, more).await;
    assert_eq!(
        answered.json()["choices"][0]["message"]["content"],
        "Done: answered \"green\".",
        "{answered:?}"
    );
    assert_eq!(answered.headers["x-turnfold-thread"], thread.as_str());
    let turn = answered.json()["turnfold"]["turn_id"].as_str().unwrap().to_owned();
    let row = api.get(&format!("/v1/turns/{turn}")).await.json();
    assert_eq!(row["input"].as_array().unwrap().len(), 1, "{row}");

    let again = chat_with(&api, &[("x-turnfold-thread", &thread)], say("echo more")).await;
    assert_eq!(again.json()["choices"][0]["message"]["content"], "Done: more.");
    assert_eq!(again.headers["x-turnfold-thread"], thread.as_str());
}

#[tokio::test]
async fn a_thread_is_continued_with_its_configuration() {
    let api = TestApi::new().await;
    let thread =
        chat(&api, say("echo hi")).await.json()["turnfold"]["thread_id"].as_str().unwrap().to_owned();
    let on = |change: Value| {
        let mut body = say("echo more");
        body["metadata"] = json!({"thread_id": thread});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    let other = chat(&api, on(json!({"model": "planner"}))).await;
    assert!(error(&other, 400, "invalid", Some("model")).contains("turnfold/probe"));
    let tuned = chat(&api, on(json!({"turnfold": {"config": {}}}))).await;
    error(&tuned, 400, "invalid", Some("turnfold"));
    let missing = "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d";
    let unknown = chat(&api, on(json!({"metadata": {"thread_id": missing}}))).await;
    error(&unknown, 404, "unknown_thread", Some("metadata.thread_id"));
    let none = chat(&api, on(json!({"metadata": {"thread_id": "x"}}))).await;
    error(&none, 400, "invalid", Some("metadata.thread_id"));
    let two = chat_with(&api, &[("x-turnfold-thread", missing)], on(json!({}))).await;
    error(&two, 400, "invalid", Some("metadata.thread_id"));
}

#[tokio::test]
async fn unsupported_parameters_are_rejected_by_name() {
    let api = TestApi::new().await;
    let unsupported = [
        ("n", json!(2), "only 1"),
        ("logprobs", json!(true), "only false"),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f"}}]),
            "the strategy probe does not support it",
        ),
        ("response_format", json!({"type": "json_object"}), "the strategy probe does not support it"),
        ("audio", json!({}), "text"),
        ("temprature", json!(1), "unknown parameter"),
    ];
    for (name, value, message) in unsupported {
        let mut body = say("echo hi");
        body[name] = value;
        let reported = error(&chat(&api, body).await, 400, "unsupported_parameter", Some(name));
        assert!(reported.starts_with(name) && reported.contains(message), "{reported}");
    }
    let invalid = [
        (json!({"model": null}), "model"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "system", "content": "x"}]}), "messages"),
        (json!({"messages": [{"role": "user", "content": " "}]}), "messages[0].content"),
        (json!({"messages": [{"role": "king", "content": "x"}]}), "messages[0].role"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"user": ""}), "user"),
        (json!({"turnfold": {"confg": {}}}), "turnfold.confg"),
        (json!({"turnfold": {"config": {"paddding": 1}}}), "turnfold.config"),
    ];
    for (change, param) in invalid {
        let mut body = say("echo hi");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        error(&chat(&api, body).await, 400, "invalid", Some(param));
    }
    let parts = [
        (
            json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}),
            "messages[0].content[0]",
        ),
        (
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/p"}}]}),
            "messages[0].content[0].image_url.url",
        ),
        (json!({"role": "function", "name": "a", "content": "x"}), "messages[0].role"),
    ];
    for (message, param) in parts {
        let body = json!({"model": "probe", "messages": [message]});
        error(&chat(&api, body).await, 400, "unsupported_parameter", Some(param));
    }
    let mut unknown = say("echo hi");
    unknown["model"] = json!("turnfold/gpt-4o");
    error(&chat(&api, unknown).await, 404, "model_not_found", Some("model"));
    let text =
        Request::post(CHAT).header(header::CONTENT_TYPE, "application/json").body(Body::from("{")).unwrap();
    error(&api.send(text).await, 400, "malformed", None);
    assert!(api.enqueued().await.is_empty(), "a request that is refused submits nothing");
}

#[tokio::test]
async fn a_failed_turn_is_an_error_with_its_cause_and_is_not_retried() {
    let api = TestApi::new().await;
    let reply = chat(&api, say("fail out of paper")).await;
    let reported = error(&reply, 422, "turn_failed", None);
    let turn = reply.headers["x-turnfold-turn"].to_str().unwrap();
    assert!(
        reported.contains("out of paper") && reported.contains(&format!("/v1/turns/{turn}/retry")),
        "{reported}"
    );
    assert_eq!(reply.headers["x-should-retry"], "false");
}

#[tokio::test]
async fn the_wait_is_bounded_and_nothing_is_lost() {
    let api = TestApi::with(|config| config.chat_wait = Duration::from_millis(20)).await;
    // No worker is running.
    let reply = api.post(CHAT, say("echo hi")).await;
    let reported = error(&reply, 504, "not_yet", None);
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap();
    assert!(reported.contains(thread), "{reported}");
    assert_eq!(reply.headers["x-should-retry"], "false");
    api.run_until_idle(thread.parse().unwrap()).await;
    let turn = reply.headers["x-turnfold-turn"].to_str().unwrap();
    assert_eq!(api.get(&format!("/v1/turns/{turn}")).await.json()["output"]["reply"], "Done: hi.");
}

#[tokio::test]
async fn a_disconnected_client_does_not_cancel_its_turn() {
    let api = TestApi::new().await;
    // No worker is running, so the request waits until it is dropped.
    let asked = tokio::time::timeout(Duration::from_millis(50), api.post(CHAT, say("echo hi"))).await;
    assert!(asked.is_err(), "{asked:?}");
    let turns = async || api.get("/v1/turns").await.json()["data"].clone();
    let turn = turns().await[0].clone();
    assert_eq!(turn["status"], "queued", "{turn}");
    api.run_until_idle(thread_of(&turn)).await;
    assert_eq!(turns().await[0]["output"]["reply"], "Done: hi.");
}

#[tokio::test]
async fn a_repeated_request_is_the_same_turn() {
    let api = TestApi::new().await;
    let key = [("idempotency-key", "once")];
    let first = chat_with(&api, &key, say("echo hi")).await;
    let second = chat_with(&api, &key, say("echo hi")).await;
    assert_eq!(first.json(), second.json());
    assert_eq!(second.headers["idempotency-replayed"], "true");
    let other = chat_with(&api, &key, say("echo something else")).await;
    error(&other, 409, "key_reused", None);
    assert_eq!(other.headers["x-should-retry"], "false");
}

/// Headers of OpenAI's client libraries with the number of earlier attempts.
const FIRST: (&str, &str) = ("x-stainless-retry-count", "0");
const AGAIN: (&str, &str) = ("x-stainless-retry-count", "1");

fn turn_of(reply: &Reply) -> &str {
    reply.headers["x-turnfold-turn"].to_str().unwrap()
}

/// Sends a request, disconnects before the response, and returns its turn.
async fn disconnect_early(api: &TestApi, headers: &[(&str, &str)], body: Value) -> String {
    let asked = tokio::time::timeout(Duration::from_millis(50), api.post_with(CHAT, headers, body)).await;
    assert!(asked.is_err(), "{asked:?}");
    api.get("/v1/turns").await.json()["data"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_retry_without_a_response_is_the_same_turn() {
    let api = TestApi::new().await;
    let first = disconnect_early(&api, &[FIRST], say("echo hi")).await;
    let again = chat_with(&api, &[AGAIN], say("echo hi")).await;
    assert_eq!(again.json()["choices"][0]["message"]["content"], "Done: hi.");
    assert_eq!(
        (turn_of(&again), &again.headers["idempotency-replayed"]),
        (&*first, &"true".parse().unwrap())
    );
    let turns = api.get("/v1/turns").await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "{turns}");

    // The request has its response now, so an identical one is a new request. The key is released a moment later.
    let began = std::time::Instant::now();
    while turn_of(&chat_with(&api, &[AGAIN], say("echo hi")).await) == first {
        assert!(began.elapsed() < Duration::from_secs(30), "the response is repeated forever");
    }
}

#[tokio::test]
async fn a_different_or_first_request_is_another_turn() {
    let api = TestApi::new().await;
    let first = disconnect_early(&api, &[FIRST], say("echo hi")).await;
    let by = ("x-turnfold-user", "another");
    let mut seen = vec![first.clone()];
    // An identical request, marked or not, joins the turn once, and loses its answer as well.
    for headers in [vec![FIRST], vec![]] {
        assert_eq!(disconnect_early(&api, &headers, say("echo hi")).await, first);
    }
    for (headers, message) in [
        (vec![AGAIN], "echo something else"),
        (vec![AGAIN, by], "echo hi"),
        (vec![AGAIN, ("idempotency-key", "mine")], "echo hi"),
    ] {
        let turn = disconnect_early(&api, &headers, say(message)).await;
        assert!(!seen.contains(&turn), "{headers:?} {message}");
        seen.push(turn);
    }
    // The first one is still known.
    assert_eq!(turn_of(&chat_with(&api, &[AGAIN], say("echo hi")).await), first);
}

#[tokio::test]
async fn a_retry_finds_a_running_turn_but_not_one_that_ended_long_ago() {
    let wait = Duration::from_millis(200);
    let api = TestApi::with(|config| config.chat_wait = wait).await;
    let first = disconnect_early(&api, &[FIRST], say("echo hi")).await;
    // No worker is running.
    tokio::time::sleep(wait).await;
    assert_eq!(disconnect_early(&api, &[AGAIN], say("echo hi")).await, first);
    let turns = api.get("/v1/turns").await.json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "{turns}");

    api.run_until_idle(thread_of(&turns["data"][0])).await;
    // Longer than the wait: the turn's end is measured by another clock than this sleep.
    tokio::time::sleep(2 * wait).await;
    // A process that was killed keeps no loss.
    api.backends.store.lose_answer(first.parse().unwrap(), "another request").await.unwrap();
    let second = disconnect_early(&api, &[AGAIN], say("echo hi")).await;
    assert_ne!(first, second);
    assert_eq!(turn_of(&chat_with(&api, &[AGAIN], say("echo hi")).await), second);
}

/// Returns the data of every event of a stream.
fn events(reply: &Reply) -> Vec<&str> {
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/event-stream");
    reply.text().lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

#[tokio::test]
async fn a_stream_is_the_completion_in_chunks() {
    let api = TestApi::new().await;
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let mut body = say(&format!("echo {long}"));
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let reply = chat(&api, body).await;
    let mut reported = events(&reply);
    assert_eq!(reported.pop(), Some("[DONE]"));
    let chunks: Vec<Value> = reported.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[0]["turnfold"]["thread_id"], reply.headers["x-turnfold-thread"].to_str().unwrap());
    let pieces: Vec<&str> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(pieces.concat(), format!("Done: {long}."));
    assert!(pieces.len() > 3, "{pieces:?}");
    let [.., last, usage] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["turnfold"]["status"], "completed");
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(0)));

    let mut body = say("fail out of paper");
    body["stream"] = json!(true);
    let reply = chat(&api, body).await;
    let reported = events(&reply);
    let broken: Value = serde_json::from_str(reported[reported.len() - 2]).unwrap();
    assert_eq!(broken["error"]["code"], "turn_failed", "{broken}");
    let mut body = say("echo hi");
    (body["stream"], body["n"]) = (json!(true), json!(2));
    error(&chat(&api, body).await, 400, "unsupported_parameter", Some("n"));
}

#[tokio::test]
async fn a_missing_key_is_reported_in_openais_shape() {
    let api = TestApi::with(|config| config.keys = key_ring(&["first-key"], &[])).await;
    let reply = api.post(CHAT, say("echo hi")).await;
    error(&reply, 401, "invalid_api_key", None);
    assert_eq!(reply.headers[header::WWW_AUTHENTICATE], "Bearer");
    error(&api.get("/v1/models/turnfold/probe").await, 401, "invalid_api_key", None);
    api.get("/v1/turns").await.problem(401, "unauthorized");
}

/// A picture of 1 × 1 pixels.
const PIXEL: &str = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

#[tokio::test]
async fn images_and_files_are_kept_by_their_hash() {
    let api = TestApi::new().await;
    let file =
        json!({"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}});
    let image = json!({"type": "image_url", "image_url": {"url": PIXEL}});
    let content = json!([{"type": "text", "text": "echo hi"}, image, file]);
    let reply =
        chat(&api, json!({"model": "probe", "messages": [{"role": "user", "content": content}]})).await;
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap().to_owned();
    let shown = api.get(&format!("/v1/threads/{thread}")).await.json();
    let message = &shown["messages"][0];
    assert_eq!(message["content"], "echo hi");
    let [image, file] = message["attachments"].as_array().unwrap().as_slice() else { panic!("{message}") };
    assert_eq!((&image["kind"], &image["media_type"]), (&json!("image"), &json!("image/gif")));
    assert_eq!((&file["kind"], &file["name"], &file["bytes"]), (&json!("file"), &json!("a.txt"), &json!(2)));
    let path = format!("/v1/threads/{thread}/attachments/{}", file["sha256"].as_str().unwrap());
    let content = api.get(&path).await;
    assert_eq!((content.status.as_u16(), content.text()), (200, "hi"));
    assert_eq!(content.headers["x-content-type-options"], "nosniff");
    let unknown = api.get(&format!("/v1/threads/{thread}/attachments/beef")).await;
    assert!(unknown.problem(404, "unknown-file").contains("beef"));
    let log = api.get(&format!("/v1/threads/{thread}/events")).await;
    assert!(!log.text().contains("R0lGOD"), "the log holds no content: {}", log.text());

    // The same over turns. An address is refused, whatever it is of.
    let body = |url: &str| {
        let content =
            json!([{"type": "text", "text": "echo hi"}, {"type": "image_url", "image_url": {"url": url}}]);
        json!({"strategy": "probe", "input": {"messages": [{"role": "user", "content": content}]}})
    };
    let turn = api.post("/v1/turns", body(PIXEL)).await.json();
    assert_eq!(turn["input"][0]["attachments"][0]["sha256"], image["sha256"]);
    let refused = api.post("/v1/turns", body("https://example.com/a.png")).await;
    let why = refused.problem(400, "unsupported-parameter");
    assert!(why.contains("input.messages[0].content[1].image_url.url: addresses are not supported"), "{why}");
}

#[tokio::test]
async fn images_for_a_model_that_takes_none_are_refused_at_once() {
    let api = TestApi::with(|config| {
        config.tuned = [("planner".to_owned(), json!({"model": "blind/m"}))].into();
        config.accepts = shared::Accepts([("blind".to_owned(), [].into())].into());
    })
    .await;
    let content = json!([{"type": "image_url", "image_url": {"url": PIXEL}}]);
    let messages = json!([{"role": "user", "content": content}]);
    let reply = chat(&api, json!({"model": "planner", "messages": messages})).await;
    let why = error(&reply, 400, "unsupported_parameter", Some("messages"));
    assert!(why.contains("model blind/m takes no images"), "{why}");
    let turn = api.post("/v1/turns", json!({"strategy": "planner", "input": {"messages": messages}})).await;
    assert!(turn.problem(400, "unsupported-parameter").contains("model blind/m takes no images"));
    // A model of another provider, chosen for this turn, is not known here.
    let config =
        json!({"strategy": "planner", "config": {"model": "other/m"}, "input": {"messages": messages}});
    assert_eq!(api.post("/v1/turns", config).await.status.as_u16(), 202);
}

#[tokio::test]
async fn a_format_is_kept_with_the_turn_or_refused_by_its_key() {
    let api = TestApi::with(|config| config.chat_wait = Duration::ZERO).await;
    let format = |schema: Value| {
        let named = json!({"name": "place", "schema": schema, "strict": true});
        json!({"type": "json_schema", "json_schema": named})
    };
    let ask = |format: Value| {
        let body = json!({"model": "turnfold/chat", "messages": [{"role": "user", "content": "Hi"}], "response_format": format});
        api.post(CHAT, body)
    };
    let good = format(json!({"type": "object", "properties": {"city": {"type": "string"}}}));
    let kept = async |turn: &str| {
        let turn = api.backends.store.turn(turn.parse().unwrap()).await.unwrap().unwrap();
        serde_json::to_value(turn.reply_options.unwrap()).unwrap()
    };
    let reply = ask(good.clone()).await;
    assert_eq!(kept(turn_of(&reply)).await, json!({"response_format": good}));
    assert_eq!(kept(turn_of(&ask(json!({"type": "text"})).await)).await, json!({}));
    let body = json!({"strategy": "chat", "input": "Hi", "response_format": good});
    let turn = api.post("/v1/turns", body.clone()).await.json();
    assert_eq!(kept(turn["id"].as_str().unwrap()).await, json!({"response_format": good}));

    for (format, param) in [
        (format(json!({"type": "string"})), "response_format.json_schema.schema"),
        (format(json!({"$ref": "#/$defs/a"})), "response_format.json_schema.schema.$ref"),
    ] {
        error(&ask(format.clone()).await, 400, "invalid", Some(param));
        let mut body = body.clone();
        body["response_format"] = format;
        let problem = api.post("/v1/turns", body).await;
        assert!(problem.status == 422 && problem.json()["detail"].as_str().unwrap().starts_with(param));
    }
    for format in [json!("json"), json!({"type": "yaml"}), json!({"type": "json_schema"})] {
        let reply = ask(format.clone()).await;
        assert!(
            reply.status == 400
                && reply.json()["error"]["message"].as_str().unwrap().contains("response_format"),
            "{format}"
        );
    }
}
