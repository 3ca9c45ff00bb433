//! Files on every engine: stored byte for byte until they expire, and for as long as a batch reads them.

use std::sync::Arc;

use tokio::sync::Barrier;
use uuid::Uuid;

use super::batches::{LEASE, NONE, batch, chunk, file, known, made, new_batch, new_file, tidy, to};
use store::{
    Error, Idempotency, Order, Store,
    batches::{BatchStatus, Chunker, ItemState, KnownBy, NewBatch},
};

/// Number of races between deletion of a file and creation of a batch from it.
const ROUNDS: usize = 20;

/// Rewrites a file so that it expires at once.
async fn expired(store: &Store, id: Uuid, tenant: &str) -> Result<(), Error> {
    store.begin_file(id, new_file(tenant)).await?;
    store.write_chunk(id, 0, chunk(b"gone\n")).await?;
    store.finish_file(id, 1, 5, Some(0)).await?;
    Ok(())
}

pub(super) async fn come_back_as_they_were_sent(store: &Store) -> Result<(), Error> {
    let sent: Vec<u8> = (0..300_000_u32).flat_map(|nth| [nth as u8, b'x', b'\n', 0]).collect();
    let (id, mut cutter) = (Uuid::now_v7(), Chunker::new(1 << 20));
    store.begin_file(id, new_file("files")).await?;
    let mut chunks = cutter.push(&sent);
    chunks.extend(cutter.finish());
    assert!(chunks.len() > 3);
    for (nth, it) in (0..).zip(&chunks) {
        store.write_chunk(id, nth, it.clone()).await?;
    }
    assert_eq!(store.file(id).await?, None, "nobody sees what is not whole");
    assert_eq!(store.files(Some("files"), None, Order::NewestFirst, None, 10).await?, []);
    let (pieces, bytes) = (chunks.len() as u32, sent.len() as u64);
    assert_eq!(store.finish_file(id, pieces + 1, bytes, None).await?, None, "a piece is missing");
    assert_eq!(store.file(id).await?, None);
    let whole = store.finish_file(id, pieces, bytes, Some(3600)).await?.expect("it is whole");
    assert_eq!((whole.bytes, whole.filename.as_str()), (sent.len() as u64, "lines.jsonl"));
    assert_eq!(whole.expires_at, Some(whole.created_at + 3_600_000_000));
    let mut back = Vec::new();
    for nth in 0.. {
        let Some(read) = store.chunk(id, nth).await? else { break };
        assert_eq!(read, chunks[nth as usize]);
        back.extend(read.data);
    }
    assert!(back == sent);

    let other = file(store, "files").await?;
    let listed = |it: Vec<store::batches::File>| it.into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(listed(store.files(Some("files"), None, Order::NewestFirst, None, 10).await?), [other, id]);
    assert_eq!(
        listed(store.files(Some("files"), Some("batch"), Order::NewestFirst, Some(other), 10).await?),
        [id]
    );
    let oldest = Order::OldestFirst;
    assert_eq!(listed(store.files(Some("files"), None, oldest, None, 10).await?), [id, other]);
    assert_eq!(listed(store.files(Some("files"), None, oldest, Some(id), 10).await?), [other]);
    assert_eq!(listed(store.files(Some("nobody"), None, Order::NewestFirst, None, 10).await?), NONE);
    let gone = Uuid::now_v7();
    expired(store, gone, "files").await?;
    assert_eq!(store.file(gone).await?, None, "its time is over");
    assert_eq!(listed(store.files(Some("files"), None, Order::NewestFirst, None, 10).await?), [other, id]);
    assert_eq!(store.sweep_files().await?, 1);
    assert_eq!(store.chunk(gone, 0).await?, None);
    assert!(store.delete_file(id, "test").await?);
    assert_eq!(store.file(id).await?, None);
    assert_eq!(store.chunk(id, 0).await?, None);
    Ok(())
}

