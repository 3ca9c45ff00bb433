//! Files in OpenAI's API.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::{Body, Bytes},
    http::{Request, StatusCode, header},
};

use futures::{StreamExt as _, stream};

use crate::{
    batch_test::{BatchTest, form, form_with, line},
    test_api::key_ring,
};

#[tokio::test]
async fn a_downloaded_file_equals_the_upload() {
    let test = BatchTest::idle(|_| ()).await;
    let sent: Vec<u8> =
        (0..200_000_u32).flat_map(|number| [number.to_le_bytes()[0], b'\r', b'\n', b'-']).collect();
    let name = test.upload(&sent).await;
    let file = test.api.get(&format!("/v1/files/{name}")).await.json();
    assert_eq!(file["bytes"], sent.len());
    assert_eq!(
        (&file["object"], &file["purpose"], &file["status"]),
        (&"file".into(), &"batch".into(), &"processed".into())
    );
    assert_eq!(file["filename"], "lines.jsonl");
    assert!(file["created_at"].as_i64().unwrap() > 1_700_000_000, "{file}");
    let content = test.api.get(&format!("/v1/files/{name}/content")).await;
    assert!(content.body == sent);

    let second = test.upload("x").await;
    let page = test.api.get("/v1/files?limit=1").await.json();
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&second.as_str().into(), &true.into()));
    let page = test.api.get(&format!("/v1/files?limit=1&after={}", page["last_id"].as_str().unwrap())).await;
    assert_eq!(
        (&page.json()["data"][0]["id"], &page.json()["has_more"]),
        (&name.as_str().into(), &false.into())
    );

    let oldest = test.api.get("/v1/files?order=asc&limit=1").await.json();
    assert_eq!((&oldest["data"][0]["id"], &oldest["has_more"]), (&name.as_str().into(), &true.into()));
    let rest = test.api.get(&format!("/v1/files?order=asc&after={name}")).await.json();
    assert_eq!(rest["data"][0]["id"], second);
    test.api.get("/v1/files?order=up").await.openai_error(400, "malformed");

    let delete = || Request::delete(format!("/v1/files/{name}")).body(Body::empty()).unwrap();
    assert_eq!(test.api.send(delete()).await.json()["deleted"], true);
    let rest = test.api.get(&format!("/v1/files?limit=10000&after={name}")).await;
    assert_eq!(rest.json()["data"], serde_json::json!([]), "a page continues after a deleted row: {rest:?}");
    let first = Request::delete(format!("/v1/files/{second}")).body(Body::empty()).unwrap();
    let third = test.upload("y").await;
    assert_eq!(test.api.send(first).await.status, 200);
    let page = test.api.get(&format!("/v1/files?after={third}")).await;
    assert_eq!(page.json()["data"], serde_json::json!([]), "{page:?}");
    test.api.get("/v1/files?limit=10001").await.openai_error(400, "malformed");
    test.api.send(delete()).await.openai_error(404, "unknown_file");
    test.api.get(&format!("/v1/files/{name}/content")).await.openai_error(404, "unknown_file");
    for name in ["x", "file-", "file-zz", "batch_0"] {
        test.api.get(&format!("/v1/files/{name}")).await.openai_error(404, "unknown_file");
    }
}

#[tokio::test]
async fn an_invalid_upload_is_rejected_and_not_stored() {
    let test = BatchTest::idle(|config| config.bulk.file_max = 1 << 20).await;
    let message = test.api.send(form("assistants", b"x")).await.openai_error(400, "invalid");
    assert!(message.contains("purpose"), "{message}");
    let message =
        test.api.send(form("batch", &vec![b'x'; (1 << 20) + 1])).await.openai_error(413, "too_large");
    assert!(message.contains("1 MiB"), "{message}");
    let form = Request::post("/v1/files").header(header::CONTENT_TYPE, "multipart/form-data; boundary=x-x");
    let lacking = "--x-x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x-x--\r\n";
    let message = test.api.send(form.body(Body::from(lacking)).unwrap()).await.openai_error(400, "invalid");
    assert!(message.contains("file"), "{message}");
    let cut = Request::post("/v1/files")
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=x-x")
        .body(Body::from("--x-x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhalf a fi"))
        .unwrap();
    test.api.send(cut).await.openai_error(400, "malformed");
    let mut foreign = crate::batch_test::form("batch", b"x");
    foreign.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
    test.api.send(foreign).await.openai_error(401, "invalid_api_key");
    assert_eq!(test.api.get("/v1/files").await.json()["data"], serde_json::json!([]));
}

#[tokio::test]
async fn a_body_that_is_not_a_form_is_rejected_with_an_example() {
    let test = BatchTest::idle(|_| ()).await;
    for kind in ["application/json", "multipart/form-data"] {
        let request = Request::post("/v1/files").header(header::CONTENT_TYPE, kind).body(Body::from("{}"));
        let message = test.api.send(request.unwrap()).await.openai_error(415, "unsupported_media_type");
        assert!(message.contains("multipart/form-data") && message.contains("-F file=@"), "{message}");
    }
}

