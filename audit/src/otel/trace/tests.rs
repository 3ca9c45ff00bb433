//! Traces of small logs.

use serde_json::json;
use uuid::Uuid;

use super::{
    super::{Peer, export_protobuf, export_request},
    *,
};

const THREAD: Uuid = Uuid::from_u128(7);
const TURN: Uuid = Uuid::from_u128(8);

/// Builds a log whose events are a second apart.
fn log(events: &[serde_json::Value]) -> Vec<Recorded> {
    let row = |(seq, event): (u64, &serde_json::Value)| Recorded {
        seq,
        at: i64::try_from(seq).unwrap() * 1_000_000,
        event: serde_json::from_value(event.clone()).unwrap(),
    };
    (0..).zip(events).map(row).collect()
}

fn one_turn() -> Vec<Recorded> {
    let chat = json!({"request": "chat", "model": "openai/gpt", "system": "be secretive", "context": {"start": 0, "end": 1}});
    let call = json!({"request": "call_tool", "server": "notes", "call": {"id": "c1", "name": "find", "arguments": {"q": "secret words"}}});
    log(&[
        json!({"event": "opened", "strategy": "planner", "tenant": "acme"}),
        json!({"event": "turn_started", "turn": TURN, "messages": [{"role": "user", "content": "my secret"}]}),
        json!({"event": "asked", "node": "plan", "requests": [chat]}),
        json!({"event": "attempt_failed", "slot": 0, "error": "it wrote a secret", "retry_after_ms": 10}),
        json!({"event": "answered", "slot": 0, "response": {"response": "reply", "content": "a secret reply"},
               "usage": {"model": "gpt-7", "input_tokens": 10, "output_tokens": 3, "micro_usd": 1500, "duration_ms": 250}}),
        json!({"event": "decided", "node": "plan", "to": {"node": "act"}}),
        json!({"event": "asked", "node": "act", "requests": [call]}),
        json!({"event": "attempted", "slot": 0}),
        json!({"event": "answered", "slot": 0, "response": {"response": "output", "status": "ok", "text": "secret result"}}),
        json!({"event": "decided", "node": "act", "messages": [{"role": "assistant", "content": "done"}], "to": "end"}),
    ])
}

fn spans(log: &[Recorded], content: Content) -> Vec<Span> {
    turn_spans(THREAD, log, &BTreeMap::new(), content, &Peers::default())
}

#[test]
fn a_turn_is_a_trace_of_nodes_and_requests() {
    let spans = spans(&one_turn(), Content::Omit);
    let shape: Vec<(&str, i64, i64)> =
        spans.iter().map(|span| (span.name.as_str(), span.start / 1_000, span.end / 1_000)).collect();
    let expected = [
        ("chat gpt", 2_000, 3_000),
        ("chat gpt", 3_750, 4_000),
        ("plan", 1_000, 5_000),
        ("execute_tool find", 7_000, 8_000),
        ("act", 5_000, 9_000),
        ("invoke_agent planner", 1_000, 9_000),
    ];
    assert_eq!(shape, expected);
    let [failed, replied, plan, call, act, turn] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((failed.parent, replied.parent, call.parent), (Some(plan.id), Some(plan.id), Some(act.id)));
    assert_eq!((plan.parent, act.parent, turn.parent), (Some(turn.id), Some(turn.id), None));
    assert!(failed.error.is_some() && replied.error.is_none() && turn.error.is_none());
    let has = |span: &Span, key: &str, value: crate::otel::AttributeValue| {
        assert!(
            span.attributes
                .contains(&(span.attributes.iter().find(|attribute| attribute.0 == key).unwrap().0, value)),
            "{span:?}"
        );
    };
    has(replied, "gen_ai.usage.input_tokens", 10.into());
    has(replied, "gen_ai.response.model", "gpt-7".into());
    has(call, "gen_ai.tool.name", "find".into());
    has(turn, "gen_ai.conversation.id", THREAD.to_string().into());
    has(turn, "turnfold.outcome", "answered".into());
    has(turn, "turnfold.tenant", "acme".into());
    let ids: std::collections::BTreeSet<SpanId> = spans.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), spans.len(), "every span has an id of its own");
}

