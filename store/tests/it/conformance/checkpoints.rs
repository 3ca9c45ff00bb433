//! Checkpoints: one row for each origin, the last one.

use store::{CheckpointRecord, Error, Store};

pub(super) async fn are_kept_by_origin(store: &Store) -> Result<(), Error> {
    let made = |origin: &str, made_at| CheckpointRecord {
        origin: origin.to_owned(),
        file: format!("/audit/{origin}"),
        heads: 7,
        threads: 3,
        findings: 0,
        made_at,
    };
    assert_eq!(store.checkpoints().await?, []);
    store.record_checkpoint(&made("a", 1)).await?;
    store.record_checkpoint(&made("b", 2)).await?;
    assert_eq!(store.checkpoints().await?, [made("b", 2), made("a", 1)], "newest first");
    let again = CheckpointRecord { heads: 9, findings: 1, ..made("a", 3) };
    store.record_checkpoint(&again).await?;
    assert_eq!(store.checkpoints().await?, [again, made("b", 2)]);
    Ok(())
}

on_databases!(are_kept_by_origin);
