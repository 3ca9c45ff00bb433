//! Items that are run again, or whose threads ask again.

use serde_json::json;

use super::{super::new_turn, LEASE, batch, end, known, to};
use crate::{
    Error, NewTurn, Opening, Store, Turn, TurnStatus,
    bulk::{Batch, BatchStatus, Good, ItemState, Move},
};

/// What ended badly is run again, and its result is added to those there are.
pub(super) async fn reopens(store: &Store, batch: &Batch) -> Result<(), Error> {
    assert_eq!(
        store.reopen_batch(batch.id, ItemState::Failed, 60, Some(1)).await?,
        Some(0),
        "it is not over"
    );
    assert!(store.advance_batch(batch, "ada", BatchStatus::Finalizing, None).await?);
    let now = known(store, batch.id).await?;
    assert!(now.output_file.is_some() && now.error_file.is_some());
    assert!(store.name_results(&now, "ada", now.output_file, None).await?);
    assert!(store.advance_batch(&now, "ada", BatchStatus::Completed, None).await?);
    assert_eq!(
        store.reopen_batch(batch.id, ItemState::Cancelled, 60, Some(1)).await?,
        Some(0),
        "there is none"
    );
    assert_eq!(store.reopen_batch(batch.id, ItemState::Failed, 60, Some(77)).await?, Some(1));
    let now = known(store, batch.id).await?;
    assert_eq!((now.status, now.output_file, now.at.completed), (BatchStatus::InProgress, None, None));
    assert_eq!(now.max_micro_usd, Some(77), "what was refused before changed nothing");
    assert!(store.keep_batches("ada", LEASE).await?.iter().any(|it| it.id == batch.id));
    let waiting = store.waiting_items(batch.id, 10).await?;
    assert_eq!(waiting.iter().map(|it| (it.nth, it.attempt)).collect::<Vec<_>>(), [(5, 2)]);
    let well = Move { response: Some(json!("well")), ..to(&waiting[0], ItemState::Completed) };
    store.record(batch.id, "ada", vec![well]).await?;
    let good = store.final_results(batch.id, Good::Yes, 0, 10).await?;
    assert_eq!(good.iter().map(|it| it.n).collect::<Vec<_>>(), [3, 6]);
    assert_eq!(
        store.final_results(batch.id, Good::No, 0, 10).await?.len(),
        3,
        "its first result counts no more"
    );
    assert_eq!(store.results(batch.id, 0, 10).await?.len(), 6, "and is still there");
    Ok(())
}

/// A person answered, and was asked again before anybody looked: the turn that asks now is the one that counts, so it is
/// the one that is called off.
pub(super) async fn asks(store: &Store) -> Result<(), Error> {
    let made = batch(store, "again", "ada", &[("a", Some("1"))]).await?;
    let item = store.waiting_items(made.id, 1).await?.remove(0);
    let first = store.submit(new_turn("ask")).await?.into_turn();
    let run = |turn: &Turn| Some((turn.thread, turn.id));
    store.record(made.id, "ada", vec![Move { run: run(&first), ..to(&item, ItemState::Fed) }]).await?;
    end(store, &first, TurnStatus::Interrupted).await?;
    let mut asks = first;
    for _ in 0..2 {
        let moved = store.moved_items(made.id, 10).await?;
        let [(item, turn)] = &moved[..] else { panic!("another turn asks: {moved:?}") };
        assert_eq!((turn.id, turn.status), (asks.id, TurnStatus::Interrupted));
        store.record(made.id, "ada", vec![Move { run: run(turn), ..to(item, ItemState::Asked) }]).await?;
        assert_eq!(store.moved_items(made.id, 10).await?, [], "it still waits");
        let under_way = store.items_fed_before(made.id, i64::MAX, 10).await?;
        assert_eq!(under_way[0].turn, Some(asks.id), "whoever calls it off finds it");
        let answer = NewTurn { thread: Opening::Existing(asks.thread), ..new_turn("yes") };
        asks = store.submit(answer).await?.into_turn();
        end(store, &asks, TurnStatus::Interrupted).await?;
    }
    Ok(())
}
