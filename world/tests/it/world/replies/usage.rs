//! Usage of replies that broke off or were refused.

use serde_json::json;
use shared::{FaultKind, Message, Response};

use super::{fault, stream};
use crate::world::{
    Stage, chat, due,
    endpoint::{Answer, Endpoint, words},
    perform,
};

/// The usage that was reported before a reply broke off or failed is billed, and is in the log.
#[tokio::test]
async fn a_reply_that_breaks_off_keeps_the_usage_that_was_reported() {
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 2050 });
    let counted = || json!({ "choices": [], "usage": usage });
    let failed = json!({ "error": { "code": 429, "message": "slow down" }, "usage": usage });
    for answer in [
        Answer::Broken(vec![words("Good"), counted()]),
        Answer::Ended(vec![words("Good"), counted()]),
        Answer::Stream(vec![counted(), json!({ "error": { "code": 500, "message": "gone" } })]),
        Answer::Stream(vec![failed]),
        Answer::Bytes(
            "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 1000, \"total_tokens\": 2050}}\n\ndata: {broken\n\n",
        ),
    ] {
        let fault = fault(answer).await;
        let usage = fault.usage.clone().expect("it is billed");
        assert_eq!((usage.input_tokens, usage.output_tokens), (1000, 1050), "{fault:?}");
        assert!(!matches!(fault.kind, FaultKind::Unavailable { .. }), "it is an attempt: {fault:?}");
    }
}

/// A form that the endpoint refused after it reported usage is paid for, and so is the next.
#[tokio::test]
async fn the_usage_of_a_refused_form_counts_with_that_of_the_next() {
    let refused = json!({ "error": { "code": 400, "message": "stream_options is not supported" },
        "usage": { "prompt_tokens": 5, "completion_tokens": 1 } });
    let endpoint =
        Endpoint::lenient([Answer::Stream(vec![refused]), stream([words("Good day")], "stop")]).await;
    let stage = Stage::hearing([Message::user("Hello")]);
    let (outcome, _) = perform(&endpoint.world(), &stage, &due(chat("local/gpt", 0..1))).await;
    let Ok((Response::Reply(_), Some(usage))) = outcome else { panic!("{outcome:?}") };
    assert_eq!((usage.input_tokens, usage.output_tokens), (5 + 11, 1 + 7));
}
