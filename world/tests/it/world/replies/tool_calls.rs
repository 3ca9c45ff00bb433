//! Calls of tools in other forms than OpenAI's, and arguments that cannot be kept.

use serde_json::{Value, json};
use shared::{Message, Request, Response};

use super::{calls, events, json_body, reply, stream};
use crate::world::{
    Stage, due,
    endpoint::{call, piece},
    live, nobody, perform, tool,
};

#[tokio::test]
async fn arguments_as_an_object_are_arguments() {
    let one = json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": { "at": 9 } } });
    let reply = reply(stream([call(one)], "tool_calls")).await;
    assert_eq!(calls(&reply), [("look", &json!({ "at": 9 }))]);
}

#[tokio::test]
async fn integers_beyond_64_bits_are_kept_and_refused_by_name() {
    let text = r#"{"id": 123456789012345678901234}"#;
    let as_text = json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": text } });
    let as_object = format!(
        r#"data: {{"choices": [{{"delta": {{"tool_calls": [{{"id": "a", "function": {{"name": "look", "arguments": {text}}}}}]}}, "finish_reason": "tool_calls"}}]}}"#
    );
    for answer in [stream([call(as_text)], "tool_calls"), events(as_object + "\n\n")] {
        let reply = reply(answer).await;
        assert_eq!(calls(&reply), [("look", &json!(text))], "every digit is in the log");
        let mut stage = Stage::hearing([Message::user("Hello")]);
        stage.tool_servers.insert("cal".to_owned(), vec![tool("look")]);
        let call = Request::CallTool { server: "cal".to_owned(), call: reply.tool_calls[0].clone() };
        let world = live([], nobody());
        let Ok((Response::Output(output), _)) = perform(&world, &stage, &due(call)).await.0 else { panic!() };
        let text = output.model_text();
        assert_eq!(
            text,
            "error: not carried out, the arguments of look cannot be kept as they are: id: the number 123456789012345678901234 cannot be kept \
             exactly; hint: send it as a string"
        );
    }
}

