//! Batches as OpenAI's clients create them: from files that are deleted meanwhile, with chat completions, and repeated.

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};

use crate::batch_run::{Hall, form, line, sayings};

/// Number of times a file is deleted and a batch created from it concurrently.
const ROUNDS: usize = 30;

const KEYED: [(&str, &str); 1] = [("Idempotency-Key", "once")];

fn delete(file: &str) -> Request<Body> {
    Request::delete(format!("/v1/files/{file}")).body(Body::empty()).unwrap()
}

fn batch_of(file: &str) -> Value {
    json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn either_the_file_is_deleted_or_its_batch_is_created() {
    let hall = Hall::idle(|_| ()).await;
    for round in 0..ROUNDS {
        let file = hall.upload(line("a", "echo a")).await;
        let (deleted, made) =
            tokio::join!(hall.room.send(delete(&file)), hall.room.post("/v1/batches", batch_of(&file)));
        match deleted.status.as_u16() {
            200 => drop(made.refused(404, "unknown_file")),
            _ => {
                deleted.refused(409, "file_in_use");
                assert_eq!(made.status, 200, "{made:?}");
                assert_eq!(hall.room.get(&format!("/v1/files/{file}")).await.status, 200, "round {round}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_creation_returns_the_batch_even_without_its_file() {
    let mut hall = Hall::idle(|_| ()).await;
    hall.start_coordinator();
    let mut upload = form("batch", b"no line\n");
    upload.headers_mut().insert("X-Turnfold-Tenant", "acme".parse().unwrap());
    let file = hall.room.send(upload).await.json()["id"].as_str().unwrap().to_owned();
    let ask = async |headers: &[(&str, &str)], body: &Value| {
        hall.room.post_with("/v1/batches", headers, body.clone()).await
    };
    // An operator's batch with a tenant's file belongs to that tenant.
    let body = batch_of(&file);
    let made = ask(&KEYED, &body).await.json()["id"].clone();
    hall.until_is(made.as_str().unwrap(), "failed").await;
    assert_eq!(hall.room.send(delete(&file)).await.status, 200);

    let acme = [KEYED[0], ("X-Turnfold-Tenant", "acme")];
    for headers in [&KEYED[..], &acme] {
        let again = ask(headers, &body).await;
        assert_eq!((again.status.as_u16(), &again.json()["id"]), (200, &made), "{again:?}");
        assert_eq!(again.headers["idempotency-replayed"], "true");
    }
    let mut other = body.clone();
    other["completion_window"] = json!("1h");
    ask(&KEYED, &other).await.refused(409, "key_reused");
    let bell = [KEYED[0], ("X-Turnfold-Tenant", "bell")];
    for headers in [&[][..], &[("Idempotency-Key", "twice")], &bell] {
        ask(headers, &body).await.refused(404, "unknown_file");
    }
    let quote = hall.room.post_with("/v1/batches?quote=true", &KEYED, body).await;
    quote.refused(404, "unknown_file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_stream_is_invalid_and_does_not_stop_the_others() {
    let hall = Hall::new().await;
    let url = "/v1/chat/completions";
    let line = |nth: usize, besides: Value| {
        let mut body =
            json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hi"}]});
        body.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
        let line = json!({"custom_id": format!("c-{nth}"), "method": "POST", "url": url, "body": body});
        format!("{line}\n")
    };
    let streams = [json!({"stream": false}), json!({"stream": true}), json!({"stream": null}), json!({})];
    let lines: String = (1..).zip(streams).map(|(nth, besides)| line(nth, besides)).collect();
    let file = hall.upload(lines).await;
    let batch = hall.batch(&file, json!({"endpoint": url})).await;
    let over = hall.until_is(&batch, "completed").await;
    assert_eq!(over["request_counts"], json!({"total": 4, "completed": 3, "failed": 1}));
    let told = &over["errors"]["data"][0];
    let wanted = json!({
        "code": "invalid_body", "line": 2, "param": "body",
        "message": "body: stream: a batch does not stream; remove `stream`",
    });
    assert_eq!(told, &wanted);
}

/// An error has the number of the line in its file, and names the field of the body.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_line_is_reported_with_its_field() {
    let hall = Hall::new().await;
    let of = |body: Value| {
        let line = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": body});
        format!("{line}\n")
    };
    for (line, words) in [
        ("nothing\n".to_owned(), "the line is not JSON: expected ident at line 1 column 2"),
        (
            "{\"custom_id\": \"a\",\n".to_owned(),
            "the line is not JSON: EOF while parsing a value at line 1 column 18",
        ),
        (
            of(json!({"strategy": "probe", "input": "echo", "budget": {"turn": {"tokens": -1}}})),
            "body: budget.turn.tokens: invalid value: integer `-1`, expected u64",
        ),
        (of(json!({"strategy": "probe", "input": 3})), "body: input: "),
    ] {
        let batch = hall.batch(&hall.upload(&line).await, json!({})).await;
        let over = hall.until_is(&batch, "failed").await;
        let told = over["errors"]["data"].as_array().unwrap().last().unwrap();
        assert!(told["message"].as_str().unwrap().starts_with(words), "{words}: {told}");
    }
}

/// Turns of a batch do not count against the limit, and single turns still do.
#[tokio::test(flavor = "multi_thread")]
async fn single_turns_are_not_rejected_because_of_a_batch() {
    let of_tenant = |tenant: &str, count| {
        (tenant.to_owned(), api::TenantRule { max_waiting_turns: Some(count), ..api::TenantRule::default() })
    };
    let mut hall = Hall::idle(|door| {
        door.waiting_max = 4;
        door.tenant_rules.named = [of_tenant("acme", 2)].into();
    })
    .await;
    hall.start_coordinator();
    for tenant in ["default", "acme"] {
        let mut upload = form("batch", sayings(20).as_bytes());
        upload.headers_mut().insert("X-Turnfold-Tenant", tenant.parse().unwrap());
        let file = hall.room.send(upload).await.json()["id"].as_str().unwrap().to_owned();
        let batch = hall.batch(&file, json!({})).await;
        hall.until(&batch, |it| it["turnfold"]["queued"] == 20 && it["status"] == "in_progress").await;
    }
    let queued = async || -> u64 {
        let queued = hall.room.get("/v1/queue").await.json();
        queued["groups"].as_array().unwrap().iter().map(|it| it["turns"].as_u64().unwrap()).sum()
    };
    // No worker is running. The batch does not report whether the last lines were submitted.
    while queued().await < 40 {
        tokio::task::yield_now().await;
    }
    let send = async |tenant: &str| {
        let headers = [("X-Turnfold-Tenant", tenant), (header::ACCEPT.as_str(), "application/json")];
        let turn = json!({"strategy": "probe", "input": "echo"});
        hall.room.post_with("/v1/turns", &headers, turn).await
    };
    for tenant in ["acme", "acme", "default", "default"] {
        assert_eq!(send(tenant).await.status, 202);
    }
    assert!(send("acme").await.problem(429, "too-many-wait").contains("already 4 queued turns"));
}
