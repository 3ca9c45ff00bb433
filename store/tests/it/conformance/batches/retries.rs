//! Items that are run again, and items whose threads ask a person again.

use serde_json::json;

use super::{super::new_turn, LEASE, batch, end, known, response, to, to_collect};
use shared::{ThreadStatus, TurnStatus};
use store::testing::count_items;
use store::{
    Error, NewTurn, Opening, ReadModelUpdate, Store, Submitted, Turn, TurnUpdate,
    batches::{
        Batch, BatchStatus, Item, ItemState, ItemTransition, ResultSelection, StopReason, TURN_FAILED,
    },
};

/// Failed items are run again, and their new results are added to the existing ones.
pub(super) async fn reopens(store: &Store, batch: &Batch) -> Result<(), Error> {
    assert_eq!(
        store.reopen_batch(batch.id, ItemState::Failed, 60, Some(1), "test").await?,
        Some(0),
        "it is not over"
    );
    assert!(store.advance_batch(batch, "ada", BatchStatus::Finalizing, None).await?);
    let now = known(store, batch.id).await?;
    assert!(now.output_file.is_some() && now.error_file.is_some());
    assert!(store.name_results(&now, "ada", now.output_file, None).await?);
    assert!(store.advance_batch(&now, "ada", BatchStatus::Completed, None).await?);
    assert_eq!(
        store.reopen_batch(batch.id, ItemState::Cancelled, 60, Some(1), "test").await?,
        Some(0),
        "there is none"
    );
    assert_eq!(store.reopen_batch(batch.id, ItemState::Failed, 60, Some(77), "test").await?, Some(1));
    let now = known(store, batch.id).await?;
    assert_eq!((now.status, now.output_file, now.at.completed), (BatchStatus::InProgress, None, None));
    assert_eq!(now.max_micro_usd, Some(77), "what was refused before changed nothing");
    assert!(store.acquire_batch_leases("ada", LEASE).await?.iter().any(|kept| kept.id == batch.id));
    let waiting = store.waiting_items(batch.id, 10).await?;
    assert_eq!(waiting.iter().map(|item| (item.nth, item.attempt)).collect::<Vec<_>>(), [(5, 2)]);
    let well =
        ItemTransition { response: Some(response(json!("well"))), ..to(&waiting[0], ItemState::Completed) };
    store.apply_transitions(batch.id, "ada", vec![well]).await?;
    let good = store.final_results(batch.id, ResultSelection::Successful, 0, 10).await?;
    assert_eq!(good.iter().map(|line| line.n).collect::<Vec<_>>(), [3, 6]);
    assert_eq!(
        store.final_results(batch.id, ResultSelection::Unsuccessful, 0, 10).await?.len(),
        3,
        "its first result counts no more"
    );
    assert_eq!(store.results(batch.id, 0, 10).await?.len(), 6, "and is still there");
    Ok(())
}

/// A person answered and was asked again before the coordinator looked: the turn with the current question decides, so
/// it is the one that is cancelled.
pub(super) async fn asks(store: &Store) -> Result<(), Error> {
    let made = batch(store, "again", "ada", &[("a", Some("1"))]).await?;
    let item = store.waiting_items(made.id, 1).await?.remove(0);
    let first = store.submit(new_turn("ask")).await?.into_turn();
    let run = |turn: &Turn| Some((turn.thread, turn.id));
    store
        .apply_transitions(
            made.id,
            "ada",
            vec![ItemTransition { run: run(&first), ..to(&item, ItemState::Submitted) }],
        )
        .await?;
    end(store, &first, TurnStatus::Interrupted).await?;
    let mut asks = first;
    for _ in 0..2 {
        let moved = to_collect(store, made.id).await?;
        let [(item, turn)] = &moved[..] else { panic!("another turn asks: {moved:?}") };
        assert_eq!((turn.id, turn.status), (asks.id, TurnStatus::Interrupted));
        store
            .apply_transitions(
                made.id,
                "ada",
                vec![ItemTransition { run: run(turn), ..to(item, ItemState::AwaitingInput) }],
            )
            .await?;
        assert_eq!(to_collect(store, made.id).await?, [], "it still waits");
        let under_way = store.items_submitted_before(made.id, i64::MAX, 10).await?;
        assert_eq!(under_way[0].turn, Some(asks.id), "a withdrawal finds it");
        let answer = NewTurn { thread: Opening::Existing(asks.thread), ..new_turn("yes") };
        asks = store.submit(answer).await?.into_turn();
        end(store, &asks, TurnStatus::Interrupted).await?;
    }
    Ok(())
}

/// Sets the status of an item's turn without the matching events in its log.
async fn mark(store: &Store, turn: &Turn, status: TurnStatus) -> Result<(), Error> {
    let turn_mark = TurnUpdate { turn: turn.id, status, error: None, outcome: None };
    let head = store.head(turn.thread).await?;
    store
        .update_read_model(&head, &ReadModelUpdate { status: ThreadStatus::Idle, turn: Some(turn_mark) })
        .await
}

