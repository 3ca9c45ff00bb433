//! Checks the folder of an exported thread, without a store.
//!
//! **Invariant:** the answers are those of `verify.py` and `verify.mjs` for every folder. `docs/proofs.md` specifies them, and all three are
//! tested with `fixtures/proofs`.

use std::{fs, io, path::Path};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use store::integrity::hash_chain;

use super::{note::Note, report::Verdict, strict_json};

/// Result of a check: the verdict, and what was checked or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The overall result.
    pub verdict: Verdict,
    /// Description for people.
    pub what: String,
}

/// The end of a check without proof that the folder is intact.
enum Stop {
    Tampered(String),
    NotChecked(String),
}

/// Checks a folder. One of the keys must have signed its checkpoint.
pub fn check_folder(folder: &Path, vkeys: &[String]) -> Checked {
    let (verdict, what) = match check(folder, vkeys) {
        Ok(what) => (Verdict::Intact, what),
        Err(Stop::Tampered(what)) => (Verdict::Tampered, what),
        Err(Stop::NotChecked(what)) => (Verdict::NotChecked, what),
    };
    Checked { verdict, what }
}

/// A stored event of the folder.
struct Event {
    thread: String,
    codec: String,
    hash: [u8; 32],
    /// Hashes of the attachments that it names.
    named: Vec<Value>,
}

fn check(folder: &Path, vkeys: &[String]) -> Result<String, Stop> {
    let events = chain(&need(folder, "events.jsonl")?)?;
    for (n, name) in
        events.iter().enumerate().flat_map(|(n, event)| event.named.iter().map(move |it| (n, it)))
    {
        let hash = hash(name)?;
        let name = hex::encode(hash);
        let content = read(folder, &format!("attachments/{name}"))?;
        let content =
            content.ok_or_else(|| tampered(format!("the attachment {name} of event {n} is missing")))?;
        ensure(<[u8; 32]>::from(Sha256::digest(content)) == hash, || {
            format!("the attachment {name} of event {n} was changed")
        })?;
    }
    let Some(proof) = read(folder, "proof.json")? else {
        let events = events.len();
        let what = format!("{events} events fit each other; nothing here attests that they are the ones");
        return Err(Stop::NotChecked(what));
    };
    let proof = object(parse(&text(&proof)?)?)?;
    let note = Note::read(&text(&need(folder, "checkpoint")?)?).map_err(Stop::Tampered)?;
    let (thread, count) = (thread_of(&proof)?, integer(proof.get("events"), 1)?);
    ensure(count <= events.len() as u64, || {
        format!("events {} to {} are cut off: {count} were attested", events.len(), count - 1)
    })?;
    let attested = &events[..usize::try_from(count).unwrap_or(usize::MAX).min(events.len())];
    let head = hash(proof.get("head").unwrap_or(&Value::Null))?;
    ensure(attested.last().is_some_and(|last| last.hash == head), || {
        format!("events 0 to {} are not those of the proof: changed, and hashed anew", count - 1)
    })?;
    ensure(attested.iter().all(|event| event.codec == "json"), || {
        "an event is not stored as json, as it was attested".to_owned()
    })?;
    ensure(events.iter().all(|event| event.thread == thread), || "an event is of another thread".to_owned())?;
    let leaf = digest(&[&[0], format!("{thread} {count} {}", hex::encode(head)).as_bytes()]);
    let path = proof.get("path").and_then(Value::as_array).ok_or_else(|| tampered("the path is no list"))?;
    let path: Vec<[u8; 32]> = path.iter().map(hash).collect::<Result<_, _>>()?;
    ensure(root(leaf, integer(proof.get("leaf"), 0)?, note.size, &path)? == note.root, || {
        "the checkpoint does not attest this head of this thread".to_owned()
    })?;
    if vkeys.is_empty() {
        let what =
            format!("{count} events are as the checkpoint attests; who signed it: give the key with --vkey");
        return Err(Stop::NotChecked(what));
    }
    let signed: Option<Vec<bool>> = vkeys.iter().map(|vkey| note.is_by(vkey)).collect();
    let signed = signed.ok_or_else(|| {
        let what = "that is no key: it reads NAME+ID+KEY, as `turnfold audit key show` prints it";
        Stop::NotChecked(what.to_owned())
    })?;
    ensure(signed.contains(&true), || "the checkpoint is not signed by that key".to_owned())?;
    let later = match events.len() as u64 - count {
        0 => String::new(),
        later => format!("; not checked against it: {later} later events, whose hashes fit each other"),
    };
    Ok(format!("events 0 to {} of thread {thread} are as {} attests{later}", count - 1, note.origin))
}

