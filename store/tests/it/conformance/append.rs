//! The first writer of an event number wins; nothing of any other append to that number is kept.

use std::{sync::Arc, time::Duration};
use tokio::sync::Barrier;
use uuid::Uuid;

use super::{decided, log_of, opened, tamper, turn_started};
use queue::{MemoryNotifications, MemoryQueue};
use shared::{ThreadStatus, TurnStatus};
use store::{Error, Head, ReadModelUpdate, Store, Stored, TurnUpdate, testing::ROWS_MAX};
use threads::{Backends, StrategyRegistry, ThreadLog};

/// Number of races between two writers.
const ROUNDS: usize = 20;

/// A log with missing events is invalid, for example after a database has lost commits that it had acknowledged.
pub(super) async fn a_gap_is_damage(store: &Store) -> Result<(), Error> {
    let (head, turn) = opened(store).await?;
    let head = store.append(&head, &[turn_started(&turn)], None).await?;
    let (queue, notifications) =
        (Arc::new(MemoryQueue::new(Duration::from_secs(1))), Arc::new(MemoryNotifications::new()));
    let parts = Backends { store: store.clone(), queue, notifications };
    let known = StrategyRegistry::new(strategies::all());
    let mut log = ThreadLog::open(&parts, &known, head.thread).await?;
    store.append(&head, &[decided("a"), decided("b")], None).await?;
    tamper::execute(store, "DELETE FROM events WHERE seq = 2 AND thread_id = $1", head.thread).await?;
    for damaged in [log.refresh(&parts).await, ThreadLog::open(&parts, &known, head.thread).await.map(drop)] {
        let Err(Error::Corrupt { what, .. }) = damaged else { panic!("{damaged:?}") };
        assert_eq!(what, "event 3 was found in place of event 2: events are missing");
    }
    Ok(())
}

pub(super) async fn is_all_or_nothing(store: &Store) -> Result<(), Error> {
    let three = [decided("a"), decided("b"), decided("c")];
    let busy = ReadModelUpdate { status: ThreadStatus::Busy, turn: None };
    for mark in [None, Some(&busy)] {
        let (start, _) = opened(store).await?;
        let head = store.append(&start, &[decided("first")], None).await?;
        let before = (log_of(store, start.thread).await?, store.thread(start.thread).await?);

        let first_taken = store.append(&start, &three, mark).await;
        assert_stale(first_taken, &start);
        assert_eq!((log_of(store, start.thread).await?, store.thread(start.thread).await?), before);

        // Leaves a gap, which no turnfold writer does, so that only the last of three numbers is taken.
        leap(store, &head, 2).await?;
        let last_taken = store.append(&head, &three, mark).await;
        assert_stale(last_taken, &head);
        let kept: Vec<u64> = store.stored(start.thread, 0, 9).await?.iter().map(|event| event.seq).collect();
        assert_eq!(kept, [0, 1, 4], "nothing of a batch is kept when its last number is taken");
        assert_eq!(store.thread(start.thread).await?, before.1);

        unleap(store, &head, 2).await?;
        let end = store.append(&head, &three, mark).await?;
        assert_eq!(end.seq, head.seq + 3, "the loser can go on once the number is free");
        let status = store.thread(start.thread).await?.map(|thread| thread.status);
        assert_eq!(status, Some(if mark.is_some() { ThreadStatus::Busy } else { ThreadStatus::Idle }));
    }
    Ok(())
}

/// More events than fit into one statement.
pub(super) async fn is_all_or_nothing_however_long(store: &Store) -> Result<(), Error> {
    let many: Vec<_> = (0..ROWS_MAX + 5).map(|n| decided(n.to_string())).collect();
    let last = many.len() as i64 - 1;
    let busy = ReadModelUpdate { status: ThreadStatus::Busy, turn: None };
    for mark in [None, Some(&busy)] {
        let (head, _) = opened(store).await?;
        leap(store, &head, last).await?;
        assert_stale(store.append(&head, &many, mark).await, &head);
        assert_eq!(store.stored(head.thread, 0, 9).await?.len() as u64, head.seq + 1, "nothing is kept");
        unleap(store, &head, last).await?;
        let end = store.append(&head, &many, mark).await?;
        assert_eq!(end.seq, number(&head, last + 1));
        assert_eq!(log_of(store, head.thread).await?[1..], many);
    }
    Ok(())
}

