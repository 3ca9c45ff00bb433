//! A request to cancel a turn is obeyed before the next append, however fast the worker is.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use queue::{MemoryNotifications, MemoryQueue};
use shared::{Event, Next};
use tokio::sync::Notify;

use super::{decided, log_of, new_turn, opened, queued, turn_started};
use shared::{ThreadStatus, TurnStatus};
use store::{CancelRequest, Error, ReadModelUpdate, Store, Turn, TurnUpdate};
use threads::{Backends, StrategyRegistry, ThreadLog, obey_cancel_request};

/// Number of turns that are cancelled while their worker appends without a pause.
const ROUNDS: usize = 100;

/// Appends before a turn is cancelled.
const WARM_UP: usize = 5;

fn parts(store: &Store) -> (Backends, StrategyRegistry) {
    let queue = Arc::new(MemoryQueue::new(std::time::Duration::from_secs(30)));
    let parts = Backends { store: store.clone(), queue, notifications: Arc::new(MemoryNotifications::new()) };
    (parts, StrategyRegistry::new(strategies::all()))
}

fn update(status: ThreadStatus, turn: &Turn, turn_status: TurnStatus) -> ReadModelUpdate {
    let turn = TurnUpdate { turn: turn.id, status: turn_status, error: None, outcome: None };
    ReadModelUpdate { status, turn: Some(turn) }
}

fn request(turn: &Turn) -> CancelRequest {
    CancelRequest {
        thread: turn.thread,
        turn: turn.id,
        actor: "Ada".to_owned(),
        caller: None,
        rolled_back: false,
    }
}

pub(super) async fn only_the_cancelling_append_is_accepted(store: &Store) -> Result<(), Error> {
    let (head, turn) = opened(store).await?;
    let (other, _) = opened(store).await?;
    let running = update(ThreadStatus::Busy, &turn, TurnStatus::Running);
    let head = store.append(&head, &[turn_started(&turn)], Some(&running)).await?;
    store.request_cancel(&request(&turn)).await?;
    assert_eq!(store.cancel_request(turn.thread).await?, Some(request(&turn)));

    let interrupted = update(ThreadStatus::Interrupted, &turn, TurnStatus::Interrupted);
    for it in [None, Some(&interrupted)] {
        // Batched with an append of another thread, which is kept.
        let (ours, theirs) = ([decided(1)], [decided(2)]);
        let (refused, kept) =
            tokio::join!(store.append(&head, &ours, it), store.append(&other, &theirs, None));
        assert!(
            matches!(refused, Err(Error::CancelRequested { thread }) if thread == turn.thread),
            "{refused:?}"
        );
        assert!(it.is_some() || kept.is_ok(), "{kept:?}");
    }
    assert_eq!(store.head(turn.thread).await?, head);
    assert_eq!(store.turn(turn.id).await?.map(|turn| turn.status), Some(TurnStatus::Running));

    let cancelled = update(ThreadStatus::Idle, &turn, TurnStatus::Cancelled);
    let event: Event = shared::Cancelled { actor: "Ada".to_owned(), caller: None, rolled_back: false }.into();
    let late =
        store.append(&store::Head { seq: 1, ..head }, std::slice::from_ref(&event), Some(&cancelled)).await;
    assert!(matches!(late, Err(Error::Stale { .. })), "{late:?}");
    assert!(store.cancel_request(turn.thread).await?.is_some(), "a rejected append deletes no request");
    let head = store.append(&head, &[event], Some(&cancelled)).await?;
    assert_eq!(store.cancel_request(turn.thread).await?, None);
    assert_eq!(store.turn(turn.id).await?.map(|turn| turn.status), Some(TurnStatus::Cancelled));
    store.append(&head, &[decided(3)], None).await?;
    Ok(())
}

pub(super) async fn a_request_for_an_ended_turn_is_void(store: &Store) -> Result<(), Error> {
    let (parts, strategies) = parts(store);
    let turn = store.submit(new_turn("echo hi")).await?.into_turn();
    let mut log = ThreadLog::open(&parts, &strategies, turn.thread).await?;
    log.push(turn_started(&turn))?;
    while let Next::Append(event) = log.thread().next().unwrap() {
        log.push(event)?;
    }
    log.flush(&parts).await?;
    store.request_cancel(&request(&turn)).await?;
    assert!(!obey_cancel_request(&parts, &strategies, &request(&turn)).await?);
    assert_eq!(store.cancel_request(turn.thread).await?, None);

    // The API died before it could find that out, and the next turn is not the one to cancel.
    store.request_cancel(&request(&turn)).await?;
    let next = queued(store, turn.thread, "echo again").await?;
    let begin = async || {
        let mut log = ThreadLog::open(&parts, &strategies, turn.thread).await?;
        log.push(turn_started(&next))?;
        log.flush(&parts).await
    };
    assert!(matches!(begin().await, Err(Error::CancelRequested { .. })));
    assert!(!obey_cancel_request(&parts, &strategies, &request(&turn)).await?);
    begin().await?;
    assert_eq!(store.turn(next.id).await?.map(|turn| turn.status), Some(TurnStatus::Running));
    Ok(())
}

pub(super) async fn the_fastest_worker_obeys_before_its_next_append(store: &Store) -> Result<(), Error> {
    let (parts, strategies) = parts(store);
    let (warm, is_requested) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    for round in 0..ROUNDS {
        let turn = store.submit(new_turn(&"steps 10000; ".repeat(10))).await?.into_turn();
        is_requested.store(false, Ordering::SeqCst);
        let late = Arc::new(AtomicUsize::new(0));
        let worker = {
            let (parts, strategies, turn) = (parts.clone(), strategies.clone(), turn.clone());
            let (warm, is_requested, late) = (warm.clone(), is_requested.clone(), late.clone());
            tokio::spawn(async move {
                let mut log = ThreadLog::open(&parts, &strategies, turn.thread).await?;
                log.push(turn_started(&turn))?;
                for nth in 0.. {
                    let is_late = is_requested.load(Ordering::SeqCst);
                    log.flush(&parts).await?;
                    late.fetch_add(usize::from(is_late), Ordering::SeqCst);
                    if nth == WARM_UP {
                        warm.notify_one();
                    }
                    let Next::Append(event) = log.thread().next().unwrap() else { break };
                    log.push(event)?;
                }
                Ok(())
            })
        };
        warm.notified().await;
        store.request_cancel(&request(&turn)).await?;
        is_requested.store(true, Ordering::SeqCst);
        assert!(obey_cancel_request(&parts, &strategies, &request(&turn)).await?, "round {round}");
        let stopped: Result<(), Error> = worker.await.expect("the worker panicked");
        assert!(
            matches!(stopped, Err(Error::CancelRequested { .. } | Error::Stale { .. })),
            "round {round}: {stopped:?}"
        );
        assert_eq!(late.load(Ordering::SeqCst), 0, "round {round}: an append began after the request");
        let log = log_of(store, turn.thread).await?;
        let cancelled = |event: &&Event| matches!(event, Event::Cancelled(_));
        assert!(log.last().is_some_and(|event| cancelled(&event)), "round {round}: {:?}", log.last());
        assert_eq!(log.iter().filter(cancelled).count(), 1, "round {round}");
        assert_eq!(store.turn(turn.id).await?.map(|turn| turn.status), Some(TurnStatus::Cancelled));
    }
    Ok(())
}

on_databases! {
    distributed:
    only_the_cancelling_append_is_accepted,
    a_request_for_an_ended_turn_is_void,
    the_fastest_worker_obeys_before_its_next_append,
}
