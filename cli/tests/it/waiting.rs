//! Waiting for turns: announced ids, tolerated outages, exit codes.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use test_servers::free_port;

use crate::{
    engine::{Process, log, turnfold},
    openai_clients::Dev,
};

fn run(dev: &Dev, args: &[&str]) -> (i32, String, String) {
    ended(turnfold(dev.folder()).args(["--url", &dev.url]).args(args))
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

fn send(dev: &Dev, args: &[&str]) -> Value {
    let sent = run(dev, &[&["turn", "send", "-g", "probe", "-o", "json"], args].concat());
    serde_json::from_str(&sent.1).unwrap_or_else(|_| panic!("{sent:?}"))
}

#[test]
fn showing_a_failed_turn_is_a_success() {
    let dev = Dev::start();
    let failed = send(&dev, &["fail out of paper", "--wait"]);
    let id = failed["id"].as_str().unwrap();
    assert_eq!(run(&dev, &["turn", "show", id]).0, 0);
    assert_eq!(run(&dev, &["turn", "show", "last"]).0, 0);
    assert_eq!(run(&dev, &["turn", "show", id, "--wait"]).0, 1);
    assert_eq!(run(&dev, &["thread", "show", "last"]).0, 0);

    let asked = send(&dev, &["ask Which? | red | green", "--wait"]);
    let (id, thread) = (asked["id"].as_str().unwrap(), asked["thread_id"].as_str().unwrap());
    assert_eq!(run(&dev, &["turn", "show", id]).0, 0);
    assert_eq!(run(&dev, &["turn", "show", id, "--wait"]).0, 3);
    assert_eq!(run(&dev, &["thread", "show", thread]).0, 0);
    let followed = run(&dev, &["thread", "events", thread, "--from", "1", "--follow"]);
    let read = run(&dev, &["thread", "events", thread, "--from", "1"]);
    assert_eq!((followed.0, &followed.1), (3, &read.1), "it asks: {followed:?}");
    assert_eq!(run(&dev, &["thread", "events", thread, "--from", "99"]).0, 2);
    let forked = run(&dev, &["thread", "fork", thread, "--at", "3", "--wait"]);
    assert_eq!(forked.0, 3, "it ends at the same question: {forked:?}");
    assert!(forked.2.starts_with("turn 0"), "it prints the turn that it waits for: {forked:?}");
    let forked = run(&dev, &["thread", "fork", thread, "--at", "0", "--wait"]);
    assert!(forked.0 == 0 && forked.1.contains("is idle"), "it has no turn to wait for: {forked:?}");

    // A message that matches no option is noted, with the command to answer.
    let again = run(&dev, &["turn", "send", "-t", thread, "zzz", "--wait"]);
    assert!(again.0 == 3 && again.2.contains("\"zzz\" is none of the options"), "{again:?}");
    let again = run(&dev, &["turn", "send", "-t", thread, "zzz", "--follow"]);
    assert!(again.0 == 3 && again.2.contains("none of the options"), "{again:?}");
    assert!(again.2.contains(&format!("turn send --thread {thread} ANSWER")), "{again:?}");
    let answered = run(&dev, &["turn", "send", "-t", thread, "2", "--wait"]);
    assert!(answered.0 == 0 && !answered.2.contains("none of the options"), "{answered:?}");
    let open = send(&dev, &["ask Well?"]);
    let called_off = run(&dev, &["turn", "cancel", open["id"].as_str().unwrap()]);
    assert_eq!(called_off.0, 0, "as asked: {called_off:?}");
}

#[test]
fn the_options_of_a_turn_are_stored_with_it() {
    let dev = Dev::start();
    let sent = send(
        &dev,
        &[
            "echo hi",
            "--wait",
            "--metadata",
            "customer=17",
            "--metadata",
            "name=Hugo",
            "--budget",
            "{\"turn\": {\"tokens\": 5}}",
        ],
    );
    assert_eq!(sent["metadata"], serde_json::json!({"customer": 17, "name": "Hugo"}), "{sent}");
    let listed = run(&dev, &["turn", "list", "--where", "metadata.customer = 17 and age < 1h", "-o", "json"]);
    assert!(listed.1.contains(sent["id"].as_str().unwrap()), "{listed:?}");
    assert_eq!(run(&dev, &["turn", "send", "x", "--metadata", "customer"]).0, 2);
    send(&dev, &["echo hi", "--wait"]);
    let listed = run(&dev, &["turn", "list", "--limit", "1"]);
    assert!(listed.2.contains("there are more"), "{listed:?}");
    let ids = |args: &[&str]| -> Vec<String> {
        let listed = run(&dev, &[args, &["-o", "json"]].concat());
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&listed.1).unwrap_or_else(|_| panic!("{listed:?}"));
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let (newest, oldest) = (ids(&["turn", "ls"]), ids(&["turn", "ls", "--order", "oldest"]));
    assert_eq!(newest, oldest.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(ids(&["turn", "ls", "--order", "updated"]), newest);
    assert_eq!(ids(&["thread", "ls", "--order", "updated"]), ids(&["thread", "ls"]));
    assert_eq!(ids(&["turn", "ls", "--order", "updated_asc"]).last(), newest.first());
    let threads = ids(&["thread", "ls"]);
    assert_eq!(ids(&["thread", "ls", "--order", "oldest"]), threads.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(run(&dev, &["batch", "ls", "--order", "failed_asc"]).0, 0);
    assert_eq!(run(&dev, &["turn", "ls", "--order", "dearest"]).0, 2);
    let typo = run(&dev, &["turn", "list", "--where", "strategy = prob"]);
    assert!(typo.0 == 2 && typo.2.contains("probe"), "{typo:?}");
    assert_eq!(run(&dev, &["turn", "redrive", "--where", "strategy = prob", "--dry-run"]).0, 2);
    let none = run(&dev, &["turn", "redrive", "--where", "error = nothing", "--dry-run"]);
    assert_eq!((none.0, none.1.trim()), (0, "no failed turn matches"), "{none:?}");
    let later = run(&dev, &["turn", "send", "-g", "probe", "echo hi", "--delay", "1w"]);
    assert!(later.0 == 0 && later.1.contains("is queued and does not start before 20"), "{later:?}");
    assert_eq!(run(&dev, &["queue", "pause", "--strategy", "planner"]).0, 0);
    let listed = run(&dev, &["queue", "list"]).1;
    assert!(!listed.contains(",\n") && listed.matches("not before 20").count() == 1, "{listed}");
}

#[test]
fn a_second_webhook_for_a_url_is_noted() {
    let dev = Dev::start();
    let add = || run(&dev, &["webhook", "add", "http://127.0.0.1:9/hook", "-o", "json"]);
    let first = add();
    assert_eq!((first.0, first.2.as_str()), (0, ""));
    let first: Value = serde_json::from_str(&first.1).unwrap();
    let second = add();
    assert!(second.0 == 0 && second.2.contains(first["id"].as_str().unwrap()), "{second:?}");
}

/// A folder and a port for an engine that is restarted.
struct TestApi {
    folder: TempDir,
    listen: String,
}

impl TestApi {
    fn start(&self) -> Process {
        let mut command = turnfold(self.folder.path());
        let command = command.args(["dev", "--listen", &self.listen]);
        Process::start(command.stderr(log(self.folder.path(), "dev")))
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        ended(turnfold(self.folder.path()).args(["--url", &format!("http://{}", self.listen)]).args(args))
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let mut command = turnfold(self.folder.path());
        let command = command.args(["--url", &format!("http://{}", self.listen)]).args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn ready(&self) {
        for _ in 0..400 {
            if self.run(&["queue", "pauses"]).0 == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the API is not reachable");
    }
}

#[test]
fn a_wait_tolerates_an_unreachable_api() {
    let api = TestApi { folder: tempfile::tempdir().unwrap(), listen: format!("127.0.0.1:{}", free_port()) };
    let dev = api.start();
    api.ready();
    let send = |how: &str| api.spawn(&["turn", "send", "-g", "probe", "wait 4; echo at last", how]);
    let (waits, follows) = (send("--wait"), send("--follow"));
    let running = || api.run(&["turn", "list", "--status", "running", "-o", "json"]).1;
    for nth in 0.. {
        let all: Value = serde_json::from_str(&running()).unwrap();
        if all.as_array().unwrap().len() == 2 {
            break;
        }
        assert!(nth < 100, "the turns are not running: {all}");
        std::thread::sleep(Duration::from_millis(50));
    }
    dev.kill();
    std::thread::sleep(Duration::from_secs(1));
    let _dev = api.start();
    api.ready();
    for process in [waits, follows] {
        let output = process.wait_with_output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        assert!(out.contains("at last") && err.starts_with("turn 0"), "{out}{err}");
    }
}
