//! MCP sessions that belong to one thread.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use shared::{Request, Response, ToolCall, ToolOutput};
use uuid::Uuid;
use world::{LiveWorld, RequestContext, Session, World};

use super::{Outcome, Pad, Stage, again, child, due, live, servers};

fn world_with(max_sessions: usize, idle_timeout: Duration) -> LiveWorld {
    let mut server = child::server([]);
    server.session = Session::Thread { max_sessions, idle_timeout };
    live([], servers([("desk", server)]))
}

const LONG: Duration = Duration::from_secs(600);

/// Calls a tool of `desk` for a thread.
async fn asked(world: &LiveWorld, thread: u128, tool: &str) -> Outcome {
    let call = ToolCall { id: "c1".to_owned(), name: tool.to_owned(), arguments: json!({}) };
    let (due, pad) = (due(Request::CallTool { server: "desk".to_owned(), call }), Pad::default());
    let ask =
        RequestContext { thread: Uuid::from_u128(thread), due: &due, key: "k", node: "node", deltas: &pad };
    world.perform(&Stage::default(), &ask).await
}

/// Calls a tool of `desk` for a thread and returns its text and its session.
async fn call(world: &LiveWorld, thread: u128, tool: &str) -> Option<(String, String)> {
    match asked(world, thread, tool).await {
        Ok((Response::OutputWithExtras { output: ToolOutput::Ok(text), extras: kept }, _)) => {
            Some((text, kept.session.unwrap()))
        }
        Ok(other) => panic!("a session was expected: {other:?}"),
        Err(_) => None,
    }
}

#[tokio::test]
async fn a_thread_stays_with_its_own_process_until_that_dies() {
    let world = world_with(8, LONG);
    let first = call(&world, 1, "pid").await;
    let other = call(&world, 2, "pid").await;
    assert!(first.is_some() && first != other, "each thread has its own: {first:?}");
    assert_eq!(call(&world, 1, "pid").await, first, "and keeps it");
    assert_eq!(call(&world, 1, "die").await, None);
    let again = call(&world, 1, "pid").await.unwrap();
    let (pid, session) = first.unwrap();
    assert!(again.0 != pid && again.1 != session, "a new process is a new session");
    assert_eq!(call(&world, 2, "pid").await, other, "the others keep theirs");
    world.close().await;
}

#[tokio::test]
async fn of_too_many_the_one_that_was_idle_longest_ends() {
    let world = world_with(2, LONG);
    let (first, second) = (call(&world, 1, "pid").await, call(&world, 2, "pid").await);
    assert_eq!(call(&world, 1, "pid").await, first);
    call(&world, 3, "pid").await.unwrap();
    assert_eq!(call(&world, 1, "pid").await, first, "it was used later");
    assert_ne!(call(&world, 2, "pid").await, second, "it made room");
    // Sessions in use are not closed to make room: further calls wait until one ends.
    let busy = futures::future::join_all((1..=6).map(|thread| call(&world, thread, "work"))).await;
    let served: BTreeSet<_> = busy.iter().flatten().collect();
    assert_eq!(served.len(), 6, "each has its session: {busy:?}");
    world.close().await;
}

#[tokio::test]
async fn a_call_without_a_session_in_time_fails_with_the_reason() {
    let mut server = child::server([]);
    server.session = Session::Thread { max_sessions: 1, idle_timeout: LONG };
    // Each progress notification restarts the timeout: the first call outlasts it.
    server.call_timeout = Duration::from_secs(1);
    let world = live([], servers([("desk", server)]));
    let both = futures::future::join_all((1..=2).map(|thread| asked(&world, thread, "work"))).await;
    let [Ok(_), Err(fault)] = both.as_slice() else { panic!("one of them goes first: {both:?}") };
    again(fault);
    assert!(fault.error.contains("all 1 sessions with MCP server desk are in use"), "{fault:?}");
    world.close().await;
}

#[tokio::test]
async fn an_idle_session_ends_by_itself() {
    let world = world_with(8, Duration::from_millis(400));
    let (pid, _) = call(&world, 1, "pid").await.unwrap();
    // A session with a running call is not idle; an exited server process is also removed.
    assert!(call(&world, 1, "work").await.is_some());
    let alive = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    let began = std::time::Instant::now();
    while alive() {
        assert!(began.elapsed() < Duration::from_secs(20), "it lives on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_ne!(call(&world, 1, "pid").await.unwrap().0, pid);
    world.close().await;
}
