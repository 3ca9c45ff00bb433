//! Failed turns in bulk: listed, counted by cause, retried.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_servers::Redis;

use crate::queue::Dev;

#[test]
fn failed_turns_are_found_counted_and_redriven() {
    let redis = Redis::start();
    let dev = Dev::start(&redis, "");
    let failed = [1, 2].map(|nth| dev.send("probe", &format!("fail no paper in tray {nth}")));
    let past = dev.send("probe", "fail past");
    for turn in failed.iter().chain([&past]) {
        dev.until(turn, "failed");
    }
    let thread = |turn: &str| {
        let shown: Value = serde_json::from_str(&dev.run(&["turn", "show", turn, "-o", "json"]).1).unwrap();
        shown["thread_id"].as_str().unwrap().to_owned()
    };
    let on = dev.run(&["turn", "send", "--thread", &thread(&past), "echo on", "--wait"]);
    assert_eq!((on.0, on.1.trim()), (0, "Done: on."), "its thread continues: {on:?}");
    let body = json!({"thread_id": thread(&past), "input": "yes", "policy": "answer"});
    // Another test of this process may have installed the provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let unheard = runtime.block_on(async {
        let sent = reqwest::Client::new().post(format!("{}/v1/turns", dev.url())).json(&body).send();
        sent.await.unwrap().json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
    });
    dev.until(&unheard, "failed");

    let listed =
        dev.run(&["turn", "list", "--where", "status = failed and error ~ 'paper in'", "-o", "json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed.1).unwrap_or_else(|_| panic!("{listed:?}"));
    let ids: Vec<&str> = listed.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&failed[1], &failed[0]]);
    let wrong = dev.run(&["turn", "list", "--where", "status = failed or status = queued"]);
    assert!(
        wrong.0 == 2 && wrong.2.contains("character 17") && wrong.2.contains("only `and` is supported"),
        "{wrong:?}"
    );
    let causes = dev.run(&["turn", "list", "--group-by", "cause", "--where", "cause ~ paper"]);
    assert!(causes.1.contains("no paper in tray #") && causes.1.lines().count() == 2, "{causes:?}");

    let unsure = dev.run(&["turn", "redrive"]);
    assert!(unsure.0 == 2 && unsure.2.contains("--yes"), "there is no terminal to confirm on: {unsure:?}");
    let dry = dev.run(&["turn", "redrive", "--dry-run"]);
    assert!(dry.1.contains("3 failed turns would be retried; 1 failed before"), "{dry:?}");
    assert_eq!(dev.status(&failed[0]), "failed");

    let began = Instant::now();
    let some = dev.run(&["turn", "redrive", "--where", "cause ~ paper", "--yes", "--rate", "2/s"]);
    assert!(Duration::from_millis(500) <= began.elapsed(), "two in {:?}", began.elapsed());
    assert_eq!((some.0, some.1.trim()), (0, "retried 2 failed turns"), "{some:?}");
    for turn in &failed {
        dev.until(turn, "completed");
        let events = dev.run(&["thread", "events", &thread(turn)]).1;
        assert_eq!(events.matches("retried           by an operator").count(), 1, "{events}");
    }
    let all = dev.run(&["turn", "redrive", "--yes", "-o", "json"]);
    let done: Value = serde_json::from_str(&all.1).unwrap_or_else(|_| panic!("{all:?}"));
    assert_eq!(all.0, 5, "{all:?}");
    assert_eq!(
        (&done["retried"], &done["refused"], &done["never_started"]),
        (&json!(0), &json!(1), &json!(1))
    );
    assert!(done["reasons"][0].as_str().unwrap().contains(&past), "{done}");
    let none = dev.run(&["turn", "redrive", "--where", "error = nothing"]);
    assert_eq!((none.0, none.1.trim()), (0, "retried 0 failed turns"), "{none:?}");
    assert_eq!(dev.run(&["turn", "redrive", "--rate", "fast"]).0, 2);
}

#[test]
fn the_queue_explains_why_turns_wait() {
    let redis = Redis::start();
    let dev = Dev::start(&redis, "");
    assert_eq!(dev.run(&["queue", "list"]).1.trim(), "no turn is waiting");
    let sent = dev.run(&["turn", "send", "-g", "probe", "echo later", "--delay", "1h"]);
    assert!(sent.1.contains("is queued"), "{sent:?}");
    let asks = dev.send("probe", "ask Well?");
    dev.until(&asks, "interrupted");
    let retries = dev.send("probe", "flaky 9; echo end");
    let began = Instant::now();
    loop {
        let output = dev.run(&["queue", "list"]);
        assert!(output.0 == 0 && output.1.contains("1 not due before 20"), "{output:?}");
        assert!(output.1.contains("1 wait for a person"), "{output:?}");
        if output.1.contains("1 retry in ") && output.1.contains(&retries) {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it does not say that it is tried again: {output:?}"
        );
    }
    let page = dev.run(&["queue", "list", "--limit", "1", "-o", "json"]);
    let page: Value = serde_json::from_str(&page.1).unwrap_or_else(|_| panic!("{page:?}"));
    assert_eq!((page["data"].as_array().map(Vec::len), &page["has_more"]), (Some(1), &json!(true)));
    let delayed = dev.run(&["turn", "send", "-g", "probe", "echo", "--not-before", "2999-01-01T00:00:00Z"]);
    assert!(delayed.0 == 2 && delayed.2.contains("more than a year"), "{delayed:?}");
}
