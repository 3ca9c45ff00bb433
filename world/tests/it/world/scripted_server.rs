//! An MCP server that answers as its script says, so that a test shows the bytes that a real server sent.

use std::{
    io::{BufRead as _, Write as _},
    path::Path,
};

use serde_json::{Value, json};
use world::{Server, Transport};

use super::child;

/// Environment variable with the script: an object that has, by method, the `result` or `error` of each answer, or null if the
/// method is not answered. An array of texts is written as it is; `ID` stands for the id of the request.
const SCRIPT: &str = "TURNFOLD_TEST_SCRIPT";

/// Environment variable with the path of a file that gets a line for each message: the id of the process and the method.
const LOG: &str = "TURNFOLD_TEST_LOG";

/// Returns the configuration of a server with this script.
pub(super) fn server(script: &Value) -> Server {
    child::started("world::scripted_server::speaks_by_script", [(SCRIPT, script.to_string().as_str())])
}

/// Adds a log to a server.
pub(super) fn logged(mut server: Server, log: &Path) -> Server {
    if let Transport::Stdio { env, .. } = &mut server.transport {
        env.insert(LOG.to_owned(), log.display().to_string());
    }
    server
}

/// Returns the processes and methods in a log.
pub(super) fn log_of(log: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let parts = |line: &str| line.split_once(' ').map(|(pid, method)| (pid.to_owned(), method.to_owned()));
    text.lines().filter_map(parts).collect()
}

/// The answer of a server that speaks the newest protocol and has tools.
pub(super) fn discovered() -> Value {
    json!({ "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
        "serverInfo": { "name": "scripted", "version": "1" }, "ttlMs": 0, "cacheScope": "private",
    } })
}

/// A list of one tool.
pub(super) fn one_tool(name: &str) -> Value {
    json!({ "result": { "tools": [{ "name": name, "description": "d", "inputSchema": { "type": "object" } }] } })
}

/// The server that other tests start. It returns at once unless [`SCRIPT`] is set.
#[test]
fn speaks_by_script() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let script: Value = serde_json::from_str(&script).unwrap();
    child::say_raw("");
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let method = request["method"].as_str().unwrap_or_default();
        if let Some(path) = std::env::var_os(LOG) {
            let mut log = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(log, "{} {method}", std::process::id()).unwrap();
        }
        let Some(id) = request.get("id") else { continue };
        // Servers of the newest protocol repeat what a method that no script names expects.
        let newest = if request["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some() {
            script.get(format!("newest {method}"))
        } else {
            None
        };
        let mut answer = match (newest.or_else(|| script.get(method)), method) {
            (Some(Value::Null), _) => continue,
            (Some(Value::Array(lines)), _) => {
                let lines = lines.iter().filter_map(Value::as_str);
                lines.for_each(|line| child::say_raw(&line.replace("ID", &id.to_string())));
                continue;
            }
            (Some(answer), _) => answer.clone(),
            (None, "initialize") => json!({ "result": child::initialized(&request["params"]).unwrap() }),
            (None, _) => json!({ "error": { "code": -32601, "message": "no such method" } }),
        };
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = id.clone();
        child::say_raw(&answer.to_string());
    }
}
