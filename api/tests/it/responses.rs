//! OpenAI's Responses: whole, streamed, in the background, continued and in batches. async-openai's types check every answer.

use std::time::Duration;

use async_openai::types::responses::{
    ConversationItemList, ConversationResource, DeleteConversationResponse, DeleteResponse, OutputItem,
    OutputMessageContent, Response, ResponseErrorCode, ResponseItemList, ResponseStreamEvent, Status,
};
use axum::{
    body::Body,
    http::{Request, header},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    batch_test::BatchTest,
    openai::answered,
    test_api::{Reply, TestApi, thread_of},
};

const RESPONSES: &str = "/v1/responses";
const CONVERSATIONS: &str = "/v1/conversations";

async fn respond(api: &TestApi, body: Value) -> Reply {
    answered(api, RESPONSES, &[], body).await
}

fn ask(input: impl Into<Value>) -> Value {
    json!({"model": "turnfold/probe", "input": input.into()})
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Reads a value as async-openai does.
#[track_caller]
fn typed<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Returns the text of a response.
#[track_caller]
fn text(response: &Value) -> String {
    let response: Response = typed(response);
    let [OutputItem::Message(message)] = &response.output[..] else { panic!("{response:?}") };
    let [OutputMessageContent::OutputText(part)] = &message.content[..] else { panic!("{message:?}") };
    part.text.clone()
}

/// Returns the row of the turn of a response.
async fn turn_of(api: &TestApi, response: &Value) -> Value {
    let turn = response["turnfold"]["turn_id"].as_str().unwrap();
    api.get(&format!("/v1/turns/{turn}")).await.json()
}

#[tokio::test]
async fn a_response_is_a_turn_and_is_retrieved_by_its_id() {
    let api = TestApi::new().await;
    let body = json!({
        "model": "probe", "instructions": "Be brief.", "user": "ada", "metadata": {"order": "17"},
        "temperature": 0.2, "max_output_tokens": 10, "text": {"format": {"type": "text"}}, "tools": [],
        "reasoning": {"effort": "low", "summary": "auto"}, "truncation": "disabled", "store": false,
        "include": ["reasoning.encrypted_content"], "tool_choice": "auto", "parallel_tool_calls": true,
        "service_tier": "flex", "background": null,
        "input": [
            {"role": "user", "content": "echo one"},
            {"type": "message", "role": "assistant", "status": "completed", "id": "msg_x",
             "content": [{"type": "output_text", "text": "one", "annotations": []}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"role": "user", "content": [{"type": "input_text", "text": "echo two"}]},
        ],
        "turnfold": {"priority": "high"},
    });
    let reply = respond(&api, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let response = reply.json();
    assert_eq!(text(&response), "Done: two.");
    let read: Response = typed(&response);
    assert_eq!((read.object.as_str(), read.model.as_str()), ("response", "turnfold/probe"));
    assert_eq!((read.status, read.error), (Status::Completed, None));
    assert!(read.completed_at.unwrap() >= read.created_at && read.created_at > 1_700_000_000, "{response}");
    assert_eq!((read.temperature, read.max_output_tokens), (Some(0.2), Some(10)));
    assert_eq!(read.usage.unwrap().total_tokens, 0);
    assert_eq!(read.metadata.unwrap()["order"], "17");
    let turn = turn_of(&api, &response).await;
    assert_eq!(read.id, format!("resp_{}", turn["id"].as_str().unwrap().replace('-', "")));
    assert_eq!(reply.headers["x-turnfold-turn"], turn["id"].as_str().unwrap());
    let said: Vec<(&str, &str)> = turn["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    let all = [("system", "Be brief."), ("user", "echo one"), ("assistant", "one"), ("user", "echo two")];
    assert_eq!(said, all);
    assert_eq!((&turn["author"], &turn["priority"]), (&json!("ada"), &json!("high")));

    for id in [read.id.as_str(), turn["id"].as_str().unwrap()] {
        let again = api.get(&format!("{RESPONSES}/{id}")).await.json();
        assert_eq!(
            (text(&again), &again["id"], &again["status"]),
            ("Done: two.".to_owned(), &json!(read.id), &json!("completed"))
        );
    }
    let items = api.get(&format!("{RESPONSES}/{}/input_items?order=asc&limit=3", read.id)).await.json();
    let list: ResponseItemList = typed(&items);
    assert_eq!((list.data.len(), list.has_more), (3, true));
    assert_eq!(items["data"][1]["content"], json!([{"type": "input_text", "text": "echo one"}]));
    let rest = format!("{RESPONSES}/{}/input_items?order=asc&after={}", read.id, list.last_id.unwrap());
    let rest = api.get(&rest).await.json();
    assert_eq!(
        (&rest["data"][0]["content"][0]["text"], &rest["has_more"]),
        (&json!("echo two"), &json!(false))
    );
    let missing = "resp_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d";
    api.get(&format!("{RESPONSES}/{missing}")).await.openai_error(404, "unknown_turn");
    api.get(&format!("{RESPONSES}/what")).await.openai_error(404, "unknown_turn");
}

#[tokio::test]
async fn a_model_of_a_provider_is_asked_with_the_parameters() {
    let api = TestApi::with(|config| {
        config.providers = Some(["openai".to_owned(), "local".to_owned()].into());
        config.chat_wait = Duration::ZERO;
    })
    .await;
    let parameters = json!({
        "model": "gpt-4o-mini", "temperature": 0.5, "max_output_tokens": 9, "top_p": 0.5,
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "background": true,
    });
    let response = api.post(RESPONSES, with(ask("Hello"), parameters)).await.json();
    assert_eq!(response["model"], "gpt-4o-mini", "{response}");
    let thread = response["turnfold"]["thread_id"].as_str().unwrap();
    let opened = &api.get(&format!("/v1/threads/{thread}/events")).await.json()["data"][0]["event"];
    let extra = json!({"top_p": 0.5, "verbosity": "low"});
    let reply = json!({"temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low", "extra": extra});
    let config = json!({"model": "openai/gpt-4o-mini", "nodes": {"reply": reply}});
    assert_eq!((&opened["strategy"], &opened["config"]), (&json!("chat"), &config));
    let hot =
        api.post(RESPONSES, with(ask("Hello"), json!({"model": "gpt-4o", "max_output_tokens": 0}))).await;
    assert!(hot.openai_error(400, "invalid").contains("max"), "{hot:?}");
    assert_eq!(hot.json()["error"]["param"], "max_output_tokens", "{hot:?}");
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_the_name_that_was_sent() {
    let api = TestApi::new().await;
    let unsupported = [
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"max_tool_calls": 3}), "max_tool_calls"),
        (json!({"temprature": 1}), "temprature"),
        (json!({"messages": []}), "messages"),
        (json!({"max_tokens": 5}), "max_tokens"),
        (json!({"truncation": "some"}), "truncation"),
        (json!({"include": ["message.output_text.logprobs"]}), "include"),
        (json!({"text": {"colour": "red"}}), "text.colour"),
        (json!({"input": [{"type": "web_search_call", "id": "ws_1"}]}), "input[0].type"),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]}),
            "input[0].content[0].file_id",
        ),
        (
            json!({"instructions": "x", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/p"}]}]}),
            "input[0].content[0].image_url.url",
        ),
    ];
    let invalid = [
        (json!({"model": null}), "model"),
        (json!({"input": null}), "input"),
        (json!({"input": 7}), "input"),
        (json!({"input": []}), "input"),
        (json!({"input": " "}), "input"),
        (
            json!({"input": [{"role": "user", "content": "a"}, {"role": "king", "content": "x"}]}),
            "input[1].role",
        ),
        (json!({"input": [{"type": "item_reference", "id": "msg_1"}]}), "input[0].id"),
        (json!({"background": "yes"}), "background"),
        (json!({"text": "plain"}), "text"),
        (json!({"user": ""}), "user"),
        (json!({"turnfold": {"confg": {}}}), "turnfold.confg"),
    ];
    let cases = unsupported.map(|case| (case, "unsupported_parameter")).into_iter();
    for ((change, param), code) in cases.chain(invalid.map(|case| (case, "invalid"))) {
        let reply = api.post(RESPONSES, with(ask("echo hi"), change)).await;
        let message = reply.openai_error(400, code);
        assert_eq!(reply.json()["error"]["param"], param, "{reply:?}");
        assert!(message.starts_with(param) || message.starts_with("user must"), "{param}: {message}");
    }
    let none = with(ask("echo hi"), json!({"model": "turnfold/gpt-4o"}));
    api.post(RESPONSES, none).await.openai_error(404, "model_not_found");
    assert!(api.enqueued().await.is_empty(), "a request that is refused submits nothing");
}