/// A failed turn was retried before its batch was resumed: the item continues with that turn, and no other is started.
pub(crate) async fn what_was_tried_again_is_under_way(store: &Store) -> Result<(), Error> {
    let lines = ["a", "b", "c", "d", "e"].map(|name| (name, Some(name)));
    let made = batch(store, "retried", "ada", &lines).await?;
    let waiting = store.waiting_items(made.id, 10).await?;
    let begun = |item: &Item| NewTurn { idempotency: Some(item.key()), ..new_turn("go") };
    let turns = store.submit_many(waiting.iter().map(begun).collect()).await?;
    let turns: Vec<Turn> =
        turns.into_iter().map(|submitted| submitted.map(Submitted::into_turn)).collect::<Result<_, _>>()?;
    let run = |turn: &Turn| Some((turn.thread, turn.id));
    let fed = waiting
        .iter()
        .zip(&turns)
        .map(|(item, turn)| ItemTransition { run: run(turn), ..to(item, ItemState::Submitted) });
    store.apply_transitions(made.id, "ada", fed.collect()).await?;
    for turn in &turns {
        end(store, turn, TurnStatus::Failed).await?;
    }
    let moved = to_collect(store, made.id).await?;
    let failed = moved.iter().map(|(item, _)| ItemTransition {
        // The log of the last item was unreadable.
        error: Some((if item.nth == 5 { "unreadable_log" } else { TURN_FAILED }.to_owned(), "so".to_owned())),
        usage: shared::UsageTotal { micro_usd: 7, ..shared::UsageTotal::default() },
        ..to(item, ItemState::Failed)
    });
    store.apply_transitions(made.id, "ada", failed.collect()).await?;
    let stopped = store.stop_batch(made.id, StopReason::Paused).await?;
    assert!(stopped && store.advance_batch(&made, "ada", BatchStatus::Completed, None).await?);
    assert_eq!(known(store, made.id).await?.stopped, None, "what is over is not stopped");

    for (turn, status) in [(0, TurnStatus::Completed), (1, TurnStatus::Running), (2, TurnStatus::Cancelled)] {
        mark(store, &turns[turn], status).await?;
    }
    mark(store, &turns[4], TurnStatus::Running).await?;
    assert_eq!(store.reopen_batch(made.id, ItemState::Failed, 60, None, "test").await?, Some(5));
    store.acquire_batch_leases("ada", LEASE).await?;
    let now = known(store, made.id).await?;
    assert_eq!(
        (now.counts.of(ItemState::Submitted), now.counts.of(ItemState::Waiting)),
        (2, 3),
        "{:?}",
        now.counts
    );
    assert_eq!(
        count_items(store, made.id).await?,
        [(ItemState::Waiting, 3), (ItemState::Submitted, 2)].into()
    );
    let anew = store.waiting_items(made.id, 10).await?;
    assert_eq!(
        anew.iter().map(|item| (item.nth, item.attempt)).collect::<Vec<_>>(),
        [(3, 2), (4, 2), (5, 2)]
    );
    let moved = to_collect(store, made.id).await?;
    let [(item, turn)] = &moved[..] else { panic!("one of them has ended: {moved:?}") };
    assert_eq!((item.nth, item.attempt, turn.id), (1, 1, turns[0].id));
    let usage = shared::UsageTotal { micro_usd: 9, ..item.usage };
    store
        .apply_transitions(made.id, "ada", vec![ItemTransition { usage, ..to(item, ItemState::Completed) }])
        .await?;
    assert_eq!(known(store, made.id).await?.micro_usd, now.micro_usd + 2, "only what came to it is added");
    Ok(())
}

/// The configuration may have changed since a line was validated.
pub(crate) async fn items_are_named_by_what_they_ask_for_now(store: &Store) -> Result<(), Error> {
    let made = batch(store, "named", "ada", &[("a", Some("then")), ("b", Some("both"))]).await?;
    let waiting = store.waiting_items(made.id, 10).await?;
    let begun = NewTurn { idempotency: Some(waiting[0].key()), ..new_turn("go") };
    let first = store.submit(begun).await?.into_turn();
    let now = || vec![(1, "now".to_owned())];
    let other = store.rename_items(made.id, "bob", now()).await;
    assert!(matches!(other, Err(Error::BatchLost(_))), "it is not his: {other:?}");
    assert_eq!(store.waiting_items(made.id, 10).await?, waiting, "what is refused changes nothing");
    store.rename_items(made.id, "ada", now()).await?;
    let cache_keys = async || -> Result<Vec<Option<String>>, Error> {
        Ok(store.waiting_items(made.id, 10).await?.into_iter().map(|item| item.cache_key).collect())
    };
    assert_eq!(cache_keys().await?, ["now", "both"].map(|cache_key| Some(cache_key.to_owned())));
    assert_eq!(store.batch_of(first.thread).await?, Some(made.id), "its first thread is of the batch still");
    store.apply_transitions(made.id, "ada", vec![to(&waiting[0], ItemState::Failed)]).await?;
    let late = store.rename_items(made.id, "ada", now()).await;
    assert!(matches!(late, Err(Error::BatchLost(_))), "it waits no more: {late:?}");
    Ok(())
}

on_databases! {
    what_was_tried_again_is_under_way,
    items_are_named_by_what_they_ask_for_now,
}
