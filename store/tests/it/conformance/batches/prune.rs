//! Pruning deletes the data of batches that ended long ago, and nothing else.

use std::sync::Arc;

use tokio::sync::{Barrier, Notify};
use uuid::Uuid;

use super::{
    super::new_turn, LEASE, batch, chunk, end, file, known, made, new_batch, new_file, results, taken_lines,
    tidy, to,
};
use queue::clock;
use shared::TurnStatus;
use store::testing::count_items;
use store::{
    DryRun, Error, NewTurn, Prune, Pruned, Store, ThreadId,
    batches::{Batch, BatchStatus, ItemState, ItemTransition, NewBatch},
    webhooks::{AttemptOutcome, DeliveryFilter, DeliveryLimits, EventType, Webhook},
};

/// Number of races between deletion and use of a batch.
const ROUNDS: usize = 20;

/// More lines than one transaction deletes.
const LINES: u64 = 2500;

const LATE: i64 = i64::MAX;

/// Creates a batch with one line whose turn has ended and one invalid line, and returns it with the thread.
async fn run(store: &Store, tenant: &str) -> Result<(Batch, ThreadId), Error> {
    let made = batch(store, tenant, "ada", &[("a", Some("1")), ("b", None)]).await?;
    let thread = answered(store, &made).await?;
    Ok((known(store, made.id).await?, thread))
}

/// Runs the waiting line on a new thread, records its item as failed, and returns the thread's id.
async fn answered(store: &Store, batch: &Batch) -> Result<ThreadId, Error> {
    let item = store.waiting_items(batch.id, 1).await?.remove(0);
    let turn = NewTurn { idempotency: Some(item.key()), ..new_turn("go") };
    let turn = store.submit(turn).await?.into_turn();
    end(store, &turn, TurnStatus::Completed).await?;
    let told = Some(("failed".to_owned(), "it did not work".to_owned()));
    let run = Some((turn.thread, turn.id));
    store
        .apply_transitions(
            batch.id,
            "ada",
            vec![ItemTransition { run, error: told, ..to(&item, ItemState::Failed) }],
        )
        .await?;
    Ok(turn.thread)
}

/// Writes both result files of a batch and ends it.
async fn over(store: &Store, batch: &Batch) -> Result<Batch, Error> {
    assert!(store.advance_batch(batch, "ada", BatchStatus::Finalizing, None).await?);
    let now = known(store, batch.id).await?;
    for id in [now.output_file, now.error_file].into_iter().flatten() {
        store.begin_file(id, new_file(&now.tenant)).await?;
        store.write_chunk(id, 0, chunk(b"{}\n")).await?;
        store.finish_file(id, 1, 3, None).await?;
    }
    assert!(store.advance_batch(&now, "ada", BatchStatus::Completed, None).await?);
    known(store, batch.id).await
}

async fn prune(store: &Store, before: i64, dry_run: DryRun) -> Result<Pruned, Error> {
    let which = Prune { before, strategy: None, by: "conformance".into() };
    store.prune(&which, dry_run, |_| ()).await
}

/// Counts the remaining rows of a batch: its row, items, results, and the chunks of its result files and its input
/// file.
async fn left(store: &Store, batch: &Batch) -> Result<[u64; 5], Error> {
    let items = count_items(store, batch.id).await?.values().sum();
    let results = results(store, batch.id).await?.len() as u64;
    let mut files = [0; 2];
    for (id, own) in [(batch.output_file, 0), (batch.error_file, 0), (Some(batch.input_file), 1)] {
        let Some(id) = id else { continue };
        let there = store.file(id).await?.is_some();
        assert_eq!(store.chunk(id, 0).await?.is_some(), there, "the row and the pieces of a file");
        files[own] += u64::from(there);
    }
    let row = u64::from(store.batch(batch.id).await?.is_some());
    Ok([row, items, results, files[0], files[1]])
}