/// A body that starts with `begin` and continues for as long as it is read. Counts the bytes that were read.
fn endless(begin: &'static str, read: &Arc<AtomicUsize>) -> Request<Body> {
    let read = Arc::clone(read);
    let more = stream::iter(0..4096).map(|_| Bytes::from_static(&[b'a'; 64 << 10]));
    let body = stream::once(async { Bytes::from_static(begin.as_bytes()) }).chain(more).map(move |bytes| {
        read.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok::<_, std::io::Error>(bytes)
    });
    Request::post("/v1/files")
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=x-x")
        .body(Body::from_stream(body))
        .unwrap()
}

#[tokio::test]
async fn no_more_of_a_form_is_read_than_is_consumed() {
    let test = BatchTest::idle(|_| ()).await;
    let too_large = (413, "too_large", "256 KiB other than the file");
    for (begin, (status, code, detail)) in [
        ("", too_large),
        ("--x-x\r\nX: ", too_large),
        (
            "--x-x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n",
            (400, "invalid", "other: the form has no such field"),
        ),
        ("--x-x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nlines\r\n--x-x\r\nX: ", too_large),
    ] {
        let read = Arc::default();
        let message = test.api.send(endless(begin, &read)).await.openai_error(status, code);
        assert!(message.contains(detail), "{message}");
        let read = read.load(Ordering::Relaxed);
        assert!(read < 1 << 20, "{read} bytes were read of {begin:?}");
    }
    // A longer file arrives complete, whatever the size of its chunks.
    let sent: Vec<u8> = (0..20_000_000_u32).map(|number| b"line \r\n--x-"[(number % 11) as usize]).collect();
    assert!(content(&test, form("batch", &sent)).await == sent, "in one chunk");
    for size in [1_000_003, 70_001, 4_099] {
        let (head, body) = form("batch", &sent).into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let chunks: Vec<_> = body.chunks(size).map(|bytes| Ok::<_, std::io::Error>(bytes.to_vec())).collect();
        let request = Request::from_parts(head, Body::from_stream(stream::iter(chunks)));
        assert!(content(&test, request).await == sent, "in chunks of {size} bytes");
    }
}

/// Uploads a file and downloads its content.
async fn content(test: &BatchTest, upload: Request<Body>) -> Vec<u8> {
    let reply = test.api.send(upload).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    let name = reply.json()["id"].as_str().unwrap().to_owned();
    test.api.get(&format!("/v1/files/{name}/content")).await.body.to_vec()
}

