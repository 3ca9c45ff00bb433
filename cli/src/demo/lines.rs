//! The turns of the demo, read from a batch file in OpenAI's format.

use std::{collections::BTreeSet, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::exit::{CliError, Exit};

/// The turns that are included in turnfold.
const TURNS: &str = include_str!("../../../fixtures/demo/turns.jsonl");

/// One line of the file: one turn to submit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) custom_id: String,
    method: Method,
    pub(super) url: String,
    pub(super) body: Value,
}

impl Line {
    /// True if this turn must end before the other lines are submitted: `"first": true` in its metadata.
    pub(super) fn is_first(&self) -> bool {
        self.body["metadata"]["first"] == true
    }
}

#[derive(Debug, Deserialize)]
enum Method {
    #[serde(rename = "POST")]
    Post,
}

/// Reads the lines of `file`, or the included ones. Every line is checked before any runs.
///
/// # Errors
///
/// Lists every invalid line with its number.
pub(super) fn read(file: Option<&Path>) -> anyhow::Result<Vec<Line>> {
    let Some(file) = file else { return parse("the demo", TURNS) };
    let text = std::fs::read_to_string(file)
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("cannot read {}: {err}", file.display())))?;
    parse(&file.display().to_string(), &text)
}

fn parse(name: &str, text: &str) -> anyhow::Result<Vec<Line>> {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut lines = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Line>(line) {
            Err(err) => wrong.push(format!("{name}:{}: {err}", n + 1)),
            Ok(line) if line.url != "/v1/turns" => {
                wrong.push(format!("{name}:{}: url is {:?}; it must be \"/v1/turns\"", n + 1, line.url));
            }
            Ok(Line { method: Method::Post, custom_id, .. }) if !seen.insert(custom_id.clone()) => {
                wrong.push(format!("{name}:{}: custom_id {custom_id:?} is used on an earlier line", n + 1));
            }
            Ok(line) => lines.push(line),
        }
    }
    match (wrong.as_slice(), lines.is_empty()) {
        ([], false) => Ok(lines),
        ([], true) => Err(CliError::with_exit(Exit::Usage, format!("{name} has no lines"))),
        _ => Err(CliError::with_exit(
            Exit::Usage,
            format!("nothing was run, because these lines are invalid:\n  {}", wrong.join("\n  ")),
        )),
    }
}

#[test]
fn all_invalid_lines_are_reported_at_once() {
    let good = r#"{"custom_id":"a","method":"POST","url":"/v1/turns","body":{}}"#;
    let text = format!(
        "{good}\n{{oops\n\n{good}\n{}\n{}",
        good.replace("turns", "chats"),
        good.replace("body", "bodi")
    );
    let message = parse("f.jsonl", &text).unwrap_err().to_string();
    for wanted in [
        "f.jsonl:2: ",
        "f.jsonl:4: custom_id \"a\"",
        "f.jsonl:5: url is \"/v1/chats\"",
        "f.jsonl:6: unknown field `bodi`",
    ] {
        assert!(message.contains(wanted), "{wanted} in {message}");
    }
    let lines = parse("the demo", TURNS).unwrap();
    assert_eq!((lines.len(), lines.iter().filter(|line| line.is_first()).count()), (220, 7));
}
