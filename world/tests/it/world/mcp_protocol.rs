//! The protocol that a server is asked for, and the end of idle servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};
use shared::{FaultKind, Safety};
use world::{LiveWorld, Protocol, Server, Session, Transport};

use super::{
    Stage, live, mcp_misbehaviour::calling, perform, scripted_server, scripted_server::log_of, servers,
};

async fn text(world: &LiveWorld, safety: Safety) -> String {
    let outcome = perform(world, &Stage::default(), &calling("desk", "look", safety)).await.0;
    format!("{outcome:?}")
}

fn up() -> Value {
    json!({ "result": { "content": [{ "type": "text", "text": "up" }] } })
}

fn pids(log: &Path) -> BTreeSet<String> {
    log_of(log).into_iter().map(|(pid, _)| pid).collect()
}

/// Waits until the log shows this many processes.
async fn wait_for(what: &str, is_true: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what} within 30 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_ignores_the_question_is_asked_the_older_way_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = scripted_server::server(&json!({ "server/discover": null, "tools/call": up() }));
    let server = Server { connect_timeout: Duration::from_secs(6), ..scripted_server::logged(server, &log) };
    let world = live([], servers([("desk", server)]));
    assert!(text(&world, Safety::Write).await.contains("up"));
    let log = log_of(&log);
    assert_eq!(log[0].1, "server/discover");
    let first: Vec<_> = log.iter().filter(|(pid, _)| *pid == log[0].0).collect();
    assert_eq!(first.len(), 1, "the first process is asked nothing else: {log:?}");
    world.close().await;
}

#[tokio::test]
async fn a_configured_protocol_is_not_asked_for() {
    for (protocol, first) in [(Protocol::Older, "initialize"), (Protocol::Newest, "server/discover")] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = json!({ "server/discover": scripted_server::discovered(), "tools/call": up() });
        let server = scripted_server::logged(scripted_server::server(&script), &log);
        let world = live([], servers([("desk", Server { protocol: Some(protocol), ..server })]));
        assert!(text(&world, Safety::Read).await.contains("up"));
        let methods: Vec<String> = log_of(&log).into_iter().map(|(_, method)| method).collect();
        let handshakes =
            methods.iter().filter(|method| matches!(&***method, "initialize" | "server/discover"));
        assert_eq!(handshakes.collect::<Vec<_>>(), [first], "{methods:?}");
        world.close().await;
    }
}

#[tokio::test]
async fn an_empty_list_of_the_newest_protocol_is_asked_for_once_the_older_way() {
    let (none, one) = (json!({ "result": { "tools": [] } }), scripted_server::one_tool("look"));
    for (older, expected, handshakes) in [(&one, 1, 2), (&none, 0, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = json!({
            "server/discover": scripted_server::discovered(), "newest tools/list": none, "tools/list": older,
        });
        let server = scripted_server::logged(scripted_server::server(&script), &log);
        let servers = servers([("desk", server)]);
        for _ in 0..3 {
            assert_eq!(servers.tools("desk").await.unwrap().len(), expected);
        }
        assert!(pids(&log).len() <= handshakes, "{:?}", log_of(&log));
        let protocol = servers.describe("desk").await.unwrap().protocol;
        assert_eq!(protocol == "2026-07-28", expected == 0, "{protocol}: the one that lists more");
        servers.close().await;
    }
}

#[tokio::test]
async fn an_idle_child_ends_and_its_next_call_starts_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = scripted_server::logged(scripted_server::server(&json!({ "tools/call": up() })), &log);
    let idle = Duration::from_millis(600);
    let world = live([], servers([("desk", Server { idle_timeout: idle, ..server })]));
    for starts in 1..=2 {
        for _ in 0..4 {
            tokio::time::sleep(idle / 3).await;
            assert!(text(&world, Safety::Write).await.contains("up"));
        }
        assert_eq!(pids(&log).len(), starts, "calls keep it running");
        let pid = log_of(&log).pop().unwrap().0;
        wait_for("the child ends", || !Path::new(&format!("/proc/{pid}")).exists()).await;
    }
    world.close().await;
}

#[tokio::test]
async fn a_call_or_a_task_keeps_an_idle_child_running() {
    let idle = Duration::from_millis(300);
    let task = json!({ "result": {
        "resultType": "task", "taskId": "t1", "status": "working", "createdAt": "2026-11-28T12:00:00Z",
        "lastUpdatedAt": "2026-11-28T12:00:00Z", "ttlMs": null, "pollIntervalMs": 60000,
    } });
    let folder = tempfile::tempdir().unwrap();
    for (name, session) in
        [("shared", Session::Shared), ("thread", Session::Thread { max_sessions: 2, idle_timeout: idle })]
    {
        let log = folder.path().join(name);
        let script = json!({ "server/discover": scripted_server::discovered(), "tools/call": task });
        let server = scripted_server::logged(scripted_server::server(&script), &log);
        let world = live([], servers([("desk", Server { idle_timeout: idle, session, ..server })]));
        let begun = text(&world, Safety::Write).await;
        assert!(begun.contains("Working"), "{name}: {begun}");
        tokio::time::sleep(idle * 5).await;
        let pid = log_of(&log).pop().unwrap().0;
        assert!(Path::new(&format!("/proc/{pid}")).exists(), "{name}: its task would be lost");
        world.close().await;
    }
    let log = folder.path().join("call");
    let server = scripted_server::logged(scripted_server::server(&json!({ "tools/call": null })), &log);
    let call_timeout = Duration::from_millis(1_500);
    let world = live([], servers([("desk", Server { idle_timeout: idle, call_timeout, ..server })]));
    assert!(text(&world, Safety::Write).await.contains("did not answer look within 1.5s"));
    world.close().await;
}

/// A child that ends in the same way at each start is not waited for; one whose last output differs is.
#[tokio::test]
async fn a_child_that_ends_twice_in_the_same_way_is_not_waited_for() {
    for (script, kinds) in [
        ("echo \"no module $$\" >&2; exit 1", ["unavailable", "permanent"]),
        (
            "echo \"$1\" >&2; head -c 9 /dev/urandom | od -An -tx1 | tr 0-9 g-p >&2; exit 1",
            ["unavailable"; 2],
        ),
        ("exit 1", ["unavailable"; 2]),
    ] {
        let args = ["-c".to_owned(), script.to_owned()].into();
        let transport = Transport::Stdio { command: "sh".to_owned(), args, env: BTreeMap::new(), cwd: None };
        let servers = servers([("desk", super::child::command_of(transport))]);
        for expected in kinds {
            let fault = servers.tools("desk").await.unwrap_err();
            let kind = match fault.kind {
                FaultKind::Permanent => "permanent",
                FaultKind::Unavailable { .. } => "unavailable",
                other => panic!("{other:?}"),
            };
            assert_eq!(kind, expected, "{script}: {}", fault.error);
        }
    }
}