pub(super) async fn has_one_winner(store: &Store) -> Result<(), Error> {
    let (mut head, _) = opened(store).await?;
    let mut expected = log_of(store, head.thread).await?;
    for round in 0..ROUNDS {
        let barrier = Arc::new(Barrier::new(2));
        let racers = ["one", "two"].map(|name| {
            let (store, barrier) = (store.clone(), Arc::clone(&barrier));
            // The batches differ in length: the loser must not keep numbers beyond those of the winner.
            let length = if (name == "one") == (round % 2 == 0) { 1 } else { 3 };
            let batch: Vec<_> = (0..length).map(|n| decided(format!("{round} {name} {n}"))).collect();
            let mark = (round % 3 == 0).then_some(ReadModelUpdate { status: ThreadStatus::Busy, turn: None });
            tokio::spawn(async move {
                barrier.wait().await;
                (store.append(&head, &batch, mark.as_ref()).await, batch)
            })
        });
        let mut won = Vec::new();
        for racer in racers {
            match racer.await.expect("a racer panicked") {
                (Ok(end), batch) => won.push((end, batch)),
                (lost, _) => assert_stale(lost, &head),
            }
        }
        assert_eq!(won.len(), 1, "round {round} has one winner");
        for (end, batch) in won {
            expected.extend(batch);
            head = end;
        }
        assert_eq!(log_of(store, head.thread).await?, expected, "round {round}");
    }
    assert_eq!(store.head(head.thread).await?, head);
    Ok(())
}

pub(super) async fn knows_what_it_does_not_know(store: &Store) -> Result<(), Error> {
    let nobody = Uuid::now_v7();
    let unknown = [
        store.head(nobody).await.map(drop),
        store.load(nobody).await.map(drop),
        store.verify_chain(nobody).await.map(drop),
    ];
    for it in unknown {
        assert!(matches!(it, Err(Error::UnknownThread(id)) if id == nobody), "{it:?}");
    }
    assert_eq!(store.thread(nobody).await?, None);
    assert_eq!(store.turn(nobody).await?, None);
    assert_eq!(store.next_queued(nobody).await?, None);

    let (head, _) = opened(store).await?;
    assert_eq!(store.append(&head, &[], None).await?, head, "nothing to append is nothing to do");
    assert_eq!(store.head(head.thread).await?, head);

    let mark = ReadModelUpdate { status: ThreadStatus::Busy, turn: None };
    let lost = store.append(&Head::start(nobody), &[decided(1)], Some(&mark)).await;
    assert!(matches!(lost, Err(Error::UnknownThread(id)) if id == nobody), "{lost:?}");
    assert_eq!(store.stored(nobody, 0, 9).await?, [], "an append to no thread leaves nothing behind");

    let (head, turn) = opened(store).await?;
    tamper::execute(store, "DELETE FROM threads WHERE id = $1", head.thread).await?;
    let running = TurnUpdate { turn: turn.id, status: TurnStatus::Running, error: None, outcome: None };
    let mark = ReadModelUpdate { status: ThreadStatus::Busy, turn: Some(running) };
    let lost = store.append(&head, &[decided(1)], Some(&mark)).await;
    assert!(matches!(lost, Err(Error::UnknownThread(id)) if id == head.thread), "{lost:?}");
    assert_eq!(store.stored(head.thread, head.seq, 9).await?, [], "nor one to a turn of no thread");
    Ok(())
}

fn assert_stale<T: std::fmt::Debug>(outcome: Result<T, Error>, head: &Head) {
    let stale =
        matches!(outcome, Err(Error::Stale { thread, seq }) if (thread, seq) == (head.thread, head.seq));
    assert!(stale, "expected to be stale at {}: {outcome:?}", head.seq);
}

/// Inserts an event that leaves a gap of `by` numbers.
async fn leap(store: &Store, head: &Head, by: i64) -> Result<(), Error> {
    let event = Stored {
        seq: number(head, by),
        at: 0,
        kind: "retried".to_owned(),
        codec: "json".to_owned(),
        payload: "{}".to_owned(),
        hash: [0; 32],
    };
    tamper::insert_event(store, head.thread, &event).await
}

async fn unleap(store: &Store, head: &Head, by: i64) -> Result<(), Error> {
    let seq = i64::try_from(number(head, by)).expect("a small number");
    let sql = "DELETE FROM events WHERE thread_id = $1 AND seq = $2";
    tamper::execute_with(store, sql, [head.thread.into(), seq.into()]).await.map(drop)
}

fn number(head: &Head, by: i64) -> u64 {
    head.seq.checked_add_signed(by).expect("a small number")
}

on_databases! {
    distributed:
    a_gap_is_damage,
    is_all_or_nothing,
    is_all_or_nothing_however_long,
    has_one_winner,
    knows_what_it_does_not_know,
}
