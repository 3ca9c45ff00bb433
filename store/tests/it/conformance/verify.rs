//! Verification finds every change to stored events and names the first event that does not fit.

use super::{decided, opened, tamper};
use store::{Error, Head, Store, Stored, ThreadId, ThreadScan, Verified, Wrong, integrity::hash_chain};

/// Scans one thread, or all of them with some concurrency.
pub(super) fn round(thread: Option<ThreadId>) -> ThreadScan {
    thread.map_or_else(|| ThreadScan::of_all(3), |thread| ThreadScan::of(thread, 3))
}

/// Expected finding of a damaged log: event number, kind, and number of broken links.
type Found = Option<(u64, Wrong, u64)>;

pub(super) async fn finds_what_was_done(store: &Store) -> Result<(), Error> {
    use Wrong::{Broken, Missing};
    let cases: [(&[&str], Found); 12] = [
        (&[], None),
        (&["UPDATE events SET at = at + 1 WHERE seq = 3 AND thread_id = $1"], Some((3, Broken, 1))),
        (&["UPDATE events SET kind = 'failed' WHERE seq IN (2, 9) AND thread_id = $1"], Some((2, Broken, 2))),
        // A changed hash breaks its own link and the next one.
        (
            &["UPDATE events SET hash = (SELECT hash FROM events WHERE seq = 7 AND thread_id = $1) \
               WHERE seq = 4 AND thread_id = $1"],
            Some((4, Broken, 2)),
        ),
        (&["DELETE FROM events WHERE seq IN (0, 4, 5) AND thread_id = $1"], Some((0, Broken, 2))),
        (&["DELETE FROM events WHERE thread_id = $1"], Some((0, Missing, 0))),
        (
            &[
                "UPDATE events SET seq = 99 WHERE seq = 3 AND thread_id = $1",
                "UPDATE events SET seq = 3 WHERE seq = 4 AND thread_id = $1",
                "UPDATE events SET seq = 4 WHERE seq = 99 AND thread_id = $1",
            ],
            Some((3, Broken, 3)),
        ),
        (
            &[
                "UPDATE events SET seq = 99 WHERE seq = 2 AND thread_id = $1",
                "UPDATE events SET seq = 2 WHERE seq = 6 AND thread_id = $1",
                "UPDATE events SET seq = 6 WHERE seq = 99 AND thread_id = $1",
            ],
            Some((2, Broken, 4)),
        ),
        // An event is deleted and the later ones are renumbered: none of them fits its number.
        (
            &[
                "DELETE FROM events WHERE seq = 3 AND thread_id = $1",
                "UPDATE events SET seq = -seq WHERE seq > 3 AND thread_id = $1",
                "UPDATE events SET seq = -seq - 1 WHERE seq < 0 AND thread_id = $1",
            ],
            Some((3, Broken, 7)),
        ),
        // Inserted events: one with a hash that fits nothing, and one with the hash of another event.
        (
            &[
                "UPDATE events SET seq = -seq WHERE seq > 4 AND thread_id = $1",
                "UPDATE events SET seq = -seq + 1 WHERE seq < 0 AND thread_id = $1",
                "INSERT INTO events (thread_id, seq, at, kind, payload, codec, hash) \
                 SELECT thread_id, 5, at + 1, kind, payload, codec, hash FROM events WHERE seq = 9 AND thread_id = $1",
            ],
            Some((5, Broken, 7)),
        ),
        (
            &[
                "UPDATE events SET seq = -seq WHERE seq > 4 AND thread_id = $1",
                "UPDATE events SET seq = -seq + 1 WHERE seq < 0 AND thread_id = $1",
                "INSERT INTO events (thread_id, seq, at, kind, payload, codec, hash) \
                 SELECT thread_id, 5, at, kind, payload, codec, hash FROM events WHERE seq = 6 AND thread_id = $1",
            ],
            Some((6, Broken, 6)),
        ),
        (
            &["DELETE FROM events WHERE thread_id = $1", "DELETE FROM threads WHERE id = $1"],
            Some((0, Missing, 0)),
        ),
    ];
    let mut damaged = Vec::new();
    for (statements, expected) in cases {
        let (start, _) = opened(store).await?;
        let all: Vec<_> = (1..=10).map(decided).collect();
        store.append(&start, &all, None).await?;
        for sql in statements {
            tamper::execute(store, sql, start.thread).await?;
        }
        let verified = store.verify(&round(Some(start.thread))).await?;
        let found: Vec<_> = verified.findings.iter().map(|finding| (finding.seq, finding.wrong)).collect();
        let first: Vec<_> = expected.iter().map(|finding| (finding.0, finding.1)).collect();
        assert_eq!(found, first, "{statements:?}: {verified:?}");
        assert_eq!(verified.found, first.len() as u64);
        if let Some((_, _, links @ 2..)) = expected {
            let counted = format!("; {links} links of this chain are broken");
            assert!(verified.findings[0].what.ends_with(&counted), "{statements:?}: {verified:?}");
        }
        damaged.extend(verified.findings);
    }
    let all = store.verify(&round(None)).await?;
    for finding in damaged {
        assert!(all.findings.contains(&finding), "{finding:?} is not among {all:?}");
    }
    Ok(())
}

