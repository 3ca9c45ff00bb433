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
    Row, World, from_servers,
    model::{Rule, hears},
    parts::server,
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
    let world = World::of(servers).await;
    three_hundred_tools(&world).await;
    five_megabytes(&world).await;
    the_same_name_twice(&world).await;
    forbidden_arguments(&world).await;
    killed_while_it_looks(&world).await;
    killed_while_it_sends(&world).await;
}

/// The tools are listed over three pages. The last one, which the task needs, is among the 128 that a request may
/// offer.
async fn three_hundred_tools(world: &World) {
    let last: Task<'_> = ("many", "tool 299, the last one", &[("tool_299", json!({}))]);
    let events = world.sees_through(planner("many", &[last], &["tool_299 of many"])).await;
    let listed = events.iter().filter_map(|event| event["event"]["response"]["tools"].as_array());
    assert_eq!(listed.map(Vec::len).collect::<Vec<_>>(), [300]);
}

/// The log contains the beginning of the output and states that it was cut off.
async fn five_megabytes(world: &World) {
    let pour: Task<'_> = ("big", "pour it", &[("pour", json!({}))]);
    let events = world.sees_through(planner("big", &[pour], &["drop drop"])).await;
    let most = from_servers(&events).into_iter().max_by_key(String::len).unwrap();
    assert!((1 << 20..1 << 21).contains(&most.len()), "{} bytes of 5 MB", most.len());
    assert!(most.ends_with('…'), "it says that it was cut");
}

/// Each call reaches the intended server, although both tools are offered in the same request.
async fn the_same_name_twice(world: &World) {
    let asks = |who: &str| json!({"asks": who});
    let prepare = hears("You prepare research", "user");
    let rules: Vec<Rule> = vec![
        prepare.calls([("left__who", asks("Ann")), ("right__who", asks("Bo"))]),
        hears("You prepare research", "tool").says("{heard}"),
    ];
    let said = ["left here, dear Ann", "right here, dear Bo"].map(str::to_owned).to_vec();
    let row = Row {
        name: "twins",
        strategy: "research",
        config: json!({}),
        input: "Who is there?".to_owned(),
        rules,
        answers: &[],
        logged: said.clone(),
        reply: said,
    };
    world.sees_through(row).await;
}

/// Calls with forbidden arguments are rejected before they are sent; the call beside them is performed.
async fn forbidden_arguments(world: &World) {
    let book: Task<'_> = (
        "strict",
        "book it",
        &[("book", json!({"hour": "noon"})), ("book", json!({})), ("book", json!({"hour": 12}))],
    );
    let row = Row { reply: vec!["not carried out".to_owned()], ..planner("strict", &[book], &["booked"]) };
    let events = world.sees_through(row).await;
    let answers = events
        .iter()
        .map(|event| &event["event"]["response"])
        .filter(|response| response["response"] == "output");
    let mut statuses: Vec<&str> = answers.map(|response| response["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["ok", "refused", "refused"], "every call has a result");
    let booked = fs::read_to_string(world.home.path().join("booked")).unwrap();
    assert_eq!(booked, "{\"hour\": 12}\n", "what is refused is not carried out");
}

/// A read is repeated after the server was restarted.
async fn killed_while_it_looks(world: &World) {
    let look: Task<'_> = ("frail", "look around", &[("look", json!({}))]);
    let row = planner("look", &[look], &["look again"]);
    let turn = world.submits(&row).await;
    kill_whoever(world, "look").await;
    let turn = world.rests(&turn).await;
    world.holds(&row, &turn).await;
    let events = world.engine.events(turn["thread_id"].as_str().unwrap()).await;
    assert!(events.iter().any(|event| event["kind"] == "attempt_failed"), "the loss is in the log");
}

/// A call that may have changed something is never repeated automatically; a person decides.
async fn killed_while_it_sends(world: &World) {
    let tasks: [Task<'_>; 2] =
        [("frail", "send it", &[("send", json!({}))]), ("frail", "take a rest", &[("rest", json!({}))])];
    let row = Row { reply: Vec::new(), ..planner("send", &tasks, &["rest of frail"]) };
    let turn = world.submits(&row).await;
    kill_whoever(world, "send").await;
    let turn = world.rests(&turn).await;
    assert_eq!(turn["status"], "interrupted", "{turn}");
    let thread = turn["thread_id"].as_str().unwrap();
    let asked = world.engine.get(&format!("/v1/threads/{thread}")).await;
    assert_eq!(asked["interrupt"]["kind"], "in_doubt", "{asked}");
    let slot = doubted(&world.engine.events(thread).await);
    let verdict = json!({"slot": slot, "verdict": {"happened": {"result": "it was sent"}}});
    world.engine.post(&format!("/v1/threads/{thread}/reconcile"), &verdict).await;
    let turn = world.settles(&turn).await;
    world.holds(&row, &turn).await;
    assert!(turn["output"]["reply"].as_str().unwrap().contains("it was sent"), "{turn}");
    let begun = fs::read_to_string(world.home.path().join("send")).unwrap();
    assert_eq!(begun.lines().count(), 1, "it was sent once: {begun}");
}

fn doubted(events: &[Value]) -> Value {
    let doubted = events.iter().rfind(|event| event["kind"] == "in_doubt");
    doubted.expect("the doubt is in the log")["event"]["slot"].clone()
}

/// Kills the server that is performing this call.
async fn kill_whoever(world: &World, call: &str) {
    let began = Instant::now();
    let process = loop {
        if let Ok(process) = fs::read_to_string(world.home.path().join(call))
            && process.ends_with('\n')
        {
            break process;
        }
        assert!(began.elapsed() < super::PATIENCE, "nobody is called: {}", world.told());
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let killed = Command::new("sh").args(["-c", &format!("kill -KILL {}", process.trim())]).status();
    assert!(killed.unwrap().success(), "{process}");
}
