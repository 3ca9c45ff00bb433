//! Runs every strategy with published MCP servers: the API and two workers as separate processes, PostgreSQL, Redis,
//! and a scripted model behind an endpoint as strict as OpenAI's.

mod asks;
mod hostile;
mod model;
mod parts;
mod table;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use self::model::{Model, Rule};
pub(crate) use self::parts::everything_and_time;
use crate::engine::{Engine, Process};

/// A turn and its expected result.
struct Row {
    /// Name of the row, which is also the name of its model.
    name: &'static str,
    strategy: &'static str,
    /// Configuration of the thread, in addition to the model.
    config: Value,
    input: String,
    /// Rules for the replies of the model.
    rules: Vec<Rule>,
    /// Answers of the person, in order.
    answers: &'static [&'static str],
    /// Texts that the servers' results must contain.
    logged: Vec<String>,
    /// Texts that the last reply must contain.
    reply: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_strategies_over_real_servers() {
    let world = World::of(parts::servers).await;
    let home = world.home.path();
    let table = table::rows(home);
    let rows: BTreeSet<&str> = table.iter().map(|it| it.strategy).collect();
    let all: BTreeSet<&str> = strategies::all().iter().map(|it| it.name()).collect();
    // The probe sends no requests to a model or a server.
    assert_eq!(rows, &all - &BTreeSet::from(["probe"]), "every strategy has a row");
    for row in table {
        world.sees_through(row).await;
    }
    assert_eq!(fs::read_to_string(home.join("files/poem.txt")).unwrap(), "Roses are red\n");
    let memory = fs::read_to_string(home.join("memory.jsonl")).unwrap();
    assert!(memory.contains("Ada Lovelace"), "{memory}");
}

/// A deployment with its workers and a scripted model.
struct World {
    engine: Engine,
    model: Model,
    workers: Vec<Process>,
    /// Folder with the servers' files.
    home: TempDir,
}

impl World {
    /// Starts a deployment with these servers, whose configuration depends on their folder.
    async fn of(servers: impl FnOnce(&Path) -> String) -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = Model::serve().await;
        let provider = format!("[providers.strict]\nbase_url = {}\n", json!(model.base_url));
        let engine = Engine::start(&(provider + &servers(home.path()))).await;
        let workers = ["w0", "w1"].map(|it| engine.worker(it)).into();
        Self { engine, model, workers, home }
    }

    /// Submits a turn. Returns it while it is queued.
    async fn submits(&self, row: &Row) -> Value {
        self.model.learns(row.name, row.rules.clone());
        let mut config = row.config.clone();
        if !row.rules.is_empty() {
            config["model"] = json!(format!("strict/{}", row.name));
        }
        let body = json!({"strategy": row.strategy, "input": row.input, "config": config});
        self.engine.post("/v1/turns", &body).await
    }

    /// Waits until the turn is neither queued nor running.
    async fn rests(&self, turn: &Value) -> Value {
        let path = format!("/v1/turns/{}", turn["id"].as_str().unwrap());
        let began = Instant::now();
        loop {
            let turn = self.engine.get(&path).await;
            if !["queued", "running"].contains(&turn["status"].as_str().unwrap()) {
                return turn;
            }
            assert!(began.elapsed() < PATIENCE, "not at rest: {turn}\n{}", self.told());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until an interrupted turn has continued and is idle again.
    async fn settles(&self, turn: &Value) -> Value {
        let began = Instant::now();
        loop {
            let turn = self.rests(turn).await;
            if turn["status"] != "interrupted" {
                return turn;
            }
            assert!(began.elapsed() < PATIENCE, "it still waits: {turn}\n{}", self.told());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Submits a turn, answers for the person, and checks the result against the row. Returns the events of the thread.
    async fn sees_through(&self, row: Row) -> Vec<Value> {
        let mut turn = self.submits(&row).await;
        let thread = turn["thread_id"].as_str().unwrap().to_owned();
        turn = self.rests(&turn).await;
        for answer in row.answers {
            assert_eq!(turn["status"], "interrupted", "{}: {turn}\n{}", row.name, self.told());
            let path = format!("/v1/threads/{thread}/answer");
            let answered = self.engine.post(&path, &json!({"text": answer})).await;
            turn = self.rests(&answered).await;
        }
        self.holds(&row, &turn).await;
        self.engine.events(&thread).await
    }

    /// Checks that the turn completed as the row requires, and that its log replays to the same decisions.
    async fn holds(&self, row: &Row, turn: &Value) {
        let name = row.name;
        let thread = turn["thread_id"].as_str().unwrap();
        let events = self.engine.events(thread).await;
        let log: Vec<String> = events.iter().map(|it| it["event"].to_string()).collect();
        let log = log.join("\n").chars().take(20_000).collect::<String>();
        assert_eq!(turn["status"], "completed", "{name}: {turn}\n{log}\n{}", self.told());
        assert_eq!(self.model.refused(), Vec::<String>::new(), "{name}: {log}");
        let said = from_servers(&events).join("\n");
        for words in &row.logged {
            assert!(said.contains(words), "{name}: no server said {words:?}:\n{log}");
        }
        let reply = turn["output"]["reply"].as_str().unwrap_or_default();
        for words in &row.reply {
            assert!(reply.contains(words), "{name}: {words:?} is not in the reply {reply:?}:\n{log}");
        }
        let verified = self.engine.get(&format!("/v1/threads/{thread}/verify")).await;
        assert_eq!(verified["ok"], true, "{name}: {verified}");
        let replayed = self.engine.get(&format!("/v1/threads/{thread}/replay")).await;
        assert_eq!(
            (&replayed["ok"], &replayed["divergences"]),
            (&json!(true), &json!([])),
            "{name}: {replayed}"
        );
    }

    /// Returns the stderr of the workers and the requests that the model rejected.
    fn told(&self) -> String {
        let workers = ["w0", "w1", "w2"].map(|it| self.engine.told(it)).concat();
        format!("{workers}\nrefused: {:#?}", self.model.refused())
    }
}

/// Maximum wait. It is long because the machine may be compiling and a server takes seconds to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns every text of the servers' results in the log, without the replies of models.
fn from_servers(events: &[Value]) -> Vec<String> {
    let answers = events.iter().filter(|it| it["kind"] == "answered").map(|it| &it["event"]["response"]);
    let mut said = Vec::new();
    answers.filter(|it| it["response"] != "reply").for_each(|it| texts(it, &mut said));
    said
}

fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|it| texts(it, into)),
        Value::Object(fields) => fields.values().for_each(|it| texts(it, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}
