//! Requests as endpoints want them: what one refuses is left out, and that is remembered for the model.

use serde_json::{Value, json};
use shared::{FaultKind, Message, Oversize, Request, ToolCall};
use world::{Dialect, LiveWorld, OpenAi, Provider, World as _};

use super::{
    Stage, again, chat, due,
    endpoint::{Answer, Endpoint, end, openai, words},
    fault, live, nobody, perform, tool,
};

fn fine() -> Answer {
    Answer::Stream([words("Hi")].into_iter().chain(end("stop")).collect())
}

fn refusal(message: &str) -> Answer {
    let error = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    Answer::Status(400, &[], error.to_string())
}

fn world(endpoint: &Endpoint, dialect: Dialect) -> LiveWorld {
    let provider = openai(&endpoint.base_url, std::time::Duration::from_secs(20));
    live([("local", Provider::OpenAi(OpenAi { dialect: Some(dialect), ..provider }))], nobody())
}

/// A conversation in which a tool was called, without the person's message.
fn called() -> Stage {
    let asked = |id: &str| ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments: json!({}) };
    let calling =
        Message { tool_calls: vec![asked("call_1_0"), asked("call_1_1")], ..Message::assistant("") };
    let (one, two) = (Message::tool(&asked("call_1_0"), "1"), Message::tool(&asked("call_1_1"), "2"));
    Stage::hearing([calling, one, two])
}

fn roles(body: &Value) -> Vec<&str> {
    body["messages"].as_array().unwrap().iter().filter_map(|message| message["role"].as_str()).collect()
}

/// Returns the bodies of all requests after three turns at an endpoint that answers the first with this refusal.
async fn refused_once(dialect: Dialect, message: &str, stage: &Stage, request: Request) -> Vec<Value> {
    let endpoint = Endpoint::lenient([refusal(message), fine(), fine()]).await;
    let world = world(&endpoint, dialect);
    for _ in 0..2 {
        perform(&world, stage, &due(request.clone())).await.0.unwrap();
    }
    endpoint.received().into_iter().map(|(_, body)| body).collect()
}

#[tokio::test]
async fn what_an_endpoint_refuses_is_left_out_and_remembered() {
    let streams = |body: &Value| body.get("stream_options").is_some();
    let whole = |body: &Value| body["stream"] == true;
    let orders = |body: &Value| roles(body) == ["system", "assistant", "tool", "tool"];
    let parallel = |body: &Value| roles(body).iter().filter(|role| **role == "assistant").count() == 1;
    let long_ids = |body: &Value| body["messages"].to_string().contains("call_1_0");
    let toolless = |body: &Value| body.get("tools").is_none();
    let unsigned = |body: &Value| !body.to_string().contains("thought_signature");
    let adjoining = |body: &Value| roles(body).windows(2).any(|roles| roles == ["tool", "user"]);
    type Has = fn(&Value) -> bool;
    let cases: [(Dialect, &str, Has); 9] = [
        (Dialect::OpenAi, "Unrecognized request argument supplied: stream_options", streams),
        (Dialect::Compatible, "body.stream_options: Extra inputs are not permitted", streams),
        (Dialect::Compatible, "This model does not support streaming.", whole),
        (Dialect::OpenAi, "No user query found in messages.", orders),
        (
            Dialect::OpenAi,
            "Please ensure that function call turn comes immediately after a user turn",
            orders,
        ),
        (Dialect::Compatible, "This model only supports single tool-calls at once!", parallel),
        (
            Dialect::Compatible,
            "Tool call id was call_1_0 but must be a-z, A-Z, 0-9, with a length of 9.",
            long_ids,
        ),
        (Dialect::Compatible, "Requests which include tool calls must define tools", toolless),
        (Dialect::Compatible, "Function call is missing a thought_signature", unsigned),
    ];
    for (dialect, message, has) in cases {
        let sent = refused_once(dialect, message, &called(), chat("local/gpt", 0..3)).await;
        let had: Vec<bool> = sent.iter().map(has).collect();
        assert_eq!(had, [true, false, false], "{message}: {sent:#?}");
    }
    let mut stage = called();
    stage.messages.push(Message::user("And now?"));
    let sent = refused_once(
        Dialect::Compatible,
        "Unexpected role 'user' after role 'tool'",
        &stage,
        chat("local/gpt", 0..4),
    )
    .await;
    assert_eq!(sent.iter().map(adjoining).collect::<Vec<_>>(), [true, false, false], "{sent:#?}");
}

