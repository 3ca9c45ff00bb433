//! An MCP server of an older protocol version, written by hand so that it can also violate the protocol.
//!
//! It runs in this test program, which starts itself again: see [`started`].

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    thread::park_timeout,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use world::{NodeToolFilters, Server, Session, ToolFilter, Transport};

/// Environment variable that makes this program run as the server.
const AS_SERVER: &str = "TURNFOLD_TEST_MCP_SERVER";

/// Environment variable that adds prompts and resources to the server.
pub(super) const GENEROUS: &str = "TURNFOLD_TEST_GENEROUS";

/// Environment variable with the path of a file whose tools replace the server's own.
pub(super) const TOOLS: &str = "TURNFOLD_TEST_TOOLS";

/// Returns the configuration of the server with additional environment variables.
pub(super) fn server(env: impl IntoIterator<Item = (&'static str, &'static str)>) -> Server {
    started("world::child::speaks_mcp", env.into_iter().chain([(AS_SERVER, "yes")]))
}

/// Returns the configuration of a server that runs the named test of this program.
pub(super) fn started<'a>(test: &str, env: impl IntoIterator<Item = (&'static str, &'a str)>) -> Server {
    let args = ["--exact", test, "--nocapture"].map(str::to_owned).to_vec();
    let command = std::env::current_exe().unwrap().display().to_string();
    let env = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    command_of(Transport::Stdio { command, args, env, cwd: None })
}

pub(super) fn command_of(transport: Transport) -> Server {
    let seconds = Duration::from_secs;
    Server {
        description: "What lies on a desk.".to_owned(),
        transport,
        confinement: Default::default(),
        call_timeout: seconds(20),
        connect_timeout: seconds(20),
        idle_timeout: seconds(600),
        protocol: None,
        session: Session::Shared,
        concurrency: None,
        tools: BTreeMap::new(),
        tool_filter: ToolFilter::default(),
        node_tool_filters: NodeToolFilters::new(),
    }
}

/// The server that other tests start. It returns at once unless [`AS_SERVER`] is set.
#[test]
fn speaks_mcp() {
    if std::env::var_os(AS_SERVER).is_none() {
        return;
    }
    // The test harness has already printed part of a line.
    say_raw("");
    let mut listed = 0;
    // Id of the call that waits for an answer to the server's own request.
    let mut waits = Value::Null;
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = request.get("id") else { continue };
        if request.get("method").is_none() {
            let text = json!({ "content": [{ "type": "text", "text": request["result"].to_string() }] });
            say(&json!({ "jsonrpc": "2.0", "id": waits, "result": text }));
            continue;
        }
        if request["params"]["name"] == "interrupt" {
            waits = id.clone();
            let params =
                json!({ "message": "sure?", "requestedSchema": { "type": "object", "properties": {} } });
            say(&json!({ "jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": params }));
            continue;
        }
        let answer = match request["method"].as_str().unwrap() {
            "initialize" => initialized(&request["params"]),
            "tools/list" if std::env::var_os(TOOLS).is_some() => {
                let tools = std::fs::read_to_string(std::env::var_os(TOOLS).unwrap()).unwrap();
                Ok(json!({ "tools": serde_json::from_str::<Value>(&tools).unwrap() }))
            }
            "tools/list" => {
                listed += 1;
                Ok(page(&request["params"]["cursor"], listed))
            }
            "tools/call" => match called(&request["params"]) {
                Some(answer) => answer,
                None => continue,
            },
            "prompts/list" if generous() => Ok(prompts(&request["params"]["cursor"])),
            "prompts/get" if generous() => prompt(&request["params"]),
            "resources/list" if generous() => Ok(
                json!({ "resources": [{ "uri": "file:///b", "name": "b", "description": "  the\nother   side " }] }),
            ),
            "resources/templates/list" if generous() => Ok(json!({ "resourceTemplates": [
                { "uriTemplate": "file:///rooms/{id}", "name": "room", "title": "a room" },
            ] })),
            "resources/read" if generous() => resource(&request["params"]["uri"]),
            method => Err(json!({ "code": -32601, "message": format!("no method {method}") })),
        };
        match answer {
            Ok(result) => say(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            Err(error) => say(&json!({ "jsonrpc": "2.0", "id": id, "error": error })),
        }
    }
}

fn say(message: &Value) {
    say_raw(&message.to_string());
}

pub(super) fn say_raw(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

pub(super) fn initialized(params: &Value) -> Result<Value, Value> {
    let tools = json!({ "listChanged": true });
    let capabilities = match generous() {
        true => json!({ "tools": tools, "prompts": {}, "resources": {} }),
        false => json!({ "tools": tools }),
    };
    Ok(json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": capabilities,
        "serverInfo": { "name": "hand-made", "version": "0.1" },
        "instructions": "be kind",
    }))
}

