//! Forms of requests that a model's refusals teach.

use serde_json::{Value, json};
use shared::{Message, ToolCall};
use world::World as _;

use super::stream;
use crate::world::{
    Stage, chat, due,
    endpoint::{Answer, Endpoint, words},
    perform,
};

/// The server of llama-cpp-python answers null content beside calls with 500. It gets an empty text from then on.
#[tokio::test]
async fn content_that_may_not_be_null_is_learned() {
    let refused = "7 validation errors: ('body', 'messages', 2, 'ChatCompletionRequestAssistantMessage', 'content') \
                   Input should be a valid string";
    let refused = Answer::Status(500, &[], json!({ "error": { "message": refused } }).to_string());
    let good = || stream([words("Good day")], "stop");
    let endpoint = Endpoint::serve([refused, good(), good()]).await;
    let made = ToolCall { id: "a".to_owned(), name: "look".to_owned(), arguments: json!({}) };
    let asked = Message { tool_calls: vec![made.clone()], ..Message::assistant("") };
    let stage = Stage::hearing([Message::user("Hello"), asked, Message::tool(&made, "sunny")]);
    let world = endpoint.world();
    for _ in 0..2 {
        let (outcome, _) = perform(&world, &stage, &due(chat("local/gpt", 0..3))).await;
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let sent = |(_, body): &(_, Value)| {
        body["messages"].as_array().unwrap().iter().map(|it| it["content"].clone()).nth(2)
    };
    let contents: Vec<Option<Value>> = endpoint.received().iter().map(sent).collect();
    assert_eq!(contents, [Some(Value::Null), Some(json!("")), Some(json!(""))]);
}

/// An operator who has a model forgotten gets the requests of a new worker.
#[tokio::test]
async fn a_forgotten_model_is_asked_in_the_first_form_again() {
    let refused = "Input should be a valid string: content must not be null";
    let refused = || Answer::Status(400, &[], json!({ "error": { "message": refused } }).to_string());
    let good = || stream([words("Good day")], "stop");
    let endpoint = Endpoint::serve([refused(), good(), good(), refused(), good()]).await;
    let made = ToolCall { id: "a".to_owned(), name: "look".to_owned(), arguments: json!({}) };
    let asked = Message { tool_calls: vec![made.clone()], ..Message::assistant("") };
    let stage = Stage::hearing([Message::user("Hello"), asked, Message::tool(&made, "sunny")]);
    let world = endpoint.world();
    for nth in 0..3 {
        if nth == 2 {
            world.forget_model("local/other");
            world.forget_model("local/gpt");
        }
        let (outcome, _) = perform(&world, &stage, &due(chat("local/gpt", 0..3))).await;
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let sent = |(_, body): &(_, Value)| body["messages"][2]["content"].is_null();
    let has_null: Vec<bool> = endpoint.received().iter().map(sent).collect();
    assert_eq!(has_null, [true, false, false, true, false]);
}
