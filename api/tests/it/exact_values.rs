//! Values that could not be kept as they were sent are refused by name, and all others come back the same.

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};

use crate::{
    batch_test::BatchTest,
    test_api::{Reply, TestApi},
};

async fn send(api: &TestApi, body: String) -> Reply {
    let request = Request::post("/v1/turns").header(header::CONTENT_TYPE, "application/json");
    api.send(request.body(Body::from(body)).unwrap()).await
}

/// The body of a turn with this metadata, as text: a number in a `Value` has already lost what matters.
fn body(metadata: &str) -> String {
    format!(r#"{{"strategy": "probe", "input": "echo hi", "metadata": {metadata}}}"#)
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[tokio::test]
async fn a_value_that_would_change_is_refused_by_name() {
    let api = TestApi::new().await;
    for (value, place, why) in [
        (
            "18446744073709551616".to_owned(),
            "metadata.a[1]",
            "the number 18446744073709551616 cannot be kept",
        ),
        ("-9223372036854775809".to_owned(), "metadata.a[1]", "cannot be kept exactly"),
        ("0.1234567890123456789".to_owned(), "metadata.a[1]", "cannot be kept exactly"),
        ("1e400".to_owned(), "metadata.a[1]", "cannot be kept exactly"),
        (r#""\ud83d""#.to_owned(), "metadata.a[1]", "half a character"),
        (nested(64), "metadata.a[1]", "nested deeper than 64 levels"),
    ] {
        let reply = send(&api, body(&format!(r#"{{"a": [0, {value}]}}"#))).await;
        let detail = reply.problem(422, "invalid");
        assert!(detail.starts_with(place) && detail.contains(why), "{value}: {detail}");
        assert!(!reply.json()["hint"].as_str().unwrap_or_default().is_empty(), "{value}: {}", reply.json());
    }
}

#[tokio::test]
async fn a_value_that_is_accepted_comes_back_the_same() {
    let api = TestApi::new().await;
    let odd = "\"nul \0 \u{1f980} \u{2028} \\u0000";
    let deep: Value = serde_json::from_str(&nested(60)).unwrap();
    let metadata = json!({
        "n": [u64::MAX, i64::MIN, 9_007_199_254_740_993_u64, 0.1, 1e300, 0.300_000_000_000_000_04],
        "odd": odd, "deep": deep
    });
    let turn = send(&api, body(&metadata.to_string())).await.json();
    let id = turn["id"].as_str().unwrap();
    assert_eq!(api.get(&format!("/v1/turns/{id}")).await.json()["metadata"], metadata);
}

#[tokio::test]
async fn a_batch_line_with_such_a_value_is_invalid_and_the_others_run() {
    let test = BatchTest::new().await;
    let line = |id: &str, metadata: &str| {
        format!(
            r#"{{"custom_id": "{id}", "method": "POST", "url": "/v1/turns", "body": {}}}"#,
            body(metadata)
        )
    };
    let lines = [
        line("good", "{}"),
        line("number", r#"{"a": 123456789012345678901234567890}"#),
        line("deep", &format!(r#"{{"a": {}}}"#, nested(70))),
        line(r"nul\u0000", "{}"),
    ]
    .join("\n");
    let batch = test.batch(&test.upload(lines).await, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    let (good, bad) = (test.file(&ended["output_file_id"]).await, test.file(&ended["error_file_id"]).await);
    assert_eq!(good.len(), 1, "{good:?}");
    assert_eq!(good[0]["custom_id"], "good");
    let codes: Vec<&str> = bad.iter().map(|line| line["error"]["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["invalid_body", "invalid_body", "invalid_custom_id"], "{bad:?}");
    for (line, why) in bad.iter().zip(["body.metadata.a: the number", "nested deeper than", "without NUL"]) {
        assert!(line["error"]["message"].as_str().unwrap().contains(why), "{line}");
    }
}

/// For Python's `splitlines`, and what is built on it, JSON may have three more ends of lines within a text.
#[tokio::test]
async fn lines_and_streams_have_no_other_end_of_a_line() {
    let test = BatchTest::new().await;
    let text = "echo a\u{85}b\u{2028}c\u{2029}d";
    let body = json!({"strategy": "probe", "input": text});
    let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": body});
    let batch = test.batch(&test.upload(line.to_string()).await, json!({})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    let file = ended["output_file_id"].as_str().unwrap();
    let messages = json!([{"role": "user", "content": text}]);
    let chat = json!({"model": "probe", "messages": messages, "stream": true});
    let response = json!({"model": "probe", "input": text, "stream": true});
    for reply in [
        test.api.get(&format!("/v1/batches/{batch}/results")).await,
        test.api.get(&format!("/v1/files/{file}/content")).await,
        test.api.post("/v1/chat/completions", chat).await,
        test.api.post("/v1/responses", response).await,
    ] {
        let text = reply.text();
        assert!(text.contains(r"a\u0085b\u2028c\u2029d"), "{text}");
        assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{text}");
    }
}