const ALL: [u64; 5] = [1, 2, 2, 2, 1];

pub(crate) async fn goes_with_all_that_is_its_own(store: &Store) -> Result<(), Error> {
    store.release_batch_leases("ada").await?;
    tidy(store).await?;
    prune(store, LATE, DryRun::No).await?;
    let name = "prunable";
    let (old, thread) = run(store, name).await?;
    let old = over(store, &old).await?;
    let (held, of_held) = run(store, name).await?;
    let held = over(store, &held).await?;
    store.hold(of_held, "a lawsuit", "eve").await?;
    // Its line reuses the response of that thread.
    let reused = batch(store, name, "ada", &[("a", Some("1"))]).await?;
    let item = store.waiting_items(reused.id, 1).await?.remove(0);
    let taken = ItemTransition { run: Some((of_held, Uuid::now_v7())), ..to(&item, ItemState::Reused) };
    store.apply_transitions(reused.id, "ada", vec![taken]).await?;
    let reused = over(store, &known(store, reused.id).await?).await?;
    // Its line was run again on another thread.
    let (before, of_before) = run(store, name).await?;
    let before = over(store, &before).await?;
    store.hold(of_before, "a lawsuit", "eve").await?;
    assert_eq!(store.reopen_batch(before.id, ItemState::Failed, 60, None, "test").await?, Some(1));
    store.acquire_batch_leases("ada", LEASE).await?;
    let (open, _) = run(store, name).await?;
    answered(store, &before).await?;
    let before = over(store, &known(store, before.id).await?).await?;
    let shared = NewBatch { seconds: 7, ..new_batch(name, old.input_file) };
    let twin = made(store, shared).await?;
    let unused = file(store, name).await?;

    let then = clock::now();
    store.acquire_batch_leases("ada", LEASE).await?;
    assert!(store.advance_batch(&twin, "ada", BatchStatus::Failed, None).await?);
    let (young, of_young) = run(store, name).await?;
    let young = over(store, &young).await?;
    let new = file(store, name).await?;

    assert_eq!(prune(store, old.at.created, DryRun::No).await?, Pruned::default(), "nothing is that old");
    // Deleted files: the two of the batch, the unreferenced one, and those of the run before the last.
    let threads = Pruned { threads: 3, turns: 3, events: 6, ..Pruned::default() };
    let first = Pruned { batches: 1, lines: 2, files: 5, ..threads };
    assert_eq!(prune(store, then, DryRun::Yes).await?, first);
    assert_eq!(left(store, &old).await?, ALL, "who only looks changes nothing");
    assert_eq!(prune(store, then, DryRun::No).await?, first);
    assert_eq!(prune(store, then, DryRun::No).await?, Pruned::default());
    assert_eq!(left(store, &old).await?, [0, 0, 0, 0, 1], "another batch has its input");
    assert_eq!(store.thread(thread).await?, None);
    let twice = [1, 2, 3, 2, 1];
    let one = [1, 1, 1, 2, 1];
    for (stays, all) in [(&held, ALL), (&reused, one), (&before, twice), (&young, ALL)] {
        assert_eq!(left(store, stays).await?, all);
        assert_eq!(known(store, stays.id).await?, *stays);
    }
    assert_eq!(left(store, &open).await?, [1, 2, 2, 0, 1]);
    assert!(store.file(unused).await?.is_none() && store.file(new).await?.is_some());

    let only_threads = Prune { before: LATE, strategy: Some("probe".to_owned()), by: "".into() };
    assert_eq!(store.prune(&only_threads, DryRun::No, |_| ()).await?.batches, 0, "a batch has no strategy");
    assert_eq!(store.thread(of_young).await?, None);
    assert_eq!(left(store, &young).await?, ALL, "what came of a line is kept longer than its thread");
    let rest = Pruned { batches: 2, lines: 2, files: 5, ..Pruned::default() };
    assert_eq!(prune(store, LATE, DryRun::Yes).await?, rest);
    assert_eq!(
        prune(store, LATE, DryRun::No).await?,
        rest,
        "also the one that failed, and the input of both"
    );
    for gone in [&old, &young, &twin] {
        assert_eq!(left(store, gone).await?, [0; 5]);
    }
    assert_eq!(left(store, &open).await?, [1, 2, 2, 0, 1], "however long it is open");
    for thread in [of_held, of_before] {
        store.release(thread, "test").await?;
    }
    store.release_batch_leases("ada").await?;
    tidy(store).await?;
    assert_eq!(prune(store, LATE, DryRun::No).await?.batches, 4);
    for gone in [&held, &reused, &before, &open] {
        assert_eq!(left(store, gone).await?, [0; 5]);
    }
    Ok(())
}

