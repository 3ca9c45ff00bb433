//! Stored events are read back byte for byte, and changes made outside turnfold are detected.

use sea_orm::Value;
use shared::{Event, Message};

use super::{decided, log_of, opened, tamper};
use queue::clock;
use store::{Chain, Error, Head, Recorded, Store, Stored, integrity::hash_chain};

pub(super) async fn come_back_exactly(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    let odd = "\"quoted\" \\ back\\u0000slash \0 \u{1} \u{1f} \r\n\t ü 🦀 \u{2028} \u{feff} ' $1 ?1 {} NULL";
    let learned = serde_json::json!({ "n": [0.1, 1e300, -0.0, 9_007_199_254_740_993_u64, i64::MIN, null, ""], odd: odd });
    let mut event = decided(odd);
    if let Event::Decided(it) = &mut event {
        it.messages = vec![Message::assistant(odd), Message::assistant("x".repeat(200_000))];
        it.facts = vec![learned];
    }
    let batch = vec![event, decided(1), decided("")];

    let before = clock::now();
    let end = store.append(&start, &batch, None).await?;
    let after = clock::now();

    let (head, log) = store.load(start.thread).await?;
    assert_eq!((head, store.head(start.thread).await?), (end, end), "both ways to ask return the same end");
    assert_eq!(end.seq, start.seq + 3);
    let events: Vec<Event> = log.iter().skip(1).map(|recorded| recorded.event.clone()).collect();
    assert_eq!(events, batch);

    let stored = store.stored(start.thread, start.seq, 10).await?;
    let mut hash = start.hash;
    for (row, (seq, event)) in stored.iter().zip((start.seq..).zip(&batch)) {
        let payload = event.payload().expect("it was appended");
        hash = hash_chain::link(&hash, seq, row.at, event.kind(), &payload);
        let (kind, codec) = (event.kind().to_owned(), "json".to_owned());
        assert_eq!(row, &Stored { seq, at: row.at, kind, codec, payload, hash });
        assert!((before..=after).contains(&row.at), "{} is not between {before} and {after}", row.at);
    }
    assert_eq!((stored.len(), hash), (3, end.hash));
    Ok(())
}

/// An event that no parser reads again is refused before it is written, and the log stays readable.
pub(super) async fn nested_too_deep_are_refused(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    let nested = |levels: usize| {
        let mut event = decided("deep");
        if let Event::Decided(it) = &mut event {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            it.facts = vec![serde_json::from_str(&text).expect("not too deep by itself")];
        }
        event
    };
    let refused = store.append(&start, &[nested(126)], None).await.expect_err("nobody could read it");
    assert!(
        matches!(&refused, Error::ContentRejected(reason) if reason.contains("nested so deep")),
        "{refused:?}"
    );
    store.append(&start, &[nested(shared::JSON_DEPTH_MAX)], None).await?;
    assert_eq!(log_of(store, start.thread).await?.len(), 2);
    Ok(())
}

pub(super) async fn of_the_future_are_refused(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    store.append(&start, &[decided(1), decided(2)], None).await?;
    change(store, &start, "kind", "dreamt").await?;
    for refused in
        [store.load(start.thread).await.map(drop), store.events(start.thread, None, 9).await.map(drop)]
    {
        let refused = refused.expect_err("an unknown kind was read");
        assert!(
            refused.to_string().contains("\"dreamt\"")
                && refused.to_string().contains("newer version of turnfold")
        );
        assert!(matches!(refused, Error::Unreadable { thread, seq: 1, .. } if thread == start.thread));
    }
    assert_eq!(store.stored(start.thread, 1, 1).await?[0].kind, "dreamt", "an auditor can still look");

    change(store, &start, "kind", "decided").await?;
    change(store, &start, "codec", "zstd").await?;
    let refused = store.load(start.thread).await.expect_err("an unknown codec was read");
    assert!(matches!(&refused, Error::TooNew { what } if what.contains("zstd")), "{refused}");
    Ok(())
}

