//! Faulty servers: too many tools, too much output, equal tool names, and a crash in the middle of a call. Every turn
//! must still end, with a correct log.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Row, ServersTest, from_servers,
    model::{Rule, matching},
    published::server,
    table::{Task, planner},
};

const NAMES: [&str; 6] = ["many", "big", "left", "right", "frail", "strict"];

fn servers(home: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real_servers/hostile.py");
    let (script, home) = (script.display().to_string(), home.display().to_string());
    NAMES.iter().map(|name| server(name, "Does its worst", "python3", &[&script, name, &home])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_turns_survive_hostile_servers() {
    let test = ServersTest::of(servers).await;
    three_hundred_tools(&test).await;
    five_megabytes(&test).await;
    the_same_name_twice(&test).await;
    forbidden_arguments(&test).await;
    killed_during_a_read(&test).await;
    killed_during_a_write(&test).await;
}

/// The tools are listed over three pages. The last one, which the task needs, is among the 128 that a request may
/// offer.
async fn three_hundred_tools(test: &ServersTest) {
    let last: Task<'_> = ("many", "tool 299, the last one", &[("tool_299", json!({}))]);
    let events = test.run(planner("many", &[last], &["tool_299 of many"])).await;
    let listed = events.iter().filter_map(|event| event["event"]["response"]["tools"].as_array());
    assert_eq!(listed.map(Vec::len).collect::<Vec<_>>(), [300]);
}

/// The log contains the beginning of the output and states that it was cut off.
async fn five_megabytes(test: &ServersTest) {
    let pour: Task<'_> = ("big", "pour it", &[("pour", json!({}))]);
    let events = test.run(planner("big", &[pour], &["drop drop"])).await;
    let most = from_servers(&events).into_iter().max_by_key(String::len).unwrap();
    assert!((1 << 20..1 << 21).contains(&most.len()), "{} bytes of 5 MB", most.len());
    assert!(most.ends_with('…'), "it says that it was cut");
}

/// Each call reaches the intended server, although both tools are offered in the same request.
async fn the_same_name_twice(test: &ServersTest) {
    let asks = |who: &str| json!({"asks": who});
    let prepare = matching("You prepare research", "user");
    let rules: Vec<Rule> = vec![
        prepare.calls([("left__who", asks("Ann")), ("right__who", asks("Bo"))]),
        matching("You prepare research", "tool").replies("{results}"),
    ];
    let replies = ["left here, dear Ann", "right here, dear Bo"].map(str::to_owned).to_vec();
    let row = Row {
        name: "twins",
        strategy: "research",
        config: json!({}),
        input: "Who is there?".to_owned(),
        rules,
        answers: &[],
        logged: replies.clone(),
        reply: replies,
    };
    test.run(row).await;
}

/// Calls with forbidden arguments are rejected before they are sent; the call beside them is performed.
async fn forbidden_arguments(test: &ServersTest) {
    let book: Task<'_> = (
        "strict",
        "book it",
        &[("book", json!({"hour": "noon"})), ("book", json!({})), ("book", json!({"hour": 12}))],
    );
    let row = Row { reply: vec!["not carried out".to_owned()], ..planner("strict", &[book], &["booked"]) };
    let events = test.run(row).await;
    let answers = events
        .iter()
        .map(|event| &event["event"]["response"])
        .filter(|response| response["response"] == "output");
    let mut statuses: Vec<&str> = answers.map(|response| response["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["ok", "refused", "refused"], "every call has a result");
    let booked = fs::read_to_string(test.servers_folder.path().join("booked")).unwrap();
    assert_eq!(booked, "{\"hour\": 12}\n", "a refused call is not carried out");
}

/// A read is repeated after the server was restarted.
async fn killed_during_a_read(test: &ServersTest) {
    let look: Task<'_> = ("frail", "look around", &[("look", json!({}))]);
    let row = planner("look", &[look], &["look again"]);
    let turn = test.submit(&row).await;
    kill_server_of(test, "look").await;
    let turn = test.until_idle(&turn).await;
    test.check(&row, &turn).await;
    let events = test.engine.events(turn["thread_id"].as_str().unwrap()).await;
    assert!(events.iter().any(|event| event["kind"] == "attempt_failed"), "the loss is in the log");
}

/// A call that may have changed something is never repeated automatically; a person decides.
async fn killed_during_a_write(test: &ServersTest) {
    let tasks: [Task<'_>; 2] =
        [("frail", "send it", &[("send", json!({}))]), ("frail", "take a rest", &[("rest", json!({}))])];
    let row = Row { reply: Vec::new(), ..planner("send", &tasks, &["rest of frail"]) };
    let turn = test.submit(&row).await;
    kill_server_of(test, "send").await;
    let turn = test.until_idle(&turn).await;
    assert_eq!(turn["status"], "interrupted", "{turn}");
    let thread = turn["thread_id"].as_str().unwrap();
    let asked = test.engine.get(&format!("/v1/threads/{thread}")).await;
    assert_eq!(asked["interrupt"]["kind"], "in_doubt", "{asked}");
    let slot = slot_in_doubt(&test.engine.events(thread).await);
    let verdict = json!({"slot": slot, "verdict": {"happened": {"result": "it was sent"}}});
    test.engine.post(&format!("/v1/threads/{thread}/reconcile"), &verdict).await;
    let turn = test.until_continued(&turn).await;
    test.check(&row, &turn).await;
    assert!(turn["output"]["reply"].as_str().unwrap().contains("it was sent"), "{turn}");
    let started = fs::read_to_string(test.servers_folder.path().join("send")).unwrap();
    assert_eq!(started.lines().count(), 1, "it was sent once: {started}");
}

fn slot_in_doubt(events: &[Value]) -> Value {
    let slot_in_doubt = events.iter().rfind(|event| event["kind"] == "in_doubt");
    slot_in_doubt.expect("the doubt is in the log")["event"]["slot"].clone()
}

/// Kills the server that is performing this call.
async fn kill_server_of(test: &ServersTest, call: &str) {
    let began = Instant::now();
    let process = loop {
        if let Ok(process) = fs::read_to_string(test.servers_folder.path().join(call))
            && process.ends_with('\n')
        {
            break process;
        }
        assert!(began.elapsed() < super::TIMEOUT, "no server is called: {}", test.diagnostics());
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let killed = Command::new("sh").args(["-c", &format!("kill -KILL {}", process.trim())]).status();
    assert!(killed.unwrap().success(), "{process}");
}
