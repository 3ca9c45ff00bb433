//! Secrets of the process: other processes of the same user cannot read them, and no log keeps one that a server repeats.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use serde_json::json;
use test_servers::free_port;

use crate::engine::{Process, TURNFOLD, log, turnfold};

const SECRET: &str = "token-0123456789abcdef";

/// An MCP server that repeats its token.
const SERVER: &str = r#"
import json, os, sys
token = os.environ["TOKEN"]
tool = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
answers = {
    "tools/list": {"tools": [tool]},
    "tools/call": {"content": [{"type": "text", "text": "used the token " + token}]},
}
for line in sys.stdin:
    ask = json.loads(line)
    if ask.get("method") == "initialize":
        result = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "looker", "version": "1"}}
    else:
        result = answers.get(ask.get("method"))
    if "id" in ask:
        body = {"result": result} if result else {"error": {"code": -32601, "message": "unknown, " + token}}
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **body}), flush=True)
"#;

fn configure(folder: &Path) {
    let script = [
        json!({"shape": "PlanReply", "says": {"decision": "replace", "next_task": 0, "clarification": null,
            "plan": [{"expert": "looker", "task": "look"}]}}),
        json!({"shape": "Assessment", "says": {"is_completed": true, "explanation": "done", "confidence": 1.0}}),
        json!({"system": "at work on one task", "last_role": "user", "calls": [{"name": "look"}]}),
        json!({"last": "(?<all>used the .+)", "says": "It {all}"}),
        json!({"says": "Done."}),
    ];
    let lines: Vec<String> = script.iter().map(serde_json::Value::to_string).collect();
    fs::write(folder.join("model.jsonl"), lines.join("\n")).unwrap();
    fs::write(folder.join("server.py"), SERVER).unwrap();
    let config = "[providers.scripted]\nscript = 'model.jsonl'\n[strategies.planner]\nmodel = 'scripted/test'\n\
         [mcp.looker]\ndescription = 'looks'\ncommand = 'python3'\nargs = ['server.py']\nenv = { TOKEN = 'env:LOOKER_TOKEN' }\n";
    fs::write(folder.join("turnfold.toml"), config).unwrap();
}

#[test]
fn a_secret_that_a_server_repeats_is_in_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(folder);
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder);
    let command = command.args(["dev", "--listen", &listen]).env("LOOKER_TOKEN", SECRET);
    let _dev = Process::start(command.stderr(log(folder, "dev")));
    let url = format!("http://{listen}");
    let run = |args: &[&str]| turnfold(folder).args(["--url", &url]).args(args).output().unwrap();
    let sent = until_ready(|| run(&["turn", "send", "look", "--wait"]));
    assert!(sent.status.success(), "{sent:?}");
    let events = run(&["thread", "events", "last", "-o", "json"]);
    let events = String::from_utf8(events.stdout).unwrap();
    assert!(!events.contains(SECRET), "{events}");
    assert!(events.contains("used the token [mcp.looker.env.TOKEN]"), "{events}");

    let file = fs::read_dir(folder.join(".turnfold")).unwrap().map(|entry| entry.unwrap());
    let databases: Vec<_> = file
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.contains(".db") && !name.ends_with(".lock")
        })
        .collect();
    assert!(!databases.is_empty());
    for file in databases {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file:?}");
    }
}

/// Processes of root can read everything, so that both processes run as another user if the test runs as root.
#[test]
fn another_process_of_the_same_user_cannot_read_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let is_root =
        String::from_utf8(Command::new("id").arg("-u").output().unwrap().stdout).unwrap().trim() == "0";
    let as_user = |program: &str| match is_root {
        false => Command::new(program),
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
            command
        }
    };
    // The folder of the build may be closed to other users.
    let binary = folder.path().join("turnfold");
    fs::copy(TURNFOLD, &binary).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = as_user(binary.to_str().unwrap());
    command.args(["dev", "--listen", &listen]).env("LOOKER_TOKEN", SECRET).env("HOME", folder.path());
    let dev = Process::start(command.current_dir(folder.path()).stderr(log(folder.path(), "dev")));
    until_ready(|| {
        turnfold(folder.path()).args(["--url", &format!("http://{listen}"), "turn", "list"]).output().unwrap()
    });
    let read = as_user("cat").arg(format!("/proc/{}/environ", dev.id())).output().unwrap();
    assert!(!read.status.success(), "{}", String::from_utf8_lossy(&read.stdout));
    assert!(String::from_utf8_lossy(&read.stderr).contains("Permission denied"), "{read:?}");
}

fn until_ready(run: impl Fn() -> Output) -> Output {
    for _ in 0..400 {
        let output = run();
        if output.status.code() != Some(4) {
            return output;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not ready")
}
