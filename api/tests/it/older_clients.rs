//! Routes of OpenAI's API with which older clients begin: completions of a prompt, and embeddings.

use std::sync::{Arc, Mutex};

use async_openai::types::{completions::CreateCompletionResponse, embeddings::CreateEmbeddingResponse};
use axum::http::header;
use serde_json::{Value, json};
use shared::Fault;

use crate::{batch_test::BatchTest, openai::answered, test_api::TestApi};

const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";

fn ask(prompt: impl Into<Value>) -> Value {
    json!({"model": "turnfold/probe", "prompt": prompt.into(), "max_tokens": 256, "temperature": 0.1})
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn typed(value: &Value) -> CreateCompletionResponse {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

#[tokio::test]
async fn a_prompt_is_completed_by_a_turn() {
    let api = TestApi::new().await;
    let neutral = json!({"n": 1, "best_of": 1, "echo": false, "suffix": "", "logprobs": null, "stop": ["x"], "user": "ada"});
    for prompt in [json!("echo hello there"), json!(["echo hello there"])] {
        let reply = answered(&api, COMPLETIONS, &[], with(ask(prompt), neutral.clone())).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let completion = typed(&reply.json());
        assert_eq!(
            (completion.object.as_str(), completion.model.as_str()),
            ("text_completion", "turnfold/probe")
        );
        assert_eq!(completion.choices[0].text, "Done: hello there.");
        assert_eq!(completion.id, format!("cmpl-{}", reply.headers["x-turnfold-turn"].to_str().unwrap()));
    }
    let asked = answered(&api, COMPLETIONS, &[], ask("ask Which? | red | green")).await;
    assert_eq!(typed(&asked.json()).choices[0].text, "Which?\n1. red\n2. green");
    let thread = asked.headers["x-turnfold-thread"].to_str().unwrap();
    let next = answered(&api, COMPLETIONS, &[("x-turnfold-thread", thread)], ask("green")).await;
    assert_eq!(typed(&next.json()).choices[0].text, "Done: answered \"green\".");
}

#[tokio::test]
async fn a_prompt_is_completed_in_chunks() {
    let api = TestApi::new().await;
    let long = "one two three four five six seven eight nine ten eleven twelve";
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let reply = answered(&api, COMPLETIONS, &[], with(ask(format!("echo {long}")), more)).await;
    assert_eq!(reply.headers[header::CONTENT_TYPE], "text/event-stream");
    let mut data: Vec<&str> = reply.text().lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"));
    let chunks: Vec<CreateCompletionResponse> =
        data.iter().map(|line| typed(&serde_json::from_str(line).unwrap())).collect();
    let text: String =
        chunks.iter().flat_map(|chunk| &chunk.choices).map(|choice| choice.text.as_str()).collect();
    assert_eq!(text, format!("Done: {long}."));
    assert_eq!(chunks.last().unwrap().usage.as_ref().unwrap().total_tokens, 0);

    let reply =
        answered(&api, COMPLETIONS, &[], with(ask("fail out of paper"), json!({"stream": true}))).await;
    assert!(reply.text().contains("\"turn_failed\"") && reply.text().contains("[DONE]"), "{reply:?}");
}

#[tokio::test]
async fn what_a_prompt_cannot_have_is_refused_by_name() {
    let api = TestApi::new().await;
    let cases = [
        (json!({"prompt": null}), "prompt", "invalid"),
        (json!({"prompt": " "}), "prompt", "invalid"),
        (json!({"prompt": []}), "prompt", "invalid"),
        (json!({"prompt": ["a", "b"]}), "prompt", "unsupported_parameter"),
        (json!({"prompt": [1, 2]}), "prompt", "unsupported_parameter"),
        (json!({"messages": []}), "messages", "unsupported_parameter"),
        (json!({"echo": true}), "echo", "unsupported_parameter"),
        (json!({"suffix": "x"}), "suffix", "unsupported_parameter"),
        (json!({"best_of": 3}), "best_of", "unsupported_parameter"),
        (json!({"logprobs": 2}), "logprobs", "unsupported_parameter"),
        (json!({"n": 2}), "n", "unsupported_parameter"),
        (json!({"temprature": 1}), "temprature", "unsupported_parameter"),
    ];
    for (change, param, code) in cases {
        let reply = answered(&api, COMPLETIONS, &[], with(ask("echo hi"), change)).await;
        let message = reply.openai_error(400, code);
        assert_eq!(reply.json()["error"]["param"], param, "{reply:?}");
        assert!(message.starts_with(param), "{param}: {message}");
    }
    assert!(api.enqueued().await.is_empty(), "a request that is refused submits nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_batches_are_completions_of_prompts() {
    let test = BatchTest::new().await;
    let line = json!({"custom_id": "p-1", "method": "POST", "url": COMPLETIONS, "body": ask("echo hi")});
    let batch = test.batch(&test.upload(format!("{line}\n")).await, json!({"endpoint": COMPLETIONS})).await;
    let ended = test.wait_for_status(&batch, "completed").await;
    let results = test.file(&ended["output_file_id"]).await;
    assert_eq!(typed(&results[0]["response"]["body"]).choices[0].text, "Done: hi.");
}

#[tokio::test]
async fn embeddings_are_passed_on_or_refused_with_the_setting() {
    let api = TestApi::new().await;
    let body = json!({"model": "small", "input": ["hello"], "dimensions": 2});
    let message = api.post(EMBEDDINGS, body.clone()).await.openai_error(404, "model_not_found");
    assert!(message.contains("`embedding_model` under `[index]`"), "{message}");

    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let api = TestApi::with(|config| {
        let request: api::RequestEmbeddings = Arc::new(move |body| {
            seen.lock().unwrap().push(Value::Object(body.clone()));
            Box::pin(async move {
                match body["input"] == json!("too long") {
                    true => Err(Fault::permanent("openai: the input is too long")),
                    false => Ok(json!({
                        "object": "list", "model": "small", "usage": {"prompt_tokens": 1, "total_tokens": 1},
                        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
                    })),
                }
            })
        });
        config.embeddings = Some(api::EmbeddingModel { name: "openai/small".to_owned(), request });
    })
    .await;
    for model in ["small", "openai/small"] {
        let reply = api.post(EMBEDDINGS, with(body.clone(), json!({ "model": model }))).await;
        let embedded: CreateEmbeddingResponse = serde_json::from_value(reply.json()).unwrap();
        assert_eq!(embedded.data[0].embedding, [0.5, 0.25]);
    }
    assert_eq!(sent.lock().unwrap()[1], body, "the provider knows its own name of the model");
    let large = with(body.clone(), json!({"model": "large"}));
    assert!(api.post(EMBEDDINGS, large).await.openai_error(404, "model_not_found").contains("\"small\""));
    let none = json!({"model": "small", "input": null});
    api.post(EMBEDDINGS, none).await.openai_error(400, "invalid");
    let long = api.post(EMBEDDINGS, json!({"model": "small", "input": "too long"})).await;
    assert!(long.openai_error(502, "refused_by_provider").contains("too long"));
    assert_eq!(long.headers["x-should-retry"], "false");
}
