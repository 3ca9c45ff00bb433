//! Every fixture lived over real PostgreSQL and Redis, with api and worker as processes of their own: the same `.snap`
//! as from pure re-enactment. If they agree, the plumbing added nothing.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::{Event, Graph, Hearing, Replay, Supply, Verdict, reenact, strategies};
use store::{Parts, RedisNews, RedisQueue, Store, Strategies};
use tokio::sync::Mutex;
use uuid::Uuid;
use worker::{
    Backoff, Bounds, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, Recorded, World},
};

use crate::engine::{Engine, Process, fixtures, log};

/// The variable by which this test's own binary is told to be the worker.
const LIBRARY: &str = "TURNFOLD_TEST_LIBRARY";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_give_the_same_transcripts() {
    // What is pinned of the servers at hand is the api's configuration, so there is an engine for each set of them.
    let mut by_experts = BTreeMap::<BTreeMap<String, String>, Vec<(&'static dyn Graph, PathBuf)>>::new();
    for graph in strategies::all() {
        for path in paths(graph.name()) {
            let Some(Event::Opened(opened)) = read(&path).into_iter().next() else { panic!("{path:?}") };
            by_experts.entry(opened.experts).or_default().push((graph, path));
        }
    }
    let mut lived = 0;
    for (experts, fixtures) in by_experts {
        let server = |(name, what): (&String, &String)| {
            format!("[mcp.{name}]\ndescription = {}\ncommand = \"true\"\n", json!(what))
        };
        let engine = Engine::start(&experts.iter().map(server).collect::<String>()).await;
        let library = engine.folder().join("library");
        fs::create_dir(&library).unwrap();
        let mut worker = Command::new(std::env::current_exe().unwrap());
        worker.args(["--exact", "distance::be_the_worker", "--nocapture"]).env(LIBRARY, &library);
        worker.current_dir(engine.folder()).stdout(log(engine.folder(), "worker.out"));
        let _worker = Process::start(worker.stderr(log(engine.folder(), "worker")));
        for (graph, path) in fixtures {
            live(&engine, &library, graph, &path).await;
            lived += 1;
        }
    }
    assert!(lived > 200, "{lived} fixtures");
}

async fn live(engine: &Engine, library: &Path, graph: &'static dyn Graph, path: &Path) {
    let name = path.display();
    let whole = reenact(graph, &read(path)).unwrap().log;
    let Event::Opened(opened) = &whole[0] else { panic!("{name} does not begin with `opened`") };
    let mut turn = Value::Null;
    for (seq, event) in whole.iter().enumerate().skip(1) {
        let id = turn["id"].as_str().unwrap_or_default().to_owned();
        let thread = turn["thread_id"].as_str().unwrap_or_default().to_owned();
        if !turn.is_null() && event.is_outside() {
            let outcome = matches!(
                event,
                Event::Answered(_) | Event::Faltered(_) | Event::Doubted(_) | Event::Wanted(_)
            );
            if outcome {
                continue;
            }
            until(engine, &thread, seq, path).await;
        }
        match event {
            Event::Heard(heard) => {
                let messages: Vec<Value> =
                    heard.messages.iter().map(|it| json!({"role": it.role, "content": it.content})).collect();
                let mut body = json!({"input": {"messages": messages}});
                if turn.is_null() {
                    body["strategy"] = json!(graph.name());
                    body["config"] = opened.config.clone();
                    body["budget"] = json!(opened.budget);
                } else {
                    body["thread_id"] = json!(thread);
                    body["policy"] =
                        json!(if heard.hearing == Hearing::Answer { "answer" } else { "replan" });
                }
                turn = engine.post("/v1/turns", &body).await;
                let shelf = library.join(turn["thread_id"].as_str().unwrap());
                fs::write(shelf.with_extension("new"), path.to_str().unwrap()).unwrap();
                fs::rename(shelf.with_extension("new"), shelf).unwrap();
            }
            Event::Supplied(it) => {
                let words = match &it.answer {
                    Supply::Accept(Value::Null) => "done".to_owned(),
                    Supply::Accept(fields) => fields.to_string(),
                    Supply::Decline => "decline".to_owned(),
                    Supply::Cancel => "cancel".to_owned(),
                };
                let body = json!({"thread_id": thread, "input": words, "policy": "answer"});
                turn = engine.post("/v1/turns", &body).await;
            }
            Event::Retried(_) => drop(engine.post(&format!("/v1/turns/{id}/retry"), &json!({})).await),
            Event::Cancelled(_) => drop(engine.post(&format!("/v1/turns/{id}/cancel"), &json!({})).await),
            Event::Reconciled(it) => {
                let verdict = match &it.verdict {
                    Verdict::Happened { result } => json!({"happened": {"result": result}}),
                    Verdict::DidNot => json!("did_not"),
                    Verdict::Skip => json!("skip"),
                };
                let body = json!({"slot": it.slot, "verdict": verdict});
                engine.post(&format!("/v1/threads/{thread}/reconcile"), &body).await;
            }
            _ => (),
        }
    }
    let thread = turn["thread_id"].as_str().unwrap();
    until(engine, thread, whole.len(), path).await;
    let events = engine.events(thread).await;
    let told: String = events
        .iter()
        .map(|it| format!("{:>4} {}\n", it["seq"].as_u64().unwrap(), it["text"].as_str().unwrap()))
        .collect();
    let state = engine.get(&format!("/v1/threads/{thread}/state")).await["state"].clone();
    let snap = fs::read_to_string(path.with_extension("snap")).unwrap();
    let expected = snap.splitn(3, "---\n").nth(2).unwrap().trim_end().to_owned();
    assert_eq!(format!("{told}\nstate {state:#}"), expected, "{name}");
}

async fn until(engine: &Engine, thread: &str, events: usize, path: &Path) {
    let began = Instant::now();
    loop {
        let now = engine.get(&format!("/v1/threads/{thread}")).await["events"].as_u64().unwrap();
        if events as u64 <= now {
            return;
        }
        let late = began.elapsed() > Duration::from_secs(30);
        assert!(!late, "{}: {now} of {events} events; {}", path.display(), engine.told("worker"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn paths(strategy: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(fixtures().join(strategy)).unwrap().map(|it| it.unwrap().path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "jsonl"));
    paths.sort();
    paths
}

fn read(path: &Path) -> Vec<Event> {
    fs::read_to_string(path).unwrap().lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// The worker of the test above, as a process of its own: this binary, told so by a variable. Without it this is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn be_the_worker() {
    let Ok(library) = std::env::var(LIBRARY) else { return };
    let config: toml::Table = fs::read_to_string("turnfold.toml").unwrap().parse().unwrap();
    let url = |section: &str| config[section]["url"].as_str().unwrap().to_owned();
    let lease = Duration::from_secs(2);
    let parts = Parts {
        store: Store::connect(&url("store")).await.unwrap(),
        queue: Arc::new(RedisQueue::connect(&url("queue"), lease, "worker").await.unwrap()),
        news: Arc::new(RedisNews::connect(&url("queue")).await.unwrap()),
    };
    let hands = Hands {
        parts,
        strategies: Strategies::new(strategies::all()),
        world: Arc::new(Library { folder: library.into(), read: Mutex::default() }),
        backoff: Backoff { base: Duration::from_millis(5), max: Duration::from_millis(20) },
        bounds: Bounds::default(),
        name: "worker".to_owned(),
    };
    let limits = Limits { slots: 8, nodes: 16, lease, sweep: lease, drain: lease };
    Worker::new(hands, limits).run(Stop::default()).await;
}

/// A world that finds the recording of each thread on a shelf.
struct Library {
    folder: PathBuf,
    read: Mutex<HashMap<Uuid, Arc<Recorded>>>,
}

#[async_trait]
impl World for Library {
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        // One at a time, in the order of asking: of questions side by side the first must not be answered last.
        let mut read = self.read.lock().await;
        let world = match read.get(&ask.thread).cloned() {
            Some(world) => world,
            None => {
                let shelf = self.folder.join(ask.thread.to_string());
                while !shelf.exists() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                let path = PathBuf::from(fs::read_to_string(shelf).unwrap());
                let strategy = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
                let world = Arc::new(
                    Recorded::new(strategies::find(&strategy).unwrap(), &self::read(&path)).unwrap(),
                );
                read.insert(ask.thread, world.clone());
                world
            }
        };
        drop(read);
        world.perform(thread, ask).await
    }
}
