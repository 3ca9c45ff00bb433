//! A turn that kills every worker that runs it, in a deployment of real processes.

use std::time::{Duration, Instant};

use queue::{EntryState, Queue as _, RedisQueue};
use serde_json::{Value, json};

use crate::engine::{Engine, Process, turnfold};

const TIMEOUT: Duration = Duration::from_secs(300);

/// Long enough to be killed in the middle, and short enough to complete once it is left alone.
const POISON: &str = "wait 5; echo survived";

const OTHERS: usize = 10;

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// Runs a command of turnfold against the deployment and returns its output.
async fn command(engine: &Engine, args: &[&str]) -> String {
    let (folder, args) = (engine.folder().to_owned(), args.iter().map(|arg| (*arg).to_owned()));
    let args: Vec<String> = args.collect();
    let run = move || turnfold(&folder).args(args).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engine_a_turn_that_kills_three_workers_fails_and_all_others_complete() {
    let engine = Engine::start("[worker]\nslots = 64\n").await;
    let observer = RedisQueue::connect(
        &queue::Prefix::default(),
        &engine.redis.url(),
        Duration::from_secs(2),
        "observer",
    )
    .await
    .unwrap();
    let submit =
        async |input: &str| engine.post("/v1/turns", &json!({"strategy": "probe", "input": input})).await;
    let poison = submit(POISON).await;
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        others.push(submit("wait 1; wait 1; echo hi").await);
    }
    let (thread, turn) = (text(&poison, "thread_id"), format!("/v1/turns/{}", text(&poison, "id")));

    let began = Instant::now();
    let mut was_shown = false;
    let mut workers: Vec<(String, Process)> = Vec::new();
    for killed in 0.. {
        let name = format!("w{killed}");
        let process = engine.worker(&name);
        workers.push((name, process));
        // Kills the worker as soon as it holds the job, until the turn has failed.
        let failed = loop {
            assert!(began.elapsed() < TIMEOUT, "{}", engine.stderr_of(&format!("w{killed}")));
            if engine.get(&turn).await["status"] == "failed" {
                break true;
            }
            was_shown |= command(&engine, &["queue", "ls"]).await.contains("its worker died 2 times");
            let listed = observer.list(1000).await.unwrap();
            let holder = listed.iter().find_map(|entry| match &entry.state {
                EntryState::InFlight { consumer, .. } if entry.thread.to_string() == thread => {
                    Some(consumer.clone())
                }
                _ => None,
            });
            let holding = workers.iter().position(|(name, _)| Some(name) == holder.as_ref());
            // The fourth worker holds the job for a moment as well, to fail the turn.
            if let Some(at) = holding.filter(|_| killed < 3) {
                // It is running by now, or will be in a moment.
                tokio::time::sleep(Duration::from_millis(300)).await;
                workers.remove(at).1.kill();
                break false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        if failed {
            assert_eq!(killed, 3, "it failed after {killed} deaths");
            break;
        }
    }
    let failed = engine.get(&turn).await;
    let error = text(&failed, "error");
    assert!(error.contains("workers died or stalled 3 times") && error.contains("was w2"), "{error}");
    assert!(error.contains("turnfold turn retry"), "{error}");
    assert!(was_shown, "queue ls did not show the deaths");
    let printed = engine.stderr_of("w3");
    assert!(printed.contains("WARN") && printed.contains("the worker fails the turn"), "{printed}");

    for other in &others {
        let ended = engine.get(&format!("/v1/turns/{}?wait=60", text(other, "id"))).await;
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    engine.post(&format!("{turn}/retry"), &Value::Null).await;
    let ended = engine.get(&format!("{turn}?wait=60")).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}
