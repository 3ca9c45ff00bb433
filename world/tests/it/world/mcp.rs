//! MCP servers that run as child processes.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use shared::{Content, FaultKind, Request, Response, Safety, ToolCall, ToolOutput};
use world::{IDEMPOTENCY_KEY, LiveWorld, Server, ServerInfo, ToolRule, Transport};

use super::{
    Outcome, Stage, again,
    child::{command_of, server},
    due, fault, live, nobody, perform, servers,
};

fn world_with(server: Server) -> LiveWorld {
    live([], servers([("desk", server)]))
}

async fn call(world: &LiveWorld, name: &str, arguments: Value) -> Outcome {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments };
    let request = Request::CallTool { server: "desk".to_owned(), call };
    perform(world, &Stage::default(), &due(request)).await.0
}

async fn text(world: &LiveWorld, name: &str) -> String {
    match call(world, name, json!({})).await {
        Ok((
            Response::Output(ToolOutput::Ok(text))
            | Response::OutputWithExtras { output: ToolOutput::Ok(text), .. },
            None,
        )) => text,
        other => panic!("an output was expected of {name}: {other:?}"),
    }
}

async fn error(world: &LiveWorld, name: &str, arguments: Value) -> String {
    match call(world, name, arguments).await {
        Ok((Response::Output(ToolOutput::Error(text)), None)) => text,
        other => panic!("a tool's error was expected of {name}: {other:?}"),
    }
}

/// A configured rule that sets the safety of a tool's calls.
fn safety(safety: Safety) -> ToolRule {
    ToolRule { safety: Some(safety), ..ToolRule::default() }
}

async fn list(world: &LiveWorld, stage: &Stage) -> Response {
    perform(world, stage, &due(Request::ListTools { server: "desk".to_owned() })).await.0.unwrap().0
}

#[tokio::test]
async fn every_page_is_listed_by_name_with_what_repeating_does() {
    let mut server = server([]);
    server.tools.insert("send".to_owned(), safety(Safety::Idempotent));
    let world = world_with(server);
    let mut stage = Stage::default();
    let Response::Tools { tools } = list(&world, &stage).await else { panic!("tools were expected") };
    let shown: Vec<_> = tools.iter().map(|tool| (tool.name.as_str(), tool.safety)).collect();
    // The configured safety of `send` takes precedence over the server, which declares none.
    let expected = [
        ("asked_3_times", Safety::Write),
        ("look", Safety::Read),
        ("put", Safety::Idempotent),
        ("send", Safety::Idempotent),
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        (tools[1].description.as_str(), &tools[1].parameters),
        ("does look", &json!({ "type": "object" }))
    );

    // Tools already in the log are not recorded again, and tools listed a moment ago are not requested again.
    stage.tool_servers.insert("desk".to_owned(), tools);
    assert_eq!(list(&world, &stage).await, Response::ToolsUnchanged);
    assert_eq!(text(&world, "change").await, "changed");
    let Response::Tools { tools } = list(&world, &stage).await else { panic!("changed tools were expected") };
    assert_eq!(tools[0].name, "asked_6_times");
}

#[tokio::test]
async fn a_call_carries_its_arguments_and_its_key() {
    let world = world_with(server([]));
    let Ok((Response::Output(ToolOutput::Ok(echoed)), _)) = call(&world, "echo", json!({ "at": 9 })).await
    else {
        panic!("an echo was expected")
    };
    let echoed: Value = serde_json::from_str(&echoed).unwrap();
    assert_eq!(echoed["arguments"], json!({ "at": 9 }));
    assert_eq!(echoed["meta"][IDEMPOTENCY_KEY], "thread:2:0");
}

