//! Responses that continue others: with an answer, with more input, and in a fork.

use serde_json::{Value, json};

use super::{RESPONSES, ask, respond, text, turn_of, with};
use crate::{openai::answered, test_api::TestApi};

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
