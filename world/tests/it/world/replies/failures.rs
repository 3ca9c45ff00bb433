//! Errors in other forms than OpenAI's: in a reply, in a stream, and as the reason of its end.

use serde_json::{Value, json};
use shared::{BlockedBy, FaultKind, Oversize};

use super::{events, fault, json_body, reply, stream};
use crate::world::{
    again,
    endpoint::{Answer, KEY, words},
    named,
};

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
    assert!(named(retry_after_ms, 7_000), "{retry_after_ms:?}");
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

#[tokio::test]
async fn the_endpoints_own_word_for_a_failure_is_told() {
    for reason in ["error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL"] {
        let fault = fault(stream([words("It is")], reason)).await;
        assert!(fault.error.contains(&format!("broke off the reply: {reason:?}")), "{fault:?}");
        again(&fault);
    }
    for reason in ["SAFETY", "content_filter", "RECITATION"] {
        assert!(fault(stream([words("It is")], reason)).await.error.contains("content filter"));
    }
}

/// The text that comes with an unknown reason may be that of an error, and is no answer.
#[tokio::test]
async fn an_unknown_reason_is_a_failure() {
    for reason in ["error_finish", "upstream_failed", "OTHER", "pause_turn", "finish_reason_unspecified"] {
        let fault = fault(stream([words("It is")], reason)).await;
        assert!(fault.error.contains(&format!("broke off the reply: {reason:?}")), "{fault:?}");
        again(&fault);
    }
    for reason in ["stop", "STOP", "eos_token", "end_turn", "COMPLETE", "stop_sequence", "tool_use"] {
        assert_eq!(reply(stream([words("It is")], reason)).await.content, "It is", "{reason}");
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
    assert_eq!(again(&fault), None);
}
