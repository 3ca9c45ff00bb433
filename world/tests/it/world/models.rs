//! Models that are called over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    BlockedBy, Citation, FaultKind, Message, ModelParameters, Oversize, PendingRequest, Reply, Request,
    Response, ToolCall, Usage, WebSearch,
};

use world::{Dialect, OpenAi, Provider};

use super::{
    Stage, again, chat, due,
    endpoint::{Answer, Endpoint, KEY, call, end, piece, provider, words},
    fault, live, named, nobody, perform, tool,
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

#[tokio::test]
async fn calls_are_put_together_from_pieces() {
    let pieces = [
        words("Let me look."),
        call(json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{\"wh" } })),
        call(json!({ "index": 1, "id": "b", "function": { "name": "list", "arguments": "" } })),
        call(json!({ "index": 0, "function": { "arguments": "ere\":\"here\"}" } })),
        // Another call with the same index, a call without an id, and a call whose arguments are not JSON.
        call(json!({ "index": 1, "id": "c", "function": { "name": "cal_book", "arguments": "null" } })),
        call(json!({ "index": 2, "function": { "name": "odd", "arguments": "{at: 9}" } })),
    ];
    let endpoint = Endpoint::serve([stream(pieces, "tool_calls")]).await;
    let mut stage = hello();
    stage.tool_servers.insert("cal".to_owned(), vec![tool("cal.book")]);
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tool_servers, .. } = &mut request {
        tool_servers.push("cal".to_owned());
    }
    let (reply, _) = reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    assert_eq!(reply.content, "Let me look.");
    let call = |id: &str, name: &str, arguments: Value| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    };
    assert_eq!(
        reply.tool_calls,
        [
            call("a", "look", json!({ "where": "here" })),
            call("b", "list", json!({})),
            call("c", "cal_book", json!({})),
            call("call_1_3", "odd", json!("{at: 9}")),
        ]
    );
}

#[tokio::test]
async fn calls_without_a_number_are_told_apart_by_their_names() {
    let pieces = [
        call(json!({ "id": "", "function": { "name": "look", "arguments": "{}" } })),
        call(json!({ "id": "", "function": { "name": "look", "arguments": "{\"a\":" } })),
        call(json!({ "function": { "arguments": "1}" } })),
    ];
    let endpoint = Endpoint::serve([stream(pieces, "tool_calls")]).await;
    let (reply, _) = reply(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
    let calls: Vec<_> =
        reply.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments.clone())).collect();
    assert_eq!(calls, [("call_1_0", json!({})), ("call_1_1", json!({ "a": 1 }))]);
}

#[tokio::test]
async fn the_nodes_own_tools_come_first_and_keep_their_names() {
    let endpoint = Endpoint::serve([stream([words("ok")], "stop")]).await;
    let mut stage = hello();
    stage.tools = vec![tool("hidden"), tool("submit"), tool("plan")];
    stage.tool_servers.insert("cal".to_owned(), vec![tool("book"), tool("submit"), tool("cancel.all")]);
    stage.tool_servers.insert("other".to_owned(), vec![tool("strange")]);
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tool_servers, tools, .. } = &mut request {
        tool_servers.push("cal".to_owned());
        *tools = vec!["plan".to_owned(), "submit".to_owned()];
    }
    reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    let (_, body) = endpoint.received().remove(0);
    let names: Vec<_> =
        body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    // The server has a tool of the same name as the node, and it is offered too.
    assert_eq!(names, ["plan", "submit", "book", "submit_89ba31", "cancel_all"]);
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

