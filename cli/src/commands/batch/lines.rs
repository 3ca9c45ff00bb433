//! Checks the lines of a batch file without a server, by the rules of the server.
//!
//! Memory is bounded: one line is read at a time, and of each `custom_id` only a hash and the line number are kept.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use api::batch_line::{endpoints, open};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    commands::Context,
    exit::{CliError, Exit},
    output::{self, counted},
    suggest,
};

/// Maximum number of invalid lines that are listed; all are counted.
const MAX_LISTED: usize = 100;

/// Result of checking a file.
#[derive(Debug, Default, Serialize)]
pub(super) struct Checked {
    /// Number of lines that are not empty.
    pub(super) lines: u64,
    /// Endpoint of the lines.
    pub(super) url: Option<String>,
    /// SHA-256 of the file, in hex.
    pub(super) sha256: String,
    /// Number of invalid lines.
    pub(super) invalid: u64,
    /// The first invalid lines, at most [`MAX_LISTED`].
    pub(super) errors: Vec<LineError>,
}

/// Error in a line.
#[derive(Debug, Serialize)]
pub(super) struct LineError {
    /// Number of the line, from 1.
    pub(super) line: u64,
    pub(super) message: String,
}

/// Rules that depend on the configuration and the binary.
struct Rules<'a> {
    /// Maximum length of a line, in bytes.
    max_bytes: u64,
    /// Known strategies; `None` if the lines go to an API whose strategies are unknown.
    strategies: Option<Vec<&'a str>>,
}

/// Checks every line of a file.
pub(super) fn check(file: &Path, ctx: &Context) -> anyhow::Result<Checked> {
    let rules = Rules {
        max_bytes: ctx.settings.batch.line_kib.saturating_mul(1024),
        strategies: ctx.uses_own_api().then(|| ctx.strategies.names()),
    };
    let unreadable =
        |err: io::Error| CliError::with_exit(Exit::Usage, format!("cannot read {}: {err}", file.display()));
    let reader = BufReader::with_capacity(256 * 1024, File::open(file).map_err(unreadable)?);
    read(reader, &rules).map_err(unreadable)
}

fn read(mut reader: impl BufRead, rules: &Rules<'_>) -> io::Result<Checked> {
    let (mut checked, mut seen, mut hash) = (Checked::default(), HashMap::new(), Sha256::new());
    let (mut line, mut number) = (Vec::new(), 0);
    while let Some(is_whole) = next(&mut reader, &mut line, rules.max_bytes, &mut hash)? {
        number += 1;
        if is_whole && line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        checked.lines += 1;
        let error = match is_whole {
            true => checked.error(number, &line, &mut seen, rules),
            false => Some(format!("longer than {} bytes (batch.line_kib)", rules.max_bytes)),
        };
        if let Some(message) = error {
            checked.add(number, message);
        }
    }
    checked.sha256 = hex::encode(hash.finalize());
    Ok(checked)
}

/// Reads the next line. Returns whether `line` holds all of it, or `None` at the end of the file.
fn next(
    reader: &mut impl BufRead,
    line: &mut Vec<u8>,
    max_bytes: u64,
    hash: &mut Sha256,
) -> io::Result<Option<bool>> {
    line.clear();
    // One more byte, for the line end.
    reader.by_ref().take(max_bytes.saturating_add(1)).read_until(b'\n', line)?;
    hash.update(&*line);
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") || u64::try_from(line.len()).is_ok_and(|length| length <= max_bytes) {
        return Ok(Some(true));
    }
    loop {
        let rest = reader.fill_buf()?;
        let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let length = end.unwrap_or(rest.len());
        hash.update(&rest[..length]);
        reader.consume(length);
        if end.is_some() || length == 0 {
            return Ok(Some(false));
        }
    }
}

impl Checked {
    /// Returns true if the file has lines and all of them can be run.
    pub(super) fn is_valid(&self) -> bool {
        self.invalid == 0 && 0 < self.lines
    }

