//! Images and files in messages.

use serde_json::json;

use super::{chat, error};
use crate::test_api::TestApi;

/// A picture of 1 × 1 pixels.
const PIXEL: &str = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

#[tokio::test]
async fn images_and_files_are_kept_by_their_hash() {
    let api = TestApi::new().await;
    let file =
        json!({"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}});
    let image = json!({"type": "image_url", "image_url": {"url": PIXEL}});
    let content = json!([{"type": "text", "text": "echo hi"}, image, file]);
    let reply =
        chat(&api, json!({"model": "probe", "messages": [{"role": "user", "content": content}]})).await;
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap().to_owned();
    let shown = api.get(&format!("/v1/threads/{thread}")).await.json();
    let message = &shown["messages"][0];
    assert_eq!(message["content"], "echo hi");
    let [image, file] = message["attachments"].as_array().unwrap().as_slice() else { panic!("{message}") };
    assert_eq!((&image["kind"], &image["media_type"]), (&json!("image"), &json!("image/gif")));
    assert_eq!((&file["kind"], &file["name"], &file["bytes"]), (&json!("file"), &json!("a.txt"), &json!(2)));
    let path = format!("/v1/threads/{thread}/attachments/{}", file["sha256"].as_str().unwrap());
    let content = api.get(&path).await;
    assert_eq!((content.status.as_u16(), content.text()), (200, "hi"));
    assert_eq!(content.headers["x-content-type-options"], "nosniff");
    let unknown = api.get(&format!("/v1/threads/{thread}/attachments/beef")).await;
    assert!(unknown.problem(404, "unknown-file").contains("beef"));
    let log = api.get(&format!("/v1/threads/{thread}/events")).await;
    assert!(!log.text().contains("R0lGOD"), "the log holds no content: {}", log.text());

    // The same over turns. An address is refused, whatever it is of.
    let body = |url: &str| {
        let content =
            json!([{"type": "text", "text": "echo hi"}, {"type": "image_url", "image_url": {"url": url}}]);
        json!({"strategy": "probe", "input": {"messages": [{"role": "user", "content": content}]}})
    };
    let turn = api.post("/v1/turns", body(PIXEL)).await.json();
    assert_eq!(turn["input"][0]["attachments"][0]["sha256"], image["sha256"]);
    let refused = api.post("/v1/turns", body("https://example.com/a.png")).await;
    let why = refused.problem(400, "unsupported-parameter");
    assert!(why.contains("input.messages[0].content[1].image_url.url: addresses are not supported"), "{why}");
}

#[tokio::test]
async fn images_for_a_model_that_takes_none_are_refused_at_once() {
    let api = TestApi::with(|config| {
        config.tuned = [("planner".to_owned(), json!({"model": "blind/m"}))].into();
        config.accepts = shared::Accepts([("blind".to_owned(), [].into())].into());
    })
    .await;
    let content = json!([{"type": "image_url", "image_url": {"url": PIXEL}}]);
    let messages = json!([{"role": "user", "content": content}]);
    let reply = chat(&api, json!({"model": "planner", "messages": messages})).await;
    let why = error(&reply, 400, "unsupported_parameter", Some("messages"));
    assert!(why.contains("model blind/m takes no images"), "{why}");
    let turn = api.post("/v1/turns", json!({"strategy": "planner", "input": {"messages": messages}})).await;
    assert!(turn.problem(400, "unsupported-parameter").contains("model blind/m takes no images"));
    // A model of another provider, chosen for this turn, is not known here.
    let config =
        json!({"strategy": "planner", "config": {"model": "other/m"}, "input": {"messages": messages}});
    assert_eq!(api.post("/v1/turns", config).await.status.as_u16(), 202);
}
