//! Structured output and tool calls of models and endpoints with fewer features than OpenAI's.

use serde_json::{Value, json};
use shared::{FaultKind, Oversize, Reply, Request, Response, Usage};
use world::{LiveWorld, OpenAi, Provider, Structured};

use super::{
    Stage, again, chat, due,
    endpoint::{Answer, Endpoint, call, end, words},
    fault, live, nobody, perform, tool,
};

fn shaped() -> (Stage, Request) {
    let mut stage = Stage::hearing([shared::Message::user("Hello")]);
    stage.schema =
        Some(json!({ "type": "object", "properties": { "n": { "type": "integer", "format": "uint32" } } }));
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { response_schema: shape, .. } = &mut request {
        *shape = Some("Plan".to_owned());
    }
    (stage, request)
}

fn stream(pieces: impl IntoIterator<Item = Value>) -> Answer {
    Answer::Stream(pieces.into_iter().chain(end("stop")).collect())
}

fn refusal(status: u16, words: &str) -> Answer {
    Answer::Status(status, &[], json!({ "error": { "message": words } }).to_string())
}

fn world(endpoint: &Endpoint, wanted: Structured) -> LiveWorld {
    let provider = super::endpoint::openai(&endpoint.base_url, std::time::Duration::from_secs(20));
    live([("local", Provider::OpenAi(OpenAi { structured: wanted, ..provider }))], nobody())
}

fn reply(outcome: super::Outcome) -> (Reply, Usage) {
    match outcome.expect("a reply was expected") {
        (Response::Reply(reply), Some(meter)) => (reply, meter),
        other => panic!("a metered reply was expected: {other:?}"),
    }
}

/// Returns the form of structured output that a request uses.
fn form(body: &Value) -> &'static str {
    match (body["response_format"].is_object(), body["tool_choice"].is_object()) {
        (true, false) => "json_schema",
        (false, true) => "tool",
        (false, false) => "json",
        (true, true) => panic!("two forms at once: {body}"),
    }
}

fn forms(endpoint: &Endpoint) -> Vec<&'static str> {
    endpoint.received().iter().map(|(_, body)| form(body)).collect()
}

#[tokio::test]
async fn an_endpoint_with_strict_formats_is_asked_for_nothing_else() {
    let endpoint = Endpoint::serve([stream([words("```json\n{\"n\": 1}\n```")])]).await;
    let (stage, request) = shaped();
    let (reply, meter) = reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    assert_eq!((reply.content.as_str(), meter.response_format.as_str()), ("{\"n\": 1}", "json_schema"));
    assert_eq!(forms(&endpoint), ["json_schema"]);
}

#[tokio::test]
async fn an_endpoint_without_formats_is_asked_through_a_function_and_never_again_otherwise() {
    for (status, body) in
        [(400, "what?"), (404, "no endpoint takes response_format"), (422, "what?"), (501, "what?")]
    {
        let answered = || {
            stream([
                words("I call it."),
                call(
                    json!({ "index": 0, "id": "a", "function": { "name": "answer", "arguments": "{\"n\":" } }),
                ),
                call(json!({ "index": 0, "function": { "arguments": " 1}" } })),
            ])
        };
        let endpoint = Endpoint::serve([refusal(status, body), answered(), answered()]).await;
        let (world, (stage, request)) = (endpoint.world(), shaped());
        for _ in 0..2 {
            let (reply, meter) = reply(perform(&world, &stage, &due(request.clone())).await.0);
            assert_eq!(reply, Reply { content: "{\"n\": 1}".to_owned(), ..Reply::default() });
            assert_eq!(meter.response_format, "tool");
        }
        assert_eq!(forms(&endpoint), ["json_schema", "tool", "tool"]);
        let (_, body) = endpoint.received().remove(1);
        assert_eq!(body["tool_choice"], json!({ "type": "function", "function": { "name": "answer" } }));
        assert_eq!(body["tools"].as_array().unwrap().len(), 1);
        let parameters = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" } },
            "required": ["n"],
            "additionalProperties": false,
        });
        assert_eq!(body["tools"][0]["function"]["parameters"], parameters);
    }
}

