//! Turns that are submitted while another one of their thread is running, in doubt or queued.

use shared::{Event, MultitaskStrategy, Policy, ThreadStatus, TurnStatus};
use store::{
    CancelRequest, Error, Idempotency, NewTurn, Opening, ReadModelUpdate, Store, Submitted, ThreadId, Turn,
    TurnId, TurnUpdate,
};

use super::{decided, new_turn, opened, queued, turn_started};

fn following(thread: ThreadId, multitask: MultitaskStrategy) -> NewTurn {
    NewTurn { thread: Opening::Existing(thread), multitask, ..new_turn("something else") }
}

fn update(status: ThreadStatus, turn: &Turn, turn_status: TurnStatus) -> ReadModelUpdate {
    let turn = TurnUpdate { turn: turn.id, status: turn_status, error: None, outcome: None };
    ReadModelUpdate { status, turn: Some(turn) }
}

async fn status(store: &Store, turn: TurnId) -> Result<Option<TurnStatus>, Error> {
    Ok(store.turn(turn).await?.map(|turn| turn.status))
}

pub(super) async fn a_rejected_turn_stores_nothing(store: &Store) -> Result<(), Error> {
    let (head, first) = opened(store).await?;
    let idempotency = Some(Idempotency { key: "once".to_owned(), request_hash: "a".to_owned() });
    let new = NewTurn { idempotency, ..following(first.thread, MultitaskStrategy::Reject) };
    // Queued, then running.
    let refused = store.submit(new.clone()).await;
    assert!(matches!(refused, Err(Error::ThreadBusy(thread)) if thread == first.thread), "{refused:?}");
    let running = update(ThreadStatus::Busy, &first, TurnStatus::Running);
    let head = store.append(&head, &[turn_started(&first)], Some(&running)).await?;
    let refused = store.submit(new.clone()).await;
    assert!(matches!(refused, Err(Error::ThreadBusy(_))), "{refused:?}");
    assert_eq!(store.head(first.thread).await?, head);
    assert_eq!(store.cancel_request(first.thread).await?, None);
    assert_eq!(store.next_queued(first.thread).await?, None);

    let ended = update(ThreadStatus::Idle, &first, TurnStatus::Completed);
    store.append(&head, &[decided(1)], Some(&ended)).await?;
    let taken = store.submit(new.clone()).await?;
    assert!(matches!(&taken, Submitted::New(_)), "{taken:?}");
    let again = store.submit(new).await?;
    assert!(matches!(&again, Submitted::Known(turn) if turn.id == taken.into_turn().id), "{again:?}");
    Ok(())
}

/// Nothing but the submission happens, as if the process had been killed after it.
pub(super) async fn one_transaction_cancels_and_submits(store: &Store) -> Result<(), Error> {
    for (multitask, rolled_back) in
        [(MultitaskStrategy::Interrupt, false), (MultitaskStrategy::Rollback, true)]
    {
        let (head, first) = opened(store).await?;
        let running = update(ThreadStatus::Busy, &first, TurnStatus::Running);
        let head = store.append(&head, &[turn_started(&first)], Some(&running)).await?;
        let waiting = queued(store, first.thread, "later").await?;
        let due_at = Some(queue::clock::now() + 3_600_000_000);
        let planned = NewTurn { due_at, ..following(first.thread, MultitaskStrategy::Enqueue) };
        let planned = store.submit(planned).await?.into_turn();

        let new = store.submit(following(first.thread, multitask)).await?;
        assert!(matches!(&new, Submitted::Behind(_)), "{new:?}");
        let new = new.into_turn();
        let request = store.cancel_request(first.thread).await?.expect("a request is stored");
        let CancelRequest { turn, actor, .. } = &request;
        assert_eq!((*turn, actor.as_str(), request.rolled_back), (first.id, "conformance", rolled_back));
        assert_eq!(status(store, waiting.id).await?, Some(TurnStatus::Cancelled));
        assert_eq!(status(store, planned.id).await?, Some(TurnStatus::Queued));
        let next = store.next_queued(first.thread).await?.expect("the new turn is next");
        assert_eq!((next.id, next.policy), (new.id, Policy::Replan));

        let late = store.append(&head, &[decided(1)], None).await;
        assert!(matches!(late, Err(Error::CancelRequested { .. })), "{late:?}");
        let cancelled: Event = shared::Cancelled { actor: request.actor, caller: None, rolled_back }.into();
        let idle = update(ThreadStatus::Idle, &first, TurnStatus::Cancelled);
        store.append(&head, &[cancelled], Some(&idle)).await?;
        assert_eq!(store.cancel_request(first.thread).await?, None);
    }
    Ok(())
}

pub(super) async fn a_turn_in_doubt_makes_way_and_one_that_asked_does_not(
    store: &Store,
) -> Result<(), Error> {
    let (head, first) = opened(store).await?;
    let asking = update(ThreadStatus::Interrupted, &first, TurnStatus::Interrupted);
    store.append(&head, &[turn_started(&first)], Some(&asking)).await?;
    let reject = following(first.thread, MultitaskStrategy::Reject);
    let refused = store.submit(NewTurn { in_doubt: Some(first.id), ..reject.clone() }).await;
    assert!(matches!(refused, Err(Error::ThreadBusy(_))), "{refused:?}");
    let rollback = following(first.thread, MultitaskStrategy::Rollback);
    store.submit(NewTurn { in_doubt: Some(first.id), ..rollback }).await?;
    let request = store.cancel_request(first.thread).await?.expect("a request is stored");
    assert_eq!((request.turn, request.rolled_back), (first.id, true));

    let (head, first) = opened(store).await?;
    let asking = update(ThreadStatus::Interrupted, &first, TurnStatus::Interrupted);
    store.append(&head, &[turn_started(&first)], Some(&asking)).await?;
    let reject = following(first.thread, MultitaskStrategy::Reject);
    assert!(matches!(store.submit(reject).await?, Submitted::New(_)), "nothing is running");
    store.submit(following(first.thread, MultitaskStrategy::Rollback)).await?;
    assert_eq!(store.cancel_request(first.thread).await?, None);
    Ok(())
}

on_databases! {
    distributed:
    a_rejected_turn_stores_nothing,
    one_transaction_cancels_and_submits,
    a_turn_in_doubt_makes_way_and_one_that_asked_does_not,
}
