//! Recorded threads, run by a worker.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use queue::{Lane, Schedule};
use serde_json::{Value, json};
use shared::{
    Answered, Elicitation, Event, Graph, InputProvided, InputResponse, Message, Policy, Reconciled, Response,
    RunStatus, ToolOutput, Toolboxes, TurnKind, rerun,
};
use store::{NewTurn, Opening, ThreadId};
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::{task::JoinHandle, time::sleep};

use super::{CONFIG, steps};
use crate::{Shutdown, Worker};
use world::World;

/// Returns the fixtures of a strategy, in the order of their names.
///
/// # Panics
///
/// If their folder cannot be read.
pub fn fixtures(graph: &dyn Graph) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(graph.name());
    let entries = fs::read_dir(folder).expect("a strategy has fixtures");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths
}

/// Reads the events of a fixture.
///
/// # Panics
///
/// If the file cannot be read, or a line of it is not an event.
pub fn read(path: &Path) -> Vec<Event> {
    let text = fs::read_to_string(path).expect("the fixture can be read");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an event")).collect()
}

/// Returns the first turn of a fixture, as it was submitted.
///
/// # Panics
///
/// If it begins with anything else.
pub fn first_turn(script: &[Event]) -> NewTurn {
    let [Event::Opened(opened), Event::TurnStarted(started), ..] = script else { panic!("not a fixture") };
    let new = NewTurn::of(Opening::New(opened.clone()), started.messages.clone(), "test".to_owned());
    NewTurn { reply_options: started.reply_options.clone(), ..new }
}

/// Returns true if only the world acts after the first message.
///
/// Threads with a budget are excluded: after a crash, the first of two concurrent answers may be kept and exhaust the
/// budget before the second is requested.
pub fn only_the_world_acts(script: &[Event]) -> bool {
    let is_free = matches!(script.first(), Some(Event::Opened(opened)) if opened.budget.is_none());
    let is_by_world = |event: &Event| matches!(event, Event::Answered(_) | Event::AttemptFailed(_));
    is_free && script.iter().skip(2).all(is_by_world)
}

/// Returns the seq of the last request of a log, and its slots in doubt.
///
/// # Panics
///
/// If the log has no request.
pub fn in_doubt(log: &[Event]) -> (usize, Vec<usize>) {
    let is_request = |event: &Event| matches!(event, Event::Asked(_));
    let asked = log.iter().rposition(is_request).expect("the log has a request");
    let mut slots = Vec::new();
    for event in &log[asked..] {
        if let Event::InDoubt(doubt) = event {
            slots.push(doubt.slot);
        } else if is_settling(event) {
            slots.retain(|slot| Some(*slot) != event.slot());
        }
    }
    (asked, slots)
}

fn is_settling(event: &Event) -> bool {
    let is_failure = matches!(event, Event::AttemptFailed(failed) if !failed.read_back);
    is_failure || matches!(event, Event::Reconciled(_) | Event::Answered(_))
}

/// The thread that a worker made of a fixture.
pub struct FixtureRun {
    /// Events of the thread.
    pub log: Vec<Event>,
    /// State of its strategy.
    pub state: Value,
}

/// Runs the thread that `script` records with a worker over these backends. Each event from outside is submitted when the log
/// reaches its position in the recording.
///
/// # Panics
///
/// If the thread is still busy at the end of the recording.
pub async fn run_fixture(
    backends: &Backends,
    graph: &'static dyn Graph,
    script: &[Event],
    world: Arc<dyn World>,
) -> FixtureRun {
    let worker = Worker::new(steps(backends, world, "w1"), CONFIG);
    let worker = StopsWorker(tokio::spawn(worker.run(Shutdown::default())));
    let recording = rerun(graph, script).expect("today's code continues the recording").log;
    let thread = submit_all(backends, &recording).await;
    let log = open(backends, thread).await;
    assert_ne!(log.thread().status(), RunStatus::Busy);
    let state = log.thread().state().expect("the state is JSON");
    drop(worker);
    let (_, rows) = backends.store.load(thread).await.expect("the store answers");
    FixtureRun { log: rows.into_iter().map(|row| row.event).collect(), state }
}

/// A running worker; stopped on drop.
struct StopsWorker(JoinHandle<()>);

