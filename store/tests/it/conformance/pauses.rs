//! Pauses last until they are resumed, and keep the threads of a strategy from being enqueued.

use shared::DEFAULT_TENANT;

use super::{new_turn, tamper, turn_started};
use shared::{PauseKind, ThreadStatus, TurnStatus};
use store::{Error, Opening, Pause, ReadModelUpdate, Store, ThreadId, Turn, TurnUpdate};

pub(super) async fn stand_until_resumed(store: &Store) -> Result<(), Error> {
    assert_eq!(store.pauses().await?, []);
    let model = Pause::new(PauseKind::Model, "openai/gpt-4o", "too \0 dear", "Ada");
    let strategy = Pause::new(PauseKind::Strategy, "openai/gpt-4o", "", "Ada");
    assert_eq!(model.reason, "too \u{fffd} dear");
    store.pause(&model, None).await?;
    store.pause(&strategy, None).await?;
    assert_eq!(store.pauses().await?, [strategy.clone(), model], "kinds do not mix");
    let again = Pause { at: 7, ..Pause::new(PauseKind::Model, "openai/gpt-4o", "für immer", "Bob") };
    store.pause(&again, None).await?;
    assert_eq!(store.pauses().await?, [strategy, again.clone()], "the last reason stands");
    assert_eq!(again.to_string(), "model openai/gpt-4o is paused by Bob: für immer");

    assert!(store.resume(PauseKind::Strategy, "openai/gpt-4o", "test").await?);
    assert!(!store.resume(PauseKind::Strategy, "openai/gpt-4o", "test").await?);
    assert_eq!(store.pauses().await?, [again]);
    assert!(store.resume(PauseKind::Model, "openai/gpt-4o", "test").await?);
    Ok(())
}

pub(super) async fn of_the_future_are_refused(store: &Store) -> Result<(), Error> {
    let add = "INSERT INTO pauses (kind, name, reason, \"by\", \"at\") VALUES ('mood', 'sombre', '', 'x', 0)";
    tamper::execute_with(store, add, []).await?;
    let refused = store.pauses().await;
    assert!(matches!(refused, Err(Error::TooNew { .. })), "{refused:?}");
    tamper::execute_with(store, "DELETE FROM pauses", []).await?;
    assert_eq!(store.pauses().await?, []);
    Ok(())
}

pub(super) async fn keep_threads_from_being_enqueued(store: &Store) -> Result<(), Error> {
    let queued = under(store, "probe").await?.thread;
    let busy = under(store, "probe").await?;
    let turn = Some(TurnUpdate { turn: busy.id, status: TurnStatus::Running, error: None, outcome: None });
    let head = store.head(busy.thread).await?;
    store
        .append(&head, &[turn_started(&busy)], Some(&ReadModelUpdate { status: ThreadStatus::Busy, turn }))
        .await?;
    let other = under(store, "planner").await?.thread;
    let all = vec![queued, busy.thread, other];
    assert_eq!(runnable(store, None).await?, all);

    store.pause(&Pause::new(PauseKind::Model, "probe", "another kind", "Ada"), None).await?;
    assert_eq!(runnable(store, None).await?, all, "a model is not a strategy");
    store.pause(&Pause::new(PauseKind::Strategy, "probe", "", "Ada"), None).await?;
    assert_eq!(runnable(store, None).await?, [other]);
    store.pause(&Pause::new(PauseKind::Strategy, "planner", "", "Ada"), None).await?;
    assert!(runnable(store, None).await?.is_empty());
    store.resume(PauseKind::Strategy, "probe", "test").await?;
    assert_eq!(runnable(store, None).await?, [queued, busy.thread]);
    store.resume(PauseKind::Strategy, "planner", "test").await?;
    store.pause(&Pause::new(PauseKind::Tenant, DEFAULT_TENANT, "", "Ada"), None).await?;
    assert!(runnable(store, None).await?.is_empty());
    store.resume(PauseKind::Tenant, DEFAULT_TENANT, "test").await?;
    store.resume(PauseKind::Model, "probe", "test").await?;
    assert_eq!(runnable(store, Some(queued)).await?, [busy.thread, other]);
    Ok(())
}

/// Creates a thread of this strategy with a queued turn.
async fn under(store: &Store, strategy: &str) -> Result<Turn, Error> {
    let mut new = new_turn("hello");
    if let Opening::New(opened) = &mut new.thread {
        opened.strategy = strategy.to_owned();
    }
    Ok(store.submit(new).await?.into_turn())
}

async fn runnable(store: &Store, after: Option<ThreadId>) -> Result<Vec<ThreadId>, Error> {
    Ok(store.runnable_after(after, 9).await?.into_iter().map(|runnable| runnable.thread).collect())
}

on_databases! {
    stand_until_resumed,
    of_the_future_are_refused,
    keep_threads_from_being_enqueued,
}
