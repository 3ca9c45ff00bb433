//! Known faults of weak models, reproduced from recorded replies: `fixtures/replies/README.md` describes each
//! recording.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde_json::{Value, json};
use shared::{Fault, Message, Reply, Request, Response, ToolCall};
use world::{OpenAi, Price, Prices, Provider, Structured};

use super::{
    Stage, again, chat, due,
    endpoint::{Answer, Endpoint, call, end, openai, words},
    live, nobody, perform, tool,
};

const CUT_OFF: &str = include_str!("../../../../fixtures/replies/cut_off.sse");
const CALL_IN_A_FENCE: &str = include_str!("../../../../fixtures/replies/call_in_a_fence.sse");
const CALL_WITH_PARAMETERS: &str = include_str!("../../../../fixtures/replies/call_with_parameters.sse");
const CALL_REPEATED: &str = include_str!("../../../../fixtures/replies/call_repeated.sse");
const CHOICE_IGNORED: &str = include_str!("../../../../fixtures/replies/choice_ignored.sse");

/// Returns the result of one answer to a request for structured output in this form.
async fn shaped(answer: Answer, structured: Structured) -> Result<Reply, Fault> {
    let mut stage = Stage::hearing([Message::user("What time is it in Tokyo?")]);
    stage.schema = Some(json!({ "type": "object", "properties": { "decision": { "type": "string" } } }));
    let mut request = chat("local/smollm2", 0..1);
    if let Request::Chat { response_schema: shape, .. } = &mut request {
        *shape = Some("PlanReply".to_owned());
    }
    let endpoint = Endpoint::serve([answer]).await;
    let provider = openai(&endpoint.base_url, Duration::from_secs(20));
    let world = live([("local", Provider::OpenAi(OpenAi { structured, ..provider }))], nobody());
    read(perform(&world, &stage, &due(request)).await.0)
}

/// Returns the result of one answer to a request that offers a tool.
async fn offered(answer: Answer, messages: Vec<Message>) -> Result<Reply, Fault> {
    let range = 0..messages.len();
    let mut stage = Stage::hearing(messages);
    stage.tool_servers.insert("time".to_owned(), vec![tool("get_current_time")]);
    let mut request = chat("local/smollm2", range);
    if let Request::Chat { tool_servers, .. } = &mut request {
        tool_servers.push("time".to_owned());
    }
    read(perform(&Endpoint::serve([answer]).await.world(), &stage, &due(request)).await.0)
}

fn read(outcome: super::Outcome) -> Result<Reply, Fault> {
    match outcome? {
        (Response::Reply(reply), Some(_)) => Ok(reply),
        other => panic!("a metered reply was expected: {other:?}"),
    }
}

fn asked() -> Vec<Message> {
    vec![Message::user("What time is it in Tokyo?")]
}

#[tokio::test]
async fn json_that_is_cut_off_is_called_so_and_not_read() {
    let fault = shaped(Answer::Bytes(CUT_OFF), Structured::Auto).await.unwrap_err();
    assert!(fault.error.starts_with("the reply was cut off at the length limit"), "{fault:?}");
    assert_eq!(again(&fault), None);
}

#[tokio::test]
async fn a_call_that_is_cut_off_in_its_words_is_called_so_too() {
    let begun = "```json\n{\"name\": \"get_current_time\", \"arguments\": {";
    let cut = |text: &str, reason| Answer::Stream([words(text)].into_iter().chain(end(reason)).collect());
    let fault = offered(cut(begun, "length"), asked()).await.unwrap_err();
    assert!(fault.error.starts_with("the reply was cut off at the length limit"), "{fault:?}");
    let reply = offered(cut("It is half past", "length"), asked()).await.unwrap();
    assert_eq!(reply.content, "It is half past", "words that break off are words");
}

#[tokio::test]
async fn a_call_that_is_written_as_words_is_made() {
    for bytes in [CALL_IN_A_FENCE, CALL_WITH_PARAMETERS] {
        let reply = offered(Answer::Bytes(bytes), asked()).await.unwrap();
        assert_eq!(reply.content, "");
        let [ToolCall { name, arguments, .. }] = &*reply.tool_calls else { panic!("{reply:?}") };
        assert_eq!((name.as_str(), arguments), ("get_current_time", &json!({ "timezone": "Asia/Tokyo" })));
    }
}

