//! Requests that an endpoint refuses or does not answer, and models without an endpoint.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{BlockedBy, FaultKind, Oversize};

use super::{hello, loose, shaped};
use crate::world::{
    again, chat, due,
    endpoint::{Answer, Endpoint, KEY, provider},
    fault, live, named, nobody, perform,
};

/// An error response, whether it may be retried and after which delay, and the expected message.
type Case = (Answer, Result<Option<u64>, ()>, &'static str);

#[tokio::test]
async fn refusals_keep_their_status_and_say_what_to_do() {
    let html = |title: &str| format!("<html><head><title>{title}</title></head></html>");
    let json = |error: Value| json!({ "error": error }).to_string();
    let echo =
        json(json!({ "message": format!("Incorrect API key provided: {KEY}"), "code": "invalid_api_key" }));
    let operator = Err(());
    let cases: Vec<Case> = vec![
        (
            Answer::Status(401, &[], echo.clone()),
            operator,
            "provider local rejected the key (http status 401): Incorrect API key provided: [key]; hint: fix providers.local.api_key",
        ),
        (
            Answer::Status(403, &[("content-type", "text/html")], html("Forbidden by the proxy")),
            operator,
            "(http status 403): Forbidden by the proxy; hint: fix providers.local.api_key",
        ),
        (Answer::Status(403, &[], echo), operator, "Incorrect API key provided: [key]"),
        (
            Answer::Status(400, &[], json(json!({ "message": "too long", "code": 400 }))),
            operator,
            "rejected the request (http status 400): too long",
        ),
        (
            Answer::Status(404, &[], json(json!("no such model"))),
            operator,
            "(http status 404): no such model",
        ),
        (
            Answer::Status(422, &[], json!({ "detail": "bad field" }).to_string()),
            operator,
            "(http status 422): bad field",
        ),
        (
            Answer::Status(429, &[("retry-after", "7")], json(json!({ "message": "slow down" }))),
            Ok(Some(7_000)),
            "is rate limited (http status 429): slow down",
        ),
        (
            Answer::Status(429, &[("retry-after", "86400")], String::new()),
            Ok(Some(600_000)),
            "(http status 429)",
        ),
        (
            Answer::Status(429, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], String::new()),
            Ok(Some(600_000)),
            "(http status 429)",
        ),
        (Answer::Status(429, &[("retry-after", "later")], html("Slow")), Ok(None), "(http status 429): Slow"),
        (
            Answer::Status(429, &[], json(json!({ "message": "no money", "code": "insufficient_quota" }))),
            operator,
            "quota of provider local is used up (http status 429): no money",
        ),
        (Answer::Status(408, &[], String::new()), Ok(None), "failed (http status 408)"),
        (
            Answer::Status(500, &[], json(json!({ "message": "oops", "code": 500 }))),
            Ok(None),
            "failed (http status 500): oops",
        ),
        (
            Answer::Status(503, &[("retry-after", "1.5")], html("Busy")),
            Ok(Some(1_500)),
            "takes no request (http status 503): Busy",
        ),
        (
            Answer::Status(529, &[("retry-after", "2")], html("Busy")),
            Ok(Some(2_000)),
            "takes no request (http status 529): Busy",
        ),
        (
            Answer::Status(500, &[("retry-after", "60")], html("Later")),
            Ok(Some(60_000)),
            "asks to wait (http status 500): Later",
        ),
        (
            Answer::Status(403, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], html("Secondary limit")),
            Ok(Some(600_000)),
            "asks to wait (http status 403): Secondary limit",
        ),
        (
            Answer::Status(420, &[("retry-after", "5")], html("Calm down")),
            Ok(Some(5_000)),
            "asks to wait (http status 420): Calm down",
        ),
        (
            Answer::Status(302, &[("location", "/elsewhere")], String::new()),
            operator,
            "redirects (http status 302)",
        ),
        (
            Answer::Status(200, &[("content-type", "text/html")], html("Welcome")),
            operator,
            "did not respond with a stream: Welcome; hint: check providers.local.base_url",
        ),
    ];
    for (answer, remedy, words) in cases {
        let endpoint = Endpoint::serve([answer]).await;
        let fault = fault(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
        assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
        assert!(!fault.error.contains(KEY), "the key is in {fault:?}");
        match remedy {
            Ok(None) => assert_eq!(again(&fault), None, "{fault:?}"),
            Ok(Some(delay)) => assert!(named(again(&fault), delay), "{fault:?}"),
            // A request that was refused as invalid may be too large.
            Err(()) => assert!(
                matches!(fault.kind, FaultKind::Permanent | FaultKind::Oversized(Oversize::Unknown)),
                "{fault:?}"
            ),
        }
        assert_eq!(
            endpoint.received().len(),
            1,
            "a retry is an event, and not the client's to decide: {fault:?}"
        );
    }
}

