//! The content of an image or file belongs to its thread, and its hash is verified.

use shared::{Attachment, AttachmentKind, Event, Message};

use super::{log_of, new_turn, turn_started, verify::round};
use store::{AttachmentContent, Error, NewTurn, Opening, Store, ThreadId, Turn, Wrong, testing::tamper};
use threads::{ImportedEvent, NewFork, StrategyRegistry, rename_turns};

/// Changes the contents of a thread. The only bytes at hand are hashes.
const CHANGE: &str = "UPDATE attachments SET content = \
    (SELECT hash FROM events WHERE events.thread_id = attachments.thread_id AND seq = 0) WHERE thread_id = $1";

/// Builds a turn with a file.
fn with_file(thread: Option<ThreadId>, text: &str) -> (NewTurn, String) {
    let content = AttachmentContent::new(text.as_bytes().to_vec());
    let sha256 = content.sha256.clone();
    let attachment = Attachment {
        kind: AttachmentKind::File,
        media_type: "text/plain".to_owned(),
        name: "a.txt".to_owned(),
        sha256: sha256.clone(),
        bytes: text.len() as u64,
    };
    let new = new_turn("look");
    let messages = vec![Message { attachments: vec![attachment], ..Message::user("look") }];
    let opening = thread.map_or(new.thread.clone(), Opening::Existing);
    (NewTurn { thread: opening, messages, attachments: vec![content], ..new }, sha256)
}

async fn submitted(store: &Store, thread: Option<ThreadId>, text: &str) -> Result<(Turn, String), Error> {
    let (new, sha256) = with_file(thread, text);
    Ok((store.submit(new).await?.into_turn(), sha256))
}

pub(super) async fn count_with_files_and_logs(store: &Store) -> Result<(), Error> {
    assert_eq!(store.stored_bytes("default").await?, 0);
    let (turn, _) = submitted(store, None, "one").await?;
    let with_attachment = store.stored_bytes("default").await?;
    store.append(&store.head(turn.thread).await?, &[turn_started(&turn)], None).await?;
    let with_turn = store.stored_bytes("default").await?;
    let payload = |event: &Event| serde_json::to_string(event).unwrap().len() as u64;
    let log: u64 = log_of(store, turn.thread).await?.iter().map(payload).sum();
    assert!(with_attachment < with_turn && with_turn <= log + 3, "{with_attachment} {with_turn} {log}");
    let file = super::batches::file(store, "default").await?;
    let size = store.file(file).await?.unwrap().bytes;
    assert_eq!(store.stored_bytes("default").await?, with_turn + size);
    assert_eq!(store.stored_bytes("another").await?, 0, "each tenant stores its own");
    assert!(store.delete_file(file, "test").await?);
    assert_eq!(store.stored_bytes("default").await?, with_turn);
    Ok(())
}

pub(super) async fn belong_to_their_thread(store: &Store) -> Result<(), Error> {
    let (turn, first) = submitted(store, None, "one").await?;
    let thread = turn.thread;
    assert_eq!(turn.messages[0].attachments[0].sha256, first);
    let (_, second) = submitted(store, Some(thread), "two").await?;
    let (_, again) = submitted(store, Some(thread), "one").await?;
    assert_eq!(again, first, "a content that is there already is stored once");
    assert_eq!(store.attachment(thread, &first).await?.as_deref(), Some(&b"one"[..]));
    assert_eq!(store.attachment(thread, &second).await?.as_deref(), Some(&b"two"[..]));
    let other = store.submit(new_turn("hello")).await?.into_turn();
    assert_eq!(store.attachment(other.thread, &first).await?, None, "another thread does not have it");

    let many = vec![with_file(None, "one").0, with_file(None, "three").0];
    for outcome in store.submit_many(many).await? {
        let turn = outcome?.into_turn();
        let sha256 = &turn.messages[0].attachments[0].sha256;
        assert!(store.attachment(turn.thread, sha256).await?.is_some());
    }

    let start = store.head(thread).await?;
    store.append(&start, &[turn_started(&turn)], None).await?;
    let strategies = StrategyRegistry::new(strategies::all());
    let new = NewFork { source: thread, at: 1, by: "eve".to_owned(), ..fork_of(thread) };
    let fork = threads::fork(store, &strategies, new).await?.thread();
    assert_eq!(store.attachment(fork, &first).await?.as_deref(), Some(&b"one"[..]));

    let mut log = log_of(store, thread).await?;
    rename_turns(&mut log);
    let imported = uuid::Uuid::now_v7();
    let content = vec![AttachmentContent::new(b"one".to_vec())];
    threads::import_thread(store, &strategies, imported, log.iter().map(foreign).collect(), content).await?;
    assert_eq!(store.attachment(imported, &first).await?.as_deref(), Some(&b"one"[..]));

    store.cancel_queued(other.id).await?;
    store.delete_thread(other.thread, "eve").await?;
    for gone in [imported, fork] {
        tamper::execute(store, "UPDATE threads SET status = 'idle' WHERE id = $1", gone).await?;
        assert!(store.delete_thread(gone, "eve").await?.is_some(), "nothing keeps it");
        assert_eq!(store.attachment(gone, &first).await?, None, "its attachments are deleted with it");
    }
    assert!(store.attachment(thread, &first).await?.is_some(), "those of the source stay");
    Ok(())
}

pub(super) async fn are_verified(store: &Store) -> Result<(), Error> {
    let (turn, sha256) = submitted(store, None, "one").await?;
    let start = store.head(turn.thread).await?;
    store.append(&start, &[turn_started(&turn)], None).await?;
    let only = round(Some(turn.thread));
    assert_eq!(store.verify(&only).await?.findings, []);
    for (sql, what) in
        [(CHANGE, "was changed"), ("DELETE FROM attachments WHERE thread_id = $1", "is missing")]
    {
        tamper::execute(store, sql, turn.thread).await?;
        let found = store.verify(&only).await?.findings;
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.seq, finding.wrong), (1, Wrong::Attachment));
        assert!(finding.what.contains(&sha256) && finding.what.contains(what), "{finding:?}");
    }
    Ok(())
}

fn fork_of(source: ThreadId) -> NewFork {
    NewFork {
        source,
        at: 0,
        config: serde_json::Value::Null,
        budget: None,
        prompts: std::collections::BTreeMap::new(),
        facts: Vec::new(),
        input: None,
        by: String::new(),
        idempotency: None,
        caller: None,
    }
}

fn foreign(event: &Event) -> ImportedEvent {
    ImportedEvent { at: 7, kind: event.kind().to_owned(), payload: event.payload().unwrap() }
}

on_databases! {
    distributed:
    belong_to_their_thread,
    count_with_files_and_logs,
    are_verified,
}
