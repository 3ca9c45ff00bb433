//! Parameters of a chat completion: those of a model, those that are not supported, and the format of the reply.

use std::time::Duration;

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};

use super::{CHAT, chat, error, say, turn_of};
use crate::test_api::{Reply, TestApi};

/// Returns the strategy and the configuration of a thread.
async fn opened(api: &TestApi, reply: &Reply) -> (Value, Value) {
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap();
    let opened = &api.get(&format!("/v1/threads/{thread}/events")).await.json()["data"][0]["event"];
    (opened["strategy"].clone(), opened["config"].clone())
}

#[tokio::test]
async fn a_model_of_a_provider_is_asked_by_the_strategy_chat() {
    let api = TestApi::with(|config| {
        config.providers = Some(["openai".to_owned(), "local".to_owned()].into());
        config.chat_wait = Duration::ZERO;
    })
    .await;
    let ask = |model: &str, more: Value| {
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": "Hello"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.post(CHAT, body)
    };
    let parameters = json!({
        "temperature": 0.5, "max_tokens": 7, "max_completion_tokens": 9, "seed": 3, "stop": ["x"], "top_p": null,
        "store": true,
    });
    let reply = ask("local/qwen3", parameters.clone()).await;
    let asked = json!({"temperature": 0.5, "max_tokens": 9, "extra": {"seed": 3, "stop": ["x"]}});
    let config = json!({"model": "local/qwen3", "nodes": {"reply": asked}});
    assert_eq!(opened(&api, &reply).await, (json!("chat"), config));
    let reply = ask("gpt-4o-mini", json!({})).await;
    assert_eq!(opened(&api, &reply).await, (json!("chat"), json!({"model": "openai/gpt-4o-mini"})));
    let reply = ask("turnfold/chat", json!({"temperature": 1})).await;
    assert_eq!(opened(&api, &reply).await.1, json!({"nodes": {"reply": {"temperature": 1}}}));
    let reply = ask("probe", parameters).await;
    assert_eq!(opened(&api, &reply).await, (json!("probe"), Value::Null), "only chat takes parameters");
    for model in ["opnai/gpt-4o", "plannr", "turnfold/gpt-4o"] {
        error(&ask(model, json!({})).await, 404, "model_not_found", Some("model"));
    }
    let hot = ask("gpt-4o", json!({"temperature": 9})).await;
    let message = error(&hot, 400, "invalid", Some("temperature"));
    assert!(message.contains("temperature"), "{message}");
}

#[tokio::test]
async fn unsupported_parameters_are_rejected_by_name() {
    let api = TestApi::new().await;
    let unsupported = [
        ("n", json!(2), "only 1"),
        ("logprobs", json!(true), "only false"),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "f"}}]),
            "the strategy probe does not support it",
        ),
        ("response_format", json!({"type": "json_object"}), "the strategy probe does not support it"),
        ("audio", json!({}), "text"),
        ("temprature", json!(1), "unknown parameter"),
    ];
    for (name, value, message) in unsupported {
        let mut body = say("echo hi");
        body[name] = value;
        let reported = error(&chat(&api, body).await, 400, "unsupported_parameter", Some(name));
        assert!(reported.starts_with(name) && reported.contains(message), "{reported}");
    }
    let invalid = [
        (json!({"model": null}), "model"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "system", "content": "x"}]}), "messages"),
        (json!({"messages": [{"role": "user", "content": " "}]}), "messages[0].content"),
        (json!({"messages": [{"role": "king", "content": "x"}]}), "messages[0].role"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"user": ""}), "user"),
        (json!({"turnfold": {"confg": {}}}), "turnfold.confg"),
        (json!({"turnfold": {"config": {"paddding": 1}}}), "turnfold.config"),
    ];
    for (change, param) in invalid {
        let mut body = say("echo hi");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        error(&chat(&api, body).await, 400, "invalid", Some(param));
    }
    let parts = [
        (
            json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}),
            "messages[0].content[0]",
        ),
        (
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/p"}}]}),
            "messages[0].content[0].image_url.url",
        ),
        (json!({"role": "function", "name": "a", "content": "x"}), "messages[0].role"),
    ];
    for (message, param) in parts {
        let body = json!({"model": "probe", "messages": [message]});
        error(&chat(&api, body).await, 400, "unsupported_parameter", Some(param));
    }
    let mut unknown = say("echo hi");
    unknown["model"] = json!("turnfold/gpt-4o");
    error(&chat(&api, unknown).await, 404, "model_not_found", Some("model"));
    let text =
        Request::post(CHAT).header(header::CONTENT_TYPE, "application/json").body(Body::from("{")).unwrap();
    error(&api.send(text).await, 400, "malformed", None);
    assert!(api.enqueued().await.is_empty(), "a request that is refused submits nothing");
}

#[tokio::test]
async fn a_format_is_kept_with_the_turn_or_refused_by_its_key() {
    let api = TestApi::with(|config| config.chat_wait = Duration::ZERO).await;
    let format = |schema: Value| {
        let named = json!({"name": "place", "schema": schema, "strict": true});
        json!({"type": "json_schema", "json_schema": named})
    };
    let ask = |format: Value| {
        let body = json!({"model": "turnfold/chat", "messages": [{"role": "user", "content": "Hi"}], "response_format": format});
        api.post(CHAT, body)
    };
    let good = format(json!({"type": "object", "properties": {"city": {"type": "string"}}}));
    let kept = async |turn: &str| {
        let turn = api.backends.store.turn(turn.parse().unwrap()).await.unwrap().unwrap();
        serde_json::to_value(turn.reply_options.unwrap()).unwrap()
    };
    let reply = ask(good.clone()).await;
    assert_eq!(kept(turn_of(&reply)).await, json!({"response_format": good}));
    assert_eq!(kept(turn_of(&ask(json!({"type": "text"})).await)).await, json!({}));
    let body = json!({"strategy": "chat", "input": "Hi", "response_format": good});
    let turn = api.post("/v1/turns", body.clone()).await.json();
    assert_eq!(kept(turn["id"].as_str().unwrap()).await, json!({"response_format": good}));

    for (format, param) in [
        (format(json!({"type": "string"})), "response_format.json_schema.schema"),
        (format(json!({"$ref": "#/$defs/a"})), "response_format.json_schema.schema.$ref"),
    ] {
        error(&ask(format.clone()).await, 400, "invalid", Some(param));
        let mut body = body.clone();
        body["response_format"] = format;
        let problem = api.post("/v1/turns", body).await;
        assert!(problem.status == 422 && problem.json()["detail"].as_str().unwrap().starts_with(param));
    }
    for format in [json!("json"), json!({"type": "yaml"}), json!({"type": "json_schema"})] {
        let reply = ask(format.clone()).await;
        assert!(
            reply.status == 400
                && reply.json()["error"]["message"].as_str().unwrap().contains("response_format"),
            "{format}"
        );
    }
}
