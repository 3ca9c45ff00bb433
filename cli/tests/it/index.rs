//! The index of MCP servers, from the command line.

use std::{fs, time::Duration};

use serde_json::Value;
use test_servers::free_port;

use crate::engine::{Process, log, turnfold};

#[test]
fn the_index_is_built_shown_and_searched() {
    let folder = tempfile::tempdir().unwrap();
    let configured = |more: &str| {
        let calendar = format!(
            "[mcp.calendar]\ndescription = 'Knows appointments.'\ncommand = {:?}\n\
             args = ['expert', 'calendar', '--data', 'calendar.json']\n{more}",
            env!("CARGO_BIN_EXE_turnfold")
        );
        fs::write(folder.path().join("turnfold.toml"), calendar).unwrap();
    };
    let page = "[commands.page]\ndescription = 'Pages whoever is on call.'\nurl = 'http://127.0.0.1:9'\n";
    configured(page);
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{listen}");
    let mut command = turnfold(folder.path());
    let _dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let run = |args: &[&str]| {
        let output = turnfold(folder.path()).args(["--url", &url, "-o", "json"]).args(args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let states = || {
        let (exit, out) = run(&["index", "status"]);
        let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
        let state =
            |row: &Value| format!("{}: {}", row["server"].as_str().unwrap(), row["state"].as_str().unwrap());
        (exit, rows.iter().map(state).collect::<Vec<_>>())
    };
    let mut built = run(&["index", "build"]);
    for _ in 0..200 {
        if built.0 != 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        built = run(&["index", "build"]);
    }
    assert_eq!(built.0, 0, "{built:?}");
    assert_eq!(states(), (0, vec!["calendar: indexed".to_owned(), "commands: indexed".to_owned()]));

    let (_, found) = run(&["index", "search", "who is on call tonight?", "--limit", "1"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(
        (&found[0]["server"], &found[0]["by"], &found[1]),
        (&"commands".into(), &"lexical".into(), &Value::Null)
    );

    // The hash of an entry covers what the configuration makes of it.
    let text = || {
        let (_, found) = run(&["index", "search", "calendar", "--limit", "1"]);
        let found: Value = serde_json::from_str(&found).unwrap();
        found[0]["text"].as_str().unwrap().to_owned()
    };
    let whole = text();
    assert!(whole.len() > 10, "{whole}");
    for (tune, expected) in [("{\"characters\": 3}", "Kno"), ("{}", whole.as_str())] {
        let (exit, turn) = run(&["turn", "send", "-g", "index_builder", "--tune", tune, "--wait", "build"]);
        assert_eq!(exit, 0, "{turn}");
        assert!(turn.contains("2 ok, 0 unchanged"), "{turn}");
        assert_eq!(text(), expected);
    }

    configured("[mcp.mail]\ndescription = 'x'\ncommand = 'x'\n[index]\nembedding_model = 'openai/small'\n");
    let expected = ["calendar: no_vector", "commands: not_configured", "mail: not_indexed"];
    assert_eq!(states(), (1, expected.map(str::to_owned).to_vec()));
}
