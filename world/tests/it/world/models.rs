//! Models that are called over HTTP.

mod attachments;
mod calls;
mod incomplete;
mod parameters;
mod refusals;

use serde_json::{Value, json};
use shared::{Citation, FaultKind, Message, Oversize, Reply, Request, Response, ToolCall, Usage, WebSearch};

use super::{
    Stage, chat, due,
    endpoint::{Answer, Endpoint, KEY, end, piece, words},
    fault, perform,
};

fn hello() -> Stage {
    Stage::hearing([Message::user("Hello")])
}

fn reply(outcome: super::Outcome) -> (Reply, Usage) {
    match outcome.expect("a reply was expected") {
        (Response::Reply(reply), Some(meter)) => (reply, meter),
        other => panic!("a metered reply was expected: {other:?}"),
    }
}

fn stream(pieces: impl IntoIterator<Item = Value>, reason: &str) -> Answer {
    Answer::Stream(pieces.into_iter().chain(end(reason)).collect())
}

#[tokio::test]
async fn a_reply_is_streamed_and_metered() {
    let endpoint = Endpoint::serve([stream([words("Good "), words("day"), words("")], "stop")]).await;
    let (outcome, streamed) = perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await;
    let (reply, meter) = reply(outcome);
    assert_eq!(reply, Reply { content: "Good day".to_owned(), ..Reply::default() });
    assert_eq!(streamed, ["Good ", "day"]);
    assert_eq!((meter.model.as_str(), meter.input_tokens, meter.output_tokens), ("gpt-real", 11, 7));
    let (headers, body) = endpoint.received().remove(0);
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(body["model"], "gpt");
    let messages =
        json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hello" }]);
    assert_eq!(body["messages"], messages);
    assert_eq!((&body["tools"], &body["response_format"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_conversation_keeps_its_calls_and_their_answers() {
    let endpoint = Endpoint::serve([stream([words("Booked.")], "stop")]).await;
    let asked = ToolCall { id: "c1".to_owned(), name: "cal.book".to_owned(), arguments: json!({ "at": 9 }) };
    let broken = ToolCall { id: "c2".to_owned(), name: "cal.book".to_owned(), arguments: "{at: 9".into() };
    let calling = Message { tool_calls: vec![asked.clone(), broken.clone()], ..Message::assistant("") };
    let mut stage = Stage::hearing([Message::user("Book it"), calling, Message::tool(&asked, "ok")]);
    let due = due(chat("local/gpt", 0..9));

    let unanswered = fault(perform(&endpoint.world(), &stage, &due).await.0);
    assert_eq!(unanswered.kind, FaultKind::Oversized(Oversize::Unknown));
    assert!(
        unanswered.error.contains("(http status 400): tool_call_ids did not have response messages: \"c2\""),
        "{unanswered:?}"
    );

    stage.messages.push(Message::tool(&broken, "error: no JSON"));
    assert_eq!(reply(perform(&endpoint.world(), &stage, &due).await.0).0.content, "Booked.");
    let (_, body) = endpoint.received().remove(1);
    let function = json!({ "name": "cal_book", "arguments": "{\"at\":9}" });
    assert_eq!(
        body["messages"][2]["tool_calls"][0],
        json!({ "id": "c1", "type": "function", "function": function })
    );
    assert_eq!(body["messages"][2]["content"], Value::Null);
    assert_eq!(body["messages"][3], json!({ "role": "tool", "tool_call_id": "c1", "content": "ok" }));
}

/// A schema as schemars generates it, with every keyword that strict mode rejects.
fn loose() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "properties": { "type": "array", "items": { "type": "object", "properties": { "n": { "type": "integer", "format": "uint32" } } } },
            "kind": { "oneOf": [{ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }, { "const": "b" }] },
            "note": { "type": ["string", "null"], "default": null },
        },
        "required": ["properties"],
    })
}

fn shaped() -> Request {
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { response_schema: shape, .. } = &mut request {
        *shape = Some("Plan<Step>".to_owned());
    }
    request
}

