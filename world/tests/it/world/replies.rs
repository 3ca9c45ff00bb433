//! Replies in forms that OpenAI never sends: each was reported of some endpoint, and each must come out right or be
//! called by its name.

mod failures;
mod learned;
mod reasoning;
mod tool_calls;
mod usage;

use std::time::Duration;

use serde_json::{Value, json};
use shared::{BlockedBy, Fault, FaultKind, Message, Reply, Request, Response, Usage};

use super::{
    Stage, chat, due,
    endpoint::{Answer, Endpoint, KEY, call, end, piece, words},
    perform, tool,
};

fn json_body(body: &Value) -> Answer {
    Answer::Status(200, &[("content-type", "application/json")], body.to_string())
}

fn events(text: impl Into<String>) -> Answer {
    Answer::Status(200, &[("content-type", "text/event-stream")], text.into())
}

fn stream(pieces: impl IntoIterator<Item = Value>, reason: &str) -> Answer {
    Answer::Stream(pieces.into_iter().chain(end(reason)).collect())
}

/// Returns the result of one answer to a request that offers the tools `look` and `book`, and what was streamed.
async fn replied(answer: Answer) -> (Result<(Reply, Usage), Fault>, String) {
    let mut stage = Stage::hearing([Message::user("Hello")]);
    stage.tool_servers.insert("cal".to_owned(), vec![tool("look"), tool("book")]);
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tool_servers, .. } = &mut request {
        tool_servers.push("cal".to_owned());
    }
    let endpoint = Endpoint::serve([answer]).await;
    let (outcome, streamed) = perform(&endpoint.world(), &stage, &due(request)).await;
    let result = outcome.map(|answer| match answer {
        (Response::Reply(reply), Some(usage)) => (reply, usage),
        other => panic!("a metered reply was expected: {other:?}"),
    });
    assert_eq!(endpoint.received().len(), 1);
    (result, streamed.concat())
}

async fn reply(answer: Answer) -> Reply {
    let (result, streamed) = replied(answer).await;
    let (reply, _) = result.unwrap();
    assert_eq!(streamed, reply.content, "what is streamed is what is said");
    reply
}

async fn fault(answer: Answer) -> Fault {
    replied(answer).await.0.unwrap_err()
}

fn calls(reply: &Reply) -> Vec<(&str, &Value)> {
    reply.tool_calls.iter().map(|call| (call.name.as_str(), &call.arguments)).collect()
}

#[tokio::test]
async fn json_in_place_of_a_stream_is_a_reply() {
    let message = json!({ "role": "assistant", "content": "Good day" });
    let body = json!({
        "model": "gpt-real",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 11, "completion_tokens": 7 },
    });
    let pretty = Answer::Status(200, &[("content-type", "text/event-stream")], format!("{body:#}\n"));
    for answer in [json_body(&body), pretty] {
        let (result, streamed) = replied(answer).await;
        let (reply, usage) = result.unwrap();
        assert_eq!((reply.content.as_str(), streamed.as_str()), ("Good day", "Good day"));
        assert_eq!((usage.input_tokens, usage.output_tokens), (11, 7));
    }
    let without_a_reason = json!({ "choices": [{ "message": message }] });
    assert_eq!(reply(json_body(&without_a_reason)).await.content, "Good day");
}

#[tokio::test]
async fn json_that_holds_no_reply_is_shown() {
    for body in [json!({ "message": "welcome" }), json!({ "status": "ok", "choices": null, "note": KEY })] {
        let fault = fault(json_body(&body)).await;
        let begins = "the response of provider local holds no reply: {\"";
        assert!(fault.error.starts_with(begins) || body["choices"].is_null(), "{fault:?}");
        assert!(!fault.error.contains(KEY), "{fault:?}");
    }
}

#[tokio::test]
async fn content_in_parts_is_text() {
    let parts = |parts: Value| piece(json!({ "content": parts }));
    let pieces = [
        parts(json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm " }] }])),
        parts(json!([{ "type": "text", "text": "Good " }, { "type": "text", "text": "day" }, "!"])),
    ];
    let reply = reply(stream(pieces, "stop")).await;
    assert_eq!((reply.content.as_str(), reply.reasoning.as_str()), ("Good day!", "hm"));
}

#[tokio::test]
async fn a_stream_that_only_ends_as_it_should_is_whole() {
    assert_eq!(reply(Answer::Stream(vec![words("Good day")])).await.content, "Good day");
    // An empty reason is none: this reply broke off.
    let empty = json!({ "choices": [{ "delta": { "content": "Good" }, "finish_reason": "" }] });
    let broken = fault(Answer::Ended(vec![empty.clone()])).await;
    assert!(broken.error.contains("was interrupted"), "{broken:?}");
    assert_eq!(reply(Answer::Stream(vec![empty])).await.content, "Good");
    // Half a call and nothing at all are no replies.
    let half = call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{\"at" } }));
    for pieces in [vec![half], vec![]] {
        assert!(fault(Answer::Stream(pieces)).await.error.contains("was interrupted"));
    }
}

