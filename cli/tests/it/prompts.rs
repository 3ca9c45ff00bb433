//! Versions of a prompt over two deployments: text, difference, use and ratings, from a real engine.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use test_servers::free_port;

use crate::engine::{Process, log, turnfold};

/// Runs one turn of `chat` in a new engine with this prompt, rates its answer, and returns the list of prompts.
fn turn(
    folder: &Path,
    prompt: Option<&str>,
    rating: &[&str],
    then: impl FnOnce(&dyn Fn(&[&str]) -> (i32, Value)),
) {
    let script = json!({"says": "Blue."}).to_string();
    fs::write(folder.join("model.jsonl"), script).unwrap();
    let prompt = prompt.map(|text| format!("[strategies.chat.nodes.reply]\nprompt = {text:?}\n"));
    let config = format!(
        "[providers.scripted]\nscript = 'model.jsonl'\n[strategies.chat]\nmodel = 'scripted/test'\n{}",
        prompt.unwrap_or_default()
    );
    fs::write(folder.join("turnfold.toml"), config).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder);
    let _dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder, "dev")));
    let url = format!("http://{listen}");
    let run = |args: &[&str]| {
        let output = turnfold(folder).args(["--url", &url, "-o", "json"]).args(args).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    };
    let sent = ["turn", "send", "-g", "chat", "Which colour?", "--wait"];
    let is_sent = (0..200).any(|_| {
        let (exit, _) = run(&sent);
        if exit == 4 {
            std::thread::sleep(Duration::from_millis(50));
        }
        exit != 4
    });
    assert!(is_sent, "not ready: {}", fs::read_to_string(folder.join("dev.log")).unwrap());
    let (exit, rated) = run(&[&["turn", "rate", "last"], rating].concat());
    assert_eq!((exit, &rated["rating"]), (0, &json!(rating[0])), "{rated}");
    // Counts are written every second.
    let written = |found: &Value| found["ratings"][0]["ratings"][rating[0]] == json!(1);
    let is_counted = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        written(&run(&["prompt", "list"]).1)
    });
    assert!(is_counted, "{:?}", run(&["prompt", "list"]));
    then(&run);
}

#[test]
fn a_prompt_is_listed_shown_and_compared_and_its_answers_are_rated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let configured = "{prompt} One word.";
    turn(folder, Some(configured), &["good"], |_| ());
    turn(folder, None, &["bad", "--note", "Too short."], |run| {
        let (exit, list) = run(&["prompt", "list"]);
        let prompts = list["prompts"].as_array().unwrap();
        let seen: Vec<_> =
            prompts.iter().map(|it| (it["origin"].as_str().unwrap(), &it["uses"][0]["ratings"])).collect();
        let [good, bad] = [json!({"good": 1, "bad": 0}), json!({"good": 0, "bad": 1})];
        assert_eq!((exit, seen), (0, vec![("built-in", &bad), ("configured", &good)]), "{list}");
        let [own, other] = [0, 1].map(|nth| prompts[nth]["hash"].as_str().unwrap());
        assert_eq!(other, shared::prompt_hash(configured));
        let (_, shown) = run(&["prompt", "show", &other[..12]]);
        assert_eq!(shown["text"], configured);
        let (exit, diff) = run(&["prompt", "show", own, "--diff", other]);
        let diff = diff["diff"].as_str().unwrap();
        assert!(exit == 0 && diff.contains("-{prompt} One word.") && diff.contains("\n+"), "{diff}");
        let (exit, refused) = run(&["prompt", "show", "0123456789"]);
        assert!(exit != 0 && refused.to_string().contains("GET /v1/prompts"), "{refused}");
        let (_, log) = run(&["thread", "events", "last"]);
        let log = log.to_string();
        assert!(log.contains("Too short.") && log.contains("\"build\":\""), "{log}");
    });
}