/// Reads the events, and computes their hashes.
fn chain(file: &[u8]) -> Result<Vec<Event>, Stop> {
    let text = text(file)?;
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let (mut events, mut before) = (Vec::new(), hash_chain::START);
    for line in lines {
        let event = object(parse(line)?)?;
        let (n, seq) = (events.len() as u64, integer(event.get("seq"), 0)?);
        ensure(seq == n, || format!("event {n} is missing: the next one is {seq}"))?;
        let at = event.get("at").and_then(Value::as_i64);
        let at =
            at.ok_or_else(|| tampered(format!("the time of event {n} is no integer, or out of range")))?;
        let field = |name| string(event.get(name));
        let (kind, payload) = (field("kind")?, field("payload")?);
        ensure(!kind.contains('\0'), || format!("the kind of event {n} contains a zero byte"))?;
        before = hash_chain::link(&before, n, at, &kind, &payload);
        ensure(hash(event.get("hash").unwrap_or(&Value::Null))? == before, || {
            format!("event {n} does not fit the events before it")
        })?;
        let named = attachments(&payload)?;
        events.push(Event { thread: field("thread")?, codec: field("codec")?, hash: before, named });
    }
    Ok(events)
}

/// Returns the names of the attachments of messages, and of the answer of a tool.
fn attachments(payload: &str) -> Result<Vec<Value>, Stop> {
    let event = object(parse(payload)?)?;
    let mut named = Vec::new();
    let mut name = |attachment: Option<&Value>| {
        let attachment = object(attachment.cloned().unwrap_or_default())?;
        named.push(attachment.get("sha256").cloned().unwrap_or_default());
        Ok::<_, Stop>(())
    };
    for message in list(event.get("messages"))? {
        let message = object(message)?;
        for attachment in list(message.get("attachments"))? {
            name(Some(&attachment))?;
        }
    }
    if let Some(extras) = event.get("extras").filter(|extras| !extras.is_null()) {
        for content in list(object(extras.clone())?.get("content"))? {
            let content = object(content)?;
            if content.get("content").and_then(Value::as_str) == Some("attached") {
                name(content.get("attachment"))?;
            }
        }
    }
    Ok(named)
}

/// Returns the root of a tree of `size` leaves, of which `node` is number `n` (RFC 9162, 2.1.3.2).
fn root(mut node: [u8; 32], mut n: u64, size: u64, path: &[[u8; 32]]) -> Result<[u8; 32], Stop> {
    ensure(n < size, || "the leaf is outside of the tree".to_owned())?;
    let mut last = size - 1;
    for sibling in path {
        ensure(last != 0, || "the path is too long".to_owned())?;
        if n & 1 == 1 || n == last {
            node = digest(&[&[1], sibling, &node]);
            while n != 0 && n & 1 == 0 {
                (n, last) = (n >> 1, last >> 1);
            }
        } else {
            node = digest(&[&[1], &node, sibling]);
        }
        (n, last) = (n >> 1, last >> 1);
    }
    ensure(last == 0, || "the path is too short".to_owned())?;
    Ok(node)
}

fn tampered(what: impl Into<String>) -> Stop {
    Stop::Tampered(what.into())
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(tampered(what())) }
}

/// Returns the content of a file, or `None` if there is none.
fn read(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, Stop> {
    match fs::read(folder.join(name)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Stop::NotChecked(format!("{name} cannot be read: {error}"))),
    }
}

fn need(folder: &Path, name: &str) -> Result<Vec<u8>, Stop> {
    read(folder, name)?.ok_or_else(|| tampered(format!("{name} is missing")))
}

fn text(bytes: &[u8]) -> Result<String, Stop> {
    String::from_utf8(bytes.to_vec()).map_err(|error| tampered(format!("a file is not UTF-8: {error}")))
}

fn parse(text: &str) -> Result<Value, Stop> {
    strict_json::parse(text)
        .map_err(|error| tampered(format!("no JSON, or a key stands there twice: {error}")))
}

fn object(value: Value) -> Result<Map<String, Value>, Stop> {
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(tampered("something is no object"))
        }
    }
}

fn list(value: Option<&Value>) -> Result<Vec<Value>, Stop> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items.clone()),
        Some(_) => Err(tampered("something is no list")),
    }
}

fn string(value: Option<&Value>) -> Result<String, Stop> {
    value
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| tampered("a field is missing, or is no text"))
}

fn integer(value: Option<&Value>, least: u64) -> Result<u64, Stop> {
    let number = value.and_then(Value::as_u64).filter(|number| least <= *number);
    number.ok_or_else(|| tampered("a number is no integer, or out of range"))
}

fn hash(value: &Value) -> Result<[u8; 32], Stop> {
    let is_hex =
        |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let bytes = value.as_str().filter(is_hex).and_then(|text| hex::decode(text).ok()?.try_into().ok());
    bytes.ok_or_else(|| tampered(format!("{value} is not 64 lower-case hexadecimal digits")))
}

fn thread_of(proof: &Map<String, Value>) -> Result<String, Stop> {
    let thread = string(proof.get("thread"))?;
    let is_uuid = uuid::Uuid::parse_str(&thread).is_ok_and(|id| id.to_string() == thread);
    ensure(is_uuid, || format!("{thread:?} is no UUID"))?;
    Ok(thread)
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().into()
}