#[tokio::test]
async fn a_question_is_a_message_and_the_next_input_answers_it() {
    let api = TestApi::new().await;
    let asked = respond(&api, with(ask("ask Which colour? | red | green"), json!({"instructions": "Ask."})))
        .await
        .json();
    assert_eq!(text(&asked), "Which colour?\n1. red\n2. green");
    assert_eq!(asked["status"], "completed");
    assert_eq!(asked["output"][0]["turnfold"]["interrupt"]["options"], json!(["red", "green"]), "{asked}");
    let next = json!({"previous_response_id": asked["id"], "instructions": "Ask."});
    let answered = respond(&api, with(ask("green"), next)).await.json();
    assert_eq!(text(&answered), "Done: answered \"green\".");
    assert_eq!(answered["turnfold"]["thread_id"], asked["turnfold"]["thread_id"]);
    assert_eq!(answered["previous_response_id"], asked["id"]);
    let turn = turn_of(&api, &answered).await;
    assert_eq!(turn["input"].as_array().unwrap().len(), 1, "the thread has its instructions: {turn}");

    let two = json!([{"role": "user", "content": "first"}, {"role": "user", "content": "echo more"}]);
    let more = respond(&api, with(ask(two), json!({"previous_response_id": answered["id"]}))).await.json();
    assert_eq!(more["turnfold"]["thread_id"], asked["turnfold"]["thread_id"]);
    let turn = turn_of(&api, &more).await;
    assert_eq!(turn["input"].as_array().unwrap().len(), 2, "all items are new: {turn}");

    // A client that refers to the messages of a model by their ids.
    let history = json!([
        {"role": "user", "content": "echo more"},
        {"type": "item_reference", "id": more["output"][0]["id"]},
        {"role": "user", "content": "echo again"},
    ]);
    let turn = turn_of(&api, &respond(&api, ask(history)).await.json()).await;
    assert_eq!(
        (&turn["input"][1]["role"], &turn["input"][1]["content"]),
        (&json!("assistant"), &json!(text(&more)))
    );
}

