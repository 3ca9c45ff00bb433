//! The first process creates the tables, once, and a build that does not know the schema changes nothing.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::tamper;
use store::{Error, Store};

pub(super) async fn missing_then_made_once(store: &Store) -> Result<(), Error> {
    let pending = store.pending().await?;
    assert!(!pending.is_empty(), "the suite needs a database that is still empty");
    let refused = store.check_migrated().await.expect_err("a database without tables was taken for migrated");
    assert!(refused.to_string().contains("run `turnfold migrate`"), "no mend in {refused}");
    assert!(matches!(refused, Error::NotMigrated { pending: it } if it == pending));

    let barrier = Arc::new(Barrier::new(4));
    let racer = |store: Store, barrier: Arc<Barrier>| async move {
        barrier.wait().await;
        store.migrate().await
    };
    let racers: Vec<_> = (0..4).map(|_| tokio::spawn(racer(store.clone(), barrier.clone()))).collect();
    let mut applied = Vec::new();
    for it in racers {
        applied.extend(it.await.expect("a racer panicked")?);
    }
    assert_eq!(applied, pending, "each migration is applied once, by one of those that race");
    store.check_migrated().await
}

pub(super) async fn from_the_future(store: &Store) -> Result<(), Error> {
    store.migrate().await?;
    let add = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m29990101_000001_minds', 0)";
    tamper::execute_with(store, add, []).await?;
    let (checked, migrated) = (store.check_migrated().await, store.migrate().await);
    let remove = "DELETE FROM seaql_migrations WHERE version = 'm29990101_000001_minds'";
    tamper::execute_with(store, remove, []).await?;

    let refused = checked.expect_err("a database of the future was taken for ours");
    let words = refused.to_string();
    assert!(
        words.contains("m29990101_000001_minds") && words.contains("newer version of turnfold"),
        "no mend in {words}"
    );
    assert!(matches!(refused, Error::TooNew { .. }));
    assert!(matches!(migrated, Err(Error::TooNew { .. })), "{migrated:?}");
    store.check_migrated().await
}

on_databases!(empty missing_then_made_once, from_the_future);