/// Collectors find attributes by name, so each name is part of the contract.
#[test]
fn the_attributes_have_the_names_of_the_conventions() {
    let spans = spans(&one_turn(), Content::Include);
    let names: Vec<Vec<&str>> =
        spans.iter().map(|span| span.attributes.iter().map(|(name, _)| *name).collect()).collect();
    let chat = ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"];
    let prompt = ["gen_ai.system_instructions", "gen_ai.input.messages"];
    let usage = [
        "gen_ai.response.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "turnfold.cost_usd",
        "gen_ai.response.finish_reasons",
    ];
    let tool = [
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "gen_ai.tool.type",
        "turnfold.server",
        "mcp.method.name",
    ];
    let node = ["turnfold.node", "turnfold.seq"];
    let turn = [
        "gen_ai.operation.name",
        "gen_ai.agent.name",
        "gen_ai.conversation.id",
        "turnfold.turn",
        "turnfold.tenant",
        "turnfold.outcome",
        "gen_ai.input.messages",
        "input.value",
        "output.value",
        "gen_ai.output.messages",
        "turnfold.time.slot_ms",
        "turnfold.time.limit_ms",
        "turnfold.time.model_ms",
        "turnfold.time.tool_ms",
        "turnfold.time.engine_ms",
    ];
    let expected = [
        [&chat[..], &["error.type"], &prompt].concat(),
        [&chat[..], &usage, &prompt, &["gen_ai.output.messages"]].concat(),
        node.to_vec(),
        [&tool[..], &["gen_ai.tool.call.arguments", "gen_ai.tool.call.result"]].concat(),
        node.to_vec(),
        turn.to_vec(),
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_time_without_a_worker_is_a_span() {
    let call = json!({"request": "call_tool", "server": "notes", "call": {"id": "c1", "name": "find", "arguments": {}}});
    let log = log(&[
        json!({"event": "opened", "strategy": "planner"}),
        json!({"event": "turn_started", "turn": TURN, "messages": []}),
        json!({"event": "asked", "node": "act", "requests": [call]}),
        json!({"event": "attempted", "slot": 0}),
        json!({"event": "taken_over", "worker": "b", "from": "a", "silent_ms": 600}),
        json!({"event": "answered", "slot": 0, "response": {"response": "output", "status": "ok", "text": "x"}}),
        json!({"event": "decided", "node": "act", "to": "end"}),
    ]);
    let spans = spans(&log, Content::Omit);
    let gap = spans.iter().find(|span| span.name == "no worker").unwrap();
    assert_eq!((gap.start, gap.end), (3_400_000, 4_000_000));
    let turn = spans.iter().find(|span| span.kind == SpanKind::Server).unwrap();
    assert_eq!(gap.parent, Some(turn.id));
    assert!(
        turn.attributes.contains(&("turnfold.time.no_worker_ms", 600_u64.into())),
        "{:?}",
        turn.attributes
    );
    let attempt = spans.iter().find(|span| span.name == "execute_tool find").unwrap();
    assert_eq!((attempt.start, attempt.end), (4_000_000, 5_000_000), "the attempt of the second worker");
}

#[test]
fn content_is_exported_only_on_request() {
    let text = |content| export_request(&spans(&one_turn(), content), "1").to_string();
    assert!(!text(Content::Omit).contains("secret"), "{}", text(Content::Omit));
    let with = text(Content::Include);
    for part in
        ["my secret", "be secretive", "a secret reply", "secret words", "secret result", "it wrote a secret"]
    {
        assert!(with.contains(part), "{part}: {with}");
    }
}

#[test]
fn a_repeated_export_is_the_same_and_a_growing_log_keeps_its_ids() {
    let log = one_turn();
    assert_eq!(spans(&log, Content::Omit), spans(&log, Content::Omit));
    assert_eq!(
        spans(&log[..9], Content::Omit).iter().filter(|span| span.name.starts_with("invoke")).count(),
        0
    );
    let first = spans(&log[..6], Content::Omit);
    assert_eq!(first[..], spans(&log, Content::Omit)[..first.len()]);
}

#[test]
fn a_clients_span_becomes_the_parent_of_its_turn() {
    let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let parents = BTreeMap::from([(TURN, parent)]);
    let spans = turn_spans(THREAD, &one_turn(), &parents, Content::Omit, &Peers::default());
    assert!(spans.iter().all(|span| span.trace == parent.trace));
    assert_eq!(spans.last().unwrap().parent, Some(parent.span));
}

#[test]
fn a_retry_continues_the_trace_of_a_failed_turn() {
    let log = log(&[
        json!({"event": "opened", "strategy": "probe"}),
        json!({"event": "turn_started", "turn": TURN, "messages": [{"role": "user", "content": "x"}]}),
        json!({"event": "failed", "node": "work", "reason": "no"}),
        json!({"event": "retried"}),
        json!({"event": "decided", "node": "work", "to": "end"}),
    ]);
    let spans = spans(&log, Content::Omit);
    let turns: Vec<&Span> = spans.iter().filter(|span| span.name == "invoke_agent probe").collect();
    assert_eq!(turns[1].parent, Some(turns[0].id), "{spans:#?}");
    assert!(turns[0].error.is_some() && turns[1].error.is_none() && turns[0].trace == turns[1].trace);
}

#[test]
fn the_protocol_writes_ids_in_hexadecimal_and_numbers_as_strings() {
    let request = export_request(&spans(&one_turn(), Content::Omit), "0.1.0");
    let resource = &request["resourceSpans"][0];
    assert_eq!(
        resource["resource"]["attributes"][0],
        json!({"key": "service.name", "value": {"stringValue": "turnfold"}})
    );
    let span = &resource["scopeSpans"][0]["spans"][1];
    assert_eq!((span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()), (32, 16));
    assert_eq!((&span["kind"], &span["startTimeUnixNano"]), (&json!(3), &json!("3750000000")));
    let tokens = json!({"key": "gen_ai.usage.input_tokens", "value": {"intValue": "10"}});
    assert!(span["attributes"].as_array().unwrap().contains(&tokens), "{span}");
}

/// Returns the text of an attribute, read as JSON.
fn content(span: &Span, name: &str) -> serde_json::Value {
    match span.attributes.iter().find(|attribute| attribute.0 == name) {
        Some((_, AttributeValue::Text(text))) => serde_json::from_str(text).unwrap(),
        other => panic!("{name}: {other:?} in {span:?}"),
    }
}

#[test]
fn outputs_say_why_they_end_and_the_turn_has_its_question_and_answer() {
    let spans = spans(&one_turn(), Content::Include);
    let (reply, turn) = (&spans[1], spans.last().unwrap());
    let output = content(reply, "gen_ai.output.messages");
    assert_eq!((&output[0]["finish_reason"], &output[0]["role"]), (&json!("stop"), &json!("assistant")));
    let reasons = ("gen_ai.response.finish_reasons", AttributeValue::Texts(vec!["stop".to_owned()]));
    assert!(reply.attributes.contains(&reasons), "{reply:?}");
    assert_eq!(content(turn, "gen_ai.input.messages")[0]["parts"][0]["content"], "my secret");
    let answer = content(turn, "gen_ai.output.messages");
    assert_eq!(
        (&answer[0]["parts"][0]["content"], &answer[0]["finish_reason"]),
        (&json!("done"), &json!("stop"))
    );
}

#[test]
fn parameters_and_addresses_are_exported_without_content() {
    let parameters = json!({"temperature": 0.5, "max_tokens": 7, "extra": {"seed": 3, "stop": "END"}});
    let chat = json!({"request": "chat", "model": "openai/gpt", "system": "", "context": {"start": 0, "end": 1},
        "response_schema": "plan", "parameters": parameters});
    let list = json!({"request": "list_tools", "server": "notes"});
    let log = log(&[
        json!({"event": "opened", "strategy": "planner"}),
        json!({"event": "turn_started", "turn": TURN, "messages": [{"role": "user", "content": "x"}]}),
        json!({"event": "asked", "node": "plan", "requests": [chat, list]}),
        json!({"event": "answered", "slot": 0, "response": {"response": "reply", "content": "a", "cut_off": true}}),
        json!({"event": "answered", "slot": 1, "response": {"response": "tools", "hash": "h", "tools": []}}),
        json!({"event": "decided", "node": "plan", "to": "end"}),
    ]);
    let peer = |host: &str| Peer { host: host.to_owned(), port: Some(443) };
    let peers = Peers {
        providers: [("openai".to_owned(), peer("api.openai.com"))].into(),
        servers: [("notes".to_owned(), peer("notes.example.org"))].into(),
    };
    let spans = turn_spans(THREAD, &log, &BTreeMap::new(), Content::Omit, &peers);
    let text = export_request(&spans[..1], "1").to_string();
    for part in [
        "gen_ai.request.temperature",
        "gen_ai.request.max_tokens",
        "gen_ai.request.seed",
        "END",
        "api.openai.com",
        "length",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(spans[1].attributes.contains(&("mcp.method.name", "tools/list".into())), "{:?}", spans[1]);
    assert!(spans[1].attributes.contains(&("server.address", "notes.example.org".into())), "{:?}", spans[1]);
}

/// Both forms carry the same.
#[test]
fn the_binary_form_is_read_by_the_types_of_the_protocol() {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;

    let spans = spans(&one_turn(), Content::Include);
    let read = ExportTraceServiceRequest::decode(&export_protobuf(&spans, "1")[..]).unwrap();
    let read = &read.resource_spans[0].scope_spans[0].spans;
    let json = export_request(&spans, "1");
    let json = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    assert_eq!(read.len(), json.len());
    for (binary, json) in read.iter().zip(json) {
        let ids =
            json!([hex::encode(&binary.trace_id), hex::encode(&binary.span_id), binary.name, binary.kind]);
        assert_eq!(ids, json!([json["traceId"], json["spanId"], json["name"], json["kind"]]));
        let parent = json["parentSpanId"].as_str().unwrap_or_default();
        assert_eq!(hex::encode(&binary.parent_span_id), parent);
        assert_eq!(binary.start_time_unix_nano.to_string(), json["startTimeUnixNano"]);
        let code = binary.status.as_ref().map_or(0, |status| i64::from(status.code));
        assert_eq!(code, json["status"]["code"].as_i64().unwrap_or(0));
        let keys: Vec<&str> = binary.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        let wanted: Vec<&str> = json["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|attribute| attribute["key"].as_str())
            .collect();
        assert_eq!(keys, wanted);
    }
}
