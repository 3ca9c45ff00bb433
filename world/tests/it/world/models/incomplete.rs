//! Replies that are not whole.

use serde_json::json;
use shared::{FaultKind, PendingRequest};

use super::{hello, loose, reply, shaped, stream};
use crate::world::{
    again, chat, due,
    endpoint::{Answer, Endpoint, call, piece, words},
    fault, perform,
};

#[tokio::test]
async fn a_reply_that_is_not_whole_is_none() {
    let half =
        || call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{\"wh" } }));
    let within = json!({ "error": { "message": "the model crashed", "code": 502 } });
    let no_json = "data: {\"choices\":[{\"delta\":{\"content\":\"Good \"}}]}\n\ndata: {\n\n";
    let again = FaultKind::Transient { retry_after_ms: None };
    // An interrupted reply is charged although no usage was reported.
    let cases = [
        (
            Answer::Broken(vec![words("Good ")]),
            FaultKind::InDoubt { retry_after_ms: None },
            "was interrupted",
        ),
        (Answer::Ended(vec![words("Good ")]), FaultKind::InDoubt { retry_after_ms: None }, "was interrupted"),
        (Answer::Bytes(no_json), FaultKind::InDoubt { retry_after_ms: None }, "it is not JSON"),
        (
            stream([words("Good "), words(&"x".repeat(5 << 20))], "stop"),
            FaultKind::InDoubt { retry_after_ms: None },
            "is longer than",
        ),
        (Answer::Stream(vec![words("Good "), within]), again, "failed (http status 502): the model crashed"),
        (stream([words("Good "), half()], "length"), again, "cut off at the length limit"),
        (stream([words("Good ")], "content_filter"), again, "content filter"),
    ];
    for (answer, remedy, words) in cases {
        let endpoint = Endpoint::serve([answer]).await;
        let (outcome, streamed) = perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await;
        let fault = fault(outcome);
        assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
        assert_eq!(fault.kind, remedy, "{fault:?}");
        assert_eq!(streamed, ["Good "]);
    }
}

#[tokio::test]
async fn a_long_reply_is_cut_off_only_where_its_form_matters() {
    let long = || stream([words("{\"a\":")], "length");
    let refusal = stream([piece(json!({ "refusal": "I will not" }))], "stop");
    let endpoint = Endpoint::serve([long(), long(), long(), refusal]).await;
    let mut stage = hello();
    assert_eq!(
        reply(perform(&endpoint.world(), &stage, &due(chat("local/gpt", 0..1))).await.0).0.content,
        "{\"a\":"
    );
    stage.schema = Some(loose());
    let cut = fault(perform(&endpoint.world(), &stage, &due(shaped())).await.0);
    assert!(cut.error.starts_with("the reply was cut off at the length limit"), "{cut:?}");
    assert_eq!(again(&cut), None);
    let again_due = PendingRequest { previous_error: Some(cut.error), ..due(shaped()) };
    let twice = fault(perform(&endpoint.world(), &stage, &again_due).await.0);
    assert!(twice.error.contains("twice") && twice.kind == FaultKind::Permanent, "{twice:?}");
    let refused = fault(perform(&endpoint.world(), &stage, &due(shaped())).await.0);
    assert!(refused.error.contains("I will not"), "{refused:?}");
}