fn resource(uri: &Value) -> Result<Value, Value> {
    match uri.as_str() {
        Some("file:///b") => Ok(json!({ "contents": [
            { "uri": uri, "mimeType": "text/plain", "text": "the other side" },
            { "uri": "file:///b.png", "mimeType": "image/png", "blob": "AAAA" },
        ] })),
        Some("file:///huge") => Ok(json!({ "contents": [{ "uri": uri, "text": "x".repeat(3_000_000) }] })),
        Some(uri_part) if uri_part.starts_with("file:///rooms/") => {
            Ok(json!({ "contents": [{ "uri": uri, "text": format!("this is {uri_part}") }] }))
        }
        _ => Err(json!({ "code": -32002, "message": format!("no resource {uri}") })),
    }
}

/// Returns true if the server also offers prompts and resources.
fn generous() -> bool {
    std::env::var_os(GENEROUS).is_some()
}

/// Returns one of two pages of prompts; their order is significant.
fn prompts(cursor: &Value) -> Value {
    let arguments = json!([{ "name": "day", "description": "which", "required": true }, { "name": "tone" }]);
    match cursor.as_str() {
        None => {
            json!({ "prompts": [{ "name": "zeta", "description": "the usual", "arguments": arguments }], "nextCursor": "two" })
        }
        _ => json!({ "prompts": [{ "name": "alpha", "title": "seldom" }] }),
    }
}

fn prompt(params: &Value) -> Result<Value, Value> {
    let text =
        |role: &str, text: String| json!({ "role": role, "content": { "type": "text", "text": text } });
    match params["name"].as_str().unwrap() {
        "zeta" => {
            let image = json!({ "role": "user", "content": { "type": "image", "mimeType": "image/png", "data": "AAAA" } });
            let asked = text("user", params["arguments"].to_string());
            Ok(json!({ "messages": [asked, text("assistant", "gladly".to_owned()), image] }))
        }
        "die" => std::process::abort(),
        _ => Err(json!({ "code": -32602, "message": "no such prompt" })),
    }
}

/// Returns one of three unordered pages of tools; `listed` is the number of pages requested so far.
fn page(cursor: &Value, listed: u32) -> Value {
    let tool = |name: &str, annotations: Value| json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" }, "annotations": annotations });
    match cursor.as_str() {
        None => json!({ "tools": [tool("put", json!({ "idempotentHint": true }))], "nextCursor": "two" }),
        Some("two") => {
            let look = tool("look", json!({ "readOnlyHint": true, "idempotentHint": true }));
            json!({ "tools": [tool("send", json!({})), look], "nextCursor": "three" })
        }
        _ => json!({ "tools": [tool(&format!("asked_{listed}_times"), json!({ "readOnlyHint": false }))] }),
    }
}

/// Returns the result of a call, or `None` if the call is never answered.
fn called(params: &Value) -> Option<Result<Value, Value>> {
    let text = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
    Some(Ok(match params["name"].as_str().unwrap() {
        "echo" => text(json!({ "arguments": params["arguments"], "meta": params["_meta"] }).to_string()),
        "pid" => text(std::process::id().to_string()),
        "env" => text(json!(std::env::vars().collect::<BTreeMap<_, _>>()).to_string()),
        "fail" => json!({ "isError": true, "content": [{ "type": "text", "text": "the room is taken" }] }),
        "protest" => return Some(Err(json!({ "code": -32602, "message": "no such room" }))),
        "gallery" => json!({ "structuredContent": { "left": "out" }, "content": [
            { "type": "text", "text": "a picture" },
            { "type": "image", "mimeType": "image/png", "data": "A".repeat(16_000) },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
            { "type": "resource_link", "uri": "file:///b", "name": "b" },
        ] }),
        "album" => json!({ "content": [
            { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "image", "mimeType": "image/tiff", "data": "AAAA" },
            { "type": "image", "mimeType": "image/png", "data": "AAAAAAAAAAAAAAAAAA==" },
        ] }),
        "huge" => json!({ "content": [
            { "type": "image", "mimeType": "image/png", "data": "A".repeat(3_000_000) },
            { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
        ] }),
        "structured" => json!({ "content": [], "structuredContent": { "rooms": [1, 2] } }),
        "die" => std::process::abort(),
        "hang" => return None,
        "work" => {
            for step in 1..=10 {
                rest(Duration::from_millis(150));
                let params = json!({ "progressToken": params["_meta"]["progressToken"], "progress": step });
                say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
            }
            text("done".to_owned())
        }
        "change" => {
            say(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
            text("changed".to_owned())
        }
        name => text(format!("what is {name}?")),
    }))
}

pub(super) fn rest(time: Duration) {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed()) {
        park_timeout(left);
    }
}
