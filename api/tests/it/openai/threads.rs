//! Conversations of chat completions: a new thread, an answered question, and a thread that goes on.

use serde_json::{Value, json};

use super::{chat, chat_with, error, say};
use crate::test_api::{TestApi, thread_of};

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
