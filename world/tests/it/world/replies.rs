//! Replies in forms that OpenAI never sends: each was reported of some endpoint, and each must come out right or be
//! called by its name.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{BlockedBy, Fault, FaultKind, Message, Oversize, Reply, Request, Response, ToolCall, Usage};
use world::World;

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
async fn an_error_with_status_200_is_an_error() {
    let unavailable = FaultKind::Unavailable { retry_after_ms: None, sent: false, by: BlockedBy::Provider };
    let cases = [
        (
            json!({ "error": { "code": 429, "message": "slow down" } }),
            "rate limited (http status 429): slow down",
            unavailable,
        ),
        (
            json!({ "error": { "code": "rate_limit_exceeded", "message": "wait" } }),
            "(http status 429): wait",
            unavailable,
        ),
        (
            json!({ "error": "upstream gone" }),
            "(http status 500): upstream gone",
            FaultKind::Transient { retry_after_ms: None },
        ),
        (
            json!({ "object": "error", "message": "bad model", "code": 400 }),
            "(http status 400): bad model",
            FaultKind::Oversized(Oversize::Unknown),
        ),
        (
            json!([{ "error": { "code": 503, "status": "UNAVAILABLE", "message": "overloaded" } }]),
            "(http status 503): overloaded",
            unavailable,
        ),
    ];
    for (body, words, kind) in cases {
        let streamed = events(format!("event: error\ndata: {body}\n\ndata: [DONE]\n\n"));
        for answer in [json_body(&body), streamed] {
            let fault = fault(answer).await;
            assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
            assert_eq!(fault.kind, kind, "{fault:?}");
        }
    }
    let slow = json!({ "error": { "code": 429, "message": "slow" } }).to_string();
    let headers = &[("content-type", "application/json"), ("retry-after", "7")];
    let FaultKind::Unavailable { retry_after_ms, .. } = fault(Answer::Status(200, headers, slow)).await.kind
    else {
        panic!("it is waited for")
    };
    assert!(super::named(retry_after_ms, 7_000), "{retry_after_ms:?}");
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
async fn arguments_as_an_object_are_arguments() {
    let one = json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": { "at": 9 } } });
    let reply = reply(stream([call(one)], "tool_calls")).await;
    assert_eq!(calls(&reply), [("look", &json!({ "at": 9 }))]);
}

#[tokio::test]
async fn integers_beyond_64_bits_are_kept_and_refused_by_name() {
    let text = r#"{"id": 123456789012345678901234}"#;
    let as_text = json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": text } });
    let as_object = format!(
        r#"data: {{"choices": [{{"delta": {{"tool_calls": [{{"id": "a", "function": {{"name": "look", "arguments": {text}}}}}]}}, "finish_reason": "tool_calls"}}]}}"#
    );
    for answer in [stream([call(as_text)], "tool_calls"), events(as_object + "\n\n")] {
        let reply = reply(answer).await;
        assert_eq!(calls(&reply), [("look", &json!(text))], "every digit is in the log");
        let mut stage = Stage::hearing([Message::user("Hello")]);
        stage.tool_servers.insert("cal".to_owned(), vec![tool("look")]);
        let call = Request::CallTool { server: "cal".to_owned(), call: reply.tool_calls[0].clone() };
        let world = super::live([], super::nobody());
        let Ok((Response::Output(output), _)) = perform(&world, &stage, &due(call)).await.0 else { panic!() };
        let text = output.model_text();
        assert_eq!(
            text,
            "error: not carried out, the arguments of look cannot be kept as they are: id: the number 123456789012345678901234 cannot be kept \
             exactly; hint: send it as a string"
        );
    }
}

/// A value that the log cannot keep costs the call, and the refusal names the value.
#[tokio::test]
async fn arguments_that_cannot_be_kept_are_refused_by_name() {
    let deep = format!(r#"{{"plan": {}1{}}}"#, "[".repeat(70), "]".repeat(70));
    for (text, why) in [
        (
            r#"{"ratio": 0.12345678901234567890}"#,
            "ratio: the number 0.12345678901234567890 cannot be kept exactly",
        ),
        (r#"{"name": "so \ud83d"}"#, "name: \\ud83d is half a character"),
        (deep.as_str(), "lists and objects are nested deeper than 64 levels"),
    ] {
        let as_text = json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": text } });
        let reply = reply(stream([call(as_text)], "tool_calls")).await;
        assert_eq!(calls(&reply), [("look", &json!(text))], "it is in the log as it was sent");
        let call = Request::CallTool { server: "cal".to_owned(), call: reply.tool_calls[0].clone() };
        let world = super::live([], super::nobody());
        let Ok((Response::Output(output), _)) = perform(&world, &Stage::default(), &due(call)).await.0 else {
            panic!()
        };
        assert!(output.model_text().contains(why), "{}", output.model_text());
    }
}

#[tokio::test]
async fn parallel_calls_without_distinct_numbers_or_ids_stay_apart() {
    let whole = |index: Value, id: Value, name: &str, at: u64| {
        let function = json!({ "name": name, "arguments": json!({ "at": at }).to_string() });
        json!({ "index": index, "id": id, "type": "function", "function": function })
    };
    let forms: [fn() -> (Value, Value); 4] = [
        || (json!(0), json!("")),
        || (json!(0), json!("same")),
        || (Value::Null, Value::Null),
        || (json!(0), Value::Null),
    ];
    for form in forms {
        let (index, id) = form();
        let three = [
            whole(index.clone(), id.clone(), "look", 1),
            whole(index.clone(), id.clone(), "look", 2),
            whole(index, id, "book", 3),
        ];
        let apart = stream(three.clone().map(call), "tool_calls");
        let together = stream([piece(json!({ "tool_calls": three }))], "tool_calls");
        let message = json!({ "content": null, "tool_calls": three });
        let at_once =
            json_body(&json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] }));
        for answer in [apart, together, at_once] {
            let reply = reply(answer).await;
            let (one, two, three) = (json!({ "at": 1 }), json!({ "at": 2 }), json!({ "at": 3 }));
            assert_eq!(calls(&reply), [("look", &one), ("look", &two), ("book", &three)]);
            let ids: std::collections::BTreeSet<_> = reply.tool_calls.iter().map(|call| &call.id).collect();
            assert_eq!(ids.len(), 3, "every call has an id of its own: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_sent_in_an_odd_way_is_one_call() {
    let begin = |arguments: &str| {
        call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": arguments } }))
    };
    let more = |arguments: &str| call(json!({ "index": 0, "function": { "arguments": arguments } }));
    let again = |arguments: &str| {
        call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": arguments } }))
    };
    let legacy = |delta: Value| piece(json!({ "function_call": delta }));
    let named = |id: &str, name: &str, arguments: &str| {
        call(json!({ "index": 0, "id": id, "function": { "name": name, "arguments": arguments } }))
    };
    let both = |arguments: &str| {
        let new = json!([{ "index": 0, "function": { "arguments": arguments } }]);
        piece(json!({ "tool_calls": new, "function_call": { "name": "look", "arguments": arguments } }))
    };
    let at = "{\"at\": 9}";
    for pieces in [
        vec![begin("{}"), more(at)],
        vec![begin("{}"), more("{\"at\""), more(": 9}")],
        vec![begin("{}"), again(at)],
        vec![begin(at), again(at)],
        vec![begin("\"{\\\"at\\\": 9}\"")],
        vec![begin(""), more(at), more(at)],
        vec![begin(""), again("{\"at\""), again(": 9}")],
        vec![legacy(json!({ "name": "look", "arguments": "" })), legacy(json!({ "arguments": at }))],
        // Both forms of one call, as the server of llama-cpp-python sends them.
        vec![begin(""), both("{\"at\""), both(": 9}")],
        vec![legacy(json!({ "name": "look", "arguments": at })), begin(at)],
        // The name in pieces.
        vec![named("a", "lo", ""), named("", "ok", ""), more(at)],
        vec![named("a", "l", ""), named("a", "o", ""), named("a", "ok", at)],
        // An id in every piece.
        vec![named("a", "look", ""), named("b", "", "{\"at\""), named("c", "", ": 9}")],
        vec![named("a", "look", "{\"at\""), named("b", "look", ": 9}")],
        // A line break in a string, as it is.
        vec![begin("{\n\"at\": 9\n}")],
    ] {
        let reply = reply(stream(pieces, "tool_calls")).await;
        assert_eq!(calls(&reply), [("look", &json!({ "at": 9 }))]);
    }
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

#[tokio::test]
async fn the_endpoints_own_word_for_a_failure_is_told() {
    for reason in ["error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL"] {
        let fault = fault(stream([words("It is")], reason)).await;
        assert!(fault.error.contains(&format!("broke off the reply: {reason:?}")), "{fault:?}");
        super::again(&fault);
    }
    for reason in ["SAFETY", "content_filter", "RECITATION"] {
        assert!(fault(stream([words("It is")], reason)).await.error.contains("content filter"));
    }
}

#[tokio::test]
async fn the_endpoints_own_words_are_in_every_error() {
    let body = |value: Value| value.to_string();
    let nested = json!({ "error": { "code": 400, "message": "turn order", "status": "INVALID_ARGUMENT" } });
    let cases: Vec<(u16, String, &str)> = vec![
        (
            422,
            body(
                json!({ "detail": [{ "type": "extra_forbidden", "loc": ["body", "seed"], "msg": "not permitted" }] }),
            ),
            "(http status 422): body.seed: not permitted",
        ),
        (
            422,
            body(
                json!({ "object": "error", "message": { "detail": [{ "loc": ["body", 3], "msg": "no" }] } }),
            ),
            "(http status 422): body.3: no",
        ),
        (
            400,
            body(json!({ "error": { "message": nested.to_string(), "code": 400 } })),
            "(http status 400): turn order",
        ),
        (
            400,
            body(
                json!({ "error": { "message": "Provider returned error", "metadata": { "raw": nested.to_string() } } }),
            ),
            "Provider returned error: turn order",
        ),
        (
            400,
            body(json!({ "reason": "odd", "where": [1] })),
            "(http status 400): {\"reason\":\"odd\",\"where\":[1]}",
        ),
        (400, body(json!({ "errors": "many" })), "{\"errors\":\"many\"}"),
        (
            502,
            "<html><body><h1>Bad</h1> <p>gateway</p></body></html>".to_owned(),
            "(http status 502): Bad gateway",
        ),
        (
            401,
            body(json!({ "error": { "message": format!("Incorrect key: {KEY}, or sk-ab****wxyz.") } })),
            "(http status 401): Incorrect key: [key], or [key]; hint",
        ),
        (400, "x".repeat(100_000), "xxxxx"),
    ];
    for (status, text, words) in cases {
        let fault = fault(Answer::Status(status, &[], text)).await;
        assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
        assert!(
            fault.error.len() < 1_000 && !fault.error.contains(KEY) && !fault.error.contains("wxyz"),
            "{fault:?}"
        );
    }
}

/// A reply that the endpoint itself finds faulty is the model's, and the model may do better.
#[tokio::test]
async fn a_reply_that_the_endpoint_refuses_is_asked_for_again() {
    let error = json!({ "error": { "message": "Failed to call a function.", "code": "tool_use_failed" } });
    let fault = fault(Answer::Status(400, &[], error.to_string())).await;
    assert!(fault.error.contains("refused the reply of its model: Failed to call"), "{fault:?}");
    assert_eq!(super::again(&fault), None);
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

/// The usage that was reported before a reply broke off or failed is billed, and is in the log.
#[tokio::test]
async fn a_reply_that_breaks_off_keeps_the_usage_that_was_reported() {
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 2050 });
    let counted = || json!({ "choices": [], "usage": usage });
    let failed = json!({ "error": { "code": 429, "message": "slow down" }, "usage": usage });
    for answer in [
        Answer::Broken(vec![words("Good"), counted()]),
        Answer::Ended(vec![words("Good"), counted()]),
        Answer::Stream(vec![counted(), json!({ "error": { "code": 500, "message": "gone" } })]),
        Answer::Stream(vec![failed]),
        Answer::Bytes(
            "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 1000, \"total_tokens\": 2050}}\n\ndata: {broken\n\n",
        ),
    ] {
        let fault = fault(answer).await;
        let usage = fault.usage.clone().expect("it is billed");
        assert_eq!((usage.input_tokens, usage.output_tokens), (1000, 1050), "{fault:?}");
        assert!(!matches!(fault.kind, FaultKind::Unavailable { .. }), "it is an attempt: {fault:?}");
    }
}

/// A form that the endpoint refused after it reported usage is paid for, and so is the next.
#[tokio::test]
async fn the_usage_of_a_refused_form_counts_with_that_of_the_next() {
    let refused = json!({ "error": { "code": 400, "message": "stream_options is not supported" },
        "usage": { "prompt_tokens": 5, "completion_tokens": 1 } });
    let endpoint =
        Endpoint::lenient([Answer::Stream(vec![refused]), stream([words("Good day")], "stop")]).await;
    let stage = Stage::hearing([Message::user("Hello")]);
    let (outcome, _) = perform(&endpoint.world(), &stage, &due(chat("local/gpt", 0..1))).await;
    let Ok((Response::Reply(_), Some(usage))) = outcome else { panic!("{outcome:?}") };
    assert_eq!((usage.input_tokens, usage.output_tokens), (5 + 11, 1 + 7));
}

#[tokio::test]
async fn a_whole_reply_that_has_a_call_in_both_forms_has_one_call() {
    let function = json!({ "name": "book", "arguments": "{\"at\": 9}" });
    let message = json!({
        "content": null,
        "tool_calls": [{ "id": "call__0_book", "type": "function", "function": function }],
        "function_call": function,
    });
    let body = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
    let reply = reply(json_body(&body)).await;
    assert_eq!(calls(&reply), [("book", &json!({ "at": 9 }))]);
}

#[tokio::test]
async fn names_in_pieces_and_calls_without_arguments_stay_apart() {
    let one = |index: u64, id: &str, name: &str| {
        call(json!({ "index": index, "id": id, "function": { "name": name, "arguments": "" } }))
    };
    let none = json!({});
    for pieces in [
        vec![one(0, "a", "look"), one(0, "b", "book")],
        vec![one(0, "", "look"), one(0, "", "book")],
        vec![one(0, "a", "look"), one(1, "b", "book")],
        vec![one(0, "a", "lo"), one(0, "", "ok"), one(1, "b", "bo"), one(1, "", "ok")],
    ] {
        let reply = reply(stream(pieces, "tool_calls")).await;
        assert_eq!(calls(&reply), [("look", &none), ("book", &none)]);
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

/// The text that comes with an unknown reason may be that of an error, and is no answer.
#[tokio::test]
async fn an_unknown_reason_is_a_failure() {
    for reason in ["error_finish", "upstream_failed", "OTHER", "pause_turn", "finish_reason_unspecified"] {
        let fault = fault(stream([words("It is")], reason)).await;
        assert!(fault.error.contains(&format!("broke off the reply: {reason:?}")), "{fault:?}");
        super::again(&fault);
    }
    for reason in ["stop", "STOP", "eos_token", "end_turn", "COMPLETE", "stop_sequence", "tool_use"] {
        assert_eq!(reply(stream([words("It is")], reason)).await.content, "It is", "{reason}");
    }
}

#[tokio::test]
async fn an_error_anywhere_in_a_stream_is_a_failure() {
    let inside = |value: Value| format!("data: {}\n\ndata: {value}\n\ndata: [DONE]\n\n", words("It is"));
    let named = |data: &str| format!("data: {}\n\nevent: error\ndata: {data}\n\n", words("It is"));
    let error = json!({ "code": 502, "message": "upstream gone" });
    for text in [
        inside(json!({ "error": error })),
        inside(json!({ "choices": [{ "delta": {}, "finish_reason": "error", "error": error }] })),
        inside(json!({ "choices": [{ "delta": { "error": error }, "finish_reason": "stop" }] })),
        named("{\"message\": \"upstream gone\"}"),
        named("{\"type\": \"error\", \"error\": {\"message\": \"upstream gone\"}}"),
        named("upstream gone"),
        named("\"upstream gone\""),
    ] {
        let fault = fault(events(text.clone())).await;
        assert!(fault.error.contains("upstream gone"), "{fault:?} of {text}");
    }
}

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