/// A prune completes whatever an interrupted one left behind.
pub(crate) async fn goes_on_where_it_was_broken_off(store: &Store) -> Result<(), Error> {
    let input = file(store, "broken").await?;
    for nth in 1..70 {
        store.write_chunk(input, nth, chunk(b"b\n")).await?;
    }
    let made = made(store, new_batch("broken", input)).await?;
    store.acquire_batch_leases("ada", LEASE).await?;
    let names: Vec<String> = (0..LINES).map(|nth| nth.to_string()).collect();
    let lines: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
    store.add_lines(&made, "ada", taken_lines(1, &lines), LINES).await?;
    assert!(store.advance_batch(&known(store, made.id).await?, "ada", BatchStatus::Failed, None).await?);

    let which = Prune { before: LATE, strategy: None, by: "conformance".into() };
    for lines in [0, 1] {
        let now = Notify::new();
        let told = |it: Pruned| {
            if lines <= it.lines {
                now.notify_one();
            }
        };
        tokio::select! {
            biased;
            () = now.notified() => {}
            pruned = store.prune(&which, DryRun::No, told) => panic!("it came to its end: {pruned:?}"),
        }
        assert_eq!(store.batch(made.id).await?, None, "there is no half of a batch");
        assert!(!store.results(made.id, LINES - 1, 1).await?.is_empty(), "and much is left of it");
    }
    let there: u64 = count_items(store, made.id).await?.values().sum();
    assert!(there < LINES, "some pages went");
    store.prune(&which, DryRun::No, |_| ()).await?;
    assert_eq!(count_items(store, made.id).await?, [].into());
    assert_eq!(store.results(made.id, 0, 1).await?, []);
    for nth in [0, 1, 40, 69] {
        assert_eq!(store.chunk(input, nth).await?, None);
    }
    assert_eq!(prune(store, LATE, DryRun::Yes).await?, Pruned::default());
    Ok(())
}

/// Placing a hold on a thread of a batch, or resuming the batch, either prevents the deletion or finds the batch
/// deleted.
pub(crate) async fn goes_or_is_wanted(store: &Store) -> Result<(), Error> {
    let broken_off = |_| Error::Unavailable("a test was broken off".to_owned());
    for round in 0..ROUNDS {
        let (batch, thread) = run(store, "wanted").await?;
        let batch = over(store, &batch).await?;
        let more = NewTurn { thread: store::Opening::Existing(thread), ..new_turn("more") };
        let more = store.submit(more).await?.into_turn();
        let start = Arc::new(Barrier::new(2));
        let (pruning, wanting) = ((store.clone(), Arc::clone(&start)), (store.clone(), start));
        let pruning = tokio::spawn(async move {
            pruning.1.wait().await;
            prune(&pruning.0, LATE, DryRun::No).await
        });
        let wanting = tokio::spawn(async move {
            let (store, start) = wanting;
            start.wait().await;
            if round % 2 == 0 {
                store.hold(thread, "wanted", "eve").await?;
                Ok(store.batch(batch.id).await?.is_some())
            } else {
                let reopened = store.reopen_batch(batch.id, ItemState::Failed, 60, None, "test").await?;
                Ok::<_, Error>(reopened == Some(1))
            }
        });
        pruning.await.map_err(broken_off)??;
        let is_kept = wanting.await.map_err(broken_off)??;
        let kept = known(store, batch.id).await.is_ok();
        assert_eq!(kept, is_kept, "in round {round}");
        assert_eq!(count_items(store, batch.id).await?.is_empty(), !kept);
        store.release(thread, "test").await?;
        store.cancel_queued(more.id).await?;
        tidy(store).await?;
        prune(store, LATE, DryRun::No).await?;
        assert_eq!(left(store, &batch).await?, [0; 5]);
    }
    Ok(())
}

