//! Runs every fixture with a worker over an in-memory store: the transcript equals the replayed one, line by line.

use std::{path::PathBuf, sync::Arc, time::Duration};

use queue::{Lane, MemoryNotifications, MemoryQueue, Schedule};
use serde_json::Value;
use shared::{Event, Graph, InputResponse, Message, Policy, RunStatus, TurnKind, rerun, transcript};
use store::{NewTurn, Opening, Store, Submitted, ThreadId};
use threads::{Backends, StrategyRegistry, ThreadLog};
use worker::{Backoff, RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{RecordedWorld, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fixture_gives_the_same_transcript() {
    let mut lived = 0;
    for graph in strategies::all() {
        for path in fixtures(graph) {
            let script = read(&path);
            let expected = std::fs::read_to_string(path.with_extension("snap")).unwrap();
            let (log, state) = tokio::time::timeout(Duration::from_secs(30), live(graph, &script))
                .await
                .unwrap_or_else(|_| panic!("{} does not come to its end", path.display()));
            let expected = expected.splitn(3, "---\n").nth(2).unwrap().trim_end().to_owned();
            assert_eq!(format!("{}\nstate {state:#}", transcript(&log)), expected, "{}", path.display());
            lived += 1;
        }
    }
    assert!(lived > 30, "{lived} fixtures");
}

/// Runs a thread with a worker; each external event is submitted when the log reaches its position in the script.
async fn live(graph: &'static dyn Graph, script: &[Event]) -> (Vec<Event>, serde_json::Value) {
    live_in(&parts().await, graph, script).await
}

/// Runs a thread as [`live`] does, with the given backends.
pub(crate) async fn live_in(
    parts: &Backends,
    graph: &'static dyn Graph,
    script: &[Event],
) -> (Vec<Event>, serde_json::Value) {
    let world = Arc::new(RecordedWorld::new(graph, script).unwrap());
    live_with(parts, graph, script, world).await
}

/// Runs a thread as [`live`] does, with the given backends and world.
pub(crate) async fn live_with(
    parts: &Backends,
    graph: &'static dyn Graph,
    script: &[Event],
    world: Arc<dyn World>,
) -> (Vec<Event>, serde_json::Value) {
    let strategies = StrategyRegistry::new(strategies::all());
    let worker = tokio::spawn(worker(parts, world, "w1").run(Shutdown::default()));
    let whole = rerun(graph, script).unwrap().log;
    let Event::Opened(opened) = whole[0].clone() else { panic!("a fixture begins with `opened`") };
    let mut thread = None;
    let said = |messages, policy, thread| {
        let turn = NewTurn { policy, ..NewTurn::of(thread, messages, "test".to_owned()) };
        async {
            let Submitted::New(turn) = parts.store.submit(turn).await.unwrap() else { panic!("not new") };
            parts.queue.enqueue(turn.thread, &Lane::default(), Schedule::Now).await.unwrap();
            turn.thread
        }
    };
    for (seq, event) in whole.iter().enumerate().skip(1) {
        match event {
            Event::TurnStarted(heard) => {
                if let Some(thread) = thread {
                    until(parts, thread, seq).await;
                }
                let policy = match heard.kind {
                    TurnKind::New => Policy::Replan,
                    TurnKind::Answer => Policy::Answer,
                };
                let opening = thread.map_or_else(|| Opening::New(opened.clone()), Opening::Existing);
                thread = Some(said(heard.messages.clone(), policy, opening).await);
            }
            Event::InputProvided(supplied) => {
                let id = thread.unwrap();
                until(parts, id, seq).await;
                let words = match &supplied.response {
                    InputResponse::Accept(Value::Null) => "done".to_owned(),
                    InputResponse::Accept(fields) => fields.to_string(),
                    InputResponse::Decline => "decline".to_owned(),
                    InputResponse::Cancel => "cancel".to_owned(),
                };
                said(vec![Message::user(words)], Policy::Answer, Opening::Existing(id)).await;
            }
            Event::Retried(_) | Event::Cancelled(_) | Event::Reconciled(_) => {
                let id = thread.unwrap();
                until(parts, id, seq).await;
                let mut log = ThreadLog::open(parts, &strategies, id).await.unwrap();
                log.push(event.clone()).unwrap();
                log.flush(parts).await.unwrap();
                parts.queue.enqueue(id, &Lane::default(), Schedule::Now).await.unwrap();
            }
            _ => (),
        }
    }
    let thread = thread.unwrap();
    until(parts, thread, whole.len()).await;
    let log = ThreadLog::open(parts, &strategies, thread).await.unwrap();
    assert_ne!(log.thread().status(), RunStatus::Busy);
    let state = log.thread().state().unwrap();
    worker.abort();
    let (_, log) = parts.store.load(thread).await.unwrap();
    (log.into_iter().map(|it| it.event).collect(), state)
}

/// Waits until the thread has this many events.
async fn until(parts: &Backends, thread: ThreadId, events: usize) {
    while parts.store.head(thread).await.unwrap().seq < events as u64 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn parts() -> Backends {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let queue = MemoryQueue::new(Duration::from_secs(10));
    Backends { store, queue: Arc::new(queue), notifications: Arc::new(MemoryNotifications::new()) }
}

pub(crate) fn worker(parts: &Backends, world: Arc<dyn World>, name: &str) -> Worker {
    let steps = StepRunner {
        parts: parts.clone(),
        strategies: StrategyRegistry::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(2), max: Duration::from_millis(10) },
        admission: RequestAdmission::default(),
        name: name.to_owned(),
    };
    let second = Duration::from_secs(1);
    Worker::new(
        steps,
        WorkerConfig {
            slots: 8,
            max_jobs_in_place: 16,
            lease: 10 * second,
            sweep_interval: second,
            drain_timeout: 5 * second,
        },
    )
}

pub(crate) fn fixtures(graph: &dyn Graph) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(graph.name());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "jsonl"));
    paths.sort();
    paths
}

pub(crate) fn read(path: &std::path::Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}
