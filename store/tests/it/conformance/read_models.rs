//! The read model changes in the transaction of its event, and a turn starts once.

use std::sync::Arc;

use shared::{Outcome, OutcomeKind};
use tokio::sync::Barrier;
use uuid::Uuid;

use super::{decided, log_of, opened, queued, turn_started};
use shared::{ThreadStatus, TurnStatus};
use store::{Error, ReadModelUpdate, Store, Turn, TurnFilter, TurnUpdate, Withdrawal};

/// Number of races between the start and the cancellation of a turn.
const ROUNDS: usize = 20;

pub(super) async fn follow_the_turn(store: &Store) -> Result<(), Error> {
    let (start, turn) = opened(store).await?;
    let seen = async |turn: &Turn| {
        let row = store.turn(turn.id).await?.ok_or(Error::UnknownTurn(turn.id))?;
        let thread = store.thread(turn.thread).await?.ok_or(Error::UnknownThread(turn.thread))?;
        for status in TurnStatus::ALL {
            let filter =
                TurnFilter { thread: Some(turn.thread), status: Some(status), ..TurnFilter::default() };
            let found = store.turns(filter, None, 9).await?.iter().any(|found| found.id == turn.id);
            assert_eq!(found, status == row.status, "among those that are {status}");
        }
        Ok::<_, Error>((thread.status, row.status, row.started_seq, row.ended_seq, row.error))
    };
    assert_eq!(seen(&turn).await?, (ThreadStatus::Idle, TurnStatus::Queued, None, None, None));

    let running = mark(ThreadStatus::Busy, &turn, TurnStatus::Running, None);
    let head = store.append(&start, &[decided("before"), turn_started(&turn)], Some(&running)).await?;
    assert_eq!(seen(&turn).await?, (ThreadStatus::Busy, TurnStatus::Running, Some(2), None, None));

    let head = store.append(&head, &[decided(1)], None).await?;
    assert_eq!(seen(&turn).await?, (ThreadStatus::Busy, TurnStatus::Running, Some(2), None, None));

    // PostgreSQL cannot store NUL in a text, but an error message that contains it must not prevent the append.
    let failed = mark(ThreadStatus::Error, &turn, TurnStatus::Failed, Some("no \0 model in 30s"));
    let head = store.append(&head, &[decided(2), decided(3)], Some(&failed)).await?;
    let because = Some("no \u{fffd} model in 30s".to_owned());
    assert_eq!(seen(&turn).await?, (ThreadStatus::Error, TurnStatus::Failed, Some(2), Some(5), because));
    let cause = async || Ok::<_, Error>(store.turn(turn.id).await?.and_then(|turn| turn.cause));
    assert_eq!(cause().await?.as_deref(), Some("no model in #"));

    let head = store.append(&head, &[decided("retried")], Some(&running)).await?;
    assert_eq!(seen(&turn).await?, (ThreadStatus::Busy, TurnStatus::Running, Some(2), None, None));
    assert_eq!(cause().await?, None, "it has not failed any more");

    let asks = mark(ThreadStatus::Interrupted, &turn, TurnStatus::Interrupted, None);
    let head = store.append(&head, &[decided("asks")], Some(&asks)).await?;
    assert_eq!(
        seen(&turn).await?,
        (ThreadStatus::Interrupted, TurnStatus::Interrupted, Some(2), Some(7), None)
    );

    let next = queued(store, turn.thread, "an answer").await?;
    let mut completed = mark(ThreadStatus::Idle, &next, TurnStatus::Completed, None);
    let outcome = Outcome { kind: OutcomeKind::Partial, causes: ["rounds".into(), "a \0 b".into()].into() };
    completed.turn.as_mut().unwrap().outcome = Some(outcome);
    store.append(&head, &[turn_started(&next), decided("end")], Some(&completed)).await?;
    assert_eq!(seen(&next).await?, (ThreadStatus::Idle, TurnStatus::Completed, Some(8), Some(9), None));
    let row = store.turn(next.id).await?.unwrap();
    assert_eq!(
        (row.outcome, row.cause.as_deref()),
        (Some(OutcomeKind::Partial), Some("a \u{fffd} b; rounds"))
    );
    assert_eq!(store.turn(turn.id).await?.unwrap().outcome, None, "it asked, and has not completed");
    Ok(())
}