pub(super) async fn that_change_break_the_chain(store: &Store) -> Result<(), Error> {
    let long: Vec<Event> = (0..1_100).map(decided).collect();
    let (start, _) = opened(store).await?;
    let end = store.append(&start, &long, None).await?;
    let intact = Chain::Intact { events: 1_101, head: end.hash };
    assert_eq!(store.verify_chain(start.thread).await?, intact);

    let original = store.stored(start.thread, 1, 1).await?.remove(0);
    let tampered: [(&str, Value, Value); 4] = [
        ("payload", Value::from(original.payload.replace("\"0\"", "\"1\"")), original.payload.into()),
        ("at", (original.at + 1).into(), original.at.into()),
        ("kind", "failed".into(), original.kind.into()),
        ("hash", vec![7_u8; 32].into(), original.hash.to_vec().into()),
    ];
    for (column, wrong, right) in tampered {
        change(store, &start, column, wrong).await?;
        let found = store.verify_chain(start.thread).await?;
        assert!(matches!(found, Chain::Broken { seq: 1, .. }), "{column}: {found:?}");
        change(store, &start, column, right).await?;
        assert_eq!(store.verify_chain(start.thread).await?, intact, "{column}");
    }

    tamper::execute(store, "DELETE FROM events WHERE seq = 700 AND thread_id = $1", start.thread).await?;
    let found = store.verify_chain(start.thread).await?;
    assert!(matches!(&found, Chain::Broken { seq: 700, what } if what.contains("missing")), "{found:?}");
    Ok(())
}

pub(super) async fn are_paged(store: &Store) -> Result<(), Error> {
    let (start, _) = opened(store).await?;
    let end = store.append(&start, &[decided(1), decided(2), decided(3)], None).await?;
    let log = log_of(store, start.thread).await?;
    let seqs = |page: &[Recorded]| page.iter().map(|recorded| recorded.seq).collect::<Vec<_>>();
    assert_eq!(seqs(&store.events(start.thread, None, 2).await?), [0, 1]);
    assert_eq!(seqs(&store.events(start.thread, Some(1), 9).await?), [2, 3]);
    assert_eq!(store.events(start.thread, Some(1), 1).await?[0].event, log[2]);
    assert_eq!(store.events(start.thread, Some(3), 9).await?, []);
    assert_eq!(store.events(start.thread, Some(u64::MAX), 9).await?, []);
    assert_eq!(store.stored(start.thread, 3, 9).await?[0].hash, end.hash);
    assert_eq!(store.stored(start.thread, end.seq, 9).await?, []);
    assert_eq!(store.stored(start.thread, 0, u64::MAX).await?.len(), 4, "no limit is too high");
    Ok(())
}

/// Concurrent readers of the same or of different logs each receive exactly the events they requested.
pub(super) async fn are_read_together(store: &Store) -> Result<(), Error> {
    let (one, two) = (opened(store).await?.0, opened(store).await?.0);
    let middle = store.append(&one, &[decided(1), decided(2)], None).await?;
    let end = store.append(&middle, &[decided(3)], None).await?;
    let asked = [Head::start(one.thread), one, Head::start(two.thread), middle, end, two].repeat(20);
    let logs = futures::future::join_all(asked.iter().map(|from| store.load_since(from))).await;
    for (from, log) in asked.iter().zip(logs) {
        let (to, log) = log?;
        let last = if from.thread == one.thread { end } else { two };
        let seqs: Vec<u64> = log.iter().map(|recorded| recorded.seq).collect();
        assert_eq!((to, seqs), (last, (from.seq..last.seq).collect()), "from {} on", from.seq);
    }
    Ok(())
}

/// Changes one column of the event at `head`.
async fn change(store: &Store, head: &Head, column: &str, to: impl Into<Value>) -> Result<(), Error> {
    let seq = i64::try_from(head.seq).expect("a small number");
    let sql = format!("UPDATE events SET {column} = $1 WHERE thread_id = $2 AND seq = $3");
    let changed = tamper::execute_with(store, &sql, [to.into(), head.thread.into(), seq.into()]).await?;
    assert_eq!(changed, 1);
    Ok(())
}

on_databases! {
    distributed:
    come_back_exactly,
    nested_too_deep_are_refused,
    of_the_future_are_refused,
    that_change_break_the_chain,
    are_paged,
    are_read_together,
}
