//! Runs fixtures over real PostgreSQL and Redis, with the API and the worker as separate processes. The `.snap` files equal
//! those of a pure replay, so storage and processes do not affect the result.
//!
//! `TURNFOLD_LONG=1` runs every fixture, otherwise one in ten, and of each strategy those in which a kind of event occurs first.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use queue::{RedisNotifications, RedisQueue};
use serde_json::{Value, json};
use shared::{
    DynThread, Event, Graph, InputResponse, Opened, Reconciled, Toolboxes, TurnKind, Verdict, rerun,
};
use store::Store;
use threads::{Backends, StrategyRegistry};
use tokio::sync::Mutex;
use uuid::Uuid;
use worker::{Backoff, RequestAdmission, Shutdown, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::engine::{Engine, Process, fixtures, is_long, log};

/// Environment variable that makes this test binary run as the worker.
const RECORDINGS: &str = "TURNFOLD_TEST_LIBRARY";

/// Maximum deployments at a time.
const ENGINES: usize = 2;

/// Maximum fixtures of a deployment at a time.
const SIDE_BY_SIDE: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_give_the_transcripts_of_a_replay() {
    // The pins of the servers and the context settings belong to the API, so each set of them has its own deployment.
    let mut by_config = BTreeMap::<String, Vec<(&'static dyn Graph, PathBuf)>>::new();
    for graph in strategies::all() {
        let mut kinds = BTreeSet::new();
        for (nth, path) in paths(graph.name()).into_iter().enumerate() {
            let script = read(&path);
            // Fixtures hold no contents of files that could be uploaded.
            if has_files(&script) {
                continue;
            }
            let mut is_chosen = is_long() || nth % 10 == 0;
            for event in rerun(graph, &script).unwrap().log {
                is_chosen |= kinds.insert(event.kind());
            }
            if !is_chosen {
                continue;
            }
            let Some(Event::Opened(opened)) = script.into_iter().next() else { panic!("{path:?}") };
            by_config.entry(config(&opened)).or_default().push((graph, path));
        }
    }
    let ran = AtomicUsize::new(0);
    stream::iter(by_config)
        .for_each_concurrent(ENGINES, async |(config, fixtures)| {
            run_all(&config, &fixtures).await;
            ran.fetch_add(fixtures.len(), Ordering::Relaxed);
        })
        .await;
    assert!(ran.load(Ordering::Relaxed) > if is_long() { 200 } else { 40 }, "{ran:?} fixtures");
}

fn has_files(script: &[Event]) -> bool {
    script.iter().any(|event| match event {
        Event::TurnStarted(started) => started.messages.iter().any(|message| !message.attachments.is_empty()),
        _ => false,
    })
}

/// Configuration with which threads open like this one.
fn config(opened: &Opened) -> String {
    let server = |(name, description): (&String, &String)| {
        format!("[mcp.{name}]\ndescription = {}\ncommand = \"true\"\n", json!(description))
    };
    let context = &opened.context;
    let windows: Vec<String> =
        context.context_tokens.iter().map(|(model, tokens)| format!("{} = {tokens}", json!(model))).collect();
    let result = context.tool_result_tokens.map(|tokens| format!("tool_result_tokens = {tokens}\n"));
    let summary = context.summary_model.as_ref().map(|model| format!("summary_model = {}\n", json!(model)));
    let servers: String = opened.servers.iter().map(server).collect();
    let (result, summary) = (result.unwrap_or_default(), summary.unwrap_or_default());
    // A model of a provider that is not configured is refused, and so is a budget in dollars for one without a price. The
    // worker answers from the recordings.
    let provider = |name: &str| {
        format!(
            "[providers.{name}]\nbase_url = \"http://127.0.0.1:1/v1\"\n\
             prices = {{ \"gpt-4o\" = {{ input = 1.0, output = 1.0 }} }}\n"
        )
    };
    let providers: String = ["openai", "deep", "fast", "search"].map(provider).concat();
    format!("{servers}{providers}[context]\ncontext_tokens = {{ {} }}\n{result}{summary}", windows.join(", "))
}

/// Runs the fixtures that share a configuration on one deployment.
async fn run_all(config: &str, fixtures: &[(&'static dyn Graph, PathBuf)]) {
    let engine = Engine::start(config).await;
    let recordings = engine.folder().join("library");
    fs::create_dir(&recordings).unwrap();
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker
        .args(["--exact", "fixtures_on_servers::worker_of_the_deployment", "--nocapture"])
        .env(RECORDINGS, &recordings);
    worker.current_dir(engine.folder()).stdout(log(engine.folder(), "worker.out"));
    let _worker = Process::start(worker.stderr(log(engine.folder(), "worker")));
    stream::iter(fixtures)
        .for_each_concurrent(SIDE_BY_SIDE, async |(graph, path)| {
            run_fixture(&engine, &recordings, *graph, path).await
        })
        .await;
}

async fn run_fixture(engine: &Engine, recordings: &Path, graph: &'static dyn Graph, path: &Path) {
    let name = path.display();
    let whole = rerun(graph, &read(path)).unwrap().log;
    let Event::Opened(opened) = &whole[0] else { panic!("{name} does not begin with `opened`") };
    let mut turn = Value::Null;
    // A rollback happens when the next turn is submitted.
    let mut rolls_back = false;
    let mut toolboxes = Toolboxes::default();
    for (seq, event) in whole.iter().enumerate().skip(1) {
        let id = turn["id"].as_str().unwrap_or_default().to_owned();
        let thread = turn["thread_id"].as_str().unwrap_or_default().to_owned();
        if !turn.is_null() && event.is_external() {
            let outcome = matches!(
                event,
                Event::Answered(_)
                    | Event::AttemptFailed(_)
                    | Event::InDoubt(_)
                    | Event::TaskStarted(_)
                    | Event::InputRequired(_)
                    | Event::Reconciled(Reconciled { read_back: Some(_), .. })
            );
            if outcome {
                continue;
            }
            if !rolls_back {
                until(engine, &thread, seq, path).await;
            }
        }
        match event {
            Event::TurnStarted(started) => {
                // The last message of a stop is the engine's report.
                let theirs = started.messages.len() - usize::from(started.kind == TurnKind::Stop);
                let messages: Vec<Value> = started.messages[..theirs].iter().map(message).collect();
                let mut body = json!(toolboxes.options_of(started).unwrap_or_default());
                body["input"] = json!({"messages": messages});
                if turn.is_null() {
                    body["strategy"] = json!(graph.name());
                    body["config"] = opened.config.clone();
                    body["budget"] = json!(opened.budget);
                } else {
                    body["thread_id"] = json!(thread);
                    body["policy"] =
                        json!(if started.kind == TurnKind::Answer { "answer" } else { "replan" });
                    if std::mem::take(&mut rolls_back) {
                        body["multitask_strategy"] = json!("rollback");
                    }
                }
                turn = engine.post("/v1/turns", &body).await;
                let recording = recordings.join(turn["thread_id"].as_str().unwrap());
                fs::write(recording.with_extension("new"), path.to_str().unwrap()).unwrap();
                fs::rename(recording.with_extension("new"), recording).unwrap();
            }
            Event::InputProvided(provided) => {
                let text = match &provided.response {
                    InputResponse::Accept(Value::Null) => "done".to_owned(),
                    InputResponse::Accept(fields) => fields.to_string(),
                    InputResponse::Decline => "decline".to_owned(),
                    InputResponse::Cancel => "cancel".to_owned(),
                };
                let body = json!({"thread_id": thread, "input": text, "policy": "answer"});
                turn = engine.post("/v1/turns", &body).await;
            }
            Event::Retried(_) => drop(engine.post(&format!("/v1/turns/{id}/retry"), &json!({})).await),
            Event::Cancelled(cancelled) if cancelled.rolled_back => rolls_back = true,
            Event::Cancelled(_) => drop(engine.post(&format!("/v1/turns/{id}/cancel"), &json!({})).await),
            Event::Reconciled(reconciled) => {
                let verdict = match &reconciled.verdict {
                    Verdict::Happened { result } => json!({"happened": {"result": result}}),
                    Verdict::DidNotHappen => json!("did_not_happen"),
                    Verdict::Skip => json!("skip"),
                };
                let body = json!({"slot": reconciled.slot, "verdict": verdict});
                engine.post(&format!("/v1/threads/{thread}/reconcile"), &body).await;
            }
            _ => (),
        }
    }
    let thread = turn["thread_id"].as_str().unwrap();
    until(engine, thread, whole.len(), path).await;
    let events = engine.events(thread).await;
    let log: Vec<Event> =
        events.iter().map(|event| serde_json::from_value(event["event"].clone()).unwrap()).collect();
    let transcript = shared::transcript(&log);
    let state = engine.get(&format!("/v1/threads/{thread}/state")).await["state"].clone();
    let snap = fs::read_to_string(path.with_extension("snap")).unwrap();
    let expected = snap.splitn(3, "---\n").nth(2).unwrap().trim_end().to_owned();
    assert_eq!(format!("{transcript}\nstate {state:#}"), expected, "{name}");
}

async fn until(engine: &Engine, thread: &str, events: usize, path: &Path) {
    let began = Instant::now();
    loop {
        let now = engine.get(&format!("/v1/threads/{thread}")).await["events"].as_u64().unwrap();
        if events as u64 <= now {
            return;
        }
        let late = began.elapsed() > Duration::from_secs(30);
        assert!(!late, "{}: {now} of {events} events; {}", path.display(), engine.stderr_of("worker"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn message(message: &shared::Message) -> Value {
    let mut sent = json!({"role": message.role, "content": message.content});
    if let Some(id) = &message.tool_call_id {
        sent["tool_call_id"] = json!(id);
    }
    sent
}

fn paths(strategy: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(fixtures().join(strategy)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths
}

fn read(path: &Path) -> Vec<Event> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The worker process of the test above: this binary, started with an environment variable. Without the variable the
/// test returns at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_of_the_deployment() {
    let Ok(recordings) = std::env::var(RECORDINGS) else { return };
    let config: toml::Table = fs::read_to_string("turnfold.toml").unwrap().parse().unwrap();
    let url = |section: &str| config[section]["url"].as_str().unwrap().to_owned();
    let lease = Duration::from_secs(2);
    let parts = Backends {
        store: Store::connect(&url("store")).await.unwrap(),
        queue: Arc::new(
            RedisQueue::connect(&queue::Prefix::default(), &url("queue"), lease, "worker").await.unwrap(),
        ),
        notifications: Arc::new(
            RedisNotifications::connect(&queue::Prefix::default(), &url("queue")).await.unwrap(),
        ),
    };
    let steps = StepRunner {
        parts,
        strategies: StrategyRegistry::new(strategies::all()),
        world: Arc::new(Recordings { folder: recordings.into(), read: Mutex::default() }),
        backoff: Backoff { base: Duration::from_millis(5), max: Duration::from_millis(20) },
        admission: RequestAdmission::default(),
        name: "worker".to_owned(),
    };
    let limits =
        WorkerConfig { slots: 8, max_jobs_in_place: 16, lease, sweep_interval: lease, drain_timeout: lease };
    Worker::new(steps, limits).run(Shutdown::default()).await;
}

/// A world that finds the recording of each thread in a folder.
struct Recordings {
    folder: PathBuf,
    read: Mutex<HashMap<Uuid, Arc<RecordedWorld>>>,
}

#[async_trait]
impl World for Recordings {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        // One request at a time, in order: the first of several concurrent requests must not be answered last.
        let mut read = self.read.lock().await;
        let world = match read.get(&ask.thread).cloned() {
            Some(world) => world,
            None => {
                let recording = self.folder.join(ask.thread.to_string());
                while !recording.exists() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                let path = PathBuf::from(fs::read_to_string(recording).unwrap());
                let strategy = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
                let world = Arc::new(
                    RecordedWorld::new(strategies::find(&strategy).unwrap(), &self::read(&path)).unwrap(),
                );
                read.insert(ask.thread, world.clone());
                world
            }
        };
        drop(read);
        world.perform(thread, ask).await
    }
}
