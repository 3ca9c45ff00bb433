//! OpenAI's Responses: whole, streamed, in the background, continued and in batches. async-openai's types check every answer.

mod continued;
mod conversations;
mod parameters;
mod streams;

use async_openai::types::responses::{
    DeleteResponse, OutputItem, OutputMessageContent, Response, ResponseItemList, Status,
};
use axum::{body::Body, http::Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    batch_test::BatchTest,
    openai::answered,
    test_api::{Reply, TestApi, thread_of},
};

const RESPONSES: &str = "/v1/responses";

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
