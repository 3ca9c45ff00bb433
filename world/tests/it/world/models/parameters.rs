//! Configured parameters of a reply.

use std::time::Duration;

use serde_json::json;
use shared::{FaultKind, ModelParameters, Oversize, PendingRequest, Request};
use world::{Dialect, OpenAi, Provider};

use super::{hello, reply, stream};
use crate::world::{
    chat, due,
    endpoint::{Answer, Endpoint, openai, words},
    fault, live, nobody, perform,
};

/// A request with configured parameters.
fn tuned(model: &str, configured: ModelParameters) -> PendingRequest {
    let mut request = chat(model, 0..1);
    if let Request::Chat { parameters, .. } = &mut request {
        *parameters = Some(Box::new(configured));
    }
    due(request)
}

#[tokio::test]
async fn configured_parameters_are_sent() {
    let endpoint = Endpoint::serve([stream([words("Hi")], "stop"), stream([words("Hi")], "stop")]).await;
    let extra = json!({ "seed": 7, "user": "acme" }).as_object().unwrap().clone();
    let all = ModelParameters {
        temperature: Some(0.25),
        max_tokens: Some(50),
        reasoning_effort: Some("low".to_owned()),
        extra,
    };
    reply(perform(&endpoint.world(), &hello(), &tuned("local/gpt", all)).await.0);
    reply(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
    let body = endpoint.received().remove(0).1;
    assert_eq!((&body["temperature"], &body["max_completion_tokens"]), (&json!(0.25), &json!(50)));
    assert_eq!(
        (&body["reasoning_effort"], &body["seed"], &body["user"]),
        (&json!("low"), &json!(7), &json!("acme"))
    );
    let body = endpoint.received().remove(1).1;
    for name in ["temperature", "max_tokens", "max_completion_tokens", "reasoning_effort", "seed"] {
        assert_eq!(body.get(name), None, "{name} is not configured");
    }
}

/// Reasoning models of OpenAI reject `max_tokens`. This is learned once for each model.
#[tokio::test]
async fn a_model_that_rejects_max_tokens_gets_the_limit_in_its_other_field() {
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let refusal = || Answer::Status(400, &[], json!({ "error": { "message": message } }).to_string());
    let fine = || stream([words("Hi")], "stop");
    let endpoint = Endpoint::serve([refusal(), fine(), fine(), fine(), refusal()]).await;
    let settings = openai(&endpoint.base_url, Duration::from_secs(20));
    let settings = OpenAi { dialect: Some(Dialect::Compatible), ..settings };
    let world = live([("local", Provider::OpenAi(settings))], nobody());
    let limited =
        |model: &str| tuned(model, ModelParameters { max_tokens: Some(9), ..ModelParameters::default() });
    for model in ["local/o", "local/o", "local/gpt"] {
        reply(perform(&world, &hello(), &limited(model)).await.0);
    }
    let sent: Vec<_> = endpoint
        .received()
        .into_iter()
        .map(|(_, body)| (body["max_tokens"].as_u64(), body["max_completion_tokens"].as_u64()))
        .collect();
    assert_eq!(sent, [(Some(9), None), (None, Some(9)), (None, Some(9)), (Some(9), None)]);
    // Without a limit there is nothing to send otherwise.
    let refused = fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert_eq!((refused.kind, endpoint.received().len()), (FaultKind::Oversized(Oversize::Unknown), 5));
}