#[tokio::test]
async fn an_endpoint_without_functions_is_told_the_schema_in_words() {
    let endpoint = Endpoint::serve([
        refusal(400, "no formats"),
        refusal(422, "no tools"),
        stream([words("Sure: {\"n\": 1}. ")]),
        stream([words("none")]),
    ])
    .await;
    let (world, (stage, request)) = (endpoint.world(), shaped());
    let (first, meter) = reply(perform(&world, &stage, &due(request.clone())).await.0);
    assert_eq!((first.content.as_str(), meter.response_format.as_str()), ("{\"n\": 1}", "json"));
    let mut again = due(request);
    again.previous_error =
        Some(shared::UnexpectedResponse::Schema("missing field `n`".to_owned()).to_string());
    assert_eq!(reply(perform(&world, &stage, &again).await.0).0.content, "none");
    assert_eq!(forms(&endpoint), ["json_schema", "tool", "json", "json"]);
    let (_, body) = endpoint.received().remove(3);
    assert_eq!((&body["tools"], &body["messages"][0]["content"]), (&Value::Null, &json!("Be brief.")));
    let text = body["messages"][1]["content"].as_str().unwrap();
    assert!(text.contains("\"additionalProperties\":false"), "{text}");
    assert!(body["messages"][3]["content"].as_str().unwrap().contains("missing field `n`"));
}

#[tokio::test]
async fn a_model_that_answers_in_text_where_a_call_is_wanted_is_taken_at_its_word() {
    let endpoint = Endpoint::serve([stream([words("Here:\n{\"n\": 1}")])]).await;
    let (stage, request) = shaped();
    let world = world(&endpoint, Structured::Tool);
    let (reply, meter) = reply(perform(&world, &stage, &due(request)).await.0);
    assert_eq!((reply.content.as_str(), meter.response_format.as_str()), ("{\"n\": 1}", "tool"));
}

#[tokio::test]
async fn a_form_that_is_chosen_is_not_left() {
    for (wanted, name) in
        [(Structured::JsonSchema, "json_schema"), (Structured::Tool, "tool"), (Structured::Json, "json")]
    {
        let endpoint = Endpoint::serve([refusal(400, "no")]).await;
        let (stage, request) = shaped();
        let refused = fault(perform(&world(&endpoint, wanted), &stage, &due(request)).await.0);
        assert!(refused.error.contains("(http status 400): no"), "{refused:?}");
        assert_eq!(forms(&endpoint), [name]);
    }
}

#[tokio::test]
async fn a_500_over_the_form_is_remembered() {
    let fine = || stream([words("{\"n\": 1}")]);
    let endpoint = Endpoint::serve([refusal(500, "cannot parse the JSON Schema"), fine(), fine()]).await;
    let (world, (stage, request)) = (endpoint.world(), shaped());
    for _ in 0..2 {
        reply(perform(&world, &stage, &due(request.clone())).await.0);
    }
    assert_eq!(forms(&endpoint), ["json_schema", "tool", "tool"]);
}

/// A model that does not exist is refused in every form, so one request is enough to know it.
#[tokio::test]
async fn a_404_about_something_else_is_told_at_once() {
    let endpoint = Endpoint::serve([refusal(404, "the model `gpt` does not exist")]).await;
    let (stage, request) = shaped();
    let refused = fault(perform(&endpoint.world(), &stage, &due(request)).await.0);
    assert!(refused.error.contains("(http status 404): the model `gpt` does not exist"), "{refused:?}");
}

#[tokio::test]
async fn a_refusal_of_every_form_is_told_and_not_remembered() {
    let refusals = || (0..3).map(|_| refusal(400, "the prompt is forbidden"));
    let endpoint = Endpoint::serve(refusals().chain(refusals())).await;
    let (world, (stage, request)) = (endpoint.world(), shaped());
    for _ in 0..2 {
        let refused = fault(perform(&world, &stage, &due(request.clone())).await.0);
        assert!(refused.error.contains("(http status 400): the prompt is forbidden"), "{refused:?}");
        assert_eq!(refused.kind, FaultKind::Oversized(Oversize::Unknown));
    }
    assert_eq!(forms(&endpoint), ["json_schema", "tool", "json", "json_schema", "tool", "json"]);
}

