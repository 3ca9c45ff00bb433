//! Misbehaviours over standard input and output. The server is this program, which starts itself again.

use std::{
    io::{BufRead as _, Write as _},
    time::Duration,
};

use serde_json::{Value, json};
use shared::{Response, Safety, ToolOutput};
use world::Server;

use super::{Error, InDoubt, Row, Text, calling, check_all, child, read, write};

/// Environment variable that makes this program run as the server.
const AS_SERVER: &str = "TURNFOLD_TEST_MISBEHAVING";

/// Timeout of calls. A row with a smaller bound was not told by silence.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

const CARRIED_OUT: &str = "; the call was carried out";

fn rows() -> Vec<Row> {
    vec![
        // Answers that cannot be read.
        write("refusal_without_id", Error("cannot parse that")),
        write("half_an_emoji", Text("half \u{FFFD} an emoji")),
        write("invalid_utf8", Text("bad \u{FFFD} byte")),
        write("line_over_16_mib", Error("is larger than 16777216 bytes; the call was carried out")),
        write("line_without_end", Error("is larger than 16777216 bytes; the call was carried out")),
        write("id_after_the_result", Error("its answer is not valid JSON")),
        write("error_without_message", InDoubt(r#"an error without a message: {"code":-32000}"#)),
        write("error_as_text", InDoubt("does not say whether it was made: no such room")),
        write("error_and_null_result", InDoubt("no such room")),
        // Errors of bridges, which do not say whether the call was made.
        write("code_-32603", InDoubt("does not say whether it was made: no such room")),
        write("code_-32000", InDoubt("no such room")),
        write("code_-32600", InDoubt("no such room")),
        write("code_-32001", InDoubt("no such room")),
        write("code_-32602", Error("no such room")),
        write("code_-32601", Error("no such room")),
        read("code_-32603", Error("no such room")),
        write("failed: MCP error -32000: Connection closed", InDoubt("Connection closed")),
        write("failed: read ECONNRESET", InDoubt("ECONNRESET")),
        write("failed: ", InDoubt("an error without a message")),
        write("failed: no such room", Error("no such room")),
        read("failed: read ECONNRESET", Error("read ECONNRESET")),
        write("failed: MCP error -32602: Output validation error: x", Error(CARRIED_OUT)),
        write("null_error_and_result", Text("fine")),
        write("not_a_number", Error(CARRIED_OUT)),
        write("broken_error", InDoubt("its answer is not valid JSON")),
        read("broken_error_of_a_read", Error("its answer is not valid JSON")),
        write("neither_result_nor_error", InDoubt("has neither a result nor an error")),
        write("deep_nesting", Text("[block 1 is left out: it is not an object]")),
        write("number_beyond_64_bits", Text(r#"{"id":"123456789012345678901234"}"#)),
        write("id_as_text", Text("fine")),
        write("id_as_float", Text("fine")),
        write("batch", Text("fine")),
        write("answers_to_nobody", Text("fine")),
        write("byte_order_mark", Text("fine")),
        write("log_lines", Text("fine")),
        // Results that are partly malformed.
        write(
            "image_without_data",
            Text("kept\n[block 2 (image) is left out: its data is missing or malformed]"),
        ),
        write("unknown_block", Text("[block 1 (hologram) is left out: its type \"hologram\" is unknown]")),
        write("malformed_block_annotations", Text("kept")),
        write("content_as_text", Text("fine")),
        write("result_without_content", Text("")),
        write("result_is_null", Error("the response is not a result of a tool")),
        // Handshakes and lists.
        write("exits_on_discover", Text("fine")),
        write("ignores_discover", Text("fine")),
        write("bare_handshake", Text("fine")),
        write("tool_without_schema", Text("fine")),
        write("cursor_stands_still", Text("fine")),
        write("cursor_without_end", Text("fine")),
        // Errors without words of their own, beside what the server wrote to its standard error.
        write(
            "stderr_and_internal_error",
            InDoubt("Internal error; its last output: KeyError: 'id' of [TURNFOLD_TEST_MISBEHAVING]"),
        ),
        read("stderr_and_internal_error_of_a_read", Error("Internal error; its last output: KeyError: 'id'")),
        write(
            "stderr_and_empty_error",
            InDoubt(
                r#"an error without a message: {"code":-32603,"message":""}; its last output: KeyError: 'id'"#,
            ),
        ),
        write("stderr_and_no_text", InDoubt("an error without a message; its last output: KeyError: 'id'")),
        read("stderr_and_no_text_of_a_read", Error("[its last output: KeyError: 'id'")),
        write("stderr_and_death", InDoubt("it closed the connection; its last output: KeyError: 'id'")),
        Row {
            bound: Duration::from_secs(60),
            ..write("never_answers_with_stderr", InDoubt("within 2s; its last output: KeyError: 'id'"))
        },
        // Silence and loss.
        write("dies", InDoubt("was lost during dies: it closed the connection")),
        Row {
            bound: Duration::from_secs(60),
            ..write("never_answers", InDoubt("did not answer never_answers within 2s"))
        },
        Row {
            bound: Duration::from_secs(60),
            ..write("never_reads", InDoubt("did not answer never_reads within 2s"))
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_misbehaviour_has_its_bound_its_message_and_an_unharmed_neighbour() {
    check_all(&rows(), |row| {
        let mut server = server(row.name);
        if row.name.starts_with("never_") {
            server.call_timeout = Duration::from_secs(2);
        }
        server
    })
    .await;
}

fn server(misbehaviour: &'static str) -> Server {
    let test = "world::mcp_misbehaviour::stdio::misbehaves";
    let mut server = child::started(test, [(AS_SERVER, misbehaviour)]);
    (server.call_timeout, server.connect_timeout) = (CALL_TIMEOUT, Duration::from_secs(60));
    if misbehaviour == "ignores_discover" {
        // A second child is asked the older way after half of it.
        server.connect_timeout = Duration::from_secs(10);
    }
    server
}

#[tokio::test]
async fn a_malformed_tool_costs_that_tool_and_a_list_without_end_ends() {
    for (misbehaviour, tools) in [
        ("tool_without_schema", ["decorated", "fine", "hinted"].as_slice()),
        ("cursor_stands_still", &["a", "b"]),
        ("cursor_without_end", &["a", "b"]),
    ] {
        let servers = super::servers([("desk", server(misbehaviour))]);
        let listed = servers.tools("desk").await.unwrap();
        let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, tools, "{misbehaviour}");
        servers.close().await;
    }
}

#[tokio::test]
async fn the_last_output_is_bounded_and_stands_only_beside_an_error_without_words() {
    for (misbehaviour, message) in [
        ("stderr_and_words", "no such room".to_owned()),
        ("stderr_and_long_line", format!("Error; its last output: {}…", "ä".repeat(300))),
    ] {
        let world = super::live([], super::servers([("desk", server(misbehaviour))]));
        let called =
            super::perform(&world, &super::Stage::default(), &calling("desk", "fine", Safety::Write)).await;
        let Ok((Response::Output(ToolOutput::Error(error)), _)) = called.0 else { panic!("{:?}", called.0) };
        assert_eq!(error, message, "{misbehaviour}");
        world.close().await;
    }
}

/// Two tenants may share a server: a line that was written during both of their requests may be about either.
#[tokio::test]
async fn the_last_output_during_two_requests_is_told_to_neither() {
    let world = super::live([], super::servers([("desk", server("stderr_about_two"))]));
    let (stage, read) = (super::Stage::default(), calling("desk", "fine", Safety::Read));
    let (one, two) =
        futures::join!(super::perform(&world, &stage, &read), super::perform(&world, &stage, &read));
    for (outcome, _) in [one, two] {
        let Ok((Response::Output(ToolOutput::Error(error)), _)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error, "Internal error");
    }
    world.close().await;
}

/// The server that other tests start. It returns at once unless [`AS_SERVER`] is set.
#[test]
fn misbehaves() {
    let Ok(misbehaviour) = std::env::var(AS_SERVER) else { return };
    // The test harness has already printed part of a line.
    child::say_raw("");
    let mut unanswered = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = request.get("id") else { continue };
        let params = &request["params"];
        let result = match (request["method"].as_str().unwrap_or_default(), misbehaviour.as_str()) {
            ("server/discover", "exits_on_discover") => return,
            ("server/discover", "ignores_discover") => continue,
            ("initialize", "bare_handshake") => {
                json!({ "protocolVersion": params["protocolVersion"], "capabilities": { "tools": true, "prompts": null } })
            }
            ("initialize", _) => child::initialized(params).unwrap(),
            ("tools/list", _) => page(&misbehaviour, &params["cursor"]),
            ("tools/call", "stderr_about_two") if unanswered.is_empty() => {
                unanswered.push(id.clone());
                continue;
            }
            ("tools/call", "stderr_about_two") => {
                complain("the secret of another tenant\n");
                let error = json!({ "code": -32603, "message": "Internal error" });
                for id in [&unanswered[0], id] {
                    say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                }
                continue;
            }
            ("tools/call", _) => {
                called(&misbehaviour, id);
                continue;
            }
            (method, _) => {
                let error = json!({ "code": -32601, "message": format!("no method {method}") });
                say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                continue;
            }
        };
        say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }
}

fn say(message: &Value) {
    child::say_raw(&message.to_string());
}

fn page(misbehaviour: &str, cursor: &Value) -> Value {
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    match misbehaviour {
        "tool_without_schema" => {
            let mut hinted = tool("hinted");
            hinted["annotations"] = json!({ "readOnlyHint": "yes" });
            let mut decorated = tool("decorated");
            decorated["icons"] = json!({ "src": 7 });
            json!({ "tools": [tool("fine"), { "name": "without_schema" }, hinted, decorated] })
        }
        "cursor_stands_still" => json!({ "tools": [tool("a"), tool("b")], "nextCursor": "same" }),
        "cursor_without_end" => {
            let nth: u64 = cursor.as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
            json!({ "tools": [tool("a"), tool("b")], "nextCursor": (nth + 1).to_string() })
        }
        _ => json!({ "tools": [tool("fine")] }),
    }
}

/// Answers a call.
fn called(misbehaviour: &str, id: &Value) {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let fine = || result(text("fine"));
    let error = |error: Value| json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
    let raw = |rest: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#);
    let block = |block: Value| result(json!({ "content": [{ "type": "text", "text": "kept" }, block] }));
    let code = misbehaviour.strip_prefix("code_").and_then(|code| code.parse::<i32>().ok());
    if let Some(code) = code {
        return child::say_raw(&error(json!({ "code": code, "message": "no such room" })));
    }
    if let Some(failed) = misbehaviour.strip_prefix("failed: ") {
        let mut content = text(failed);
        content["isError"] = true.into();
        return child::say_raw(&result(content));
    }
    if misbehaviour.contains("stderr") {
        complain(&format!(
            "Traceback (most recent call last):\nKeyError: 'id' of {misbehaviour}\n  at main\n"
        ));
    }
    let line = match misbehaviour {
        "stderr_and_internal_error" | "stderr_and_internal_error_of_a_read" => error(json!({ "code": -32603, "message": "Internal error" })),
        "stderr_and_empty_error" => error(json!({ "code": -32603, "message": "" })),
        "stderr_and_no_text" | "stderr_and_no_text_of_a_read" => result(json!({ "isError": true, "content": [] })),
        "stderr_and_words" => error(json!({ "code": -32602, "message": "no such room" })),
        "stderr_and_long_line" => {
            complain(&"ä".repeat(5_000));
            error(json!({ "code": -32602, "message": "Error" }))
        }
        "stderr_and_death" => std::process::abort(),
        "refusal_without_id" => {
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "cannot parse that" } }).to_string()
        }
        "half_an_emoji" => raw(r#""result":{"content":[{"type":"text","text":"half \ud83d an emoji"}]}"#),
        "invalid_utf8" => {
            let line = format!("{}\n", result(text("bad ? byte"))).into_bytes();
            let line: Vec<u8> = line.into_iter().map(|byte| if byte == b'?' { 0xFF } else { byte }).collect();
            return say_bytes(&line);
        }
        "line_over_16_mib" => result(text(&"x".repeat(17 << 20))),
        "line_without_end" => {
            say_bytes(raw(&format!(r#""result":{{"content":"{}"#, "x".repeat(17 << 20))).trim_end_matches('}').as_bytes());
            return;
        }
        "id_after_the_result" => format!(r#"{{"result":{{"id":9,"content":NaN}},"id":{id},"jsonrpc":"2.0"}}"#),
        "error_without_message" => error(json!({ "code": -32000 })),
        "error_as_text" => error(json!("no such room")),
        "error_and_null_result" => raw(r#""result":null,"error":{"code":-1,"message":"no such room"}"#),
        "null_error_and_result" => raw(r#""error":null,"result":{"content":[{"type":"text","text":"fine"}]}"#),
        "not_a_number" => raw(r#""result":{"structuredContent":{"mean":NaN},"content":[]}"#),
        "broken_error" | "broken_error_of_a_read" => raw(r#""error":{"code":-1,"message":"unfinished}"#),
        "neither_result_nor_error" => json!({ "jsonrpc": "2.0", "id": id }).to_string(),
        "number_beyond_64_bits" => {
            raw(r#""result":{"structuredContent":{"id":123456789012345678901234},"content":[]}"#)
        }
        "deep_nesting" => raw(&format!(r#""result":{{"content":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000))),
        "id_as_text" => json!({ "jsonrpc": "2.0", "id": id.to_string(), "result": text("fine") }).to_string(),
        "id_as_float" => fine().replace(&format!(r#""id":{id}"#), &format!(r#""id":{id}.0"#)),
        "batch" => format!("[{},{}]", json!({ "jsonrpc": "2.0", "method": "notifications/message" }), fine()),
        "answers_to_nobody" => {
            say(&json!({ "jsonrpc": "2.0", "id": 4_711, "result": text("for somebody else") }));
            say(&json!({ "jsonrpc": "2.0", "id": "server-error", "error": { "code": 1, "message": "who?" } }));
            child::say_raw(&fine());
            fine()
        }
        "byte_order_mark" => format!("\u{FEFF}{}\r", fine()),
        "log_lines" => {
            child::say_raw("Server running on stdio");
            child::say_raw(r#"{"level":30,"msg":"called"}"#);
            fine()
        }
        "image_without_data" => block(json!({ "type": "image", "mimeType": "image/png" })),
        "unknown_block" => result(json!({ "content": [{ "type": "hologram" }] })),
        "malformed_block_annotations" => {
            result(json!({ "content": [{ "type": "text", "text": "kept", "annotations": { "priority": "high" } }] }))
        }
        "content_as_text" => result(json!({ "content": "fine" })),
        "result_without_content" => result(json!({})),
        "result_is_null" => result(Value::Null),
        "dies" => std::process::abort(),
        "never_answers" | "never_answers_with_stderr" => return,
        "never_reads" => loop {
            std::thread::park();
        },
        _ => fine(),
    };
    child::say_raw(&line);
}

/// Writes to the standard error.
fn complain(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

fn say_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).unwrap();
}