#[tokio::test]
async fn a_refusal_that_nothing_can_be_done_about_is_told_at_once() {
    for message in ["the model is retired", "stream_options"] {
        let endpoint = Endpoint::lenient([refusal(message), refusal(message)]).await;
        let world = world(&endpoint, Dialect::Mistral);
        let stage = Stage::hearing([Message::user("Hello")]);
        let fault = fault(perform(&world, &stage, &due(chat("local/gpt", 0..1))).await.0);
        assert!(fault.error.ends_with(&format!("(http status 400): {message}")), "{fault:?}");
        assert_eq!((fault.kind, endpoint.received().len()), (FaultKind::Oversized(Oversize::Unknown), 1));
    }
}

/// A refusal for one model says nothing about another model of the provider.
#[tokio::test]
async fn refusals_are_remembered_for_each_model() {
    let endpoint = Endpoint::lenient([refusal("stream_options"), fine(), fine(), fine()]).await;
    let world = world(&endpoint, Dialect::Compatible);
    let stage = Stage::hearing([Message::user("Hello")]);
    for model in ["local/one", "local/two", "local/one"] {
        perform(&world, &stage, &due(chat(model, 0..1))).await.0.unwrap();
    }
    let sent: Vec<bool> =
        endpoint.received().iter().map(|(_, body)| body.get("stream_options").is_some()).collect();
    assert_eq!(sent, [true, false, true, false]);
    let learned: Vec<_> = world.learned_models().into_iter().map(|it| (it.model, it.refused)).collect();
    let refused = vec!["stream_options".to_owned()];
    assert_eq!(learned, [("local/one".to_owned(), refused)], "the other model took everything");
    world.forget_model("local/one");
    assert_eq!(world.learned_models(), []);
}

/// A refusal in the middle of a stream cannot be followed by another reply: the person has read the first words.
#[tokio::test]
async fn no_other_form_follows_words_that_were_streamed() {
    let within = json!({ "error": { "message": "stream_options", "code": 400 } });
    let endpoint = Endpoint::lenient([Answer::Stream(vec![words("Good "), within])]).await;
    let world = world(&endpoint, Dialect::Compatible);
    let stage = Stage::hearing([Message::user("Hello")]);
    fault(perform(&world, &stage, &due(chat("local/gpt", 0..1))).await.0);
    assert_eq!(endpoint.received().len(), 1);
}

fn shaped() -> (Stage, Request) {
    let mut stage = Stage::hearing([Message::user("Hello")]);
    stage.schema = Some(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { response_schema, .. } = &mut request {
        *response_schema = Some("Plan".to_owned());
    }
    (stage, request)
}

/// Returns the form of structured output that a request uses.
fn form(body: &Value) -> &'static str {
    match (body["response_format"].is_object(), body["tool_choice"].is_object()) {
        (true, _) => "json_schema",
        (_, true) => "tool",
        _ => "json",
    }
}

#[tokio::test]
async fn each_dialect_asks_for_structured_answers_in_its_own_way() {
    for (dialect, name, streamed) in [
        (Dialect::OpenAi, "json_schema", true),
        (Dialect::Anthropic, "tool", true),
        (Dialect::Groq, "json_schema", false),
        (Dialect::Compatible, "json_schema", true),
    ] {
        let endpoint = Endpoint::lenient([fine()]).await;
        let (stage, request) = shaped();
        perform(&world(&endpoint, dialect), &stage, &due(request)).await.0.unwrap();
        let (_, body) = endpoint.received().remove(0);
        assert_eq!((form(&body), body["stream"] == true), (name, streamed), "{dialect:?}");
    }
}

/// A 500 may be a bad moment. Sending the same prompt again at once would make it worse.
#[tokio::test]
async fn a_500_without_a_cause_is_not_sent_again_at_once() {
    let failure = || Answer::Status(500, &[], "oops".to_owned());
    let answers = [failure(), fine(), failure(), fine(), fine(), fine()];
    let endpoint = Endpoint::lenient(answers).await;
    let (world, (stage, request)) = (world(&endpoint, Dialect::Compatible), shaped());
    let ask = async || perform(&world, &stage, &due(request.clone())).await.0;
    again(&fault(ask().await));
    assert_eq!(endpoint.received().len(), 1, "one request an attempt");
    ask().await.unwrap();
    again(&fault(ask().await));
    ask().await.unwrap();
    // Twice, only the looser form worked.
    ask().await.unwrap();
    ask().await.unwrap();
    let sent: Vec<&str> = endpoint.received().iter().map(|(_, body)| form(body)).collect();
    assert_eq!(sent, ["json_schema", "tool", "json_schema", "tool", "tool", "tool"]);
}

