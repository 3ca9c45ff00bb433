//! Exports a thread as evidence: its stored events with their images and files, the checkpoint that attests them, and a
//! script that checks all of it without turnfold.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use serde_json::json;
use shared::Event;
use store::{Store, Stored, ThreadId, is_admin_log};

use super::{
    checkpoint::{Place, Signed},
    error::Error,
    index::Index,
};

/// Events read at a time; an event may have several megabytes.
const PAGE: u64 = 50;

const SCRIPT: &str = include_str!("verify.py");
const JAVASCRIPT: &str = include_str!("verify.mjs");
const README: &str = include_str!("bundle.md");

/// Summary of an export.
#[derive(Debug, PartialEq, Eq)]
pub struct Exported {
    /// Number of exported events.
    pub events: u64,
    /// Number of events that the checkpoint attests; `None` if no proof was requested.
    pub attested: Option<u64>,
}

/// Writes a thread, or an administrative log by its id, into a new folder, with the proof that a checkpoint attests it.
///
/// # Errors
///
/// [`Error::Given`] if the folder exists or the checkpoint does not attest the thread, [`Error::Damaged`] if the
/// checkpoint and its list disagree.
pub async fn export(
    store: &Store,
    thread: ThreadId,
    proof: Option<&Place>,
    to: &Path,
) -> Result<Exported, Error> {
    if is_admin_log(thread) {
        if store.admin_stored(thread, 0, 1).await?.is_empty() {
            return Err(Error::Given("the administrative log has no entry; nothing was exported".to_owned()));
        }
    } else {
        store.head(thread).await?;
    }
    let proof = proof.map(|proof| prove(proof, thread)).transpose()?;
    if let Some(above) = to.parent() {
        fs::create_dir_all(above).map_err(|error| Error::file("make", above, &error))?;
    }
    fs::create_dir(to).map_err(|error| Error::file("make", to, &error))?;
    let (events, attachments) = events(store, thread, &to.join("events.jsonl")).await?;
    export_attachments(store, thread, &attachments, &to.join("attachments")).await?;
    write(to.join("verify.py"), SCRIPT)?;
    write(to.join("verify.mjs"), JAVASCRIPT)?;
    write(to.join("README.md"), &README.replace("{thread}", &thread.to_string()))?;
    let attested = proof.as_ref().map(|proof| proof.events);
    if let Some(proof) = proof {
        write(to.join("proof.json"), &format!("{:#}\n", proof.json))?;
        write(to.join("checkpoint"), &proof.note)?;
    }
    Ok(Exported { events, attested })
}

struct Proof {
    events: u64,
    json: serde_json::Value,
    note: String,
}

/// The Merkle proof from the thread's last head to the root in the note.
fn prove(place: &Place, thread: ThreadId) -> Result<Proof, Error> {
    let signed = Signed::read(&place.note)?;
    let list = place.list().ok_or_else(|| {
        Error::Given(format!("cannot find {}: a proof needs the list of heads", place.heads.display()))
    })?;
    if list.count()? < signed.size || list.root(signed.size)? != signed.root {
        let words = format!("{} lacks heads that its checkpoint attests", place.heads.display());
        return Err(Error::Damaged(words));
    }
    let index = Index::read(&list, signed.size, Some(thread))?;
    let last = index.of(thread).last().filter(|entry| 0 < entry.0.seq);
    let (head, n) = *last.ok_or_else(|| {
        let words = format!(
            "{} does not attest thread {thread}; hint: create a checkpoint first",
            place.note.display()
        );
        Error::Given(words)
    })?;
    let path =
        tlog_tiles::prove_record(signed.size, n, &list).map_err(|error| Error::Damaged(error.to_string()))?;
    let json = json!({
        "thread": thread,
        "events": head.seq,
        "head": hex::encode(head.hash),
        "leaf": n,
        "path": path.iter().map(|hash| hex::encode(hash.0)).collect::<Vec<_>>(),
    });
    let note = String::from_utf8_lossy(&signed.note.to_bytes()).into_owned();
    Ok(Proof { events: head.seq, json, note })
}

/// Writes each content into a file that is named by its hash. A content that is missing or was changed is left out, and
/// the script reports it.
async fn export_attachments(
    store: &Store,
    thread: ThreadId,
    attachments: &BTreeSet<String>,
    folder: &Path,
) -> Result<(), Error> {
    if attachments.is_empty() {
        return Ok(());
    }
    fs::create_dir(folder).map_err(|error| Error::file("make", folder, &error))?;
    for sha256 in attachments {
        let content = match store.attachment(thread, sha256).await {
            Err(store::Error::Corrupt { .. }) | Ok(None) => continue,
            read => read?.unwrap_or_default(),
        };
        let file = folder.join(sha256);
        fs::write(&file, content).map_err(|error| Error::file("write", &file, &error))?;
    }
    Ok(())
}

/// Writes the events. Returns their number, and the hashes of their attachments.
async fn events(store: &Store, thread: ThreadId, file: &PathBuf) -> Result<(u64, BTreeSet<String>), Error> {
    let failed = |error| Error::file("write", file, &error);
    let mut out = BufWriter::new(File::create(file).map_err(failed)?);
    let (mut events, mut attachments) = (0, BTreeSet::new());
    loop {
        let page = match is_admin_log(thread) {
            true => store.admin_stored(thread, events, PAGE).await?,
            false => store.stored(thread, events, PAGE).await?,
        };
        let Some(last) = page.last() else { break };
        events = last.seq + 1;
        for Stored { seq, at, kind, codec, payload, hash } in &page {
            let hash = hex::encode(hash);
            if let Ok(event) = Event::decode(kind, payload) {
                let named = event.attachments().map(|attachment| attachment.sha256.clone());
                attachments.extend(named.filter(|hash| is_sha256(hash)));
            }
            let line = json!({
                "thread": thread, "seq": seq, "at": at, "kind": kind, "codec": codec, "payload": payload, "hash": hash,
            });
            writeln!(out, "{line}").map_err(failed)?;
        }
    }
    out.flush().map_err(failed)?;
    Ok((events, attachments))
}

/// Returns whether `text` is a hash, and so can be the name of a file.
fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn write(file: PathBuf, text: &str) -> Result<(), Error> {
    fs::write(&file, text).map_err(|error| Error::file("write", &file, &error))
}
