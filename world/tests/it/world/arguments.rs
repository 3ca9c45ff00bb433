//! Tool arguments that do not match the schema are never sent.

use serde_json::{Value, json};
use shared::{Request, Response, Tool, ToolCall, ToolOutput};

use super::{Stage, child, due, live, perform, servers, tool};

/// A thread whose server `desk` has a tool `die` with these parameters; calling the tool ends the server.
fn stage(parameters: Value) -> Stage {
    let die = Tool { parameters, ..tool("die") };
    Stage { tool_servers: [("desk".to_owned(), vec![tool("echo"), die])].into(), ..Stage::default() }
}

async fn call(stage: &Stage, name: &str, arguments: Value) -> Result<ToolOutput, shared::Fault> {
    let world = live([], servers([("desk", child::server([]))]));
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments };
    match perform(&world, stage, &due(Request::CallTool { server: "desk".to_owned(), call })).await.0 {
        Ok((Response::Output(output), None)) => Ok(output),
        Ok(other) => panic!("an output was expected: {other:?}"),
        Err(fault) => Err(fault),
    }
}

async fn refusal(parameters: Value, arguments: Value) -> String {
    match call(&stage(parameters), "die", arguments).await {
        Ok(ToolOutput::Refused(words)) => words,
        other => panic!("a refusal was expected: {other:?}"),
    }
}

#[tokio::test]
async fn what_does_not_fit_is_told_with_its_path_and_not_sent() {
    let schema = json!({
        "type": "object",
        "required": ["day"],
        "properties": { "day": { "type": "string" }, "guests": { "items": { "type": "string", "maxLength": 5 } } },
    });
    assert_eq!(
        refusal(schema.clone(), json!({ "guests": ["ann", 7] })).await,
        "the arguments of die do not fit its schema: at the root: \"day\" is a required property; at /guests/1: 7 is \
         not of type \"string\""
    );
    // Error messages shorten long values and list only the first few errors.
    let long = refusal(schema.clone(), json!({ "day": "", "guests": ["x".repeat(10_000)] })).await;
    assert!(long.chars().count() < 500, "{long}");
    let many = refusal(schema.clone(), json!({ "day": "", "guests": vec![1; 9] })).await;
    assert!(many.contains("at /guests/4: ") && !many.contains("at /guests/5: "), "{many}");
    assert!(many.ends_with("; and 4 more"), "{many}");
    for no_object in [json!("{at: 9}"), json!([1]), Value::Null] {
        let words = refusal(schema.clone(), no_object).await;
        assert_eq!(words, "the arguments of die are not a JSON object");
    }
}

#[tokio::test]
async fn what_fits_is_sent_and_so_is_what_nobody_can_judge() {
    let fits = stage(json!({ "type": "object", "required": ["at"] }));
    for stage in [
        fits,
        stage(json!({ "type": "nonsense" })),
        stage(json!({ "$ref": "http://127.0.0.1:9/x" })),
        stage(Value::Null),
    ] {
        let fault = call(&stage, "die", json!({ "at": 9 })).await.unwrap_err();
        assert_eq!(
            fault.kind,
            shared::FaultKind::InDoubt { retry_after_ms: None },
            "the call reached the server: {fault:?}"
        );
    }
    // The arguments of a tool that the thread does not know are left to the server.
    let unknown = call(&Stage::default(), "strange", json!({})).await;
    assert_eq!(unknown, Ok(ToolOutput::Ok("what is strange?".to_owned())));
}