fn unavailable() -> FaultKind {
    FaultKind::Unavailable { retry_after_ms: None, sent: false, by: BlockedBy::Provider }
}

/// No output mode makes a request shorter, so none is tried after this refusal.
#[tokio::test]
async fn a_request_that_is_too_long_is_refused_with_the_tokens_that_the_model_takes() {
    let openai =
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9021 tokens.";
    let body = |error: Value| json!({ "error": error }).to_string();
    let cases = [
        (400, body(json!({ "message": openai, "code": "context_length_exceeded" })), Some(8_192)),
        (413, body(json!({ "message": "Please reduce the length of the messages.", "code": 413 })), None),
        (
            400,
            body(json!({ "message": "too large", "type": "exceed_context_size_error", "n_ctx": 4096 })),
            Some(4_096),
        ),
        (422, "the prompt is too long: 9021 tokens > 8000 maximum".to_owned(), Some(8_000)),
    ];
    for (status, error, context_tokens) in cases {
        let endpoint = Endpoint::serve([Answer::Status(status, &[], error)]).await;
        let mut stage = hello();
        stage.schema = Some(loose());
        let fault = fault(perform(&endpoint.world(), &stage, &due(shaped())).await.0);
        assert_eq!(fault.kind, FaultKind::ContextExceeded { context_tokens }, "{fault:?}");
        assert!(fault.error.contains("refused the request as too long for the model"), "{fault:?}");
        assert_eq!(endpoint.received().len(), 1, "{fault:?}");
    }
    // Throttles, whatever their text; and signs without a window.
    for (status, message, kind) in [
        (429, openai, unavailable()),
        (429, "Too many tokens, please wait before trying again.", unavailable()),
        (503, "input is too long", unavailable()),
        (529, openai, unavailable()),
        (413, "Payload Too Large", FaultKind::Oversized(Oversize::Status)),
        (413, "", FaultKind::Oversized(Oversize::Status)),
        (500, openai, FaultKind::Oversized(Oversize::Status)),
        (400, "no", FaultKind::Oversized(Oversize::Unknown)),
        (422, "no", FaultKind::Oversized(Oversize::Unknown)),
        (
            400,
            "At most 5 image(s) may be provided",
            FaultKind::Oversized(Oversize::Attachments { max: Some(5) }),
        ),
        (404, openai, FaultKind::Permanent),
    ] {
        let endpoint =
            Endpoint::serve([Answer::Status(status, &[], body(json!({ "message": message })))]).await;
        let fault = fault(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
        assert_eq!(fault.kind, kind, "{status} {message}");
    }
    let error = json!({ "error": { "message": openai, "code": "context_length_exceeded" } });
    let endpoint = Endpoint::serve([Answer::Stream(vec![error])]).await;
    let fault = fault(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert_eq!(fault.kind, FaultKind::ContextExceeded { context_tokens: Some(8_192) }, "{fault:?}");
}

#[tokio::test]
async fn an_endpoint_that_is_silent_or_gone_is_asked_again() {
    let endpoint = Endpoint::serve([Answer::Silence]).await;
    let world = endpoint.world_that_waits(Duration::from_millis(200));
    let silent = fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert!(silent.error.contains("did not respond within 200ms"), "{silent:?}");
    let unanswered = FaultKind::Unavailable { retry_after_ms: None, sent: true, by: BlockedBy::Provider };
    assert_eq!(silent.kind, unanswered, "it may have worked on it: {silent:?}");

    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url = format!("http://user:hunter2-hunter2@127.0.0.1:{port}/v1");
    let world = live([("local", provider(&url, Duration::from_secs(5)))], nobody());
    let gone = fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert!(gone.error.contains("cannot reach provider"), "{gone:?}");
    assert!(!gone.error.contains("hunter2"), "{gone:?}");
    again(&gone);
    let world = live([("local", provider("no-address", Duration::from_secs(5)))], nobody());
    again(&fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0));
}

#[tokio::test]
async fn an_unknown_provider_is_the_operators_to_add() {
    let world = live([("local", provider("http://127.0.0.1:9/v1", Duration::from_secs(5)))], nobody());
    let unknown = fault(perform(&world, &hello(), &due(chat("remote/gpt", 0..1))).await.0);
    assert_eq!(
        unknown.error,
        "provider \"remote\" is unknown (known: local); hint: add [providers.remote] to turnfold.toml, then run: turnfold turn retry"
    );
    let nameless = fault(perform(&world, &hello(), &due(chat("gpt", 0..1))).await.0);
    assert!(nameless.error.contains("provider/model"), "{nameless:?}");
    assert_eq!((unknown.kind, nameless.kind), (FaultKind::Permanent, FaultKind::Permanent));
}