/// Finished deliveries about a batch are deleted with it.
pub(crate) async fn goes_with_what_was_told(store: &Store) -> Result<(), Error> {
    let tenant = "told";
    let types = vec![EventType::BatchCompleted, EventType::BatchCompletedWithErrors];
    let webhook = Webhook::new(Some(tenant), "https://example.org", types, "whsec_none".into());
    assert!(store.add_webhook(&webhook, "ada").await?);
    for nth in 0..2 {
        let (batch, _) = run(store, tenant).await?;
        over(store, &batch).await?;
        let at_once = DeliveryLimits { all: 9, tenant: 9, webhook: 9 };
        let due = if nth == 0 { store.claim_deliveries(at_once, &[], LEASE).await? } else { Vec::new() };
        for (_, delivery) in due {
            store.settle_delivery(&delivery, AttemptOutcome::Arrived { status: 200 }).await?;
        }
    }
    let then = clock::now();
    let (young, _) = run(store, tenant).await?;
    over(store, &young).await?;
    let of_webhook = DeliveryFilter { webhook: Some(webhook.id), ..DeliveryFilter::default() };
    let told = store.deliveries(of_webhook, None, 9).await?;
    let [_, pending, settled] = &told[..] else { panic!("three were told: {told:?}") };
    let settle = async |delivery: &store::webhooks::Delivery| {
        store.settle_delivery(delivery, AttemptOutcome::Arrived { status: 200 }).await
    };
    settle(&told[0]).await?;
    assert_eq!(prune(store, then, DryRun::Yes).await?.batches, 2);
    assert!(store.delivery(settled.id).await?.is_some(), "who only looks changes nothing");
    assert_eq!(prune(store, then, DryRun::No).await?.batches, 2);
    let after = store.deliveries(of_webhook, None, 9).await?;
    assert_eq!(after.iter().map(|delivery| delivery.id).collect::<Vec<_>>(), [told[0].id, pending.id]);
    settle(pending).await?;
    prune(store, then, DryRun::No).await?;
    let after = store.deliveries(of_webhook, None, 9).await?;
    assert_eq!(after.iter().map(|delivery| delivery.id).collect::<Vec<_>>(), [told[0].id]);
    assert!(store.remove_webhook(webhook.id, "ada").await?);
    prune(store, LATE, DryRun::No).await?;
    Ok(())
}

/// Pruning leaves unfinished uploads to the file sweep.
pub(crate) async fn keeps_what_is_being_written(store: &Store) -> Result<(), Error> {
    let id = Uuid::now_v7();
    store.begin_file(id, new_file("written")).await?;
    store.write_chunk(id, 0, chunk(b"a\n")).await?;
    prune(store, LATE, DryRun::No).await?;
    assert!(store.finish_file(id, 1, 2, None).await?.is_some(), "its pieces are there");
    assert!(store.chunk(id, 0).await?.is_some());
    prune(store, LATE, DryRun::No).await?;
    assert_eq!(store.chunk(id, 0).await?, None, "nobody made a batch of it");
    Ok(())
}

on_databases! {
    goes_with_all_that_is_its_own,
    goes_on_where_it_was_broken_off,
    goes_or_is_wanted,
    goes_with_what_was_told,
    keeps_what_is_being_written,
}