#[tokio::test]
async fn a_conversation_is_a_thread_that_its_first_response_begins() {
    let api = TestApi::new().await;
    let items =
        json!([{"role": "user", "content": "echo before"}, {"role": "assistant", "content": "before"}]);
    let body = json!({"metadata": {"topic": "demo"}, "items": items});
    let created = api.post(CONVERSATIONS, body).await.json();
    let conversation: ConversationResource = typed(&created);
    assert_eq!(
        (conversation.object.as_str(), &created["metadata"]["topic"]),
        ("conversation", &json!("demo"))
    );
    let place = format!("{CONVERSATIONS}/{}", conversation.id);
    assert_eq!(api.get(&place).await.json(), created);
    let said = async || -> Vec<String> {
        let list: Value = api.get(&format!("{place}/items?order=asc")).await.json();
        let _: ConversationItemList = typed(&list);
        let items = list["data"].as_array().unwrap();
        items.iter().map(|item| item["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(said().await, ["echo before", "before"]);
    let more = json!({"items": [{"role": "user", "content": "echo between"}]});
    let added = api.post(&format!("{place}/items"), more).await.json();
    assert_eq!(added["data"][0]["content"][0]["text"], "echo between", "{added}");

    let in_it = json!({"conversation": conversation.id, "instructions": "Be brief."});
    let first = respond(&api, with(ask("echo one"), in_it)).await.json();
    assert_eq!(
        (text(&first), &first["conversation"]["id"]),
        ("Done: one.".to_owned(), &json!(conversation.id))
    );
    let thread = first["turnfold"]["thread_id"].as_str().unwrap();
    assert_eq!(format!("conv_{}", thread.replace('-', "")), conversation.id);
    let all = ["Be brief.", "echo before", "before", "echo between", "echo one", "Done: one."];
    assert_eq!(said().await, all);
    let in_it = json!({"conversation": {"id": conversation.id}});
    let second = respond(&api, with(ask("echo two"), in_it.clone())).await.json();
    assert_eq!((&second["turnfold"]["thread_id"], said().await.len()), (&json!(thread), 8));
    let other = respond(&api, with(ask("hello"), with(in_it.clone(), json!({"model": "planner"})))).await;
    assert!(other.openai_error(400, "invalid").contains("turnfold/probe"));
    let both = with(ask("x"), with(in_it, json!({"previous_response_id": second["id"]})));
    respond(&api, both).await.openai_error(400, "invalid");

    let changed = api.post(&place, json!({"metadata": {"topic": "other"}})).await.json();
    assert_eq!(changed["metadata"], json!({"topic": "other"}));
    let deleted = api.send(Request::delete(&place).body(Body::empty()).unwrap()).await.json();
    let _: DeleteConversationResponse = typed(&deleted);
    api.get(&place).await.openai_error(404, "unknown_thread");
    api.get(&format!("/v1/threads/{thread}")).await.problem(404, "unknown-thread");

    for (body, param) in [
        (json!({"metadata": {"n": 1}}), "metadata.n"),
        (json!({"items": [{"role": "king", "content": "x"}]}), "items[0].role"),
        (json!({"items": "x"}), "items"),
        (json!({"itmes": []}), "itmes"),
    ] {
        let reply = api.post(CONVERSATIONS, body).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(param)),
            "{reply:?}"
        );
    }
    let none = with(ask("x"), json!({"conversation": "conv_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"}));
    let reply = api.post(RESPONSES, none).await;
    reply.openai_error(404, "unknown_thread");
    assert_eq!(reply.json()["error"]["param"], "conversation");
}

#[tokio::test]
async fn a_thread_that_was_not_created_as_a_conversation_takes_no_metadata() {
    let api = TestApi::new().await;
    let response = respond(&api, ask("echo hello")).await.json();
    let place = format!("{CONVERSATIONS}/{}", response["turnfold"]["thread_id"].as_str().unwrap());
    assert_eq!(api.get(&place).await.status, 200);
    let refused = api.post(&place, json!({"metadata": {"topic": "other"}})).await;
    assert!(refused.openai_error(404, "unknown_thread").contains("not created as a conversation"));
}

/// A conversation that a lost answer began has one turn, and its items come once.
#[tokio::test]
async fn a_repeated_first_response_begins_a_conversation_once() {
    let api = TestApi::new().await;
    let items = json!({"items": [{"role": "user", "content": "echo before"}]});
    let conversation = api.post(CONVERSATIONS, items).await.json()["id"].clone();
    let body = with(ask("echo one"), json!({"conversation": conversation}));
    let key = [("idempotency-key", "once")];
    let first = answered(&api, RESPONSES, &key, body.clone()).await.json();
    let again = answered(&api, RESPONSES, &key, body).await;
    assert_eq!(again.json()["id"], first["id"]);
    let turn = turn_of(&api, &first).await;
    assert_eq!(turn["input"].as_array().unwrap().len(), 2, "{turn}");
}

/// A response that others followed is continued without them.
#[tokio::test]
async fn an_older_response_is_continued_in_a_fork() {
    let api = TestApi::new().await;
    let first = respond(&api, ask("ask Which colour? | red | green")).await.json();
    let previous = json!({"previous_response_id": first["id"]});
    let red = respond(&api, with(ask("red"), previous.clone())).await.json();
    let green = respond(&api, with(ask("green"), previous.clone())).await.json();
    assert_eq!(
        (text(&red), text(&green)),
        ("Done: answered \"red\".".to_owned(), "Done: answered \"green\".".to_owned())
    );
    let thread = |response: &Value| response["turnfold"]["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(thread(&red), thread(&first));
    assert_ne!(thread(&green), thread(&first));
    let fork = api.get(&format!("/v1/threads/{}", thread(&green))).await.json();
    assert_eq!(fork["forked"]["thread_id"], first["turnfold"]["thread_id"]);

    // A repetition with the same key gets the same turn, and no other fork.
    let key = [("idempotency-key", "once")];
    let threads = async || api.get("/v1/threads").await.json()["data"].as_array().unwrap().len();
    let once = answered(&api, RESPONSES, &key, with(ask("red"), previous.clone())).await.json();
    let before = threads().await;
    let again = answered(&api, RESPONSES, &key, with(ask("red"), previous)).await;
    assert_eq!((&again.json()["id"], threads().await), (&once["id"], before));
    assert_eq!(again.headers["idempotency-replayed"], "true");
}

#[tokio::test]
async fn a_background_response_is_sent_at_once_and_can_be_cancelled() {
    let api = TestApi::new().await;
    // No worker is running.
    let queued = api.post(RESPONSES, with(ask("echo hi"), json!({"background": true}))).await.json();
    let read: Response = typed(&queued);
    assert_eq!(
        (read.status, read.background, read.output.len()),
        (Status::Queued, Some(true), 0),
        "{queued}"
    );
    let place = format!("{RESPONSES}/{}", read.id);
    assert_eq!(api.get(&place).await.json()["status"], "queued");
    api.run_until_idle(thread_of(&queued["turnfold"])).await;
    assert_eq!(text(&api.get(&place).await.json()), "Done: hi.");
    api.post(&format!("{place}/cancel"), json!({})).await.openai_error(409, "already_ended");

    let other = api.post(RESPONSES, with(ask("echo ho"), json!({"background": true}))).await.json();
    for _ in 0..2 {
        let place = format!("{RESPONSES}/{}/cancel", other["id"].as_str().unwrap());
        let cancelled: Response = typed(&api.post(&place, json!({})).await.json());
        assert_eq!((cancelled.status, cancelled.output.len()), (Status::Cancelled, 0));
    }
}

#[tokio::test]
async fn a_response_alone_in_its_thread_can_be_deleted() {
    let api = TestApi::new().await;
    let delete = async |response: &Value| {
        let path = format!("{RESPONSES}/{}", response["id"].as_str().unwrap());
        api.send(Request::delete(path).body(Body::empty()).unwrap()).await
    };
    let first = respond(&api, ask("echo hi")).await.json();
    let next = respond(&api, with(ask("echo ho"), json!({"previous_response_id": first["id"]}))).await.json();
    assert!(delete(&next).await.openai_error(409, "not_now").contains("DELETE /v1/threads/"));
    let single = respond(&api, ask("echo hi")).await.json();
    let deleted: DeleteResponse = typed(&delete(&single).await.json());
    assert_eq!((json!(deleted.id), deleted.deleted), (single["id"].clone(), true));
    delete(&single).await.openai_error(404, "unknown_turn");
}

#[tokio::test]
async fn a_failed_turn_is_an_error_and_a_failed_response() {
    let api = TestApi::new().await;
    let reply = respond(&api, ask("fail out of paper")).await;
    assert!(reply.openai_error(422, "turn_failed").contains("out of paper"), "{reply:?}");
    assert_eq!(reply.headers["x-should-retry"], "false");
    let turn = reply.headers["x-turnfold-turn"].to_str().unwrap();
    let failed: Response = typed(&api.get(&format!("{RESPONSES}/{turn}")).await.json());
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.error.unwrap().message.contains("out of paper"));
}

/// Returns the events of a stream, as async-openai reads them, and their data.
fn events(reply: &Reply) -> Vec<(ResponseStreamEvent, Value)> {
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/event-stream");
    let mut found = Vec::new();
    for frame in reply.text().split("\n\n").filter(|frame| frame.starts_with("event: ")) {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(format!("event: {}", data["type"].as_str().unwrap()), name);
        assert_eq!(data["sequence_number"], found.len(), "{data}");
        found.push((typed(&data), data));
    }
    found
}

#[tokio::test]
async fn a_stream_is_the_response_in_typed_events() {
    let api = TestApi::new().await;
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let reply = respond(&api, with(ask(format!("echo {long}")), json!({"stream": true}))).await;
    let found = events(&reply);
    let kinds: Vec<&str> = found.iter().map(|(_, data)| data["type"].as_str().unwrap()).collect();
    let begin = [
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
    ];
    let end = [
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert!(kinds.starts_with(&begin) && kinds.ends_with(&end), "{kinds:?}");
    let delta = |(event, data): &(ResponseStreamEvent, Value)| {
        matches!(event, ResponseStreamEvent::ResponseOutputTextDelta(_))
            .then(|| data["delta"].as_str().unwrap().to_owned())
    };
    let deltas: String = found.iter().filter_map(delta).collect();
    assert_eq!(deltas, format!("Done: {long}."));
    let (_, last) = found.last().unwrap();
    assert_eq!(text(&last["response"]), deltas);
    let item = &found[found.len() - 2].1["item"];
    assert_eq!(item, &last["response"]["output"][0]);
    assert_eq!(found[0].1["response"]["id"], last["response"]["id"]);

    // The same response again, from its first event.
    let place = format!("{RESPONSES}/{}?stream=true", last["response"]["id"].as_str().unwrap());
    let again = events(&api.get(&place).await);
    assert_eq!(text(&again.last().unwrap().1["response"]), deltas);
    assert_eq!(again[0].1["response"]["output"], json!([]));
    let shown = |(_, data): &(ResponseStreamEvent, Value)| {
        let mut data = data.clone();
        data["response"] = Value::Null;
        data
    };
    assert_eq!(again.iter().map(shown).collect::<Vec<_>>(), found.iter().map(shown).collect::<Vec<_>>());

    // And from the event after each one.
    for after in 0..found.len() {
        let rest = api.get(&format!("{place}&starting_after={after}")).await;
        let numbers: Vec<u64> = rest
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str::<Value>(data).unwrap()["sequence_number"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, (after as u64 + 1..found.len() as u64).collect::<Vec<_>>());
    }
    let place = place.replace("?stream=true", "?starting_after=1");
    api.get(&place).await.openai_error(400, "malformed");

    let reply = respond(&api, with(ask("fail out of paper"), json!({"stream": true}))).await;
    let found = events(&reply);
    let [
        ..,
        (ResponseStreamEvent::ResponseFailed(failed), _),
        (ResponseStreamEvent::ResponseError(error), data),
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!(failed.response.status, Status::Failed);
    let code = &failed.response.error.as_ref().unwrap().code;
    assert_eq!(*code, ResponseErrorCode::InvalidPrompt, "clients repeat, and pay again, after server_error");
    assert!(error.message.contains("out of paper") && error.code.as_deref() == Some("turn_failed"));
    assert_eq!(data["error"]["code"], "turn_failed", "OpenAI's clients raise an event with this field");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_batches_are_responses() {
    let test = BatchTest::new().await;
    let line = |nth: usize, more: Value| {
        let body = with(ask(format!("echo {nth}")), more);
        let line = json!({"custom_id": format!("r-{nth}"), "method": "POST", "url": RESPONSES, "body": body});
        format!("{line}\n")
    };
    let lines = [
        line(1, json!({"instructions": "x"})),
        line(2, json!({"background": true})),
        line(3, json!({"stream": true})),
        line(4, json!({"previous_response_id": "resp_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"})),
        line(5, json!({"input": "fail on purpose"})),
    ];
    let batch = test.batch(&test.upload(lines.concat()).await, json!({"endpoint": RESPONSES})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 5, "completed": 2, "failed": 3}), "{ended}");
    let results = test.file(&ended["output_file_id"]).await;
    let bodies: Vec<String> = results.iter().map(|line| text(&line["response"]["body"])).collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.contains(&"Done: 1.".to_owned()) && bodies.contains(&"Done: 2.".to_owned()), "{bodies:?}");
    let failed = test.file(&ended["error_file_id"]).await;
    let failed = failed.iter().find(|line| line["custom_id"] == "r-5").unwrap();
    assert_eq!(failed["response"]["body"]["error"]["code"], "turn_failed", "{failed}");
}
