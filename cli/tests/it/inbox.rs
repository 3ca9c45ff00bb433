//! Questions to people, from the command line.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use test_servers::free_port;

use crate::engine::{Process, log, turnfold};

#[test]
fn a_question_is_listed_shown_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{listen}");
    let mut command = turnfold(folder.path());
    let _dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let run = |args: &[&str]| {
        let output = turnfold(folder.path()).args(["--url", &url]).args(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let mut empty = run(&["inbox", "list"]);
    for _ in 0..200 {
        if empty.0 != 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        empty = run(&["inbox", "list"]);
    }
    assert_eq!((empty.0, empty.1.trim()), (0, "no open questions"), "{empty:?}");
    assert_eq!(run(&["inbox", "answer", "last", "x"]).0, 7, "no question is open");

    let mut watch = turnfold(folder.path());
    let watch = watch.args(["--url", &url, "inbox", "list", "--watch", "--kind", "choice", "-o", "jsonl"]);
    let mut watch = Watch::start(watch);

    let ask = |input: &str| {
        let asked = run(&["turn", "send", "-g", "probe", input, "--wait", "-o", "json"]);
        assert_eq!(asked.0, 3, "the turn waits for a person: {asked:?}");
        let turn: Value = serde_json::from_str(&asked.1).unwrap();
        turn["thread_id"].as_str().unwrap().to_owned()
    };
    let (open, choice) = (ask("ask Well?"), ask("ask Which colour? | red | green"));
    assert_eq!(watch.next()["thread_id"], choice.as_str(), "a watch prints questions asked later");

    let (code, listed, _) = run(&["inbox", "list"]);
    assert_eq!(code, 0);
    let (first, second) = (listed.find(&choice).unwrap(), listed.find(&open).unwrap());
    assert!(first < second && listed.contains("Which colour?") && listed.contains("slot_fill"), "{listed}");
    let (_, listed, _) = run(&["inbox", "list", "--kind", "slot_fill", "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["thread_id"]), (1, &open.clone().into()));
    assert_eq!(run(&["inbox", "list", "--kind", "riddle"]).0, 2);

    run(&["turn", "send", "-g", "probe", "echo newer", "--wait"]);
    let last = run(&["inbox", "show", "last"]);
    assert!(last.1.contains("Which colour?"), "the newest question, not the newest thread: {last:?}");

    let shown = run(&["inbox", "show", &choice]);
    assert_eq!(shown.0, 0, "showing does not wait: {shown:?}");
    assert!(shown.1.contains("choice: Which colour?\n  1. red\n  2. green"), "{}", shown.1);
    assert!(shown.1.contains(&format!("inbox answer {choice} ANSWER | --ignore")), "{}", shown.1);

    let refused = run(&["inbox", "answer", &choice, "--accept"]);
    assert_eq!(refused.0, 1, "{refused:?}");
    assert!(refused.2.contains("accepts respond, ignore, but not accept"), "{}", refused.2);
    assert_eq!(run(&["inbox", "answer", &choice, "blue"]).0, 2);
    assert_eq!(run(&["inbox", "answer", &choice]).0, 2, "one of them is required");
    assert_eq!(run(&["inbox", "answer", &choice, "red", "--ignore"]).0, 2, "only one is allowed");

    let answered = run(&["inbox", "answer", &choice, "2", "--wait"]);
    assert_eq!((answered.0, answered.1.trim()), (0, "Done: answered \"green\"."), "{answered:?}");
    let shown = run(&["inbox", "show", &choice]);
    assert_eq!(shown.0, 0, "{shown:?}");
    assert!(shown.1.contains("has no open question"), "{}", shown.1);

    let replanned = run(&["turn", "send", "--thread", &open, "ask In JSON?", "--replan", "--wait"]);
    assert_eq!(replanned.0, 3, "a new request, not an answer: {replanned:?}");
    let edited = run(&["inbox", "answer", &open, "--edit", "{\"a\": 1}", "--wait"]);
    assert_eq!((edited.0, edited.1.trim()), (0, "Done: answered \"{\\\"a\\\":1}\"."), "{edited:?}");

    let open = ask("ask Well?");
    let ignored = run(&["inbox", "answer", &open, "--ignore"]);
    assert!(ignored.0 == 0 && ignored.1.contains("is cancelled"), "{ignored:?}");
    assert_eq!(run(&["inbox", "list", "-o", "json"]).1.trim(), "[]");
}

/// A running `inbox list --watch`.
struct Watch {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watch {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("it is still watching").unwrap()).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
