//! Text of tenants, models and servers that a terminal would obey: no command prints it as it came.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use test_servers::free_port;

use crate::engine::{Process, log, turnfold};

/// Characters that a terminal obeys, that reorder a line, or that show nothing.
fn harmful(letter: char) -> bool {
    (letter.is_control() && !matches!(letter, '\n' | '\t'))
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Every such character, and sequences that move, clear, hide, retitle, link, paste and answer.
fn corpus() -> Vec<String> {
    let letters = (1..=0x10_ffff).filter_map(char::from_u32).filter(|letter| harmful(*letter));
    let single = letters.map(|letter| format!("pay {letter}9000 EUR"));
    let sequences = [
        "\u{1b}[8mand wire\u{1b}[0m",
        "\u{1b}[2J\u{1b}[H",
        "\u{1b}[1A\u{1b}[2Kok",
        "\u{1b}]0;title\u{7}",
        "\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\",
        "\u{1b}]52;c;ZXZpbA==\u{7}",
        "\u{1b}[6n",
        "\u{1b}[?1049h",
        "\u{1b}P$qm\u{1b}\\",
        "\u{9b}31mred",
        "\u{1b}c",
        "\u{1b}[30;40mhidden",
        "yes\u{8}\u{8}\u{8}no",
        "line\r  over",
        "\u{202e}txt.exe",
        "a\u{2066}b\u{2069}",
        "\u{1b}[200~paste\u{1b}[201~",
        "\u{1b}]1337;File=:AA==\u{7}",
        "\u{1b}[5m\u{1b}[7m",
        "\u{1b}#8",
    ];
    single.chain(sequences.map(str::to_owned)).collect()
}

#[test]
fn no_command_prints_what_a_terminal_obeys() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let corpus = corpus();
    assert!(200 <= corpus.len(), "{}", corpus.len());
    let hostile = corpus.join(" ");
    configure(folder, &hostile);
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{listen}");
    let mut command = turnfold(folder);
    let dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder, "dev")));
    let at = |args: &[&str]| run(folder, &[&["--url", &url], args].concat());
    for _ in 0..200 {
        if at(&["turn", "list"]).0 != 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }

    // Semicolons and bars part the instructions of `probe`.
    let input = hostile.replace([';', '|'], ":");
    let mut threads = Vec::new();
    for (strategy, text, exit) in [
        ("probe", format!("stream {input}"), 0),
        ("probe", format!("ask {input}?"), 3),
        ("probe", format!("fail {input}"), 1),
        ("planner", hostile.clone(), 0),
    ] {
        let sent = at(&["turn", "send", "-g", strategy, &text, "--follow"]);
        assert_eq!(sent.0, exit, "{strategy}: {}", sent.1);
        assert!(sent.1.contains("9000 EUR"), "{strategy}: {}", sent.1);
        let (_, listed) = at(&["turn", "list", "-o", "json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        threads.push(listed[0]["thread_id"].as_str().unwrap().to_owned());
    }
    fs::write(
        folder.join("lines.jsonl"),
        json!({"custom_id": "a\u{1b}[8mb\u{202e}c", "method": "POST", "url": "/v1/turns",
            "body": {"strategy": "probe", "input": format!("fail {input}")}})
        .to_string(),
    )
    .unwrap();
    at(&["batch", "run", "lines.jsonl", "--out", "results.jsonl"]);
    let (_, batches) = at(&["batch", "list", "-o", "json"]);
    let batches: Value = serde_json::from_str(&batches).unwrap();
    let batch = batches[0]["id"].as_str().unwrap();
    for args in [
        &["batch", "list"][..],
        &["batch", "show", batch],
        &["batch", "results", batch],
        &["turn", "list"],
        &["thread", "list"],
        &["inbox", "list"],
        &["queue", "list"],
        &["mcp", "list"],
        &["mcp", "tools", "desk"],
        &["mcp", "pins"],
        &["turn", "list", "--group-by", "cause"],
        &["inbox", "list", "-o", "json"],
        &["mcp", "tools", "desk", "-o", "json"],
    ] {
        at(args);
    }
    for thread in &threads {
        for args in [
            &["inbox", "show"][..],
            &["thread", "show"],
            &["thread", "events"],
            &["thread", "why"],
            &["thread", "verify"],
            &["thread", "replay"],
            &["thread", "export"],
            &["thread", "events", "-o", "jsonl"],
            &["thread", "show", "-o", "json"],
            &["thread", "state"],
            &["fixture", "capture"],
        ] {
            at(&[args, &[thread]].concat());
        }
        at(&["thread", "diff", thread, &threads[0]]);
        at(&["inbox", "answer", thread, &hostile]);
    }
    drop(dev);
    printable("the log", &fs::read_to_string(folder.join("dev.log")).unwrap());
    for args in [
        &["store", "verify"][..],
        &["thread", "cost"],
        &["audit", "replay"],
        &["thread", "list"],
        &["mcp", "tools", "desk"],
    ] {
        run(folder, args);
    }
}

/// Runs a command, checks what it prints, and returns its exit code and stdout.
fn run(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = turnfold(folder).args(args).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    for text in [&out, &err] {
        printable(
            &args.iter().map(|arg| arg.chars().take(40).collect()).collect::<Vec<String>>().join(" "),
            text,
        );
    }
    let code = output.status.code().unwrap();
    assert_ne!(code, 2, "{err}");
    (code, out)
}

fn printable(command: &str, text: &str) {
    let found: Vec<char> = text.chars().filter(|letter| harmful(*letter)).take(5).collect();
    assert!(found.is_empty(), "{command} prints {found:?}");
}

/// Writes the configuration: a model and an MCP server that say nothing harmless.
fn configure(folder: &Path, hostile: &str) {
    let script = [
        json!({"shape": "PlanReply", "says": {"decision": "replace", "next_task": 0, "clarification": null,
            "plan": [{"expert": "desk", "task": hostile}]}}),
        json!({"shape": "Assessment", "says": {"is_completed": true, "explanation": hostile, "confidence": 1.0}}),
        json!({"system": "at work on one task", "last_role": "user", "calls": [{"name": "pay", "arguments": {"note": hostile}}]}),
        json!({"says": hostile}),
    ];
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    fs::write(folder.join("model.jsonl"), lines.join("\n")).unwrap();
    fs::write(folder.join("hostile.txt"), hostile).unwrap();
    fs::write(folder.join("server.py"), SERVER).unwrap();
    let config = "[providers.scripted]\nscript = 'model.jsonl'\n[strategies.planner]\nmodel = 'scripted/test'\n\
         [mcp.desk]\ndescription = 'a desk'\ncommand = 'python3'\nargs = ['server.py']\n";
    fs::write(folder.join("turnfold.toml"), config).unwrap();
}

const SERVER: &str = r#"
import json, sys
text = open("hostile.txt", newline="").read()
schema = {"type": "object", "properties": {"note": {"type": "string", "description": text}}}
tool = {"name": "pay", "title": text, "description": text, "inputSchema": schema, "annotations": {"title": text}}
answers = {
    "tools/list": {"tools": [tool]},
    "tools/call": {"content": [{"type": "text", "text": text}], "isError": True},
    "prompts/list": {"prompts": [{"name": "p", "description": text}]},
    "resources/list": {"resources": [{"uri": "file:///a", "name": text, "description": text}]},
}
for line in sys.stdin:
    ask = json.loads(line)
    if ask.get("method") == "initialize":
        result = {"protocolVersion": ask["params"]["protocolVersion"], "instructions": text,
                  "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                  "serverInfo": {"name": text, "version": text}}
    else:
        result = answers.get(ask.get("method"))
    if "id" in ask:
        body = {"result": result} if result else {"error": {"code": -32601, "message": text}}
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **body}), flush=True)
        print(text, file=sys.stderr, flush=True)
"#;