#[tokio::test]
async fn a_refusal_within_the_stream_counts_until_a_word_was_received() {
    let within = || json!({ "error": { "code": 400, "message": "no formats" } });
    let endpoint = Endpoint::serve([
        Answer::Stream(vec![within()]),
        stream([words("{\"n\": 1}")]),
        Answer::Stream(vec![words("{"), within()]),
    ])
    .await;
    let (world, (stage, request)) = (endpoint.world(), shaped());
    assert_eq!(reply(perform(&world, &stage, &due(request.clone())).await.0).1.response_format, "tool");
    fault(perform(&world, &stage, &due(request)).await.0);
    assert_eq!(forms(&endpoint), ["json_schema", "tool", "tool"]);
}

#[tokio::test]
async fn what_says_nothing_of_the_form_leaves_it() {
    let endpoint = Endpoint::serve([refusal(503, "busy"), refusal(401, "who?")]).await;
    let (world, (stage, request)) = (endpoint.world(), shaped());
    again(&fault(perform(&world, &stage, &due(request.clone())).await.0));
    fault(perform(&world, &stage, &due(request)).await.0);
    assert_eq!(forms(&endpoint), ["json_schema", "json_schema"]);
}

fn with_tools(tools: Vec<shared::Tool>) -> (Stage, Request) {
    let mut stage = Stage::hearing([shared::Message::user("Where is my invoice?")]);
    stage.tools = vec![tool("submit")];
    stage.tool_servers.insert("cal".to_owned(), tools);
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tool_servers, tools, .. } = &mut request {
        tool_servers.push("cal".to_owned());
        tools.push("submit".to_owned());
    }
    (stage, request)
}

#[tokio::test]
async fn a_call_that_is_written_as_words_is_a_call_of_what_was_offered() {
    let written =
        |name: &str| format!("```json\n{{\"name\": \"{name}\", \"arguments\": {{\"at\": 9}}}}\n```");
    let (stage, request) = with_tools(vec![tool("cal.book")]);
    for name in ["cal.book", "cal_book"] {
        let endpoint = Endpoint::serve([stream([words(&written(name))])]).await;
        let (reply, meter) = reply(perform(&endpoint.world(), &stage, &due(request.clone())).await.0);
        let called = &reply.tool_calls[0];
        assert_eq!(
            (reply.content.as_str(), reply.tool_calls.len(), meter.response_format.as_str()),
            ("", 1, "")
        );
        // A log without structured output has the same encoding as before forms were recorded.
        assert_eq!(serde_json::to_value(&meter).unwrap().get("form"), None);
        assert_eq!(
            (called.id.as_str(), called.name.as_str(), &called.arguments),
            ("call_1_0", "cal_book", &json!({ "at": 9 }))
        );
    }
    let endpoint = Endpoint::serve([stream([words(&written("burn"))])]).await;
    let (reply, _) = reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    assert_eq!(reply, Reply { content: written("burn"), ..Reply::default() });
}

#[tokio::test]
async fn of_300_tools_those_that_matter_are_offered_and_the_model_is_told_of_the_rest() {
    let mut tools: Vec<_> = (0..300).map(|nth| tool(&format!("t{nth}"))).collect();
    tools[290].description = "Finds an invoice.".to_owned();
    let endpoint = Endpoint::serve([stream([words("ok")])]).await;
    let (stage, request) = with_tools(tools);
    reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    let (_, body) = endpoint.received().remove(0);
    let names: Vec<_> =
        body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!((names.len(), &names[..3]), (128, &[&json!("submit"), &json!("t290"), &json!("t0")][..]));
    assert_eq!(body["messages"][0]["content"], "Be brief.\n\n173 more tools exist that are not shown here.");
}

/// After two replies that do not fit, each attempt takes the next form. The next request begins with the first again.
#[tokio::test]
async fn replies_that_do_not_fit_lead_to_the_next_form() {
    let endpoint = Endpoint::serve((0..6).map(|_| stream([words("Sure, here it is.")]))).await;
    let (world, (stage, request)) = (endpoint.world(), shaped());
    let misfit = shared::UnexpectedResponse::Schema("expected value".to_owned()).to_string();
    for attempts in [0, 1, 2, 3, 4, 0] {
        let mut due = due(request.clone());
        due.attempts = attempts;
        due.previous_error = Some(misfit.clone()).filter(|_| 0 < attempts);
        reply(perform(&world, &stage, &due).await.0);
    }
    assert_eq!(forms(&endpoint), ["json_schema", "json_schema", "tool", "json", "json", "json_schema"]);
    let chosen = Endpoint::serve([stream([words("Sure.")])]).await;
    let mut due = due(request);
    (due.attempts, due.previous_error) = (3, Some(misfit));
    reply(perform(&self::world(&chosen, Structured::JsonSchema), &stage, &due).await.0);
    assert_eq!(forms(&chosen), ["json_schema"], "a form that is chosen is not left");
}