    /// Renders the result, with one line for each invalid line.
    pub(super) fn to_text(&self, file: &Path) -> String {
        let (name, lines) = (file.display(), self.lines);
        if lines == 0 {
            return format!("{name}: the file has no lines");
        }
        if self.is_valid() {
            let url = self.url.as_deref().unwrap_or_default();
            return format!("{name}: {} for {url}, no errors", counted(lines, "line"));
        }
        let errors = self.errors.iter().map(|error| format!("{name}:{}: {}\n", error.line, error.message));
        let more = output::and_more(self.invalid, self.errors.len());
        let more = if more.is_empty() { more } else { format!("{}\n", more.trim_start()) };
        format!(
            "{}{more}{} of {} cannot be run",
            errors.collect::<String>(),
            self.invalid,
            counted(lines, "line")
        )
    }

    fn add(&mut self, line: u64, message: String) {
        self.invalid += 1;
        if self.errors.len() < MAX_LISTED {
            self.errors.push(LineError { line, message });
        }
    }

    /// Returns the first error of a line.
    fn error(
        &mut self,
        number: u64,
        line: &[u8],
        seen: &mut HashMap<u128, u64>,
        rules: &Rules<'_>,
    ) -> Option<String> {
        let (id, envelope) = open(line);
        if let Some(id) = id {
            match seen.entry(short_hash(&id)) {
                Entry::Occupied(first) => {
                    return Some(format!("custom_id {id:?} is also on line {}", first.get()));
                }
                Entry::Vacant(free) => drop(free.insert(number)),
            }
        }
        let (url, body) = match envelope {
            Ok(envelope) => (envelope.url, envelope.body),
            Err((_, message)) => return Some(message),
        };
        let known = endpoints();
        if !known.contains(&url.as_str()) {
            return Some(format!("url: {url:?} is not one of {}", known.join(", ")));
        }
        let all = self.url.get_or_insert_with(|| url.clone());
        if *all != url {
            return Some(format!("url: {url:?} differs from {all:?} on earlier lines; a batch has one url"));
        }
        let checked = match url.as_str() {
            "/v1/turns" => rules.check_turn(body),
            "/v1/responses" => rules.check_response(&body),
            "/v1/completions" => rules.check_completion(&body),
            _ => rules.check_chat(&body),
        };
        checked.err().map(|message| format!("body: {message}"))
    }
}

