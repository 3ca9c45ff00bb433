//! The lines of a batch file, in the format of OpenAI's batches.

use std::{collections::BTreeSet, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::exit::{Exit, Stop};

/// The turns that come with the demo.
const TURNS: &str = include_str!("../../../fixtures/demo/turns.jsonl");

/// One turn to submit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// The client's name for it.
    pub(super) custom_id: String,
    method: Method,
    /// Where it goes.
    pub(super) url: String,
    /// What is submitted.
    pub(super) body: Value,
}

impl Line {
    /// Whether its turn is over before those of other lines begin: its metadata says `"first": true`.
    pub(super) fn is_first(&self) -> bool {
        self.body["metadata"]["first"] == true
    }
}

#[derive(Debug, Deserialize)]
enum Method {
    #[serde(rename = "POST")]
    Post,
}

/// The lines of `file`, or those that come with the demo. All of them are checked before any is run.
pub(super) fn read(file: Option<&Path>) -> anyhow::Result<Vec<Line>> {
    let Some(file) = file else { return parse("the demo", TURNS) };
    let text = std::fs::read_to_string(file)
        .map_err(|err| Stop::because(Exit::Usage, format!("cannot read {}: {err}", file.display())))?;
    parse(&file.display().to_string(), &text)
}

fn parse(name: &str, text: &str) -> anyhow::Result<Vec<Line>> {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut lines = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
        match serde_json::from_str::<Line>(line) {
            Err(err) => wrong.push(format!("{name}:{}: {err}", n + 1)),
            Ok(it) if it.url != "/v1/turns" => {
                wrong.push(format!("{name}:{}: url is {:?}; it must be \"/v1/turns\"", n + 1, it.url));
            }
            Ok(Line { method: Method::Post, custom_id, .. }) if !seen.insert(custom_id.clone()) => {
                wrong
                    .push(format!("{name}:{}: custom_id {custom_id:?} stands on an earlier line too", n + 1));
            }
            Ok(it) => lines.push(it),
        }
    }
    match (wrong.as_slice(), lines.is_empty()) {
        ([], false) => Ok(lines),
        ([], true) => Err(Stop::because(Exit::Usage, format!("{name} holds no line"))),
        _ => Err(Stop::because(
            Exit::Usage,
            format!("mend these lines, nothing was run:\n  {}", wrong.join("\n  ")),
        )),
    }
}

#[test]
fn bad_lines_are_named_all_at_once() {
    let good = r#"{"custom_id":"a","method":"POST","url":"/v1/turns","body":{}}"#;
    let text = format!(
        "{good}\n{{oops\n\n{good}\n{}\n{}",
        good.replace("turns", "chats"),
        good.replace("body", "bodi")
    );
    let said = parse("f.jsonl", &text).unwrap_err().to_string();
    for wanted in [
        "f.jsonl:2: ",
        "f.jsonl:4: custom_id \"a\"",
        "f.jsonl:5: url is \"/v1/chats\"",
        "f.jsonl:6: unknown field `bodi`",
    ] {
        assert!(said.contains(wanted), "{wanted} in {said}");
    }
    let lines = parse("the demo", TURNS).unwrap();
    assert_eq!((lines.len(), lines.iter().filter(|it| it.is_first()).count()), (220, 7));
}