#[tokio::test]
async fn raw_line_breaks_in_json_are_read() {
    let endpoint = Endpoint::serve([stream([words("{\"n\": 1, \"s\": \"one\ntwo\"}")])]).await;
    let (stage, request) = shaped();
    let (reply, _) = reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    let read: Value = serde_json::from_str(&reply.content).unwrap();
    assert_eq!(read, json!({ "n": 1, "s": "one\ntwo" }));
}

/// A request for a reply in a client's format, with one tool.
fn asked(format: Value, tools: &[&str]) -> (Stage, Request) {
    let mut stage = Stage::hearing([shared::Message::user("Hello")]);
    stage.reply_options = serde_json::from_value(json!({ "response_format": format })).unwrap();
    stage.tools = tools.iter().map(|name| tool(name)).collect();
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { response_schema, tools: offered, .. } = &mut request {
        *response_schema = stage.reply_options.response_format.name().map(str::to_owned);
        *offered = tools.iter().map(|name| (*name).to_owned()).collect();
    }
    (stage, request)
}

#[tokio::test]
async fn the_format_of_a_client_is_sent_as_the_client_wrote_it() {
    let schema =
        json!({ "type": "object", "properties": { "n": { "type": "integer", "default": 1 }, "m": {} } });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema, "strict": false } });
    for (structured, form_name) in
        [(Structured::JsonSchema, "json_schema"), (Structured::Tool, "tool"), (Structured::Json, "json")]
    {
        let endpoint = Endpoint::serve([stream([words("{\"n\": 1}")])]).await;
        let (stage, request) = asked(format.clone(), &[]);
        let (reply, _) = reply(perform(&world(&endpoint, structured), &stage, &due(request)).await.0);
        assert_eq!(reply.content, "{\"n\": 1}");
        let body = &endpoint.received()[0].1;
        assert_eq!(form(body), form_name);
        match structured {
            Structured::JsonSchema => assert_eq!(body["response_format"], format),
            Structured::Tool => assert_eq!(body["tools"][0]["function"]["parameters"], schema),
            Structured::Json | Structured::Auto => {
                assert!(body["messages"].to_string().contains("\\\"default\\\":1"), "{body}");
            }
        }
    }
    let endpoint = Endpoint::serve([stream([words("{}")])]).await;
    let (stage, request) = asked(json!({ "type": "json_object" }), &[]);
    reply(perform(&endpoint.world(), &stage, &due(request)).await.0);
    let body = &endpoint.received()[0].1;
    assert_eq!(body["response_format"], json!({ "type": "json_object" }));
    assert!(body["messages"].to_string().contains("JSON object"), "OpenAI requires the word: {body}");
}

#[tokio::test]
async fn a_model_may_call_tools_before_it_answers_in_a_format() {
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": { "type": "object" } } });
    let called = |name: &str| {
        stream([call(
            json!({ "index": 0, "id": "a", "function": { "name": name, "arguments": "{\"n\":1}" } }),
        )])
    };
    for structured in [Structured::JsonSchema, Structured::Tool, Structured::Json] {
        let endpoint = Endpoint::serve([called("look")]).await;
        let (stage, request) = asked(format.clone(), &["look"]);
        let (reply, _) = reply(perform(&world(&endpoint, structured), &stage, &due(request)).await.0);
        assert_eq!(
            (reply.content.as_str(), reply.tool_calls[0].name.as_str()),
            ("", "look"),
            "{structured:?}"
        );
    }
    let endpoint = Endpoint::serve([called("answer")]).await;
    let (stage, request) = asked(format, &["look"]);
    let (reply, _) = reply(perform(&world(&endpoint, Structured::Tool), &stage, &due(request)).await.0);
    assert_eq!((reply.content.as_str(), reply.tool_calls.len()), ("{\"n\":1}", 0));
    assert_eq!(endpoint.received()[0].1["tool_choice"], "required");
}
