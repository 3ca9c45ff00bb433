//! Every fixture lived by a worker over memory: the transcript is the one that pure re-enactment gives, line by line.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;
use shared::{Event, Graph, Hearing, Message, Policy, Standing, Supply, reenact, strategies, transcript};
use store::{
    Lane, MemoryNews, MemoryQueue, NewTurn, Opening, Parts, Store, Strategies, Submitted, ThreadId,
    ThreadLog, When,
};
use worker::{
    Backoff, Bounds, Hands, Limits, Stop, Worker,
    world::{Recorded, World},
};

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

/// Lives a thread with a worker; what came from outside is done when the log has come to where it stands in the script.
async fn live(graph: &'static dyn Graph, script: &[Event]) -> (Vec<Event>, serde_json::Value) {
    live_in(&parts().await, graph, script).await
}

/// The same in parts that are there.
pub(crate) async fn live_in(
    parts: &Parts,
    graph: &'static dyn Graph,
    script: &[Event],
) -> (Vec<Event>, serde_json::Value) {
    let strategies = Strategies::new(strategies::all());
    let world = Arc::new(Recorded::new(graph, script).unwrap());
    let worker = tokio::spawn(worker(parts, world, "w1").run(Stop::default()));
    let whole = reenact(graph, script).unwrap().log;
    let Event::Opened(opened) = whole[0].clone() else { panic!("a fixture begins with `opened`") };
    let mut thread = None;
    let said = |messages, policy, thread| {
        let turn = NewTurn { policy, ..NewTurn::of(thread, messages, "test".to_owned()) };
        async {
            let Submitted::New(turn) = parts.store.submit(turn).await.unwrap() else { panic!("not new") };
            parts.queue.ring(turn.thread, &Lane::default(), When::Now).await.unwrap();
            turn.thread
        }
    };
    for (seq, event) in whole.iter().enumerate().skip(1) {
        match event {
            Event::Heard(heard) => {
                if let Some(thread) = thread {
                    until(parts, thread, seq).await;
                }
                let policy = match heard.hearing {
                    Hearing::Input => Policy::Replan,
                    Hearing::Answer => Policy::Answer,
                };
                let opening = thread.map_or_else(|| Opening::New(opened.clone()), Opening::Existing);
                thread = Some(said(heard.messages.clone(), policy, opening).await);
            }
            Event::Supplied(supplied) => {
                let id = thread.unwrap();
                until(parts, id, seq).await;
                let words = match &supplied.answer {
                    Supply::Accept(Value::Null) => "done".to_owned(),
                    Supply::Accept(fields) => fields.to_string(),
                    Supply::Decline => "decline".to_owned(),
                    Supply::Cancel => "cancel".to_owned(),
                };
                said(vec![Message::user(words)], Policy::Answer, Opening::Existing(id)).await;
            }
            Event::Retried(_) | Event::Cancelled(_) | Event::Reconciled(_) => {
                let id = thread.unwrap();
                until(parts, id, seq).await;
                let mut log = ThreadLog::open(parts, &strategies, id).await.unwrap();
                log.push(event.clone()).unwrap();
                log.flush(parts).await.unwrap();
                parts.queue.ring(id, &Lane::default(), When::Now).await.unwrap();
            }
            _ => (),
        }
    }
    let thread = thread.unwrap();
    until(parts, thread, whole.len()).await;
    let log = ThreadLog::open(parts, &strategies, thread).await.unwrap();
    assert_ne!(log.thread().standing(), Standing::Busy);
    let state = log.thread().state().unwrap();
    worker.abort();
    let (_, log) = parts.store.load(thread).await.unwrap();
    (log.into_iter().map(|it| it.event).collect(), state)
}

/// Waits until the thread has so many events.
async fn until(parts: &Parts, thread: ThreadId, events: usize) {
    while parts.store.head(thread).await.unwrap().seq < events as u64 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn parts() -> Parts {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    let queue = MemoryQueue::new(Duration::from_secs(10));
    Parts { store, queue: Arc::new(queue), news: Arc::new(MemoryNews::new()) }
}

pub(crate) fn worker(parts: &Parts, world: Arc<dyn World>, name: &str) -> Worker {
    let hands = Hands {
        parts: parts.clone(),
        strategies: Strategies::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(2), max: Duration::from_millis(10) },
        bounds: Bounds::default(),
        name: name.to_owned(),
    };
    let second = Duration::from_secs(1);
    Worker::new(hands, Limits { slots: 8, nodes: 16, lease: 10 * second, sweep: second, drain: 5 * second })
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