impl Rules<'_> {
    /// Checks the body of a line for `/v1/turns`: fields, values and strategy.
    fn check_turn(&self, body: Value) -> Result<(), String> {
        let turn: api_types::NewTurn = serde_json::from_value(body).map_err(|err| err.to_string())?;
        if turn.thread_id.is_some() {
            return Err("thread_id: every line of a batch starts a new thread".to_owned());
        }
        if turn.not_before.is_some() || turn.delay_seconds.is_some() {
            return Err("not_before, delay_seconds: a batch schedules its lines itself".to_owned());
        }
        self.check_strategy(&turn.strategy.ok_or("strategy is missing")?)
    }

    /// Checks the body of a line for `/v1/chat/completions`: the model, which is a strategy, and the messages.
    fn check_chat(&self, body: &Value) -> Result<(), String> {
        match (body["model"].as_str(), body["messages"].as_array()) {
            (None, _) => Err("model is missing".to_owned()),
            (_, None) => Err("messages is missing or not a list".to_owned()),
            (Some(_), Some(messages)) if messages.is_empty() => Err("messages is empty".to_owned()),
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// Checks the body of a line for `/v1/completions`: the model and the prompt.
    fn check_completion(&self, body: &Value) -> Result<(), String> {
        match (body["model"].as_str(), &body["prompt"]) {
            (None, _) => Err("model is missing".to_owned()),
            (_, Value::Null) => Err("prompt is missing".to_owned()),
            (_, Value::Array(prompts)) if prompts.len() != 1 => Err("prompt is not one text".to_owned()),
            (_, Value::String(_) | Value::Array(_)) => Ok(()),
            _ => Err("prompt is not a text".to_owned()),
        }
    }

    /// Checks the body of a line for `/v1/responses`: the model and the input.
    fn check_response(&self, body: &Value) -> Result<(), String> {
        match (body["model"].as_str(), &body["input"]) {
            (None, _) => Err("model is missing".to_owned()),
            (_, Value::Null) => Err("input is missing".to_owned()),
            (_, Value::Array(items)) if items.is_empty() => Err("input is empty".to_owned()),
            (_, Value::String(_) | Value::Array(_)) => Ok(()),
            _ => Err("input is not a text or a list of items".to_owned()),
        }
    }

    fn check_strategy(&self, name: &str) -> Result<(), String> {
        match &self.strategies {
            Some(known) if !known.contains(&name) => {
                Err(suggest::unknown("strategy", name, known).replace("\nhint: ", "; "))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns 16 bytes of a hash: among a million ids, two collide in one of 10^26 files.
fn short_hash(id: &str) -> u128 {
    let hash: [u8; 32] = Sha256::digest(id).into();
    hash[..16].iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

#[test]
fn each_rule_applies_to_each_line() {
    let rules = Rules { max_bytes: 200, strategies: Some(vec!["planner", "probe"]) };
    let body = r#"{"strategy":"probe","input":"hello"}"#;
    let line =
        |id: &str| format!(r#"{{"custom_id":"{id}","method":"POST","url":"/v1/turns","body":{body}}}"#);
    let long = format!(r#"{{"custom_id":"long","pad":"{}"}}"#, "x".repeat(300));
    let lines = [
        line("a"),
        String::new(),
        "{oops".to_owned(),
        "[]".to_owned(),
        line("a"),
        line(""),
        line("b").replace("POST", "GET"),
        line("c").replace("/v1/turns", "/v1/embeddings"),
        line("d").replace("/v1/turns", "/v1/chat/completions"),
        line("e").replace(body, "[]"),
        long,
        line("f"),
        line("g").replace("probe", "prob"),
        line("h").replace("\"input\"", "\"inputs\""),
        line("i").replace("hello\"", "hello\",\"priority\":\"urgent\""),
        line("j").replace("\"strategy\":\"probe\",", ""),
    ];
    let text = lines.join("\n");
    let checked = read(text.as_bytes(), &rules).unwrap();
    assert_eq!((checked.lines, checked.invalid, checked.url.as_deref()), (15, 13, Some("/v1/turns")));
    assert_eq!(checked.sha256, hex::encode(Sha256::digest(&text)));
    let found: Vec<String> = checked.errors.iter().map(|it| format!("{}: {}", it.line, it.message)).collect();
    let expected = [
        "3: ",
        "4: ",
        "5: custom_id \"a\" is also on line 1",
        "6: custom_id",
        "7: method",
        "8: url: \"/v1/embeddings\" is not one of",
        "9: url: \"/v1/chat/completions\" differs from",
        "10: body",
        "11: longer than 200 bytes",
        "13: body: unknown strategy \"prob\"; did you mean \"probe\"?",
        "14: body: unknown field `inputs`",
        "15: body: unknown variant `urgent`",
        "16: body: strategy is missing",
    ];
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{expected:?} in {found:?}");
    }
    // Another API may have other strategies.
    let elsewhere = Rules { max_bytes: 200, strategies: None };
    assert!(read(line("g").replace("probe", "mine").as_bytes(), &elsewhere).unwrap().is_valid());
    let empty = read("\n \n".as_bytes(), &rules).unwrap();
    assert!(!empty.is_valid() && empty.to_text(Path::new("f")).contains("has no lines"));
}

#[test]
fn a_chat_line_needs_a_model_and_messages() {
    let rules = Rules { max_bytes: 1_000, strategies: None };
    let check = |body: Value| rules.check_chat(&body);
    use serde_json::json;
    assert_eq!(check(json!({"model": "planner", "messages": [{"role": "user", "content": "hi"}]})), Ok(()));
    assert!(check(json!({"messages": [1]})).unwrap_err().contains("model"));
    assert!(check(json!({"model": "planner", "messages": []})).unwrap_err().contains("messages"));
    assert!(check(json!({"model": "planner"})).unwrap_err().contains("messages"));
    let check = |body: Value| rules.check_response(&body);
    assert_eq!(check(json!({"model": "planner", "input": "hi"})), Ok(()));
    assert!(check(json!({"input": "hi"})).unwrap_err().contains("model"));
    assert!(check(json!({"model": "planner", "input": []})).unwrap_err().contains("input is empty"));
    assert!(check(json!({"model": "planner", "messages": []})).unwrap_err().contains("input is missing"));
    let check = |body: Value| rules.check_completion(&body);
    assert_eq!(check(json!({"model": "planner", "prompt": ["hi"]})), Ok(()));
    assert!(check(json!({"model": "planner", "prompt": ["a", "b"]})).unwrap_err().contains("one text"));
    assert!(check(json!({"model": "planner"})).unwrap_err().contains("prompt is missing"));
}
