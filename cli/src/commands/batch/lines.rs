//! The lines of a batch file, checked without a server by the rules that the server has.
//!
//! A file may be larger than memory: one line is held at a time, and of each `custom_id` its hash and its line.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use api::batch_line::{endpoints, open};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::{
    config::Settings,
    exit::{Exit, Stop},
    output::counted,
};

/// How many faults are told; the others are counted.
const TOLD: usize = 100;

/// What a file was found to hold.
#[derive(Debug, Default, Serialize)]
pub(super) struct Checked {
    /// How many lines are not empty.
    pub(super) lines: u64,
    /// Where they go.
    pub(super) url: Option<String>,
    /// The SHA-256 of the file.
    pub(super) sha256: String,
    /// How many lines have a fault.
    pub(super) faulty: u64,
    /// The first of these faults.
    pub(super) faults: Vec<Fault>,
}

/// What is wrong with a line.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    /// Its number, from 1.
    pub(super) line: u64,
    /// What is wrong, and what to do about it.
    pub(super) message: String,
}

/// The longest line that the configuration allows, in bytes.
pub(super) fn longest(settings: &Settings) -> u64 {
    settings.batch.line_kib.saturating_mul(1024)
}

/// Checks every line of a file.
pub(super) fn check(file: &Path, longest: u64) -> anyhow::Result<Checked> {
    let unreadable =
        |err: io::Error| Stop::because(Exit::Usage, format!("cannot read {}: {err}", file.display()));
    let reader = BufReader::with_capacity(256 * 1024, File::open(file).map_err(unreadable)?);
    read(reader, longest).map_err(unreadable)
}

fn read(mut reader: impl BufRead, longest: u64) -> io::Result<Checked> {
    let (mut checked, mut seen, mut hash) = (Checked::default(), HashMap::new(), Sha256::new());
    let mut line = Vec::new();
    let mut nth = 0;
    while let Some(whole) = next(&mut reader, &mut line, longest, &mut hash)? {
        nth += 1;
        if whole && line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        checked.lines += 1;
        let fault = match whole {
            true => checked.fault(nth, &line, &mut seen),
            false => Some(format!("it is longer than {longest} bytes (batch.line_kib)")),
        };
        if let Some(message) = fault {
            checked.note(nth, message);
        }
    }
    checked.sha256 = hex::encode(hash.finalize());
    Ok(checked)
}

/// Reads the next line, if there is one; whether all of it is in `line`.
fn next(
    reader: &mut impl BufRead,
    line: &mut Vec<u8>,
    longest: u64,
    hash: &mut Sha256,
) -> io::Result<Option<bool>> {
    line.clear();
    // One byte more than it may have, for its end.
    reader.by_ref().take(longest.saturating_add(1)).read_until(b'\n', line)?;
    hash.update(&*line);
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") || u64::try_from(line.len()).is_ok_and(|it| it <= longest) {
        return Ok(Some(true));
    }
    loop {
        let rest = reader.fill_buf()?;
        let end = rest.iter().position(|it| *it == b'\n').map(|it| it + 1);
        let length = end.unwrap_or(rest.len());
        hash.update(&rest[..length]);
        reader.consume(length);
        if end.is_some() || length == 0 {
            return Ok(Some(false));
        }
    }
}

impl Checked {
    /// Whether all of it can be run.
    pub(super) fn is_good(&self) -> bool {
        self.faulty == 0 && 0 < self.lines
    }

    /// What was found, line by line.
    pub(super) fn words(&self, file: &Path) -> String {
        let (name, lines) = (file.display(), self.lines);
        if lines == 0 {
            return format!("{name}: the file holds no line");
        }
        if self.is_good() {
            let url = self.url.as_deref().unwrap_or_default();
            return format!("{name}: nothing is wrong with its lines, {lines} for {url}");
        }
        let faults = self.faults.iter().map(|it| format!("{name}:{}: {}\n", it.line, it.message));
        let told = u64::try_from(self.faults.len()).unwrap_or(u64::MAX);
        let more = match self.faulty.saturating_sub(told) {
            0 => String::new(),
            more => format!("… and {more} more\n"),
        };
        format!(
            "{}{more}{} of {} cannot be run",
            faults.collect::<String>(),
            self.faulty,
            counted(lines, "line")
        )
    }

    fn note(&mut self, line: u64, message: String) {
        self.faulty += 1;
        if self.faults.len() < TOLD {
            self.faults.push(Fault { line, message });
        }
    }

    /// The first thing that is wrong with a line.
    fn fault(&mut self, nth: u64, line: &[u8], seen: &mut HashMap<u128, u64>) -> Option<String> {
        let (id, envelope) = open(line);
        if let Some(id) = id {
            match seen.entry(short(&id)) {
                Entry::Occupied(first) => {
                    return Some(format!("custom_id {id:?} stands on line {} too", first.get()));
                }
                Entry::Vacant(free) => drop(free.insert(nth)),
            }
        }
        let url = match envelope {
            Ok(it) => it.url,
            Err((_, words)) => return Some(words),
        };
        let known = endpoints();
        if !known.contains(&url.as_str()) {
            return Some(format!("url: it is {url:?} and must be one of {}", known.join(", ")));
        }
        let all = self.url.get_or_insert_with(|| url.clone());
        (*all != url)
            .then(|| format!("url: it is {url:?}, and the lines before say {all:?}: a batch has one"))
    }
}

/// Sixteen bytes of a hash: of a million names, two are alike once in 10^26 files.
fn short(id: &str) -> u128 {
    let hash: [u8; 32] = Sha256::digest(id).into();
    hash[..16].iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

#[test]
fn every_rule_is_held_against_every_line() {
    let good = |id: &str| format!(r#"{{"custom_id":"{id}","method":"POST","url":"/v1/turns","body":{{}}}}"#);
    let long = format!(r#"{{"custom_id":"long","pad":"{}"}}"#, "x".repeat(300));
    let lines = [
        good("a"),
        String::new(),
        "{oops".to_owned(),
        "[]".to_owned(),
        good("a"),
        good(""),
        good("b").replace("POST", "GET"),
        good("c").replace("/v1/turns", "/v1/embeddings"),
        good("d").replace("/v1/turns", "/v1/chat/completions"),
        good("e").replace("{}}", "[]}"),
        long,
        good("f"),
    ];
    let text = lines.join("\n");
    let checked = read(text.as_bytes(), 200).unwrap();
    assert_eq!((checked.lines, checked.faulty, checked.url.as_deref()), (11, 9, Some("/v1/turns")));
    assert_eq!(checked.sha256, hex::encode(Sha256::digest(&text)));
    let told: Vec<String> = checked.faults.iter().map(|it| format!("{}: {}", it.line, it.message)).collect();
    let wanted = [
        "3: the line is no JSON",
        "4: the line is no JSON object",
        "5: custom_id \"a\" stands on line 1",
        "6: custom_id: it must be a text of 1 to 512 bytes",
        "7: method: it is \"GET\"",
        "8: url: it is \"/v1/embeddings\"",
        "9: url: it is \"/v1/chat/completions\", and the lines before",
        "10: body: it is missing",
        "11: it is longer than 200 bytes",
    ];
    for (told, wanted) in told.iter().zip(wanted) {
        assert!(told.starts_with(wanted), "{wanted:?} in {told:?}");
    }
    let empty = read("\n \n".as_bytes(), 200).unwrap();
    assert!(!empty.is_good() && empty.words(Path::new("f")).contains("holds no line"));
}