/// A value that the log cannot keep costs the call, and the refusal names the value.
#[tokio::test]
async fn arguments_that_cannot_be_kept_are_refused_by_name() {
    let deep = format!(r#"{{"plan": {}1{}}}"#, "[".repeat(70), "]".repeat(70));
    for (text, why) in [
        (
            r#"{"ratio": 0.12345678901234567890}"#,
            "ratio: the number 0.12345678901234567890 cannot be kept exactly",
        ),
        (r#"{"name": "so \ud83d"}"#, "name: \\ud83d is half a character"),
        (deep.as_str(), "lists and objects are nested deeper than 64 levels"),
    ] {
        let as_text = json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": text } });
        let reply = reply(stream([call(as_text)], "tool_calls")).await;
        assert_eq!(calls(&reply), [("look", &json!(text))], "it is in the log as it was sent");
        let call = Request::CallTool { server: "cal".to_owned(), call: reply.tool_calls[0].clone() };
        let world = live([], nobody());
        let Ok((Response::Output(output), _)) = perform(&world, &Stage::default(), &due(call)).await.0 else {
            panic!()
        };
        assert!(output.model_text().contains(why), "{}", output.model_text());
    }
}

#[tokio::test]
async fn parallel_calls_without_distinct_numbers_or_ids_stay_apart() {
    let whole = |index: Value, id: Value, name: &str, at: u64| {
        let function = json!({ "name": name, "arguments": json!({ "at": at }).to_string() });
        json!({ "index": index, "id": id, "type": "function", "function": function })
    };
    let forms: [fn() -> (Value, Value); 4] = [
        || (json!(0), json!("")),
        || (json!(0), json!("same")),
        || (Value::Null, Value::Null),
        || (json!(0), Value::Null),
    ];
    for form in forms {
        let (index, id) = form();
        let three = [
            whole(index.clone(), id.clone(), "look", 1),
            whole(index.clone(), id.clone(), "look", 2),
            whole(index, id, "book", 3),
        ];
        let apart = stream(three.clone().map(call), "tool_calls");
        let together = stream([piece(json!({ "tool_calls": three }))], "tool_calls");
        let message = json!({ "content": null, "tool_calls": three });
        let at_once =
            json_body(&json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] }));
        for answer in [apart, together, at_once] {
            let reply = reply(answer).await;
            let (one, two, three) = (json!({ "at": 1 }), json!({ "at": 2 }), json!({ "at": 3 }));
            assert_eq!(calls(&reply), [("look", &one), ("look", &two), ("book", &three)]);
            let ids: std::collections::BTreeSet<_> = reply.tool_calls.iter().map(|call| &call.id).collect();
            assert_eq!(ids.len(), 3, "every call has an id of its own: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_sent_in_an_odd_way_is_one_call() {
    let begin = |arguments: &str| {
        call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": arguments } }))
    };
    let more = |arguments: &str| call(json!({ "index": 0, "function": { "arguments": arguments } }));
    let again = |arguments: &str| {
        call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": arguments } }))
    };
    let legacy = |delta: Value| piece(json!({ "function_call": delta }));
    let named = |id: &str, name: &str, arguments: &str| {
        call(json!({ "index": 0, "id": id, "function": { "name": name, "arguments": arguments } }))
    };
    let both = |arguments: &str| {
        let new = json!([{ "index": 0, "function": { "arguments": arguments } }]);
        piece(json!({ "tool_calls": new, "function_call": { "name": "look", "arguments": arguments } }))
    };
    let at = "{\"at\": 9}";
    for pieces in [
        vec![begin("{}"), more(at)],
        vec![begin("{}"), more("{\"at\""), more(": 9}")],
        vec![begin("{}"), again(at)],
        vec![begin(at), again(at)],
        vec![begin("\"{\\\"at\\\": 9}\"")],
        vec![begin(""), more(at), more(at)],
        vec![begin(""), again("{\"at\""), again(": 9}")],
        vec![legacy(json!({ "name": "look", "arguments": "" })), legacy(json!({ "arguments": at }))],
        // Both forms of one call, as the server of llama-cpp-python sends them.
        vec![begin(""), both("{\"at\""), both(": 9}")],
        vec![legacy(json!({ "name": "look", "arguments": at })), begin(at)],
        // The name in pieces.
        vec![named("a", "lo", ""), named("", "ok", ""), more(at)],
        vec![named("a", "l", ""), named("a", "o", ""), named("a", "ok", at)],
        // An id in every piece.
        vec![named("a", "look", ""), named("b", "", "{\"at\""), named("c", "", ": 9}")],
        vec![named("a", "look", "{\"at\""), named("b", "look", ": 9}")],
        // A line break in a string, as it is.
        vec![begin("{\n\"at\": 9\n}")],
    ] {
        let reply = reply(stream(pieces, "tool_calls")).await;
        assert_eq!(calls(&reply), [("look", &json!({ "at": 9 }))]);
    }
}

#[tokio::test]
async fn a_whole_reply_that_has_a_call_in_both_forms_has_one_call() {
    let function = json!({ "name": "book", "arguments": "{\"at\": 9}" });
    let message = json!({
        "content": null,
        "tool_calls": [{ "id": "call__0_book", "type": "function", "function": function }],
        "function_call": function,
    });
    let body = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
    let reply = reply(json_body(&body)).await;
    assert_eq!(calls(&reply), [("book", &json!({ "at": 9 }))]);
}

#[tokio::test]
async fn names_in_pieces_and_calls_without_arguments_stay_apart() {
    let one = |index: u64, id: &str, name: &str| {
        call(json!({ "index": index, "id": id, "function": { "name": name, "arguments": "" } }))
    };
    let none = json!({});
    for pieces in [
        vec![one(0, "a", "look"), one(0, "b", "book")],
        vec![one(0, "", "look"), one(0, "", "book")],
        vec![one(0, "a", "look"), one(1, "b", "book")],
        vec![one(0, "a", "lo"), one(0, "", "ok"), one(1, "b", "bo"), one(1, "", "ok")],
    ] {
        let reply = reply(stream(pieces, "tool_calls")).await;
        assert_eq!(calls(&reply), [("look", &none), ("book", &none)]);
    }
}