pub(super) async fn finds_a_skipped_number(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    let (kind, payload) = ("decided".to_owned(), "{}".to_owned());
    let hash = hash_chain::link(&start.hash, 2, 7, &kind, &payload);
    let event = Stored { seq: 2, at: 7, kind, codec: "json".to_owned(), payload, hash };
    tamper::insert_event(store, start.thread, &event).await?;
    let verified = store.verify(&round(Some(start.thread))).await?;
    let found: Vec<_> = verified.findings.iter().map(|finding| (finding.seq, finding.wrong)).collect();
    assert_eq!(found, [(1, Wrong::Broken)], "{verified:?}");
    Ok(())
}

pub(super) async fn finds_what_it_cannot_read(store: &Store) -> Result<(), Error> {
    for (kind, payload, codec) in
        [("dreamt", "{}", "json"), ("decided", "{\"node\":7}", "json"), ("decided", "{}", "zstd")]
    {
        let (start, _) = opened(store).await?;
        // Written as by a newer version of turnfold: the chain is valid.
        let hash = hash_chain::link(&start.hash, 1, 7, kind, payload);
        let event = Stored {
            seq: 1,
            at: 7,
            kind: kind.to_owned(),
            codec: codec.to_owned(),
            payload: payload.to_owned(),
            hash,
        };
        tamper::insert_event(store, start.thread, &event).await?;
        let head = Head { seq: 2, hash, ..start };
        store.append(&head, &[decided("after")], None).await?;
        let verified = store.verify(&round(Some(start.thread))).await?;
        let found: Vec<_> = verified.findings.iter().map(|finding| (finding.seq, finding.wrong)).collect();
        assert_eq!(found, [(1, Wrong::Unreadable)], "{verified:?}");
    }
    Ok(())
}

pub(super) async fn counts_what_it_saw(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    let long = "x".repeat(1 << 20);
    let all: Vec<_> = (0..12).map(|_| decided(&long)).collect();
    store.append(&start, &all, None).await?;
    let verified = store.verify(&round(Some(start.thread))).await?;
    let Verified { threads, events, bytes, found, findings, .. } = verified;
    assert_eq!((threads, events, found, findings.len()), (1, 13, 0, 0));
    assert!(bytes > 12 << 20, "{bytes} bytes in pages of a few megabytes");

    let everything = store.verify(&round(None)).await?;
    assert_eq!(everything.events, store.counts().await?.events, "each event is seen once");
    let nobody = uuid::Uuid::now_v7();
    let unknown = store.verify(&round(Some(nobody))).await;
    assert!(matches!(unknown, Err(Error::UnknownThread(id)) if id == nobody), "{unknown:?}");
    Ok(())
}

pub(super) async fn sees_the_thread_of_the_nil_id(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    store.append(&start, &[decided("one"), decided("two")], None).await?;
    let (nil, log) = (uuid::Uuid::nil(), store.stored(start.thread, 0, 10).await?);
    tamper::replace_log(store, nil, &log).await?;
    let verified = store.verify(&round(None)).await?;
    assert_eq!((verified.threads, verified.events, verified.found), (2, 6, 0), "{verified:?}");

    tamper::execute(store, "UPDATE events SET at = at + 1 WHERE seq = 1 AND thread_id = $1", nil).await?;
    for scan in [None, Some(nil)] {
        let verified = store.verify(&round(scan)).await?;
        let found: Vec<_> = verified.findings.iter().map(|it| (it.thread, it.seq, it.wrong)).collect();
        assert_eq!(found, [(nil, 1, Wrong::Broken)], "{verified:?}");
    }
    Ok(())
}

pub(super) async fn sees_an_event_with_a_negative_number(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    let insert = "INSERT INTO events (thread_id, seq, at, kind, payload, codec, hash) \
                  SELECT thread_id, -7, at, kind, payload, codec, hash FROM events WHERE thread_id = $1";
    tamper::execute(store, insert, start.thread).await?;
    for scan in [None, Some(start.thread)] {
        let verified = store.verify(&round(scan)).await?;
        assert_eq!((verified.events, verified.found), (2, 1), "{verified:?}");
    }
    Ok(())
}

on_databases! {
    distributed:
    sees_the_thread_of_the_nil_id,
    sees_an_event_with_a_negative_number,
    finds_what_was_done,
    finds_a_skipped_number,
    finds_what_it_cannot_read,
    counts_what_it_saw,
}
