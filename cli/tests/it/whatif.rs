//! Runs of recorded threads with changes: which requests are sent, which never are, and after kills.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use store::Store;
use tempfile::TempDir;
use test_servers::Postgres;
use tokio::sync::Semaphore;

use crate::{
    cohorts::spoil,
    engine::{Process, TURNFOLD, fixtures, log, turnfold},
    ledgers::applied,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A model that answers at once, as often as it is allowed to.
pub(crate) struct Model {
    pub(crate) url: String,
    calls: Arc<Calls>,
}

struct Calls {
    asked: Mutex<Vec<String>>,
    answered: Mutex<Vec<String>>,
    waiting: AtomicUsize,
    allowed: Semaphore,
    reply: fn(&Value) -> Value,
}

/// A request that waits for its answer, until it is answered or its client is gone.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Model {
    pub(crate) async fn serve(reply: fn(&Value) -> Value, allowed: usize) -> Self {
        let (asked, answered, allowed) = (Mutex::default(), Mutex::default(), Semaphore::new(allowed));
        let calls = Arc::new(Calls { asked, answered, waiting: AtomicUsize::new(0), allowed, reply });
        let app = Router::new().route("/v1/chat/completions", post(complete)).with_state(calls.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { url, calls }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.calls.asked.lock().unwrap().clone()
    }

    fn answered(&self) -> usize {
        self.calls.answered.lock().unwrap().len()
    }

    fn waiting(&self) -> usize {
        self.calls.waiting.load(Ordering::SeqCst)
    }
}

async fn complete(State(calls): State<Arc<Calls>>, Json(body): Json<Value>) -> Json<Value> {
    calls.asked.lock().unwrap().push(body.to_string());
    let waiting = Waiting::new(&calls.waiting);
    calls.allowed.acquire().await.unwrap().forget();
    drop(waiting);
    calls.answered.lock().unwrap().push(body.to_string());
    let message = (calls.reply)(&body);
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    Json(
        json!({"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}),
    )
}

pub(crate) fn text(content: impl ToString) -> Value {
    json!({"role": "assistant", "content": content.to_string()})
}

pub(crate) fn asks_for(body: &Value, field: &str) -> bool {
    body["response_format"]["json_schema"]["schema"]["properties"][field].is_object()
}

/// A model that finds every task done.
pub(crate) fn satisfied(body: &Value) -> Value {
    match asks_for(body, "is_completed") {
        true => text(json!({"is_completed": true, "explanation": "seen", "confidence": 1.0})),
        false => text("All is done."),
    }
}

/// A model that finds no task done, and calls a tool with arguments that no record has.
fn eager(body: &Value, tool: &str, arguments: &Value) -> Value {
    let is_done = body["messages"].to_string().contains("free on");
    if asks_for(body, "is_completed") {
        return text(json!({"is_completed": is_done, "explanation": "seen", "confidence": 1.0}));
    }
    let is_offered = body["tools"].to_string().contains(tool);
    if !is_offered || is_done {
        return text("All is done.");
    }
    let call = json!({"name": tool, "arguments": arguments.to_string()});
    json!({"role": "assistant", "content": "", "tool_calls": [{"id": "n1", "type": "function", "function": call}]})
}

fn books(body: &Value) -> Value {
    eager(body, "book", &json!({"day": "2026-12-04", "hour": 9, "title": "another"}))
}

fn reads(body: &Value) -> Value {
    eager(body, "free_hours", &json!({"day": "2026-12-04"}))
}

/// Repeats the call of the record.
fn repeats(body: &Value) -> Value {
    eager(body, "book", &json!({"day": "Friday", "hour": 12, "title": "lunch with Ann"}))
}

/// A folder with a database, a model and a server that can write.
pub(crate) fn folder(store: Option<&str>, model: &Model) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = store.map(|url| format!("[store]\nurl = {}\n", json!(url))).unwrap_or_default();
    let config = format!(
        "{store}[worker]\nslots = 4\n[providers.openai]\nbase_url = '{}'\napi_key = 'env:MODEL_KEY'\nstream = false\n\
         prices = {{ \"gpt-4o\" = {{ input = 2.5, output = 10.0 }} }}\n\
         [mcp.calendar]\ndescription = 'dates'\ncommand = {}\nargs = ['expert', 'calendar', '--data', 'calendar.json']\n",
        model.url,
        json!(TURNFOLD)
    );
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    assert_eq!(run(folder.path(), &["migrate"]).0, 0);
    folder
}

fn command(folder: &Path, args: &[&str]) -> std::process::Command {
    let mut command = turnfold(folder);
    command.args(["-o", "json"]).args(args).env("MODEL_KEY", "s3cret");
    command
}

pub(crate) fn run(folder: &Path, args: &[&str]) -> (i32, Value) {
    let output = command(folder, args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed)))
}