#[tokio::test]
async fn a_character_split_over_two_chunks_is_one_character() {
    let half =
        |half: &str| format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"{half}\"}}}}]}}\n\n");
    let text = half("so \\ud83d") + &half("\\ude00 and \\ud83d\\ude00.") + "data: [DONE]\n\n";
    assert_eq!(reply(events(text)).await.content, "so 😀 and 😀.");
    let lone = half("so \\ud83d") + "data: [DONE]\n\n";
    assert_eq!(reply(events(lone)).await.content, "so \u{fffd}");
    let half = |half: &str| {
        format!(
            "data: {{\"choices\": [{{\"delta\": {{\"tool_calls\": [{{\"index\": 0, \"function\": {{\"name\": \"look\", \"arguments\": \"{half}\"}}}}]}}}}]}}\n\n"
        )
    };
    let text = half("{\\\"at\\\": \\\"\\ud83d") + &half("\\ude00\\\"}") + "data: [DONE]\n\n";
    let reply = reply(events(text)).await;
    assert_eq!(calls(&reply), [("look", &json!({ "at": "😀" }))]);
}

#[tokio::test]
async fn marks_comments_and_names_of_events_are_no_part_of_a_reply() {
    let chunk = words("Good day");
    let text = format!(
        "\u{feff}: OPENROUTER PROCESSING\r\n\r\nevent: completion\r\nid: 1\r\nretry: 10\r\ndata: {chunk}\r\n\r\nevent: ping\r\ndata: {{}}\r\n\r\n: keep-alive\r\n\r\ndata:[DONE]\r\n\r\n"
    );
    assert_eq!(reply(events(text)).await.content, "Good day");
}

#[tokio::test]
async fn a_reply_that_ends_at_the_limit_is_marked() {
    for reason in ["length", "max_tokens", "MAX_TOKENS", "model_length"] {
        let reply = reply(stream([words("It is half")], reason)).await;
        assert!(reply.cut_off && reply.content == "It is half", "{reason}: {reply:?}");
    }
    assert!(!reply(stream([words("It is.")], "stop")).await.cut_off);
    // Nothing but reasoning before the limit is no reply.
    let thinking = fault(stream([words("<think>for ever and")], "length")).await;
    assert!(thinking.error.starts_with("the reply was cut off at the length limit"), "{thinking:?}");
}

/// An endpoint that streams without end in one event, or in events without text.
#[tokio::test]
async fn endless_streams_are_bounded() {
    let in_doubt = FaultKind::InDoubt { retry_after_ms: None };
    let unanswered = FaultKind::Unavailable { retry_after_ms: None, sent: true, by: BlockedBy::Provider };
    let endless: [(&[u8], u64, &str, FaultKind); 3] = [
        (b"data: x", 120, "an event of the stream is longer than 8388608 bytes", in_doubt),
        (b"data: x\n", 120, "an event of the stream is longer than 8388608 bytes", in_doubt),
        (b": nothing\n\n", 1, "did not end within 1s", unanswered),
    ];
    for (bytes, seconds, words, kind) in endless {
        let base_url = super::endpoint::endless(bytes).await;
        let provider = super::endpoint::provider(&base_url, Duration::from_secs(seconds));
        let world = super::live([("local", provider)], super::nobody());
        let stage = Stage::hearing([Message::user("Hello")]);
        let fault = super::fault(perform(&world, &stage, &due(chat("local/gpt", 0..1))).await.0);
        assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
        assert_eq!(fault.kind, kind);
    }
}

#[tokio::test]
async fn an_empty_delta_beside_a_message_hides_no_reply_and_repeats_none() {
    let whole = |delta: Value| json!({ "choices": [{ "delta": delta, "message": { "role": "assistant", "content": "Good day" }, "finish_reason": "stop" }] });
    for pieces in [
        vec![whole(json!({}))],
        vec![whole(json!({ "role": "assistant", "content": "" }))],
        vec![whole(Value::Null)],
        vec![words("Good "), words("day"), whole(json!({}))],
        vec![words("Good "), whole(json!({ "content": "day" }))],
    ] {
        assert_eq!(reply(Answer::Stream(pieces)).await.content, "Good day");
    }
}
