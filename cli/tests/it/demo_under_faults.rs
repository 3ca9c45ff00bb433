//! Turns of the demo over real PostgreSQL and Redis, with and without faults: workers killed with `kill -9` at random
//! moments, and Redis wiped in the middle. All turns complete, all routes are equal, and no write happened twice.
//!
//! `TURNFOLD_LONG=1` runs all 220 turns, otherwise every fourth runs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    engine::{Engine, Process, demo_config, fixtures, is_long},
    ledgers,
};

/// The route of a turn's thread, by the turn's `custom_id`: each node and its successor.
type Routes = BTreeMap<String, Vec<String>>;

/// Fault injected into an engine while it works.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    KillWorkers,
    FlushAll,
}

/// The person who answers the questions of the turns.
#[derive(Default)]
struct Person {
    /// Remaining answers, by thread.
    left: BTreeMap<String, VecDeque<Value>>,
    /// The turns whose question was answered.
    answered: BTreeSet<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_takes_the_same_routes_under_faults() {
    let undisturbed = run_demo(Fault::None).await;
    assert!(undisturbed.len() >= if is_long() { 220 } else { 55 }, "{} turns", undisturbed.len());
    for fault in [Fault::KillWorkers, Fault::FlushAll] {
        let routes = run_demo(fault).await;
        for (id, route) in &undisturbed {
            assert_eq!(&routes[id], route, "{fault:?} changed the route of {id}");
        }
    }
}

async fn run_demo(fault: Fault) -> Routes {
    // Workers are killed at random here, so their deaths say nothing about a turn.
    let engine = Engine::start(&format!("[worker]\nmax_deaths = 1000\n{}", demo_config())).await;
    let mut workers: Vec<Process> = (0..2).map(|n| engine.worker(&format!("w{n}"))).collect();
    let mut turns = BTreeMap::new();
    let mut person = Person::default();
    let lines = fs::read_to_string(fixtures().join("demo/turns.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (first, rest): (Vec<Value>, Vec<Value>) =
        lines.partition(|line| line["body"]["metadata"]["first"] == true);
    let rest = rest.into_iter().step_by(if is_long() { 1 } else { 4 });
    for line in &first {
        submit(&engine, line, &mut turns, &mut person).await;
    }
    let mut rounds = 0;
    while !settled(&engine, &mut person).await {
        rounds += 1;
        assert!(rounds < 300, "{fault:?}: the first turns have not ended; {}", engine.stderr_of("w0"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for (n, line) in rest.enumerate() {
        submit(&engine, &line, &mut turns, &mut person).await;
        if n % 10 == 9 {
            inject(&engine, &mut workers, fault, n).await;
        }
    }
    rounds = 0;
    while !settled(&engine, &mut person).await {
        rounds += 1;
        assert!(rounds < 600, "{fault:?}: the turns have not ended; {}", engine.stderr_of("w0"));
        if rounds % 4 == 0 && rounds <= 40 {
            inject(&engine, &mut workers, fault, rounds).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let unused: Vec<_> = person.left.iter().filter(|(_, answers)| !answers.is_empty()).collect();
    assert!(unused.is_empty(), "{fault:?}: no question was asked for {unused:?}");
    let mut routes = Routes::new();
    let mut confirmed = Vec::new();
    for (id, thread) in turns {
        let events = engine.events(&thread).await;
        confirmed.extend(ledgers::confirmed(&thread, &events));
        routes.insert(id, route(&events));
        let verified = engine.get(&format!("/v1/threads/{thread}/replay")).await;
        assert_eq!(verified["divergences"], json!([]), "{thread}");
    }
    ledgers_hold(&engine, confirmed, fault);
    let taken_over = times_add_up(&engine).await;
    assert!(0 < taken_over || fault != Fault::KillWorkers, "no turn was taken over");
    routes
}

/// Checks that the uses of the time of every turn add up to it. Returns the number of turns that were taken over.
async fn times_add_up(engine: &Engine) -> usize {
    let mut taken_over = 0;
    let turns = engine.get("/v1/turns?limit=1000").await;
    for turn in turns["data"].as_array().unwrap() {
        let time = engine.get(&format!("/v1/turns/{}/timeline", turn["id"].as_str().unwrap())).await;
        let of = |part: &Value| part["to_ms"].as_u64().unwrap() - part["from_ms"].as_u64().unwrap();
        let parts: u64 = time["segments"].as_array().unwrap().iter().map(of).sum();
        let totals = time["totals"].as_array().unwrap().iter();
        let totals: u64 = totals.map(|total| total["ms"].as_u64().unwrap()).sum();
        assert_eq!([parts, totals], [time["ms"].as_u64().unwrap(); 2], "{time}");
        taken_over += usize::from(time["takeovers"] != json!([]));
    }
    taken_over
}

async fn submit(engine: &Engine, line: &Value, turns: &mut BTreeMap<String, String>, person: &mut Person) {
    let turn = engine.post("/v1/turns", &line["body"]).await;
    let thread = turn["thread_id"].as_str().unwrap().to_owned();
    let answers = line["body"]["metadata"]["answers"].as_array().cloned().unwrap_or_default();
    person.left.insert(thread.clone(), answers.into());
    turns.insert(line["custom_id"].as_str().unwrap().to_owned(), thread);
}

async fn inject(engine: &Engine, workers: &mut Vec<Process>, fault: Fault, nth: usize) {
    match fault {
        Fault::None => (),
        Fault::FlushAll => engine.redis.flush_all(),
        Fault::KillWorkers => {
            let name = format!("w{nth}");
            workers.remove(0).kill();
            workers.push(engine.worker(&name));
        }
    }
}

/// Answers open questions. Returns true if nothing is left to do.
async fn settled(engine: &Engine, person: &mut Person) -> bool {
    for turn in list(engine, "interrupted").await {
        let id = turn["id"].as_str().unwrap().to_owned();
        let thread = turn["thread_id"].as_str().unwrap();
        let now = engine.get(&format!("/v1/threads/{thread}")).await;
        if now["interrupt"]["kind"] == "in_doubt" {
            let verdict = ledgers::verdict(engine.folder(), thread, &engine.events(thread).await);
            engine.post(&format!("/v1/threads/{thread}/reconcile"), &verdict).await;
        } else if now["interrupt"].is_object() && person.answered.insert(id) {
            let answer = person.left.get_mut(thread).and_then(VecDeque::pop_front);
            let answer = answer.unwrap_or_else(|| panic!("no answer is left for {}", now["interrupt"]));
            engine.post(&format!("/v1/threads/{thread}/answer"), &json!({"text": answer})).await;
        }
    }
    for status in ["queued", "running"] {
        if !list(engine, status).await.is_empty() {
            return false;
        }
    }
    let failed = list(engine, "failed").await;
    assert!(failed.is_empty(), "{failed:?}");
    list(engine, "interrupted")
        .await
        .iter()
        .all(|turn| person.answered.contains(turn["id"].as_str().unwrap()))
}

async fn list(engine: &Engine, status: &str) -> Vec<Value> {
    engine.get(&format!("/v1/turns?limit=1000&status={status}")).await["data"].as_array().unwrap().clone()
}

fn route(events: &[Value]) -> Vec<String> {
    let decided = events.iter().filter(|event| event["kind"] == "decided");
    decided.map(|event| format!("{} → {}", event["event"]["node"], event["event"]["to"])).collect()
}

/// Checks that the servers' ledgers contain every write of the logs exactly once, and no other write.
fn ledgers_hold(engine: &Engine, confirmed: Vec<String>, fault: Fault) {
    let mut ledgers = ledgers::applied(engine.folder());
    assert!(confirmed.len() > if is_long() { 150 } else { 30 }, "{fault:?}: {} writes", confirmed.len());
    for key in confirmed {
        assert_eq!(ledgers.remove(&key), Some(1), "{fault:?}: {key} in the ledgers");
    }
    assert!(ledgers.is_empty(), "{fault:?}: in the ledgers and in no log: {ledgers:?}");
}
