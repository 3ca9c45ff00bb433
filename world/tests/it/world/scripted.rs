//! A scripted model, which answers from a file.

use serde_json::json;
use shared::{FaultKind, Message, Reply, Request, Response, ToolCall, Usage};
use world::{LiveWorld, Provider, Script};

use super::{Stage, chat, due, fault, live, nobody, perform};

const LINES: &str = r#"
{"shape": "Plan", "hears": "(?i)book (?<what>\\w+)", "says": {"steps": ["look for {what}", 2], "as": "{shape}"}}
{"shape": "Plan", "says": "no plan"}
{"last_role": "tool", "last": "^(?<result>.*)$", "hears": "(?<result>never seen, for the last pattern wins)?", "says": "It says {result}"}
{"system": "brief", "hears": "room for (?<people>\\d+)", "says": "Looking.", "calls": [{"name": "find", "arguments": {"people": "{people}", "in": ["{people} or {more}"]}}, {"name": "list"}]}
{"last_role": "assistant", "says": "{unclosed"}
"#;

fn world() -> LiveWorld {
    live([("demo", Provider::Scripted(Script::parse("demo.jsonl", LINES).unwrap()))], nobody())
}

async fn answer(stage: &Stage, request: Request) -> (Reply, Vec<String>) {
    let (outcome, streamed) = perform(&world(), stage, &due(request)).await;
    match outcome.unwrap() {
        (Response::Reply(reply), Some(meter)) => {
            assert_eq!(meter, Usage { model: "scripted".to_owned(), ..Usage::default() });
            (reply, streamed)
        }
        other => panic!("a reply was expected: {other:?}"),
    }
}

fn shaped() -> Request {
    let mut request = chat("demo/any", 0..9);
    if let Request::Chat { response_schema: shape, .. } = &mut request {
        *shape = Some("Plan".to_owned());
    }
    request
}

#[tokio::test]
async fn the_first_rule_that_fits_answers_with_what_it_caught() {
    let stage = Stage::hearing([Message::user("A room for 12, please")]);
    let (reply, streamed) = answer(&stage, chat("demo/any", 0..1)).await;
    assert_eq!((reply.content.as_str(), streamed), ("Looking.", vec!["Looking.".to_owned()]));
    let find = ToolCall {
        id: "call_1_0".to_owned(),
        name: "find".to_owned(),
        arguments: json!({ "people": "12", "in": ["12 or {more}"] }),
    };
    let list = ToolCall { id: "call_1_1".to_owned(), name: "list".to_owned(), arguments: json!({}) };
    assert_eq!(reply.tool_calls, [find.clone(), list]);

    // Inserted values are not expanded again, even if they look like a placeholder.
    let stage = Stage::hearing([stage.messages[0].clone(), Message::tool(&find, "{people} free")]);
    let (reply, streamed) = answer(&stage, chat("demo/any", 0..2)).await;
    assert_eq!(reply.content, "It says {people} free");
    assert_eq!(streamed.concat(), reply.content);

    // Only messages in the request's range count: here, the person's message alone.
    assert_eq!(answer(&stage, chat("demo/any", 0..1)).await.0.content, "Looking.");
    let (reply, _) = answer(&Stage::hearing([Message::assistant("?")]), chat("demo/any", 0..1)).await;
    assert_eq!(reply.content, "{unclosed");
}

#[tokio::test]
async fn a_shape_is_answered_with_its_json() {
    let mut stage = Stage::hearing([Message::user("Book rooms \"now\"")]);
    stage.schema = Some(json!({ "type": "object", "properties": {} }));
    let (reply, _) = answer(&stage, shaped()).await;
    assert_eq!(reply.content, r#"{"as":"{shape}","steps":["look for rooms",2]}"#);
    stage.messages = vec![Message::user("Anything")];
    assert_eq!(answer(&stage, shaped()).await.0.content, "no plan");
}

#[tokio::test]
async fn where_no_rule_fits_the_operator_learns_what_was_asked() {
    let stage = Stage::hearing([Message::user("Sing")]);
    let fault = fault(perform(&world(), &stage, &due(chat("demo/any", 0..1))).await.0);
    assert_eq!(fault.kind, FaultKind::Permanent);
    assert_eq!(fault.error, "no rule of demo.jsonl matches: shape none, last message \"Sing\" from user");
}

#[test]
fn a_bad_line_is_named() {
    let error = |text: &str| Script::parse("demo.jsonl", text).unwrap_err().to_string();
    assert!(error("\n{\"says\": \"a\"}\n{\"sais\": \"b\"}").starts_with("demo.jsonl:3: "), "{}", error("{"));
    assert!(error("{\"hears\": \"(\", \"says\": \"b\"}").starts_with("demo.jsonl:1: "));
    assert!(error("{\"hears\": \"a\"}").contains("has neither `says` nor `calls`"));
    let missing = Script::read("no/such/file.jsonl".as_ref()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the script no/such/file.jsonl: "), "{missing}");
}
