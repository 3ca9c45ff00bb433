//! MCP servers that misbehave: one table, a row for each misbehaviour, with its bound and its message. A neighbour on
//! another server of the same world is unharmed meanwhile.

mod over_http;
mod stdio;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::json;
use shared::{FaultKind, PendingRequest, Request, Response, Safety, ToolCall, ToolOutput};
use world::{LiveWorld, Server};

use super::{Outcome, Stage, child, due, live, perform, servers};

/// A misbehaviour and its consequence.
pub(super) struct Row {
    /// Name of the misbehaviour, and of the tool that shows it.
    name: &'static str,
    /// Effect of repeating the call.
    safety: Safety,
    /// Maximum time of the call.
    bound: Duration,
    expected: Expected,
}

/// Result of the call.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The tool's text.
    Text(&'static str),
    /// A tool's error that contains this: the model reads it, and the turn goes on.
    Error(&'static str),
    /// A fault that is retried, because nothing happened.
    Again(&'static str),
    /// A fault that no retry can mend.
    Permanent(&'static str),
    /// A call that may have been made.
    InDoubt(&'static str),
}
use Expected::{Again, Error, InDoubt, Permanent, Text};

impl Row {
    /// Returns the message of an outcome of the expected kind, or panics.
    fn check(&self, outcome: &Outcome) -> String {
        let (message, words, is_kind) = match outcome {
            Ok((Response::Output(it) | Response::OutputWithExtras { output: it, .. }, _)) => {
                match (it, self.expected) {
                    (ToolOutput::Ok(text), Text(words)) => (text.clone(), words, text == words),
                    (ToolOutput::Error(text), Error(words)) => (text.clone(), words, true),
                    (it, _) => panic!("{}: {:?} was expected: {it:?}", self.name, self.expected),
                }
            }
            Err(fault) => match (fault.kind, self.expected) {
                (FaultKind::Transient { .. } | FaultKind::Unavailable { sent: false, .. }, Again(words))
                | (FaultKind::Permanent, Permanent(words))
                | (FaultKind::InDoubt { .. }, InDoubt(words)) => (fault.error.clone(), words, true),
                _ => panic!("{}: {:?} was expected: {fault:?}", self.name, self.expected),
            },
            Ok(other) => panic!("{}: {:?} was expected: {other:?}", self.name, self.expected),
        };
        assert!(is_kind && message.contains(words), "{}: {words:?} was expected: {message}", self.name);
        message
    }
}

/// A call of a tool.
pub(super) fn calling(server: &str, tool: &str, safety: Safety) -> PendingRequest {
    let call = ToolCall { id: "c1".to_owned(), name: tool.to_owned(), arguments: json!({}) };
    PendingRequest { safety, ..due(Request::CallTool { server: server.to_owned(), call }) }
}

/// Calls the tool of each row on its own server, while a neighbour calls another, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what the test is for")]
async fn check_all(rows: &[Row], server: impl Fn(&Row) -> Server) {
    let all = rows.iter().map(|row| (row.name, server(row))).chain([("neighbour", child::server([]))]);
    let world = live([], servers(all));
    let neighbour = || async {
        let began = Instant::now();
        let outcome =
            perform(&world, &Stage::default(), &calling("neighbour", "echo", Safety::Write)).await.0;
        assert!(outcome.is_ok(), "the neighbour is harmed: {outcome:?}");
        began.elapsed()
    };
    neighbour().await;
    let checks = rows.iter().map(|row| async {
        let began = Instant::now();
        let (outcome, beside) = futures::join!(call(&world, row), neighbour());
        let took = began.elapsed();
        let message = row.check(&outcome);
        assert!(took < row.bound, "{} took {took:?}, more than {:?}", row.name, row.bound);
        assert!(beside < Duration::from_secs(10), "{}: its neighbour took {beside:?}", row.name);
        let message: String = message.chars().take(160).collect();
        format!(
            "{:<34} {:>6} ms (bound {:>5} ms)  {message}",
            row.name,
            took.as_millis(),
            row.bound.as_millis()
        )
    });
    let mut table: Vec<String> = futures::stream::iter(checks).buffer_unordered(8).collect().await;
    table.sort();
    println!("{}", table.join("\n"));
    world.close().await;
}

async fn call(world: &LiveWorld, row: &Row) -> Outcome {
    perform(world, &Stage::default(), &calling(row.name, row.name, row.safety)).await.0
}

const AT_ONCE: Duration = Duration::from_secs(15);

fn row(name: &'static str, safety: Safety, expected: Expected) -> Row {
    Row { name, safety, bound: AT_ONCE, expected }
}

fn write(name: &'static str, expected: Expected) -> Row {
    row(name, Safety::Write, expected)
}

fn read(name: &'static str, expected: Expected) -> Row {
    row(name, Safety::Read, expected)
}