/// Deletion of a file finds the batch that reads it, and no batch starts without its file.
pub(super) async fn stay_while_a_batch_reads_them(store: &Store) -> Result<(), Error> {
    let input = file(store, "read").await?;
    let key = Idempotency { key: "once".to_owned(), request_hash: "hash".to_owned() };
    let new = NewBatch { known_by: KnownBy::Key(key.key.clone()), ..new_batch("read", input) };
    let first = made(store, new.clone()).await?;
    assert!(!store.delete_file(input, "test").await?, "a batch reads it");
    assert!(store.file(input).await?.is_some());
    expired(store, input, "read").await?;
    assert_eq!(store.make_batch(new_batch("read", input)).await?, None, "no other batch keeps it longer");
    assert_eq!(store.sweep_files().await?, 0);
    assert!(store.chunk(input, 0).await?.is_some());
    store.acquire_batch_leases("ada", LEASE).await?;
    assert!(store.advance_batch(&first, "ada", BatchStatus::Failed, None).await?);
    assert_eq!(store.sweep_files().await?, 1, "the batch is over");
    assert_eq!(store.chunk(input, 0).await?, None);

    assert_eq!(store.make_batch(new_batch("read", input)).await?, None);
    let first = known(store, first.id).await?;
    assert_eq!(store.make_batch(new).await?, Some((first.clone(), false)), "what was made is known");
    for tenant in [None, Some("read")] {
        assert_eq!(store.made_batch(tenant, input, &key).await?.as_ref(), Some(&first));
    }
    assert_eq!(store.made_batch(Some("other"), input, &key).await?, None);
    let other = Idempotency { request_hash: "another".to_owned(), ..key };
    assert!(matches!(store.made_batch(None, input, &other).await, Err(Error::KeyReused)));

    let made = batch(store, "again", "ada", &[("a", Some("1"))]).await?;
    let waiting = store.waiting_items(made.id, 1).await?;
    store.apply_transitions(made.id, "ada", vec![to(&waiting[0], ItemState::Failed)]).await?;
    assert!(store.advance_batch(&made, "ada", BatchStatus::Completed, None).await?);
    let over = known(store, made.id).await?;
    assert!(store.delete_file(made.input_file, "test").await?);
    assert_eq!(store.reopen_batch(made.id, ItemState::Failed, 60, Some(77), "test").await?, None);
    assert_eq!(known(store, made.id).await?, over, "what cannot be read again stays as it is");
    Ok(())
}

pub(super) async fn go_or_their_batch_is_made(store: &Store) -> Result<(), Error> {
    let broken_off = |_| Error::Unavailable("a test was broken off".to_owned());
    for round in 0..ROUNDS {
        let input = file(store, "race").await?;
        let start = Arc::new(Barrier::new(2));
        let (deletes, makes) = ((store.clone(), Arc::clone(&start)), (store.clone(), start));
        let deletes = tokio::spawn(async move {
            deletes.1.wait().await;
            deletes.0.delete_file(input, "test").await
        });
        let makes = tokio::spawn(async move {
            makes.1.wait().await;
            makes.0.make_batch(new_batch("race", input)).await
        });
        let is_gone = deletes.await.map_err(broken_off)??;
        let is_made = makes.await.map_err(broken_off)??.is_some();
        assert_eq!(is_gone, !is_made, "one of both, in round {round}");
        assert_eq!(store.file(input).await?.is_some(), is_made);
    }
    tidy(store).await
}

/// A coordinator with a lost lease does not delete a result file that the batch's owner may be reading.
pub(super) async fn of_results_are_begun_by_the_holder_of_the_lease(store: &Store) -> Result<(), Error> {
    let made = batch(store, "results", "ada", &[("a", Some("1"))]).await?;
    assert!(store.advance_batch(&made, "ada", BatchStatus::Finalizing, None).await?);
    let now = known(store, made.id).await?;
    let (output, begin) = (now.output_file.expect("it is named"), || new_file("results"));
    let lost = |result: Result<(), Error>| matches!(result, Err(Error::BatchLost(_)));
    assert!(lost(store.begin_results(made.id, "bob", output, begin()).await), "he does not keep it");
    assert!(lost(store.begin_results(made.id, "ada", made.input_file, begin()).await), "it reads that one");
    assert!(store.file(made.input_file).await?.is_some());
    for nth in 0..200 {
        if nth == 0 || nth == 100 {
            store.begin_results(made.id, "ada", output, begin()).await?;
            assert_eq!(store.chunk(output, 0).await?, None, "it is begun again");
        }
        store.write_chunk(output, nth % 100, chunk(b"x")).await?;
    }
    let whole = store.finish_file(output, 100, 100, None).await?;
    assert!(whole.is_some());
    assert!(store.advance_batch(&now, "ada", BatchStatus::Completed, None).await?);
    assert!(lost(store.begin_results(made.id, "ada", output, begin()).await), "it is over");
    assert_eq!(store.file(output).await?, whole);
    Ok(())
}

/// An interrupted deletion of a long file leaves it invisible, and the sweeper removes the remaining chunks.
pub(super) async fn go_piece_by_piece(store: &Store) -> Result<(), Error> {
    let (id, pieces) = (Uuid::now_v7(), 1000);
    store.begin_file(id, new_file("long")).await?;
    for nth in 0..pieces {
        store.write_chunk(id, nth, chunk(b"x")).await?;
    }
    store.finish_file(id, pieces, 1000, None).await?;
    let deletes = store.clone();
    let deletes = tokio::spawn(async move { deletes.delete_file(id, "test").await });
    while store.file(id).await?.is_some() {
        tokio::task::yield_now().await;
    }
    deletes.abort();
    let _ = deletes.await;
    assert_eq!(store.finish_file(id, pieces, 1000, None).await?, None, "it does not come back");
    store.sweep_files().await?;
    for nth in 0..pieces {
        assert_eq!(store.chunk(id, nth).await?, None);
    }
    assert_eq!(store.sweep_files().await?, 0, "nothing is left of it");
    Ok(())
}

on_databases! {
    come_back_as_they_were_sent,
    stay_while_a_batch_reads_them,
    go_or_their_batch_is_made,
    of_results_are_begun_by_the_holder_of_the_lease,
    go_piece_by_piece,
}
