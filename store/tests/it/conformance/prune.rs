//! Threads that were idle for long are deleted, needed ones are kept, and a suspended writer cannot bring a deleted
//! thread back.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::{decided, new_turn, queued, turn_started};
use shared::{ThreadStatus, TurnStatus};
use store::{
    DryRun, Error, Head, NewTurn, Opening, Prune, Pruned, ReadModelUpdate, Store, ThreadId, TurnFilter,
    TurnUpdate,
};

/// Number of races between deletion and use of a thread.
const ROUNDS: usize = 20;

const FAR: i64 = i64::MAX;

pub(super) async fn deletes_what_rests(store: &Store) -> Result<(), Error> {
    let name = "prunable";
    let idle = at_rest(store, name, ThreadStatus::Idle).await?;
    let failed = at_rest(store, name, ThreadStatus::Error).await?;
    let held = at_rest(store, name, ThreadStatus::Idle).await?;
    let waited_for = at_rest(store, name, ThreadStatus::Idle).await?;
    let turn = queued(store, waited_for.thread, "more").await?;
    let busy = at_rest(store, name, ThreadStatus::Busy).await?;
    let asking = at_rest(store, name, ThreadStatus::Interrupted).await?;
    let other = at_rest(store, "another", ThreadStatus::Idle).await?;
    let hold = store.hold(held.thread, "a lawsuit", "eve").await?;
    assert_eq!(store.hold(held.thread, "another", "bob").await?, hold, "the first hold stands");
    assert_eq!(store.holds().await?, std::slice::from_ref(&hold));

    let touched = store.thread(idle.thread).await?.expect("it is there").updated_at;
    assert_eq!(
        prune(store, name, touched, DryRun::No).await?,
        Pruned::default(),
        "what was touched since stays"
    );
    let two = Pruned { threads: 2, turns: 2, events: 6, ..Pruned::default() };
    assert_eq!(prune(store, name, FAR, DryRun::Yes).await?, two);
    assert_eq!(prune(store, name, FAR, DryRun::No).await?, two);
    assert_eq!(prune(store, name, FAR, DryRun::No).await?, Pruned::default());
    for gone in [idle, failed] {
        is_gone(store, gone).await?;
    }
    for stays in [held, waited_for, busy, asking, other] {
        assert_eq!(store.head(stays.thread).await?, stays);
        assert!(store.thread(stays.thread).await?.is_some());
    }

    store.cancel_queued(turn.id).await?;
    assert_eq!(store.release(held.thread, "test").await?, Some(hold));
    assert_eq!(store.release(held.thread, "test").await?, None);
    let three = Pruned { threads: 2, turns: 3, events: 6, ..Pruned::default() };
    assert_eq!(prune(store, name, FAR, DryRun::No).await?, three);
    is_gone(store, held).await
}

/// Checks that nothing is left of a thread, and that a writer that was suspended during the deletion cannot restore it,
/// because the first append of a turn updates the thread's row.
async fn is_gone(store: &Store, head: Head) -> Result<(), Error> {
    let thread = head.thread;
    let idle = ReadModelUpdate { status: ThreadStatus::Idle, turn: None };
    let before = Head { seq: head.seq - 1, ..head };
    for slept in [head, before, Head::start(thread)] {
        let refused = store.append(&slept, &[decided("late")], Some(&idle)).await;
        assert!(matches!(refused, Err(Error::UnknownThread(id)) if id == thread), "{refused:?}");
    }
    // In a batch with other steps, only this step is rejected.
    let other = at_rest(store, "another", ThreadStatus::Busy).await?;
    let (late, busy) = ([decided("late")], ReadModelUpdate { status: ThreadStatus::Busy, turn: None });
    let (refused, kept) =
        tokio::join!(store.append(&head, &late, Some(&idle)), store.append(&other, &late, Some(&busy)));
    assert!(matches!(refused, Err(Error::UnknownThread(_))) && kept.is_ok(), "{refused:?} {kept:?}");

    let refused = queued(store, thread, "late").await;
    assert!(matches!(refused, Err(Error::UnknownThread(id)) if id == thread), "{refused:?}");
    let refused = store.hold(thread, "late", "eve").await;
    assert!(matches!(refused, Err(Error::UnknownThread(id)) if id == thread), "{refused:?}");
    assert_eq!(store.stored(thread, 0, 9).await?, []);
    assert_eq!(store.thread(thread).await?, None);
    let of_thread = TurnFilter { thread: Some(thread), ..TurnFilter::default() };
    assert_eq!(store.turns(of_thread, None, 9).await?, []);
    Ok(())
}

pub(super) async fn races_with_new_turns_and_holds(store: &Store) -> Result<(), Error> {
    for round in 0..ROUNDS {
        let name = "raced";
        let head = at_rest(store, name, ThreadStatus::Idle).await?;
        let barrier = Arc::new(Barrier::new(2));
        let pruning = {
            let (store, barrier) = (store.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                prune(&store, name, FAR, DryRun::No).await
            })
        };
        let wanting = {
            let (store, barrier) = (store.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                match round % 2 {
                    0 => queued(&store, head.thread, "more").await.map(drop),
                    _ => store.hold(head.thread, "wanted", "eve").await.map(drop),
                }
            })
        };
        let pruned = pruning.await.expect("a racer panicked")?;
        let wanted = wanting.await.expect("a racer panicked");
        match (pruned.threads, &wanted) {
            (0, Ok(())) => assert_eq!(store.head(head.thread).await?, head, "round {round}"),
            (1, Err(Error::UnknownThread(_))) => is_gone(store, head).await?,
            _ => panic!("round {round}: {pruned:?} and {wanted:?}"),
        }
        store.release(head.thread, "test").await?;
        for turn in
            store.turns(TurnFilter { thread: Some(head.thread), ..TurnFilter::default() }, None, 9).await?
        {
            store.cancel_queued(turn.id).await?;
        }
        prune(store, name, FAR, DryRun::No).await?;
    }
    Ok(())
}

async fn prune(store: &Store, strategy: &str, before: i64, dry_run: DryRun) -> Result<Pruned, Error> {
    let which = Prune { before, strategy: Some(strategy.to_owned()), by: "conformance".into() };
    store.prune(&which, dry_run, |_| ()).await
}

/// Returns the head of a thread that has started a turn and has this status.
pub(super) async fn at_rest(store: &Store, strategy: &str, status: ThreadStatus) -> Result<Head, Error> {
    let mut new: NewTurn = new_turn("hello");
    if let Opening::New(opened) = &mut new.thread {
        opened.strategy = strategy.to_owned();
    }
    let turn = store.submit(new).await?.into_turn();
    let how = match status {
        ThreadStatus::Idle => TurnStatus::Completed,
        ThreadStatus::Busy => TurnStatus::Running,
        ThreadStatus::Interrupted => TurnStatus::Interrupted,
        ThreadStatus::Error => TurnStatus::Failed,
    };
    let mark = ReadModelUpdate {
        status,
        turn: Some(TurnUpdate { turn: turn.id, status: how, error: None, outcome: None }),
    };
    let thread: ThreadId = turn.thread;
    store.append(&store.head(thread).await?, &[turn_started(&turn), decided(1)], Some(&mark)).await
}

on_databases! {
    distributed:
    deletes_what_rests,
    races_with_new_turns_and_holds,
}
