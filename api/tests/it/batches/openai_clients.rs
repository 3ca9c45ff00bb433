//! Batches as OpenAI's clients create them: from files that are deleted meanwhile, with chat completions, and repeated.

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};

use crate::batch_test::{BatchTest, echo_lines, form, line};

/// Number of times a file is deleted and a batch created from it concurrently.
const ROUNDS: usize = 30;

const KEYED: [(&str, &str); 1] = [("Idempotency-Key", "once")];

fn delete(file: &str) -> Request<Body> {
    Request::delete(format!("/v1/files/{file}")).body(Body::empty()).unwrap()
}

fn batch_from(file: &str) -> Value {
    json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn either_the_file_is_deleted_or_its_batch_is_created() {
    let test = BatchTest::idle(|_| ()).await;
    for round in 0..ROUNDS {
        let file = test.upload(line("a", "echo a")).await;
        let (deleted, batch) =
            tokio::join!(test.api.send(delete(&file)), test.api.post("/v1/batches", batch_from(&file)));
        match deleted.status.as_u16() {
            200 => drop(batch.openai_error(404, "unknown_file")),
            _ => {
                deleted.openai_error(409, "file_in_use");
                assert_eq!(batch.status, 200, "{batch:?}");
                assert_eq!(test.api.get(&format!("/v1/files/{file}")).await.status, 200, "round {round}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_creation_returns_the_batch_even_without_its_file() {
    let mut test = BatchTest::idle(|_| ()).await;
    test.start_coordinator();
    let mut upload = form("batch", b"no line\n");
    upload.headers_mut().insert("X-Turnfold-Tenant", "acme".parse().unwrap());
    let file = test.api.send(upload).await.json()["id"].as_str().unwrap().to_owned();
    let ask = async |headers: &[(&str, &str)], body: &Value| {
        test.api.post_with("/v1/batches", headers, body.clone()).await
    };
    // An operator's batch with a tenant's file belongs to that tenant.
    let body = batch_from(&file);
    let batch = ask(&KEYED, &body).await.json()["id"].clone();
    test.wait_for_status(batch.as_str().unwrap(), "failed").await;
    assert_eq!(test.api.send(delete(&file)).await.status, 200);

    let acme = [KEYED[0], ("X-Turnfold-Tenant", "acme")];
    for headers in [&KEYED[..], &acme] {
        let again = ask(headers, &body).await;
        assert_eq!((again.status.as_u16(), &again.json()["id"]), (200, &batch), "{again:?}");
        assert_eq!(again.headers["idempotency-replayed"], "true");
    }
    let mut other = body.clone();
    other["completion_window"] = json!("1h");
    ask(&KEYED, &other).await.openai_error(409, "key_reused");
    let bell = [KEYED[0], ("X-Turnfold-Tenant", "bell")];
    for headers in [&[][..], &[("Idempotency-Key", "twice")], &bell] {
        ask(headers, &body).await.openai_error(404, "unknown_file");
    }
    let quote = test.api.post_with("/v1/batches?quote=true", &KEYED, body).await;
    quote.openai_error(404, "unknown_file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_stream_is_invalid_and_does_not_stop_the_others() {
    let test = BatchTest::new().await;
    let url = "/v1/chat/completions";
    let line = |nth: usize, fields: Value| {
        let mut body =
            json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hi"}]});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let line = json!({"custom_id": format!("c-{nth}"), "method": "POST", "url": url, "body": body});
        format!("{line}\n")
    };
    let streams = [json!({"stream": false}), json!({"stream": true}), json!({"stream": null}), json!({})];
    let lines: String = (1..).zip(streams).map(|(nth, fields)| line(nth, fields)).collect();
    let file = test.upload(lines).await;
    let batch = test.batch(&file, json!({"endpoint": url})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    assert_eq!(ended["request_counts"], json!({"total": 4, "completed": 3, "failed": 1}));
    let reported = &ended["errors"]["data"][0];
    let wanted = json!({
        "code": "invalid_body", "line": 2, "param": "body",
        "message": "body: stream: a batch does not stream; remove `stream`",
    });
    assert_eq!(reported, &wanted);
}

/// An error has the number of the line in its file, and names the field of the body.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_line_is_reported_with_its_field() {
    let test = BatchTest::new().await;
    let line_with = |body: Value| {
        let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": body});
        format!("{line}\n")
    };
    for (line, message) in [
        ("nothing\n".to_owned(), "the line is not JSON: expected ident at line 1 column 2"),
        (
            "{\"custom_id\": \"a\",\n".to_owned(),
            "the line is not JSON: EOF while parsing a value at line 1 column 18",
        ),
        (
            line_with(json!({"strategy": "probe", "input": "echo", "budget": {"turn": {"tokens": -1}}})),
            "body: budget.turn.tokens: invalid value: integer `-1`, expected u64",
        ),
        (line_with(json!({"strategy": "probe", "input": 3})), "body: input: "),
    ] {
        let batch = test.batch(&test.upload(&line).await, json!({})).await;
        let ended = test.wait_for_status(&batch, "failed").await;
        let reported = ended["errors"]["data"].as_array().unwrap().last().unwrap();
        assert!(reported["message"].as_str().unwrap().starts_with(message), "{message}: {reported}");
    }
}

/// Turns of a batch do not count against the limit, and single turns still do.
#[tokio::test(flavor = "multi_thread")]
async fn single_turns_are_not_rejected_because_of_a_batch() {
    let of_tenant = |tenant: &str, count| {
        (tenant.to_owned(), api::TenantRule { max_waiting_turns: Some(count), ..api::TenantRule::default() })
    };
    let mut test = BatchTest::idle(|config| {
        config.waiting_max = 4;
        config.tenant_rules.named = [of_tenant("acme", 2)].into();
    })
    .await;
    test.start_coordinator();
    for tenant in ["default", "acme"] {
        let mut upload = form("batch", echo_lines(20).as_bytes());
        upload.headers_mut().insert("X-Turnfold-Tenant", tenant.parse().unwrap());
        let file = test.api.send(upload).await.json()["id"].as_str().unwrap().to_owned();
        let batch = test.batch(&file, json!({})).await;
        test.wait_until(&batch, |batch| {
            batch["turnfold"]["queued"] == 20 && batch["status"] == "in_progress"
        })
        .await;
    }
    let queued = async || -> u64 {
        let queued = test.api.get("/v1/queue").await.json();
        queued["groups"].as_array().unwrap().iter().map(|group| group["turns"].as_u64().unwrap()).sum()
    };
    // No worker is running. The batch does not report whether the last lines were submitted.
    while queued().await < 40 {
        tokio::task::yield_now().await;
    }
    let send = async |tenant: &str| {
        let headers = [("X-Turnfold-Tenant", tenant), (header::ACCEPT.as_str(), "application/json")];
        let turn = json!({"strategy": "probe", "input": "echo"});
        test.api.post_with("/v1/turns", &headers, turn).await
    };
    for tenant in ["acme", "acme", "default", "default"] {
        assert_eq!(send(tenant).await.status, 202);
    }
    assert!(send("acme").await.problem(429, "too-many-wait").contains("already 4 queued turns"));
}