#[tokio::test]
async fn a_file_is_kept_for_its_retention_period() {
    let test = BatchTest::idle(|_| ()).await;
    let form = |anchor: &[&'static str], seconds: &[&'static str]| {
        let mut fields = vec![("purpose", "batch")];
        fields.extend(anchor.iter().map(|anchor| ("expires_after[anchor]", *anchor)));
        fields.extend(seconds.iter().map(|seconds| ("expires_after[seconds]", *seconds)));
        form_with(&fields, b"x")
    };
    for seconds in ["3600", "2592000"] {
        let made = test.api.send(form(&["created_at"], &[seconds])).await.json();
        let kept = made["expires_at"].as_i64().zip(made["created_at"].as_i64()).map(|(to, from)| to - from);
        assert_eq!(kept, seconds.parse().ok(), "{made}");
        let path = format!("/v1/files/{}", made["id"].as_str().unwrap());
        assert_eq!(test.api.get(&path).await.json(), made);
    }
    let listed = test.api.get("/v1/files").await.json()["data"].clone();
    for (anchor, seconds, message) in [
        (&["created_at"][..], &["3599"][..], "expires_after[seconds]: 3599 is not between 3600 and 2592000"),
        (&["created_at"], &["2592001"], "expires_after[seconds]: 2592001 is not between 3600 and 2592000"),
        (&["created_at"], &["soon"], "expires_after[seconds]: \"soon\" is not a whole number"),
        (&["created_at"], &[], "expires_after[seconds] is missing"),
        (&[], &["3600"], "expires_after[anchor] is missing"),
        (&["uploaded_at"], &["3600"], "expires_after[anchor]: \"uploaded_at\" is not supported"),
    ] {
        let reported = test.api.send(form(anchor, seconds)).await.openai_error(400, "invalid");
        assert!(reported.starts_with(message) && reported.ends_with(')'), "it has a hint: {reported}");
    }
    assert_eq!(test.api.get("/v1/files").await.json()["data"], listed, "none of them is kept");
    let never = test.api.send(form(&[], &[])).await.json();
    assert_eq!(never["expires_at"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_form_has_no_other_fields() {
    let test = BatchTest::idle(|_| ()).await;
    let json = form_with(
        &[("purpose", "batch"), ("expires_after", r#"{"anchor":"created_at","seconds":3600}"#)],
        b"x",
    );
    let made = test.api.send(json).await.json();
    assert_eq!(made["expires_at"].as_i64().unwrap() - made["created_at"].as_i64().unwrap(), 3600, "{made}");
    let fields = [
        (("expires_after", r#"["created_at",3600]"#), "expires_after: it must be an object, but is an array"),
        (
            ("expires_after", r#"{"anchor":"created_at","seconds":1}"#),
            "expires_after.seconds: 1 is not between",
        ),
        (("expires_after", "soon"), "the body: expected value"),
        (("expire_after", "3600"), "expire_after: the form has no such field"),
        (("file", "second"), "file: the form has a second file"),
    ];
    for (field, message) in fields {
        let refused = test.api.send(form_with(&[("purpose", "batch"), field], b"x")).await;
        let detail = refused
            .openai_error(400, if message.contains("expected value") { "malformed" } else { "invalid" });
        assert!(detail.contains(message), "{field:?}: {detail}");
    }
    let both = [("purpose", "batch"), ("expires_after", "{}"), ("expires_after[anchor]", "created_at")];
    let twice = test.api.send(form_with(&both, b"x")).await.openai_error(400, "invalid");
    assert!(twice.contains("it is sent twice"), "{twice}");
}

#[tokio::test]
async fn files_and_batches_of_another_tenant_do_not_exist() {
    let test = BatchTest::idle(|config| {
        config.keys = key_ring(&["operator-key"], &[("acme", &["acme-key"]), ("bell", &["bell-key"])]);
    })
    .await;
    let with = |mut request: Request<Body>, key: &str| {
        let key = format!("Bearer {key}-key").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, key);
        request
    };
    let get = |path: &str| Request::get(path.to_owned()).body(Body::empty()).unwrap();
    let upload = with(form("batch", line("a", "echo a").as_bytes()), "acme");
    let file = test.api.send(upload).await.json()["id"].as_str().unwrap().to_owned();
    let body = serde_json::json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "1h"});
    let make = || {
        let request = Request::post("/v1/batches").header(header::CONTENT_TYPE, "application/json");
        request.body(Body::from(body.to_string())).unwrap()
    };
    test.api.send(with(make(), "bell")).await.openai_error(404, "unknown_file");
    let made = test.api.send(with(make(), "acme")).await;
    assert_eq!(made.status, StatusCode::OK, "{made:?}");
    let batch = made.json()["id"].as_str().unwrap().to_owned();
    for (path, kind) in [
        (format!("/v1/files/{file}"), "unknown_file"),
        (format!("/v1/files/{file}/content"), "unknown_file"),
        (format!("/v1/batches/{batch}"), "unknown_batch"),
        (format!("/v1/batches/{batch}/results"), "unknown_batch"),
        (format!("/v1/batches/{batch}/quote"), "unknown_batch"),
    ] {
        test.api.send(with(get(&path), "bell")).await.openai_error(404, kind);
        assert_eq!(test.api.send(with(get(&path), "acme")).await.status, StatusCode::OK);
        assert_eq!(test.api.send(with(get(&path), "operator")).await.status, StatusCode::OK);
    }
    let post = |path: String| Request::post(path).body(Body::empty()).unwrap();
    for verb in ["cancel", "pause", "resume"] {
        test.api
            .send(with(post(format!("/v1/batches/{batch}/{verb}")), "bell"))
            .await
            .openai_error(404, "unknown_batch");
    }
    let delete = Request::delete(format!("/v1/files/{file}")).body(Body::empty()).unwrap();
    test.api.send(with(delete, "bell")).await.openai_error(404, "unknown_file");
    let after = format!("/v1/batches?order=failed&after={batch}");
    test.api.send(with(get(&after), "bell")).await.openai_error(404, "unknown_batch");
    for path in ["/v1/files", "/v1/batches"] {
        assert_eq!(test.api.send(with(get(path), "bell")).await.json()["data"], serde_json::json!([]));
        assert_eq!(test.api.send(with(get(path), "acme")).await.json()["data"].as_array().unwrap().len(), 1);
    }
}

/// All bytes of the form are there at once, and the fields precede the file.
#[tokio::test]
async fn bytes_of_a_file_that_arrive_with_the_fields_are_no_other_bytes() {
    let test = BatchTest::idle(|_| ()).await;
    let fields =
        [("purpose", "batch"), ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "3600")];
    let part = |(name, value): (&str, &str)| {
        format!("--x-x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let mut body = fields.map(part).concat();
    body += "--x-x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n\r\n";
    body += &"x".repeat(4 << 20);
    body += "\r\n--x-x--\r\n";
    let upload = Request::post("/v1/files")
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=x-x")
        .body(Body::from(body))
        .unwrap();
    let reply = test.api.send(upload).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(reply.json()["bytes"], 4 << 20);
}
