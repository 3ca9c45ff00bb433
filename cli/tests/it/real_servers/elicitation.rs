//! A server that asks a person before it performs a call: every worker is killed while the server waits, and others
//! resume.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::{
    Row, ServersTest,
    published::server,
    table::{Task, planner},
};
use crate::engine::turnfold;

fn servers(home: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real_servers/elicitation.py");
    let (script, home) = (script.display().to_string(), home.display().to_string());
    let seconds =
        "call_timeout_seconds = 2\ntools = { roast = { safety = \"write\", timeout_seconds = 60 } }\n";
    server("tables", "Books tables", "python3", &[&script, &home]) + seconds
}

/// The tool takes longer than a lease and longer than the server may be silent. The timeout of the call is long enough,
/// and the worker renews the lease, so no other worker starts the same call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_slow_tools_are_called_once() {
    let test = ServersTest::of(servers).await;
    let roast: Task<'_> = ("tables", "roast it", &[("roast", json!({}))]);
    let events = test.run(planner("roast", &[roast], &["roasted well"])).await;
    let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((of("attempted"), of("in_doubt"), of("attempt_failed")), (1, 0, 0), "{events:#?}");
    assert_eq!(fs::read_to_string(test.servers_folder.path().join("roasted")).unwrap(), "once\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_elicitation_is_resumed_by_any_worker() {
    let mut test = ServersTest::of(servers).await;
    let book: Task<'_> = ("tables", "book a table", &[("book", json!({"hour": 9}))]);
    let row: Row = planner("table", &[book], &["booked for 8"]);
    let turn = test.submit(&row).await;
    let asked = test.until_idle(&turn).await;
    assert_eq!(asked["interrupt"]["kind"], "input", "{asked}\n{}", test.diagnostics());
    let thread = asked["thread_id"].as_str().unwrap().to_owned();
    test.workers.drain(..).for_each(crate::engine::Process::kill);

    let (shown, _) = run(&test, &["inbox", "show", &thread]);
    assert!(shown.contains("book of tables asks: For how many?"), "{shown}");
    assert!(shown.contains("guests (integer)"), "{shown}");
    let (_, refused) = run(&test, &["inbox", "answer", &thread, "nine"]);
    assert!(refused.contains("guests must be integer"), "{refused}");
    let item = test.engine.get(&format!("/v1/inbox/{thread}")).await;
    assert_eq!(item["schema"]["properties"]["guests"]["maximum"], 8, "{item}");
    let (taken, refused) = run(&test, &["inbox", "answer", &thread, "8"]);
    assert!(taken.contains("is queued"), "{taken}{refused}");

    test.workers.push(test.engine.worker("w2"));
    let turns = test.engine.get(&format!("/v1/turns?thread_id={thread}")).await;
    let asked = test.until_idle(&turns["data"][0]).await;
    assert!(asked["interrupt"]["question"].as_str().unwrap().contains("8 cost a deposit"), "{asked}");
    // A message that matches no option is not an answer, and the question remains open.
    let body = json!({"thread_id": thread, "input": "perhaps"});
    let unfit = test.engine.post("/v1/turns", &body).await;
    let unfit = test.until_idle(&unfit).await;
    assert_eq!(unfit["status"], "failed", "{unfit}");
    assert!(unfit["error"].as_str().unwrap().contains("sure must be true or false"), "{unfit}");
    let answered = test.engine.post("/v1/turns", &json!({"thread_id": thread, "input": "yes"})).await;
    let turn = test.until_idle(&answered).await;
    test.check(&row, &turn).await;
    calls_fit_together(&fs::read_to_string(test.servers_folder.path().join("called")).unwrap());
}

/// Checks three attempts at one call: each declares that a person can be asked, has the same key, and includes the
/// earlier answers.
fn calls_fit_together(called: &str) {
    let calls: Vec<Value> = called.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(calls.len(), 3, "{called}");
    let supplied: Vec<&Value> = calls.iter().map(|call| &call["inputResponses"]).collect();
    assert_eq!(
        supplied,
        [
            &Value::Null,
            &json!({"guests": {"action": "accept", "content": {"guests": 8}}}),
            &json!({"sure": {"action": "accept", "content": {"sure": true}}}),
        ]
    );
    assert_eq!(calls[2]["requestState"], "{\"guests\": 8}");
    for call in &calls {
        assert_eq!(call["_meta"]["turnfold/idempotency-key"], calls[0]["_meta"]["turnfold/idempotency-key"]);
        assert!(
            call["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"]["form"].is_object()
        );
    }
}

fn run(test: &ServersTest, args: &[&str]) -> (String, String) {
    let mut command: Command = turnfold(test.engine.folder());
    let output = command.args(["--url", &test.engine.url]).args(args).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}