#[tokio::test]
async fn a_shape_is_sent_in_its_strict_form_with_what_was_wrong_before() {
    let endpoint = Endpoint::serve([stream([words("{}")], "stop"), stream([words("{}")], "stop")]).await;
    let mut stage = hello();
    stage.schema = Some(loose());
    let mut due = due(shaped());
    due.previous_error = Some(shared::UnexpectedResponse::Schema("missing field `n`".to_owned()).to_string());
    reply(perform(&endpoint.world(), &stage, &due).await.0);
    let (_, body) = endpoint.received().remove(0);
    let format = &body["response_format"]["json_schema"];
    assert_eq!((&format["name"], &format["strict"]), (&json!("Plan_Step_"), &json!(true)));
    assert_eq!(format["schema"]["required"], json!(["kind", "note", "properties"]));
    assert_eq!(format["schema"]["properties"]["properties"]["items"]["required"], json!(["n"]));
    let last = body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "system");
    assert!(last["content"].as_str().unwrap().contains("missing field `n`"), "{last}");

    // The model cannot correct a failed connection. Strict mode does not support maps.
    due.previous_error = Some("provider local failed (500)".to_owned());
    stage.schema = Some(json!({ "type": "object", "properties": { "map": { "type": "object" } } }));
    reply(perform(&endpoint.world(), &stage, &due).await.0);
    let (_, body) = endpoint.received().remove(1);
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(body["response_format"]["json_schema"]["strict"], false);
}

#[tokio::test]
async fn what_a_reply_costs_is_on_its_meter_as_far_as_it_is_known() {
    let untold = piece(json!({ "content": "Hi" }));
    let stops =
        json!({ "model": "gpt-real", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let answers = [
        stream([words("Hi")], "stop"),
        stream([words("Hi")], "stop"),
        Answer::Stream(vec![untold, stops]),
        stream([words("Hi")], "content_filter"),
    ];
    let endpoint = Endpoint::serve(answers).await;
    let world = endpoint.world();
    let ask = async |model: &str| perform(&world, &hello(), &due(chat(model, 0..1))).await.0;
    // 11 tokens at $2.5 and 7 tokens at $10 per million.
    assert_eq!(reply(ask("local/priced").await).1.micro_usd, Some(98));
    assert_eq!(reply(ask("local/gpt").await).1.micro_usd, None, "nobody named a price");
    let meter = reply(ask("local/priced").await).1;
    assert_eq!(
        (meter.input_tokens, meter.output_tokens, meter.micro_usd),
        (0, 0, None),
        "nobody told the tokens"
    );
    let withheld = fault(ask("local/priced").await).usage.expect("it is of no use and paid for");
    assert_eq!((withheld.input_tokens, withheld.output_tokens, withheld.micro_usd), (11, 7, Some(98)));
}

#[tokio::test]
async fn a_model_that_searches_says_what_its_provider_cites() {
    let cite = |url: &str, end: u64| json!({ "type": "url_citation", "url_citation": { "url": url, "title": "Tides", "start_index": 0, "end_index": end } });
    let notes =
        [cite("https://a.example/t", 4), json!({ "type": "file_citation", "url": "https://b.example" })];
    let flat = json!([{ "type": "url_citation", "url": "https://c.example", "end_index": -1 }]);
    let pieces =
        [words("High"), piece(json!({ "annotations": notes })), piece(json!({ "annotations": flat }))];
    let endpoint = Endpoint::serve([stream(pieces, "stop"), stream([words("Plain")], "stop")]).await;
    let mut request = chat("local/gpt-search-preview", 0..1);
    if let Request::Chat { web_search: searching, .. } = &mut request {
        *searching = WebSearch::On;
    }
    let (found, _) = reply(perform(&endpoint.world(), &hello(), &due(request)).await.0);
    let citation = |url: &str, title: &str, end| Citation { url: url.into(), title: title.into(), end };
    assert_eq!(
        found.citations,
        [citation("https://a.example/t", "Tides", 4), citation("https://c.example", "", 0)]
    );
    let (plain, _) = reply(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert_eq!(plain.citations, []);
    let asked: Vec<_> =
        endpoint.received().into_iter().map(|(_, body)| body["web_search_options"].clone()).collect();
    assert_eq!(asked, [json!({}), Value::Null]);
}
