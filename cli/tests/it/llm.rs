//! Runs every strategy with a real model that is small enough to be wrong more often than right: `./check --llm`.
//!
//! No check depends on the model's replies. Whatever they are, every turn ends with a reply, a question or an error;
//! the thread remains usable; and today's code can replay the log with the same decisions.

mod ranking;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use test_servers::Llama;

use self::table::Talk;
use crate::{engine::Engine, real_servers};

/// Maximum tokens of a reply. Longer replies are cut off, and the log must show it.
const TOKENS: u32 = 160;

/// Maximum duration of a turn, which calls a model several times in sequence.
const PATIENCE: Duration = Duration::from_mins(20);

/// Maximum answers of the person in one turn; after them, the person sends the next message.
const ANSWERS: usize = 2;

/// Figures printed at the end of the test.
#[derive(Default)]
struct Figures {
    /// Number of turns by strategy and status.
    statuses: BTreeMap<(String, String), usize>,
    /// Total duration of the turns of each strategy.
    took: BTreeMap<String, Duration>,
    /// Number of occurrences in the logs, by kind.
    seen: BTreeMap<String, usize>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_model_brings_every_turn_to_rest() {
    let (chat, vectors) = (Llama::chat(TOKENS), Llama::embeddings());
    let config = table::config(&chat.base_url(), &vectors.base_url()) + &real_servers::everything_and_time();
    let engine = Engine::start(&config).await;
    let _workers = [engine.worker("w0"), engine.worker("w1")];
    let talks = table::talks();
    let talked: BTreeSet<&str> = talks.iter().map(|it| it.strategy).collect();
    let all: BTreeSet<&str> = strategies::all().iter().map(|it| it.name()).collect();
    assert_eq!(talked, all, "every strategy is talked to");
    let mut figures = Figures::default();
    for talk in talks {
        talk_through(&engine, &talk, &mut figures).await;
    }
    figures.told();
}

/// Runs all turns of one thread, then checks its log against today's code.
async fn talk_through(engine: &Engine, talk: &Talk, figures: &mut Figures) {
    let mut thread = Value::Null;
    for words in talk.says {
        let mut body = json!({"input": words, "policy": "replan"});
        if thread.is_null() {
            body = json!({"strategy": talk.strategy, "config": talk.config, "input": words});
        } else {
            body["thread_id"] = thread.clone();
        }
        let mut turn = rests(engine, talk, engine.post("/v1/turns", &body).await, figures).await;
        thread = turn["thread_id"].clone();
        for _ in 0..ANSWERS {
            let Some(answer) = answer(&turn) else { break };
            let path = format!("/v1/threads/{}/answer", thread.as_str().unwrap());
            turn = rests(engine, talk, engine.post(&path, &json!({"text": answer})).await, figures).await;
        }
    }
    let thread = thread.as_str().unwrap();
    let events = engine.events(thread).await;
    let verified = engine.get(&format!("/v1/threads/{thread}/verify")).await;
    assert_eq!(verified["ok"], true, "{}: {verified:#}", talk.strategy);
    assert_eq!(verified["chain"]["intact"], true, "{}: {verified:#}", talk.strategy);
    let replayed = engine.get(&format!("/v1/threads/{thread}/replay")).await;
    assert_eq!((&replayed["ok"], &replayed["divergences"]), (&json!(true), &json!([])), "{}", talk.strategy);
    assert_eq!(verified["events"], events.len(), "{}", talk.strategy);
    figures.looks_over(&events);
}

/// Waits until the turn is idle and checks that its state is one of the promised ones.
async fn rests(engine: &Engine, talk: &Talk, turn: Value, figures: &mut Figures) -> Value {
    let path = format!("/v1/turns/{}", turn["id"].as_str().unwrap());
    let began = Instant::now();
    let turn = loop {
        let turn = engine.get(&path).await;
        if !["queued", "running"].contains(&turn["status"].as_str().unwrap()) {
            break turn;
        }
        assert!(began.elapsed() < PATIENCE, "stuck: {turn:#}\n{}", engine.told("w0") + &engine.told("w1"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let said = |it: &Value| it.as_str().is_some_and(|it| !it.trim().is_empty());
    let status = turn["status"].as_str().unwrap();
    match status {
        "completed" => assert!(said(&turn["output"]["reply"]), "it ended in silence: {turn:#}"),
        "interrupted" => assert!(said(&turn["interrupt"]["question"]), "it asks nothing: {turn:#}"),
        "failed" => assert!(said(&turn["error"]), "it failed without a reason: {turn:#}"),
        other => panic!("a turn came to rest as {other}: {turn:#}"),
    }
    figures.counts(talk.strategy, &turn, began.elapsed());
    turn
}

/// Returns a short answer to an open question, or `None` if there is no question.
fn answer(turn: &Value) -> Option<String> {
    let interrupt = turn["interrupt"].as_object()?;
    assert_ne!(interrupt["kind"], "in_doubt", "nobody was killed, so nothing is in doubt: {turn:#}");
    let option = interrupt["options"].as_array().and_then(|it| it.first()?.as_str());
    let words = match interrupt["kind"].as_str() {
        Some("approval") => "yes",
        _ => option.unwrap_or("I do not know. Do what you can without it."),
    };
    Some(words.to_owned())
}

impl Figures {
    #[expect(clippy::print_stdout, reason = "who runs this lane wants to see what the model does")]
    fn counts(&mut self, strategy: &str, turn: &Value, took: Duration) {
        let status = turn["status"].as_str().unwrap();
        let why = [&turn["error"], &turn["interrupt"]["question"], &turn["output"]["reply"]];
        let why: String =
            why.into_iter().find_map(Value::as_str).unwrap_or_default().chars().take(160).collect();
        println!("{strategy} {status} after {:.1} s: {why:?}", took.as_secs_f64());
        *self.statuses.entry((strategy.to_owned(), status.to_owned())).or_default() += 1;
        *self.took.entry(strategy.to_owned()).or_default() += took;
    }

    /// Counts the model's errors, and the corrections it received.
    fn looks_over(&mut self, events: &[Value]) {
        for it in events {
            let event = &it["event"];
            let reply = &event["response"];
            let seen = match it["kind"].as_str().unwrap() {
                "attempt_failed" => {
                    let error = event["error"].as_str().unwrap();
                    let known = table::FALTERS.iter().find(|it| error.contains(**it));
                    format!("faltered: {}", known.copied().unwrap_or(error))
                }
                "answered" if reply["response"] == "reply" => {
                    let form = event["usage"]["response_format"].as_str().filter(|it| !it.is_empty());
                    let calls = reply["tool_calls"].as_array().is_some_and(|it| !it.is_empty());
                    format!("answered: {}", form.unwrap_or(if calls { "a call" } else { "words" }))
                }
                "decided" if event.to_string().contains("this very call was answered before") => {
                    "a repeated call refused".to_owned()
                }
                _ => continue,
            };
            *self.seen.entry(seen).or_default() += 1;
        }
    }

    #[expect(clippy::print_stdout, reason = "who runs this lane wants to see what the model does")]
    fn told(&self) {
        for (strategy, took) in &self.took {
            let own = self.statuses.iter().filter(|((it, _), _)| it == strategy);
            let ends: Vec<String> = own.map(|((_, status), turns)| format!("{turns} {status}")).collect();
            println!("{strategy}: {} in {:.0} s", ends.join(", "), took.as_secs_f64());
        }
        for (what, times) in &self.seen {
            println!("{times} × {what}");
        }
    }
}