#[tokio::test]
async fn whatever_a_tool_says_reaches_the_model() {
    let world = world_with(server([]));
    assert_eq!(error(&world, "fail", json!({})).await, "the room is taken");
    assert_eq!(error(&world, "protest", json!({})).await, "no such room");
    assert_eq!(
        text(&world, "gallery").await,
        "a picture\n[image image/png, 12 kB]\n[resource file:///a]\ninside\n[resource b file:///b]\n{\"left\":\"out\"}"
    );
    assert_eq!(text(&world, "structured").await, r#"{"rooms":[1,2]}"#);
    let declined: Value = serde_json::from_str(&text(&world, "interrupt").await).unwrap();
    assert_eq!(declined["action"], "decline");
    assert!(
        declined["_meta"]["turnfold/declined"].as_str().unwrap().contains("input_required"),
        "{declined}"
    );
}

#[tokio::test]
async fn a_server_that_dies_leaves_a_doubt_and_is_started_again() {
    let world = world_with(server([]));
    let first = text(&world, "pid").await;
    assert_eq!(text(&world, "pid").await, first, "one connection serves all");
    let doubt = fault(call(&world, "die", json!({})).await);
    assert_eq!(doubt.kind, FaultKind::InDoubt { retry_after_ms: None });
    assert!(doubt.error.contains("the connection to MCP server desk was lost during die"), "{doubt:?}");
    assert_ne!(text(&world, "pid").await, first);
}

#[tokio::test]
async fn many_who_come_at_once_share_one_connection() {
    let world = world_with(server([]));
    let pids = futures::future::join_all((0..8).map(|_| text(&world, "pid"))).await;
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[tokio::test]
async fn silence_is_a_doubt_but_progress_is_not_silence() {
    let world = world_with(Server { call_timeout: Duration::from_secs(1), ..server([]) });
    assert_eq!(text(&world, "work").await, "done");
    let silent = fault(call(&world, "hang", json!({})).await);
    assert_eq!(silent.kind, FaultKind::InDoubt { retry_after_ms: None });
    assert!(silent.error.contains("did not answer hang within 1s"), "{silent:?}");
    assert_eq!(text(&world, "unheard_of").await, "what is unheard_of?", "the connection stays of use");
}

#[tokio::test]
async fn a_child_sees_only_what_it_is_given() {
    let seen: BTreeMap<String, String> =
        serde_json::from_str(&text(&world_with(server([("GIVEN", "this")])), "env").await).unwrap();
    assert_eq!(seen["GIVEN"], "this");
    assert_eq!(seen.get("PATH"), std::env::var("PATH").ok().as_ref());
    // Cargo sets this variable for the test, so it serves as a secret of the parent process.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let ours = ["PATH", "HOME", "LANG", "TMPDIR", "PYTHONHASHSEED", "GIVEN", "TURNFOLD_TEST_MCP_SERVER"];
    let others: Vec<_> = seen.keys().filter(|name| !ours.contains(&name.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
}

fn shell(line: &str) -> Server {
    let env = BTreeMap::from([("TOKEN".to_owned(), "a-very-secret-token".to_owned())]);
    let args = vec!["-c".to_owned(), line.to_owned()];
    command_of(Transport::Stdio { command: "sh".to_owned(), args, env, cwd: None })
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_says_why() {
    let slow = Server { connect_timeout: Duration::from_millis(300), ..shell("sleep 60") };
    let cases = [
        (shell("echo \"licence $TOKEN expired\" >&2; exit 3"), "its last output: licence [TOKEN] expired"),
        (slow, "it did not respond within 300ms"),
    ];
    for (server, words) in cases {
        let fault = fault(call(&world_with(server), "look", json!({})).await);
        assert!(fault.error.starts_with("cannot reach MCP server desk: "), "{fault:?}");
        assert!(fault.error.ends_with("; hint: check [mcp.desk] in turnfold.toml"), "{fault:?}");
        assert!(fault.error.contains(words), "{words:?} is not in {fault:?}");
        again(&fault);
    }
}

/// Nothing waits for a command that only an operator can mend.
#[tokio::test]
async fn a_command_that_does_not_exist_is_reported_at_once() {
    let child = |command: &str, cwd: Option<&str>| {
        let (command, cwd) = (command.to_owned(), cwd.map(Into::into));
        command_of(Transport::Stdio { command, args: Vec::new(), env: BTreeMap::new(), cwd })
    };
    for (server, why) in [
        (
            child("no-such-program-of-turnfold", None),
            "the command \"no-such-program-of-turnfold\" does not exist",
        ),
        (child("/etc/passwd", None), "the command \"/etc/passwd\" may not be executed"),
        (child("sh", Some("/no-such-folder")), "its folder /no-such-folder does not exist"),
    ] {
        let fault = fault(call(&world_with(server), "look", json!({})).await);
        assert_eq!(fault.kind, FaultKind::Permanent);
        assert_eq!(
            fault.error,
            format!(
                "cannot start MCP server desk: {why}; hint: fix [mcp.desk] in turnfold.toml, then run: turnfold turn retry"
            )
        );
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_not_tried_once_for_each_who_waits() {
    let folder = tempfile::tempdir().unwrap();
    let tries = folder.path().join("tries");
    let world = world_with(shell(&format!("echo once >> {}; exit 1", tries.display())));
    let outcomes = futures::future::join_all((0..8).map(|_| call(&world, "look", json!({})))).await;
    assert!(outcomes.iter().all(|outcome| outcome == &outcomes[0]), "{outcomes:?}");
    // A server that ends at once may have ended because of the question for its protocol: it is started once more.
    assert_eq!(std::fs::read_to_string(&tries).unwrap(), "once\n".repeat(2));
    // A later call tries to start the server again.
    again(&fault(call(&world, "look", json!({})).await));
    assert_eq!(std::fs::read_to_string(&tries).unwrap(), "once\n".repeat(4));
}

#[tokio::test]
async fn an_unknown_server_is_the_operators_to_add() {
    for (world, known) in [(world_with(server([])), "desk"), (live([], nobody()), "none")] {
        let request = Request::ListTools { server: "till".to_owned() };
        let fault = fault(perform(&world, &Stage::default(), &due(request)).await.0);
        assert_eq!(fault.kind, FaultKind::Permanent);
        assert_eq!(
            fault.error,
            format!(
                "MCP server \"till\" is unknown (known: {known}); hint: add [mcp.till] to turnfold.toml, then run: turnfold turn retry"
            )
        );
    }
}

#[tokio::test]
async fn a_server_describes_itself_and_ends_when_it_is_let_go() {
    let world = world_with(server([]));
    let described = world.servers().describe("desk").await.unwrap();
    let name = "hand-made 0.1".to_owned();
    let instructions = Some("be kind".to_owned());
    assert_eq!(described, ServerInfo { name, protocol: "2025-11-25".to_owned(), instructions });
    let pid = text(&world, "pid").await;
    world.close().await;
    let alive = std::process::Command::new("kill").args(["-0", &pid]).status().unwrap().success();
    assert!(!alive, "the child outlives its connection");
}

/// Text content reaches the model. Other content is kept beside it, and content over the size limit is replaced by a
/// note.
#[tokio::test]
async fn what_is_no_text_is_kept_beside_it() {
    let world = world_with(server([]));
    let kept = async |tool: &str| match call(&world, tool, json!({})).await {
        Ok((Response::OutputWithExtras { extras: kept, .. }, None)) => kept.content,
        other => panic!("{tool} gives more than words: {other:?}"),
    };
    let picture = Content::Image { mime_type: "image/png".to_owned(), data: "A".repeat(16_000) };
    let gallery = [
        picture,
        Content::Resource { uri: "file:///a".to_owned(), mime_type: None, data: None },
        Content::Link { uri: "file:///b".to_owned(), name: "b".to_owned(), mime_type: None },
        Content::Structured { value: json!({ "left": "out" }) },
    ];
    assert_eq!(kept("gallery").await, gallery);
    let rooms = Content::Structured { value: json!({ "rooms": [1, 2] }) };
    assert_eq!(kept("structured").await, [rooms]);
    let huge = kept("huge").await;
    let [Content::Omitted { description }, Content::Audio { data, .. }] = &huge[..] else {
        panic!("{} parts", huge.len())
    };
    assert_eq!(description, "image image/png, 2250 kB: omitted, a result keeps at most 2097152 bytes");
    assert_eq!(data, "AAAA", "what is small still fits");
}
