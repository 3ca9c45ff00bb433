//! Reasoning of a model, apart from its text.

use serde_json::{Value, json};
use shared::{Message, Request, Response};

use super::{reply, stream};
use crate::world::{
    Stage, chat, due,
    endpoint::{Endpoint, piece, words},
    perform,
};

#[tokio::test]
async fn reasoning_is_in_the_log_and_in_no_words() {
    let split: Vec<Value> = "<think>{\"a\": 1} or </thinking?\n</think>\n\nGood day"
        .split_inclusive(['<', '>', ' '])
        .map(words)
        .collect();
    let thoughts = "{\"a\": 1} or </thinking?";
    let both = json!({ "reasoning": "one way", "reasoning_content": "one way" });
    for (answer, thoughts) in [
        (stream(split, "stop"), thoughts),
        (stream([piece(both), words("Good day")], "stop"), "one way"),
        (stream([piece(json!({ "reasoning_content": "deep" })), words("Good day")], "stop"), "deep"),
        (
            stream(
                [words("<think>a</think>"), piece(json!({ "reasoning": "b" })), words("Good day")],
                "stop",
            ),
            "ba",
        ),
    ] {
        let reply = reply(answer).await;
        assert_eq!((reply.content.as_str(), reply.reasoning.as_str()), ("Good day", thoughts));
    }
    let plain = reply(stream([words("The mark <think> is removed.")], "stop")).await;
    assert_eq!((plain.content.as_str(), plain.reasoning.as_str()), ("The mark <think> is removed.", ""));
    let log = serde_json::to_value(&plain).unwrap();
    assert_eq!(log, json!({ "content": "The mark <think> is removed." }), "old logs have the same encoding");
}

/// The opening mark is part of the prompt of some models. The first such reply is streamed with its reasoning, because
/// nothing announces it; the next is not.
#[tokio::test]
async fn reasoning_without_an_opening_mark_is_known_after_the_first_reply() {
    let unopened = || stream([words("So it "), words("is.\n</think>\n"), words("\nGood day")], "stop");
    let endpoint = Endpoint::serve([unopened(), unopened(), stream([words("Hi")], "stop")]).await;
    let (world, stage) = (endpoint.world(), Stage::hearing([Message::user("Hello")]));
    let mut replies = Vec::new();
    for _ in 0..3 {
        let (outcome, streamed) = perform(&world, &stage, &due(chat("local/gpt", 0..1))).await;
        let Ok((Response::Reply(reply), _)) = outcome else { panic!("{outcome:?}") };
        replies.push((reply.content, streamed.concat()));
    }
    assert_eq!(replies[0].0, "Good day");
    assert_eq!(replies[1], ("Good day".to_owned(), "Good day".to_owned()));
    assert_eq!(replies[2], ("Hi".to_owned(), "Hi".to_owned()));
}

#[tokio::test]
async fn reasoning_before_json_is_not_the_json() {
    let mut stage = Stage::hearing([Message::user("Hello")]);
    stage.schema = Some(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { response_schema, .. } = &mut request {
        *response_schema = Some("Plan".to_owned());
    }
    let text = "<think>{\"n\": 1} is wrong, {\"n\": 2}?</think>```json\n{\"n\": 3}\n```";
    let endpoint = Endpoint::serve([stream([words(text)], "stop")]).await;
    let (outcome, streamed) = perform(&endpoint.world(), &stage, &due(request)).await;
    let Ok((Response::Reply(reply), _)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (reply.content.as_str(), reply.reasoning.as_str()),
        ("{\"n\": 3}", "{\"n\": 1} is wrong, {\"n\": 2}?")
    );
    assert!(!streamed.concat().contains("wrong"));
}