pub(super) async fn start_a_turn_once(store: &Store) -> Result<(), Error> {
    let (head, turn) = opened(store).await?;
    let running = mark(ThreadStatus::Busy, &turn, TurnStatus::Running, None);
    assert_eq!(store.cancel_queued(turn.id).await?, Withdrawal::Withdrawn);
    let before = (store.thread(turn.thread).await?, store.turn(turn.id).await?);

    let refused = store.append(&head, &[turn_started(&turn), decided(1)], Some(&running)).await;
    assert!(matches!(refused, Err(Error::Stale { seq: 1, .. })), "{refused:?}");
    assert_eq!(
        log_of(store, turn.thread).await?.len(),
        1,
        "the events of a turn that was not queued are not kept"
    );
    assert_eq!((store.thread(turn.thread).await?, store.turn(turn.id).await?), before);

    let next = queued(store, turn.thread, "again").await?;
    let running = mark(ThreadStatus::Busy, &next, TurnStatus::Running, None);
    let head = store.append(&head, &[turn_started(&next)], Some(&running)).await?;
    let twice = store.append(&head, &[turn_started(&next)], Some(&running)).await;
    assert!(matches!(twice, Err(Error::Stale { seq: 2, .. })), "{twice:?}");

    let nobody = Turn { id: Uuid::now_v7(), ..next };
    for events in [vec![turn_started(&nobody)], vec![decided(1)]] {
        let running = mark(ThreadStatus::Busy, &nobody, TurnStatus::Running, None);
        let unknown = store.append(&head, &events, Some(&running)).await;
        assert!(matches!(unknown, Err(Error::UnknownTurn(id)) if id == nobody.id), "{unknown:?}");
    }
    assert_eq!(log_of(store, turn.thread).await?.len(), 2);
    Ok(())
}

pub(super) async fn race_with_a_withdrawal(store: &Store) -> Result<(), Error> {
    for round in 0..ROUNDS {
        let (head, turn) = opened(store).await?;
        let barrier = Arc::new(Barrier::new(2));
        let (ours, theirs) = ((store.clone(), Arc::clone(&barrier)), (store.clone(), barrier));
        let running = mark(ThreadStatus::Busy, &turn, TurnStatus::Running, None);
        let event = turn_started(&turn);
        let starting = tokio::spawn(async move {
            ours.1.wait().await;
            ours.0.append(&head, &[event], Some(&running)).await
        });
        let withdrawing = tokio::spawn(async move {
            theirs.1.wait().await;
            theirs.0.cancel_queued(turn.id).await
        });
        let starting = starting.await.expect("a racer panicked");
        let withdrawing = withdrawing.await.expect("a racer panicked")?;
        let status = store.turn(turn.id).await?.map(|turn| turn.status);
        match (&starting, withdrawing) {
            (Ok(_), Withdrawal::TooLate(TurnStatus::Running)) => {
                assert_eq!(status, Some(TurnStatus::Running))
            }
            (Err(Error::Stale { .. }), Withdrawal::Withdrawn) => {
                assert_eq!(status, Some(TurnStatus::Cancelled))
            }
            _ => panic!("round {round}: {starting:?} and {withdrawing:?}"),
        }
        let has_started = log_of(store, turn.thread).await?.len() == 2;
        assert_eq!(has_started, starting.is_ok(), "round {round}");
    }
    Ok(())
}

pub(super) async fn mend_a_read_model(store: &Store) -> Result<(), Error> {
    let (start, turn) = opened(store).await?;
    let head = store.append(&start, &[decided(1)], None).await?;
    let mend = mark(ThreadStatus::Idle, &turn, TurnStatus::Completed, None);
    let late = store.update_read_model(&start, &mend).await;
    assert!(matches!(late, Err(Error::Stale { seq: 1, .. })), "{late:?}");
    assert_eq!(store.turn(turn.id).await?.map(|turn| turn.status), Some(TurnStatus::Queued));
    store.update_read_model(&head, &mend).await?;
    let mended = store.turn(turn.id).await?.map(|turn| (turn.status, turn.ended_seq));
    assert_eq!(mended, Some((TurnStatus::Completed, Some(1))));
    Ok(())
}

fn mark(status: ThreadStatus, turn: &Turn, how: TurnStatus, error: Option<&str>) -> ReadModelUpdate {
    let turn = TurnUpdate { turn: turn.id, status: how, error: error.map(str::to_owned), outcome: None };
    ReadModelUpdate { status, turn: Some(turn) }
}

on_databases! {
    distributed:
    follow_the_turn,
    start_a_turn_once,
    race_with_a_withdrawal,
    mend_a_read_model,
}