/// Strategies reject the second call (`strategies/src/repeat.rs`), so both calls must compare equal.
#[tokio::test]
async fn a_call_that_is_repeated_after_its_result_equals_the_first() {
    let mut messages = asked();
    let first = offered(Answer::Bytes(CALL_IN_A_FENCE), messages.clone()).await.unwrap().tool_calls;
    messages.push(Message { tool_calls: first.clone(), ..Message::assistant("") });
    messages.push(Message::tool(&first[0], "2026-11-22T11:46:00+09:00"));
    let again = offered(Answer::Bytes(CALL_REPEATED), messages).await.unwrap().tool_calls;
    assert_eq!((&again[0].name, &again[0].arguments), (&first[0].name, &first[0].arguments));
    assert_ne!(again[0].id, first[0].id);
}

#[tokio::test]
async fn words_where_a_function_was_asked_for_are_what_the_shape_is_judged_by() {
    let reply = shaped(Answer::Bytes(CHOICE_IGNORED), Structured::Tool).await.unwrap();
    assert!(reply.content.contains("Tokyo") && reply.tool_calls.is_empty(), "{reply:?}");
}

#[tokio::test]
async fn another_function_than_the_one_asked_for_is_told_to_the_model() {
    let other = || {
        call(json!({ "index": 0, "id": "a", "function": { "name": "get_current_time", "arguments": "{}" } }))
    };
    let alone = Answer::Stream([other()].into_iter().chain(end("tool_calls")).collect());
    let fault = shaped(alone, Structured::Tool).await.unwrap_err();
    let error =
        "the model called a function other than the required one: \"get_current_time\" instead of \"answer\"";
    assert_eq!(fault.error, error);
    assert_eq!(again(&fault), None);
    let beside = [words("{\"decision\": \"replace\"}"), other()];
    let beside = Answer::Stream(beside.into_iter().chain(end("tool_calls")).collect());
    assert_eq!(shaped(beside, Structured::Tool).await.unwrap().content, "{\"decision\": \"replace\"}");
}

#[tokio::test]
async fn the_forced_answer_may_be_written_as_words() {
    for arguments in ["{\"decision\":\"replace\"}", "\"{\\\"decision\\\":\\\"replace\\\"}\""] {
        let written = format!("```json\n{{\"name\": \"answer\", \"arguments\": {arguments}}}\n```");
        let answer = Answer::Stream([words(&written)].into_iter().chain(end("stop")).collect());
        assert_eq!(shaped(answer, Structured::Tool).await.unwrap().content, "{\"decision\":\"replace\"}");
    }
}

#[tokio::test]
async fn every_reply_is_counted_and_paid_as_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/replies");
    let accepted = fs::read_to_string(folder.join("bills.json")).unwrap();
    let accepted: BTreeMap<String, Value> = serde_json::from_str(&accepted).unwrap();
    let mut bills = BTreeMap::new();
    for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|extension| extension == "sse") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            bills.insert(name, bill(fs::read_to_string(&path).unwrap().leak()).await);
        }
    }
    assert_eq!(bills, accepted, "{}", serde_json::to_string_pretty(&bills).unwrap());
}

/// Returns the tokens and the cost of a reply.
async fn bill(bytes: &'static str) -> Value {
    let price = Price { cached_input: Some(0.3), cache_write: Some(3.75), ..Price::new(3.0, 15.0) };
    let endpoint = Endpoint::serve([Answer::Bytes(bytes)]).await;
    let provider = openai(&endpoint.base_url, Duration::from_secs(20));
    let prices = Prices::from([("smollm2".to_owned(), price)]);
    let world = live([("local", Provider::OpenAi(OpenAi { prices, ..provider }))], nobody());
    let due = due(chat("local/smollm2", 0..1));
    let Ok((_, Some(usage))) = perform(&world, &Stage::hearing(asked()), &due).await.0 else {
        panic!("a metered reply was expected");
    };
    json!({
        "input": usage.input_tokens,
        "cached_input": usage.cached_input_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "micro_usd": usage.micro_usd,
    })
}