impl Drop for StopsWorker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Submits the events from outside of a recording, waits for its end, and returns the thread.
async fn submit_all(backends: &Backends, recording: &[Event]) -> ThreadId {
    let Some(Event::Opened(opened)) = recording.first() else { panic!("a fixture begins with `opened`") };
    let (mut thread, mut toolboxes) = (None, Toolboxes::default());
    for (seq, event) in recording.iter().enumerate() {
        let from_outside = is_from_outside(event) || is_late(&recording[..seq], event);
        if let Some(thread) = thread.filter(|_| from_outside) {
            until_seq(backends, thread, seq).await;
        }
        let opening = thread.map_or_else(|| Opening::New(opened.clone()), Opening::Existing);
        if let Event::TurnStarted(started) = event {
            let policy = match started.kind {
                TurnKind::New | TurnKind::Stop => Policy::Replan,
                TurnKind::Answer => Policy::Answer,
            };
            let mut messages = started.messages.clone();
            if started.kind == TurnKind::Stop {
                messages.pop();
            }
            let reply_options = toolboxes.options_of(started).map(Box::new);
            let history_hash = started.history_hash.clone();
            let new = NewTurn::of(opening, messages, "test".to_owned());
            let new = NewTurn { policy, reply_options, history_hash, ..new };
            thread = Some(submit(backends, new).await);
        } else if let Event::InputProvided(provided) = event {
            let form = form(&recording[..seq], provided);
            let answer = vec![Message::user(answer(form, &provided.response))];
            let new = NewTurn::of(opening, answer, "test".to_owned());
            let history_hash = provided.history_hash.clone();
            submit(backends, NewTurn { policy: Policy::Answer, history_hash, ..new }).await;
        } else if let Some(thread) = thread.filter(|_| from_outside) {
            let mut log = open(backends, thread).await;
            log.push(event.clone()).expect("the log takes the recorded event");
            log.flush(backends).await.expect("the store answers");
            enqueue(backends, thread).await;
        }
    }
    let thread = thread.expect("a fixture has a turn");
    until_seq(backends, thread, recording.len()).await;
    thread
}

fn is_from_outside(event: &Event) -> bool {
    matches!(
        event,
        Event::TurnStarted(_)
            | Event::InputProvided(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::Reconciled(Reconciled { read_back: None, .. })
    )
}

/// Returns true for the outcome of a call about which a person is asked already.
fn is_late(log: &[Event], event: &Event) -> bool {
    let Event::AttemptFailed(failed) = event else { return false };
    let before = log.iter().rfind(|before| before.slot() == Some(failed.slot));
    matches!(before, Some(Event::InDoubt(doubt)) if doubt.read_back_after_ms.is_none())
}

async fn submit(backends: &Backends, new: NewTurn) -> ThreadId {
    let turn = backends.store.submit(new).await.expect("the store accepts the turn").into_turn();
    enqueue(backends, turn.thread).await;
    turn.thread
}

/// Returns the form that an input answers.
fn form<'a>(log: &'a [Event], provided: &InputProvided) -> Option<&'a Elicitation> {
    log.iter().rev().find_map(|event| {
        let Event::InputRequired(required) = event else { return None };
        required.input_requests.get(&provided.name).filter(|_| required.slot == provided.slot)
    })
}

/// Returns the message with which a person gives this response to a form: in words if they can answer it, and as JSON otherwise.
fn answer(form: Option<&Elicitation>, response: &InputResponse) -> String {
    match response {
        InputResponse::Accept(Value::Null) => "done".to_owned(),
        InputResponse::Accept(fields) => {
            form.and_then(|form| in_words(form, fields)).unwrap_or_else(|| fields.to_string())
        }
        InputResponse::Decline => "decline".to_owned(),
        InputResponse::Cancel => "cancel".to_owned(),
    }
}

/// Returns the words for the only field of a form, or for its only required one.
fn in_words(form: &Elicitation, fields: &Value) -> Option<String> {
    let (name, value) = fields.as_object().filter(|fields| fields.len() == 1)?.iter().next()?;
    let all = form.schema["properties"].as_object()?;
    (all.len() == 1 || form.schema["required"] == json!([name])).then(|| said(value))
}

fn said(value: &Value) -> String {
    match value {
        Value::Bool(is_true) => if *is_true { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(said).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

async fn enqueue(backends: &Backends, thread: ThreadId) {
    let enqueued = backends.queue.enqueue(thread, &Lane::default(), Schedule::Now).await;
    enqueued.expect("the queue accepts the thread");
}

async fn open(backends: &Backends, thread: ThreadId) -> ThreadLog {
    let strategies = StrategyRegistry::new(strategies::all());
    ThreadLog::open(backends, &strategies, thread).await.expect("the thread can be opened")
}

/// Waits until the thread has this many events.
async fn until_seq(backends: &Backends, thread: ThreadId, events: usize) {
    while backends.store.head(thread).await.expect("the store answers").seq < events as u64 {
        sleep(Duration::from_millis(2)).await;
    }
}

/// Replaces the doubt of a cancelled appointment by its answer.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other events stay")]
pub fn answered_at_once(event: Event) -> Option<Event> {
    match event {
        Event::InDoubt(doubt) => {
            let response = Response::Output(ToolOutput::Ok("cancelled e1".to_owned()));
            Some(Answered { slot: doubt.slot, response, usage: None, extras: None }.into())
        }
        Event::Reconciled(_) => None,
        other => Some(other),
    }
}