/// Runs a command while the model of this process answers.
pub(crate) async fn asked(folder: &Path, args: &[&str]) -> (i32, Value) {
    let mut command = command(folder, args);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed));
    (output.status.code().unwrap(), value)
}

/// Imports threads of one turn that book lunch, each with a message of its own.
pub(crate) fn record(folder: &Path, threads: usize) -> Vec<String> {
    let log = fs::read_to_string(fixtures().join("planner/confidence_at_the_threshold.jsonl")).unwrap();
    let import = |nth: usize| {
        // Also in the task, so that no two threads send the same request.
        let log = ["Book lunch", "book lunch"]
            .iter()
            .fold(log.clone(), |log, text| log.replace(text, &format!("{text} {nth}")));
        fs::write(folder.join("log.jsonl"), log).unwrap();
        let (exit, imported) = run(folder, &["thread", "import", "log.jsonl"]);
        assert_eq!(exit, 0, "{imported}");
        imported["id"].as_str().unwrap().to_owned()
    };
    (0..threads).map(import).collect()
}

pub(crate) const RESPOND: &[&str] =
    &["whatif", "run", "--yes", "--prompt", "planner/respond=Answer. {prompt}"];
const ASSESS: &[&str] = &["whatif", "run", "--yes", "--prompt", "planner/assess=Be strict. {prompt}"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_threads_ask_from_their_first_changed_request_on() {
    assert_calls(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_threads_ask_from_their_first_changed_request_on() {
    let postgres = Postgres::prepared("migrated", store::testing::migrate);
    assert_calls(Some(&postgres.url())).await;
}

async fn assert_calls(store: Option<&str>) {
    let model = Model::serve(satisfied, Semaphore::MAX_PERMITS).await;
    let folder = folder(store, &model);
    let folder = folder.path();
    let ids = record(folder, 5);
    let import = fixtures().join("probe/all_words.jsonl");
    assert_eq!(run(folder, &["thread", "import", import.to_str().unwrap()]).0, 0);
    let before = run(folder, &["thread", "ls"]).1;

    // The last node of five threads: one request each, with the new prompt.
    let (exit, report) = asked(folder, RESPOND).await;
    assert_eq!(exit, 0, "{report}");
    assert_eq!(model.asked().len(), 5, "{report}");
    assert!(model.asked().iter().all(|body| body.contains("Answer. ")), "{:?}", model.asked());
    let total = &report["total"];
    assert_eq!((&total["decided"], &total["model_requests"]), (&json!(5), &json!(5)), "{total}");
    assert_eq!(total["outcome"], json!({"same": 5, "other": 0}), "{total}");
    assert_eq!(total["answer"], json!({"same": 0, "other": 5}), "{total}");
    assert_eq!(total["changed"]["input_tokens"], json!(500), "{total}");
    let compared: Vec<&str> =
        report["threads"].as_array().unwrap().iter().map(|one| one["thread"].as_str().unwrap()).collect();
    assert_eq!(compared, ids);
    assert_eq!(report["threads"][0]["changed"]["answer"], json!("All is done."));

    // The same command again shows the report, and asks nothing.
    let (exit, again) = asked(folder, RESPOND).await;
    assert_eq!((exit, &again["total"]), (0, total), "{again}");
    assert_eq!(model.asked().len(), 5, "nothing was asked again");

    // An earlier node: the judgement, and the answer that follows from it.
    let (exit, report) = asked(folder, ASSESS).await;
    assert_eq!((exit, &report["total"]["model_requests"]), (0, &json!(10)), "{report}");
    assert_eq!(model.asked().len(), 15, "{report}");
    assert_eq!(report["total"]["route"], json!({"same": 0, "other": 5}), "done at once: {report}");

    assert_eq!(run(folder, &["thread", "ls"]).1, before, "the recorded threads are as they were");
    assert_eq!(run(folder, &["store", "verify"]).0, 0);
    assert!(applied(folder).is_empty(), "no call was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cohort_is_run_as_it_was_frozen() {
    let model = Model::serve(satisfied, Semaphore::MAX_PERMITS).await;
    let folder = folder(None, &model);
    let folder = folder.path();
    let ids = record(folder, 2);
    assert_eq!(run(folder, &["whatif", "cohort", "c.json"]).0, 0);
    record(folder, 1);
    let store = Store::connect(&format!("sqlite:{}", folder.join(".turnfold/turnfold.db").display())).await;
    spoil(&store.unwrap(), &ids[0]).await;
    let (exit, report) = asked(folder, &[RESPOND, &["--cohort", "c.json"]].concat()).await;
    assert_eq!((exit, &report["total"]["decided"]), (0, &json!(2)), "{report}");
    assert_eq!(model.asked().len(), 2, "{report}");
    // The same command without the cohort is another run.
    let (exit, report) = asked(folder, RESPOND).await;
    assert_eq!((exit, &report["total"]["decided"]), (6, &json!(2)), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_never_made_and_a_read_only_where_it_is_allowed() {
    for (reply, flags, decided, why) in [
        (books as fn(&Value) -> Value, &[][..], 0, "needs calendar.book, a write"),
        (books, &["--tools", "live-reads"], 0, "needs calendar.book, a write"),
        (reads, &[], 0, "needs calendar.free_hours: "),
        (reads, &["--tools", "live-reads"], 2, ""),
        (reads, &["--tools", "never"], 0, "calls calendar.free_hours"),
    ] {
        let model = Model::serve(reply, Semaphore::MAX_PERMITS).await;
        let folder = folder(None, &model);
        let folder = folder.path();
        record(folder, 2);
        let (exit, report) = asked(folder, &[ASSESS, flags].concat()).await;
        let total = &report["total"];
        assert_eq!(total["decided"], json!(decided), "{report}");
        assert_eq!(exit, if decided == 0 { 6 } else { 0 }, "{report}");
        assert_eq!(total["model_requests"], json!(model.asked().len()), "{report}");
        let reason = report["not_decided"][0]["example"]["why"].as_str().unwrap_or_default();
        assert!(reason.starts_with(why), "{report}");
        assert!(applied(folder).is_empty(), "no write reached the server");
        let server_ran = folder.join("calendar.json").exists();
        assert!(!server_ran || decided == 2, "a server was started: {report}");
        if decided == 2 {
            assert!(model.asked().iter().any(|body| body.contains("free on")), "the server answered");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_write_is_answered_from_the_record() {
    let model = Model::serve(repeats, Semaphore::MAX_PERMITS).await;
    let folder = folder(None, &model);
    let folder = folder.path();
    record(folder, 1);
    let (_, report) = asked(folder, ASSESS).await;
    assert!(model.asked().len() > 2, "the call was answered, and the model went on: {report}");
    assert!(model.asked()[2].matches("booked e1").count() == 2, "{:?}", model.asked());
    assert!(applied(folder).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_twice_asks_nothing_again_that_was_answered() {
    let model = Model::serve(satisfied, 0).await;
    let report = killed_twice(&model, ASSESS, &[], 2).await;
    assert_eq!(report["total"]["model_requests"], json!(24), "{report}");
}

/// Kills a run over 12 threads twice, and continues it. Returns its report, once no request was sent again that was answered.
pub(crate) async fn killed_twice(model: &Model, args: &[&str], judge: &[&str], requests: usize) -> Value {
    let folder = folder(None, model);
    let folder = folder.path();
    fs::write(folder.join("rubric.md"), "The answer says what is booked.").unwrap();
    record(folder, 12);
    let mut held = BTreeMap::<String, usize>::new();
    for nth in 1..=2 {
        let from = model.answered();
        model.calls.allowed.add_permits(7);
        let mut first = Process::start(command(folder, &[args, judge].concat()).stderr(log(folder, "run")));
        until(|| model.answered() == from + 7, &mut first, folder).await;
        // Each of the four slots waits for an answer, so all others are in the log.
        until(|| 0 < model.waiting(), &mut first, folder).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let waiting = model.waiting();
        assert!((1..=4).contains(&waiting), "{waiting} wait at kill {nth}");
        first.kill();
        let began = Instant::now();
        while 0 < model.waiting() {
            assert!(began.elapsed() < TIMEOUT, "the server does not notice that its client is gone");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        held = counted(model.asked());
        for body in model.calls.answered.lock().unwrap().iter() {
            *held.get_mut(body).unwrap() -= 1;
        }
        held.retain(|_, times| 0 < *times);
    }
    model.calls.allowed.add_permits(1_000);
    let name = fs::read_dir(folder.join(".turnfold/whatif")).unwrap().next().unwrap().unwrap().file_name();
    let resume = ["whatif", "run", "--resume", name.to_str().unwrap()];
    let (exit, report) = asked(folder, &[&resume[..], judge].concat()).await;
    assert_eq!(exit, 0, "{report}");
    let times = counted(model.asked());
    for (body, times) in &times {
        assert_eq!(*times, 1 + held.get(body).unwrap_or(&0), "{body}");
    }
    assert_eq!((times.len(), model.answered()), (12 * requests, 12 * requests), "of 12 threads");
    assert_eq!(report["total"]["decided"], json!(12), "{report}");
    assert!(applied(folder).is_empty());
    report
}

/// Returns how often each request was sent.
fn counted(bodies: Vec<String>) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    bodies.into_iter().for_each(|body| *times.entry(body).or_default() += 1);
    times
}

async fn until(reached: impl Fn() -> bool, process: &mut Process, folder: &Path) {
    let began = Instant::now();
    while !reached() {
        let printed = || fs::read_to_string(folder.join("run.log")).unwrap();
        assert!(began.elapsed() < TIMEOUT && process.lives(), "{}", printed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stops_at_its_budget_and_at_a_signal_and_goes_on() {
    let model = Model::serve(satisfied, Semaphore::MAX_PERMITS).await;
    let folder = folder(None, &model);
    let folder = folder.path();
    record(folder, 20);
    // A request costs 0.00035 dollars, and four may be under way.
    let others = ["--fail-if", "worse>2%", "--fail-if", "not_decided > 5", "--html", "my report.html"];
    let (exit, printed) = asked(folder, &[ASSESS, &others, &["--max-usd", "0.0035"]].concat()).await;
    assert!(exit == 5 && printed.as_str().unwrap().contains("--resume"), "{printed}");
    let flags = " --fail-if 'worse > 2%' --fail-if 'not_decided > 5' --html 'my report.html' --max-usd USD";
    assert!(printed.as_str().unwrap().contains(flags), "the hint has all flags: {printed}");
    let spent = model.asked().len();
    assert!((10..=18).contains(&spent), "{spent}");
    let (exit, printed) = asked(folder, &[ASSESS, &["--max-usd", "0.0035"]].concat()).await;
    assert_eq!((exit, model.asked().len()), (5, spent), "it is spent for good: {printed}");
    let (exit, report) = asked(folder, ASSESS).await;
    assert_eq!((exit, &report["total"]["decided"]), (0, &json!(20)), "{report}");
    assert_eq!(model.asked().len(), 40, "two requests for each thread");

    let (exit, printed) = asked(folder, &["whatif", "run", "--prompt", "planner/respond=Other."]).await;
    assert!(exit == 2 && printed.as_str().unwrap().contains("--yes"), "{printed}");
    let (exit, printed) = asked(folder, &["whatif", "run", "--resume", "none"]).await;
    assert!(exit == 7 && printed.as_str().unwrap().contains("no what-if run none"), "{printed}");
    let run = fs::read_dir(folder.join(".turnfold/whatif")).unwrap().next().unwrap().unwrap().path();
    let other = [ASSESS, &["--since", "1d", "--to", run.to_str().unwrap()]].concat();
    let (exit, printed) = asked(folder, &other).await;
    assert!(exit == 2 && printed.as_str().unwrap().contains("other threads"), "{printed}");
    assert_eq!(model.asked().len(), 40, "nothing runs unasked");
}