/// An endpoint that ignores a schema never tells its model. The complaint does.
#[tokio::test]
async fn a_reply_of_the_wrong_shape_is_asked_for_again_with_the_schema() {
    let endpoint = Endpoint::lenient([fine()]).await;
    let (stage, request) = shaped();
    let mut due = due(request);
    due.previous_error = Some(shared::UnexpectedResponse::Schema("missing field `n`".to_owned()).to_string());
    perform(&world(&endpoint, Dialect::Compatible), &stage, &due).await.0.unwrap();
    let (_, body) = endpoint.received().remove(0);
    assert_eq!(roles(&body), ["system", "user"]);
    let text = body["messages"][1]["content"].as_str().unwrap();
    assert!(text.contains("missing field `n`") && text.contains("\"additionalProperties\":false"), "{text}");
}

#[tokio::test]
async fn arguments_that_were_no_object_are_sent_as_one() {
    let sent = |arguments: Value| async move {
        let asked = ToolCall { id: "a".to_owned(), name: "look".to_owned(), arguments };
        let calling = Message { tool_calls: vec![asked.clone()], ..Message::assistant("") };
        let stage = Stage::hearing([Message::user("Hello"), calling, Message::tool(&asked, "no")]);
        let endpoint = Endpoint::serve([fine()]).await;
        perform(&endpoint.world(), &stage, &due(chat("local/gpt", 0..3))).await.0.unwrap();
        let (_, body) = endpoint.received().remove(0);
        body["messages"][2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
    };
    assert_eq!(sent(json!({ "at": 9 })).await, "{\"at\":9}");
    assert_eq!(sent(json!("{at: 9")).await, "{\"unreadable_arguments\":\"{at: 9\"}");
    assert_eq!(sent(json!([1])).await, "{\"unreadable_arguments\":[1]}");
    let large = "{\"id\": 123456789012345678901234}";
    assert_eq!(sent(json!(large)).await, large, "every digit");
}

#[tokio::test]
async fn the_address_may_be_written_in_several_ways() {
    let endpoint = Endpoint::serve([fine(), fine(), fine(), fine()]).await;
    let base = &endpoint.base_url;
    for url in [
        format!("{base}/"),
        format!("{base}/chat/completions"),
        format!("{base}?api-version=1"),
        format!("{base}/chat/completions?a=b"),
    ] {
        let world =
            live([("local", super::endpoint::provider(&url, std::time::Duration::from_secs(20)))], nobody());
        let stage = Stage::hearing([Message::user("Hello")]);
        perform(&world, &stage, &due(chat("local/gpt", 0..1))).await.0.unwrap();
    }
}

#[tokio::test]
async fn a_dialect_without_tools_declares_those_that_were_called() {
    let mut stage = called();
    stage.tool_servers.insert("cal".to_owned(), vec![tool("look")]);
    let endpoint = Endpoint::lenient([fine()]).await;
    perform(&world(&endpoint, Dialect::Anthropic), &stage, &due(chat("local/gpt", 0..3))).await.0.unwrap();
    let (_, body) = endpoint.received().remove(0);
    assert_eq!(
        (&body["tools"][0]["function"]["name"], &body["tool_choice"]),
        (&json!("look"), &json!("none"))
    );
}

/// A conversation with the tools `look` and `odd`. The schema of `odd` has alternatives at its top.
fn with_odd_tool() -> (Stage, Request) {
    let mut stage = Stage::hearing([Message::user("Hello")]);
    let mut odd = tool("odd");
    odd.parameters = json!({
        "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    stage.tools = vec![tool("look"), odd];
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tools, .. } = &mut request {
        *tools = vec!["look".to_owned(), "odd".to_owned()];
    }
    (stage, request)
}

/// Returns the offered tools of all requests of two turns, with the keywords of the second, and the system prompt.
async fn offered(refusals: impl IntoIterator<Item = &'static str>) -> Vec<(Vec<String>, String)> {
    let answers: Vec<Answer> = refusals.into_iter().map(refusal).chain([fine(), fine()]).collect();
    let endpoint = Endpoint::lenient(answers).await;
    let world = world(&endpoint, Dialect::OpenAi);
    let (stage, request) = with_odd_tool();
    for _ in 0..2 {
        perform(&world, &stage, &due(request.clone())).await.0.unwrap();
    }
    let sent = |body: &Value| {
        let tools = body["tools"].as_array().unwrap().iter();
        let shown = tools.map(|tool| {
            let function = &tool["function"];
            let mark = if function["parameters"].get("anyOf").is_some() { "!" } else { "" };
            format!("{}{mark}", function["name"].as_str().unwrap())
        });
        (shown.collect(), body["messages"][0]["content"].as_str().unwrap().to_owned())
    };
    endpoint.received().iter().map(|(_, body)| sent(body)).collect()
}

const REFUSED_SCHEMAS: [&str; 9] = [
    // OpenAI
    "Invalid schema for function 'odd': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
    "Invalid schema for function 'odd': In context=('properties', 'look'), array schema missing items.",
    // Anthropic
    "tools.1.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    // Gemini
    "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[x].items: missing field.",
    "Unable to submit request because `odd` functionDeclaration `parameters.x` schema didn't specify the schema type field.",
    // Bedrock
    "The value at toolConfig.tools.1.toolSpec.inputSchema.json.type must be one of the following: object.",
    // Moonshot
    "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.x': type is not defined>",
    // Groq
    "invalid JSON schema for tool odd, tools[1].function.parameters: `/anyOf`: does not validate",
    // llama.cpp
    "Unrecognized schema in function odd: {}",
];

#[tokio::test]
async fn a_refused_schema_is_simplified_for_the_model_and_remembered() {
    for message in REFUSED_SCHEMAS {
        let sent: Vec<Vec<String>> = offered([message]).await.into_iter().map(|(tools, _)| tools).collect();
        assert_eq!(sent, [["look", "odd!"], ["look", "odd"], ["look", "odd"]], "{message}");
    }
}

#[tokio::test]
async fn a_tool_whose_schema_is_refused_again_is_left_out() {
    for message in REFUSED_SCHEMAS.into_iter().filter(|message| !message.contains("moonshot")) {
        let sent = offered([message, message]).await;
        let tools: Vec<usize> = sent.iter().map(|(tools, _)| tools.len()).collect();
        assert_eq!(tools, [2, 2, 1, 1], "{message}");
        assert!(sent[3].1.ends_with("1 more tools exist that are not shown here."), "{}", sent[3].1);
    }
}

/// A refusal for something else changes no tool.
#[tokio::test]
async fn a_refusal_that_names_no_schema_of_a_tool_changes_none() {
    for message in
        ["Unrecognized request argument supplied: stream_options", "'odd' is not odd: stream_options"]
    {
        assert_eq!(offered([message]).await[1].0, ["look", "odd!"], "{message}");
    }
}

#[tokio::test]
async fn a_function_of_the_client_is_declared_strict_as_it_was_sent() {
    let parameters = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let function = |name: &str, strict: Option<bool>| json!({"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}});
    let options = json!({"tools": [
        function("strict", Some(true)), function("free", Some(false)), function("plain", None),
    ]});
    let mut stage = Stage::hearing([Message::user("Hello")]);
    stage.reply_options = serde_json::from_value(options).unwrap();
    stage.tools = stage.reply_options.tools.iter().map(shared::ClientTool::tool).collect();
    let mut request = chat("local/gpt", 0..1);
    if let Request::Chat { tools, .. } = &mut request {
        *tools = ["strict", "free", "plain"].map(str::to_owned).to_vec();
    }
    let strict = |body: &Value| {
        let tools = body["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["function"].get("strict").cloned()).collect::<Vec<_>>()
    };
    let message = "tools.0.function.strict: Extra inputs are not permitted";
    let bodies = refused_once(Dialect::Compatible, message, &stage, request).await;
    assert_eq!(strict(&bodies[0]), [Some(json!(true)), Some(json!(false)), None], "{bodies:?}");
    assert_eq!(strict(&bodies[1]), [None, None, None], "left out after a refusal");
    assert_eq!(strict(&bodies[2]), [None, None, None], "and remembered");
}