/// An error response, whether it may be retried and after which delay, and the expected message.
type Case = (Answer, Result<Option<u64>, ()>, &'static str);

#[tokio::test]
async fn refusals_keep_their_status_and_say_what_to_do() {
    let html = |title: &str| format!("<html><head><title>{title}</title></head></html>");
    let json = |error: Value| json!({ "error": error }).to_string();
    let echo =
        json(json!({ "message": format!("Incorrect API key provided: {KEY}"), "code": "invalid_api_key" }));
    let operator = Err(());
    let cases: Vec<Case> = vec![
        (
            Answer::Status(401, &[], echo.clone()),
            operator,
            "provider local rejected the key (http status 401): Incorrect API key provided: [key]; hint: fix providers.local.api_key",
        ),
        (
            Answer::Status(403, &[("content-type", "text/html")], html("Forbidden by the proxy")),
            operator,
            "(http status 403): Forbidden by the proxy; hint: fix providers.local.api_key",
        ),
        (Answer::Status(403, &[], echo), operator, "Incorrect API key provided: [key]"),
        (
            Answer::Status(400, &[], json(json!({ "message": "too long", "code": 400 }))),
            operator,
            "rejected the request (http status 400): too long",
        ),
        (
            Answer::Status(404, &[], json(json!("no such model"))),
            operator,
            "(http status 404): no such model",
        ),
        (
            Answer::Status(422, &[], json!({ "detail": "bad field" }).to_string()),
            operator,
            "(http status 422): bad field",
        ),
        (
            Answer::Status(429, &[("retry-after", "7")], json(json!({ "message": "slow down" }))),
            Ok(Some(7_000)),
            "is rate limited (http status 429): slow down",
        ),
        (
            Answer::Status(429, &[("retry-after", "86400")], String::new()),
            Ok(Some(600_000)),
            "(http status 429)",
        ),
        (
            Answer::Status(429, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], String::new()),
            Ok(Some(600_000)),
            "(http status 429)",
        ),
        (Answer::Status(429, &[("retry-after", "later")], html("Slow")), Ok(None), "(http status 429): Slow"),
        (
            Answer::Status(429, &[], json(json!({ "message": "no money", "code": "insufficient_quota" }))),
            operator,
            "quota of provider local is used up (http status 429): no money",
        ),
        (Answer::Status(408, &[], String::new()), Ok(None), "failed (http status 408)"),
        (
            Answer::Status(500, &[], json(json!({ "message": "oops", "code": 500 }))),
            Ok(None),
            "failed (http status 500): oops",
        ),
        (
            Answer::Status(503, &[("retry-after", "1.5")], html("Busy")),
            Ok(Some(1_500)),
            "takes no request (http status 503): Busy",
        ),
        (
            Answer::Status(529, &[("retry-after", "2")], html("Busy")),
            Ok(Some(2_000)),
            "takes no request (http status 529): Busy",
        ),
        (
            Answer::Status(500, &[("retry-after", "60")], html("Later")),
            Ok(Some(60_000)),
            "asks to wait (http status 500): Later",
        ),
        (
            Answer::Status(403, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")], html("Secondary limit")),
            Ok(Some(600_000)),
            "asks to wait (http status 403): Secondary limit",
        ),
        (
            Answer::Status(420, &[("retry-after", "5")], html("Calm down")),
            Ok(Some(5_000)),
            "asks to wait (http status 420): Calm down",
        ),
        (
            Answer::Status(302, &[("location", "/elsewhere")], String::new()),
            operator,
            "redirects (http status 302)",
        ),
        (
            Answer::Status(200, &[("content-type", "text/html")], html("Welcome")),
            operator,
            "did not respond with a stream: Welcome; hint: check providers.local.base_url",
        ),
    ];
    for (answer, remedy, words) in cases {
        let endpoint = Endpoint::serve([answer]).await;
        let fault = fault(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
        assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
        assert!(!fault.error.contains(KEY), "the key is in {fault:?}");
        match remedy {
            Ok(None) => assert_eq!(again(&fault), None, "{fault:?}"),
            Ok(Some(delay)) => assert!(named(again(&fault), delay), "{fault:?}"),
            // A request that was refused as invalid may be too large.
            Err(()) => assert!(
                matches!(fault.kind, FaultKind::Permanent | FaultKind::Oversized(Oversize::Unknown)),
                "{fault:?}"
            ),
        }
        assert_eq!(
            endpoint.received().len(),
            1,
            "a retry is an event, and not the client's to decide: {fault:?}"
        );
    }
}

fn unavailable() -> FaultKind {
    FaultKind::Unavailable { retry_after_ms: None, sent: false, by: BlockedBy::Provider }
}

/// No output mode makes a request shorter, so none is tried after this refusal.
#[tokio::test]
async fn a_request_that_is_too_long_is_refused_with_the_tokens_that_the_model_takes() {
    let openai =
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9021 tokens.";
    let body = |error: Value| json!({ "error": error }).to_string();
    let cases = [
        (400, body(json!({ "message": openai, "code": "context_length_exceeded" })), Some(8_192)),
        (413, body(json!({ "message": "Please reduce the length of the messages.", "code": 413 })), None),
        (
            400,
            body(json!({ "message": "too large", "type": "exceed_context_size_error", "n_ctx": 4096 })),
            Some(4_096),
        ),
        (422, "the prompt is too long: 9021 tokens > 8000 maximum".to_owned(), Some(8_000)),
    ];
    for (status, error, context_tokens) in cases {
        let endpoint = Endpoint::serve([Answer::Status(status, &[], error)]).await;
        let mut stage = hello();
        stage.schema = Some(loose());
        let fault = fault(perform(&endpoint.world(), &stage, &due(shaped())).await.0);
        assert_eq!(fault.kind, FaultKind::ContextExceeded { context_tokens }, "{fault:?}");
        assert!(fault.error.contains("refused the request as too long for the model"), "{fault:?}");
        assert_eq!(endpoint.received().len(), 1, "{fault:?}");
    }
    // Throttles, whatever their text; and signs without a window.
    for (status, message, kind) in [
        (429, openai, unavailable()),
        (429, "Too many tokens, please wait before trying again.", unavailable()),
        (503, "input is too long", unavailable()),
        (529, openai, unavailable()),
        (413, "Payload Too Large", FaultKind::Oversized(Oversize::Status)),
        (413, "", FaultKind::Oversized(Oversize::Status)),
        (500, openai, FaultKind::Oversized(Oversize::Status)),
        (400, "no", FaultKind::Oversized(Oversize::Unknown)),
        (422, "no", FaultKind::Oversized(Oversize::Unknown)),
        (
            400,
            "At most 5 image(s) may be provided",
            FaultKind::Oversized(Oversize::Attachments { max: Some(5) }),
        ),
        (404, openai, FaultKind::Permanent),
    ] {
        let endpoint =
            Endpoint::serve([Answer::Status(status, &[], body(json!({ "message": message })))]).await;
        let fault = fault(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
        assert_eq!(fault.kind, kind, "{status} {message}");
    }
    let error = json!({ "error": { "message": openai, "code": "context_length_exceeded" } });
    let endpoint = Endpoint::serve([Answer::Stream(vec![error])]).await;
    let fault = fault(perform(&endpoint.world(), &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert_eq!(fault.kind, FaultKind::ContextExceeded { context_tokens: Some(8_192) }, "{fault:?}");
}

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

#[tokio::test]
async fn an_endpoint_that_is_silent_or_gone_is_asked_again() {
    let endpoint = Endpoint::serve([Answer::Silence]).await;
    let world = endpoint.world_that_waits(Duration::from_millis(200));
    let silent = fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert!(silent.error.contains("did not respond within 200ms"), "{silent:?}");
    let unanswered = FaultKind::Unavailable { retry_after_ms: None, sent: true, by: BlockedBy::Provider };
    assert_eq!(silent.kind, unanswered, "it may have worked on it: {silent:?}");

    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url = format!("http://user:hunter2-hunter2@127.0.0.1:{port}/v1");
    let world = live([("local", provider(&url, Duration::from_secs(5)))], nobody());
    let gone = fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0);
    assert!(gone.error.contains("cannot reach provider"), "{gone:?}");
    assert!(!gone.error.contains("hunter2"), "{gone:?}");
    again(&gone);
    let world = live([("local", provider("no-address", Duration::from_secs(5)))], nobody());
    again(&fault(perform(&world, &hello(), &due(chat("local/gpt", 0..1))).await.0));
}

#[tokio::test]
async fn an_unknown_provider_is_the_operators_to_add() {
    let world = live([("local", provider("http://127.0.0.1:9/v1", Duration::from_secs(5)))], nobody());
    let unknown = fault(perform(&world, &hello(), &due(chat("remote/gpt", 0..1))).await.0);
    assert_eq!(
        unknown.error,
        "provider \"remote\" is unknown (known: local); hint: add [providers.remote] to turnfold.toml, then run: turnfold turn retry"
    );
    let nameless = fault(perform(&world, &hello(), &due(chat("gpt", 0..1))).await.0);
    assert!(nameless.error.contains("provider/model"), "{nameless:?}");
    assert_eq!((unknown.kind, nameless.kind), (FaultKind::Permanent, FaultKind::Permanent));
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
    let settings = super::endpoint::openai(&endpoint.base_url, Duration::from_secs(20));
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

/// Contents of attachments in memory. Each is kept under the number of its bytes.
struct Contents(std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>);

#[async_trait::async_trait]
impl world::Attachments for Contents {
    async fn content(&self, _: uuid::Uuid, sha256: &str) -> Result<Option<Vec<u8>>, store::Error> {
        Ok(self.0.lock().unwrap().get(sha256).cloned())
    }

    async fn keep(&self, thread: uuid::Uuid, content: Vec<u8>) -> Result<String, store::Error> {
        if content.len() == 13 {
            return Err(store::Error::UnknownThread(thread));
        }
        let name = format!("{} bytes", content.len());
        self.0.lock().unwrap().insert(name.clone(), content);
        Ok(name)
    }
}

/// An image of a tool result is stored and given to a model that takes images. Another model reads that there is one.
#[tokio::test]
async fn a_model_is_given_the_images_of_tool_results() {
    use shared::{Accepts, Attachment, AttachmentKind, Content, Response, ToolCall, ToolOutput};
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint::serve([(); 3].map(|()| stream([words("A cat.")], "stop"))).await;
    let world = |kinds: &[AttachmentKind]| {
        let provider = super::endpoint::provider(&endpoint.base_url, std::time::Duration::from_secs(20));
        let models = world::Models::new([("local".to_owned(), provider)].into()).unwrap();
        let accepts = Accepts([("local".to_owned(), kinds.iter().copied().collect())].into());
        let servers = super::servers([("desk", super::child::server([]))]);
        let contents = std::sync::Arc::new(Contents(std::sync::Mutex::default()));
        super::live_with(models.with_accepts(accepts), servers).with_attachments(contents)
    };
    let call = ToolCall { id: "c1".to_owned(), name: "album".to_owned(), arguments: json!({}) };
    let request = due(Request::CallTool { server: "desk".to_owned(), call: call.clone() });
    let (seeing, blind) = (world(&[AttachmentKind::Image]), world(&[]));
    let result = async |world: &world::LiveWorld| match perform(world, &hello(), &request).await.0 {
        Ok((Response::OutputWithExtras { output: ToolOutput::Ok(text), extras }, _)) => {
            (text, extras.content)
        }
        other => panic!("{other:?}"),
    };
    let (text, content) = result(&seeing).await;
    assert_eq!(text, "[image image/png, 3 B]\n[image image/tiff, 3 B]\n[image image/png, 15 B]");
    let picture = Attachment {
        kind: AttachmentKind::Image,
        media_type: "image/png".to_owned(),
        name: String::new(),
        sha256: "3 bytes".to_owned(),
        bytes: 3,
    };
    let [Content::Attached { attachment }, Content::Image { .. }, Content::Image { .. }] = &content[..]
    else {
        panic!("models take no TIFF, and one image cannot be stored: {content:?}")
    };
    assert_eq!(*attachment, picture);
    let (_, content) = result(&blind).await;
    assert!(
        content.iter().all(|part| matches!(part, Content::Image { .. })),
        "no model takes images: {content:?}"
    );

    let asked = Message { tool_calls: vec![call.clone()], ..Message::assistant("") };
    let result = Message { attachments: vec![picture], ..Message::tool(&call, text.clone()) };
    let stage = Stage::hearing([Message::user("Look"), asked, result, Message::user("Well?")]);
    let look = due(chat("local/gpt", 0..4));
    assert_eq!(reply(perform(&seeing, &stage, &look).await.0).0.content, "A cat.");
    assert_eq!(reply(perform(&blind, &stage, &look).await.0).0.content, "A cat.", "it is not refused");
    let sent: Vec<_> = endpoint.received().into_iter().map(|(_, body)| body["messages"].clone()).collect();
    let image = json!([
        { "type": "text", "text": "Images in the result of the tool call c1:" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
    ]);
    let result_sent = json!({ "role": "tool", "content": text, "tool_call_id": "c1" });
    let well = json!({ "role": "user", "content": "Well?" });
    assert_eq!(
        sent[0].as_array().unwrap()[3..],
        [result_sent.clone(), json!({ "role": "user", "content": image }), well.clone()]
    );
    assert_eq!(sent[1].as_array().unwrap()[3..], [result_sent, well]);
    // The results of one message stay together, as providers require.
    let alone = Stage::hearing(stage.messages[1..3].to_vec());
    reply(perform(&seeing, &alone, &due(chat("local/gpt", 0..2))).await.0);
    assert_eq!(endpoint.received()[2].1["messages"].as_array().unwrap().last().unwrap()["role"], "user");
}

#[tokio::test]
async fn a_model_is_given_the_images_and_files_that_it_takes() {
    use shared::{Accepts, Attachment, AttachmentKind};
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint::serve([stream([words("A cat.")], "stop")]).await;
    let attachment = |kind, media_type: &str, name: &str, sha256: &str| Attachment {
        kind,
        media_type: media_type.to_owned(),
        name: name.to_owned(),
        sha256: sha256.to_owned(),
        bytes: 2,
    };
    let picture = attachment(AttachmentKind::Image, "image/png", "", "p");
    let paper = attachment(AttachmentKind::File, "application/pdf", "a.pdf", "f");
    let world = |kinds: &[AttachmentKind], contents: &[&str]| {
        let provider = super::endpoint::provider(&endpoint.base_url, std::time::Duration::from_secs(20));
        let models = world::Models::new([("local".to_owned(), provider)].into()).unwrap();
        let accepts = Accepts([("local".to_owned(), kinds.iter().copied().collect())].into());
        let contents = contents.iter().map(|name| ((*name).to_owned(), b"hi".to_vec())).collect();
        super::live_of(models.with_accepts(accepts))
            .with_attachments(std::sync::Arc::new(Contents(std::sync::Mutex::new(contents))))
    };
    let looks = |attachments: Vec<Attachment>| {
        Stage::hearing([Message { attachments, ..Message::user("What is it?") }])
    };
    let both = looks(vec![picture.clone(), paper.clone()]);
    let due = due(chat("local/gpt", 0..1));
    let (image, file) = (AttachmentKind::Image, AttachmentKind::File);

    let refused = fault(perform(&world(&[image], &["p", "f"]), &both, &due).await.0);
    assert_eq!(refused.kind, FaultKind::Permanent);
    assert!(
        refused.error.starts_with("model local/gpt takes no files") && refused.error.contains("a.pdf"),
        "{refused:?}"
    );
    let missing = fault(perform(&world(&[image, file], &["p"]), &both, &due).await.0);
    assert!(missing.error.contains("a.pdf") && missing.error.contains("is missing"), "{missing:?}");
    assert_eq!(endpoint.received().len(), 0, "nothing was sent");

    assert_eq!(reply(perform(&world(&[image, file], &["p", "f"]), &both, &due).await.0).0.content, "A cat.");
    let (_, body) = endpoint.received().remove(0);
    let expected = json!([
        { "type": "text", "text": "What is it?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
        { "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk=" } },
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}
