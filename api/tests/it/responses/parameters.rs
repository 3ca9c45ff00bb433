//! Parameters of a response: those of a model, and those that are not supported.

use std::time::Duration;

use serde_json::json;

use super::{RESPONSES, ask, with};
use crate::test_api::TestApi;

#[tokio::test]
async fn a_model_of_a_provider_is_asked_with_the_parameters() {
    let api = TestApi::with(|config| {
        config.providers = Some(["openai".to_owned(), "local".to_owned()].into());
        config.chat_wait = Duration::ZERO;
    })
    .await;
    let parameters = json!({
        "model": "gpt-4o-mini", "temperature": 0.5, "max_output_tokens": 9, "top_p": 0.5,
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "background": true,
    });
    let response = api.post(RESPONSES, with(ask("Hello"), parameters)).await.json();
    assert_eq!(response["model"], "gpt-4o-mini", "{response}");
    let thread = response["turnfold"]["thread_id"].as_str().unwrap();
    let opened = &api.get(&format!("/v1/threads/{thread}/events")).await.json()["data"][0]["event"];
    let extra = json!({"top_p": 0.5, "verbosity": "low"});
    let reply = json!({"temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low", "extra": extra});
    let config = json!({"model": "openai/gpt-4o-mini", "nodes": {"reply": reply}});
    assert_eq!((&opened["strategy"], &opened["config"]), (&json!("chat"), &config));
    let hot =
        api.post(RESPONSES, with(ask("Hello"), json!({"model": "gpt-4o", "max_output_tokens": 0}))).await;
    assert!(hot.openai_error(400, "invalid").contains("max"), "{hot:?}");
    assert_eq!(hot.json()["error"]["param"], "max_output_tokens", "{hot:?}");
}

#[tokio::test]
async fn what_is_not_supported_is_refused_by_the_name_that_was_sent() {
    let api = TestApi::new().await;
    let unsupported = [
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"max_tool_calls": 3}), "max_tool_calls"),
        (json!({"temprature": 1}), "temprature"),
        (json!({"messages": []}), "messages"),
        (json!({"max_tokens": 5}), "max_tokens"),
        (json!({"truncation": "some"}), "truncation"),
        (json!({"include": ["message.output_text.logprobs"]}), "include"),
        (json!({"text": {"colour": "red"}}), "text.colour"),
        (json!({"input": [{"type": "web_search_call", "id": "ws_1"}]}), "input[0].type"),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]}),
            "input[0].content[0].file_id",
        ),
        (
            json!({"instructions": "x", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/p"}]}]}),
            "input[0].content[0].image_url.url",
        ),
    ];
    let invalid = [
        (json!({"model": null}), "model"),
        (json!({"input": null}), "input"),
        (json!({"input": 7}), "input"),
        (json!({"input": []}), "input"),
        (json!({"input": " "}), "input"),
        (
            json!({"input": [{"role": "user", "content": "a"}, {"role": "king", "content": "x"}]}),
            "input[1].role",
        ),
        (json!({"input": [{"type": "item_reference", "id": "msg_1"}]}), "input[0].id"),
        (json!({"background": "yes"}), "background"),
        (json!({"text": "plain"}), "text"),
        (json!({"user": ""}), "user"),
        (json!({"turnfold": {"confg": {}}}), "turnfold.confg"),
    ];
    let cases = unsupported.map(|case| (case, "unsupported_parameter")).into_iter();
    for ((change, param), code) in cases.chain(invalid.map(|case| (case, "invalid"))) {
        let reply = api.post(RESPONSES, with(ask("echo hi"), change)).await;
        let message = reply.openai_error(400, code);
        assert_eq!(reply.json()["error"]["param"], param, "{reply:?}");
        assert!(message.starts_with(param) || message.starts_with("user must"), "{param}: {message}");
    }
    let none = with(ask("echo hi"), json!({"model": "turnfold/gpt-4o"}));
    api.post(RESPONSES, none).await.openai_error(404, "model_not_found");
    assert!(api.enqueued().await.is_empty(), "a request that is refused submits nothing");
}
