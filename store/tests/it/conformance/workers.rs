//! Workers report, are replaced by their next report, and are forgotten.

use std::collections::BTreeMap;

use queue::clock;
use store::{Error, LearnedModel, Store, WorkerRecord};
use uuid::Uuid;

const DAY: i64 = 24 * 3600 * 1_000_000;

fn worker(name: &str, seen_at: i64) -> WorkerRecord {
    WorkerRecord {
        id: Uuid::now_v7(),
        name: name.to_owned(),
        host: "host".to_owned(),
        pid: u32::MAX,
        version: "0.1.0".to_owned(),
        strategies: BTreeMap::from([("probe".to_owned(), 3), ("planner".to_owned(), 1)]),
        slots: 4,
        in_flight: 0,
        steps_per_second: None,
        learned_models: Vec::new(),
        started_at: seen_at,
        seen_at,
    }
}

pub(super) async fn are_listed_as_they_last_reported(store: &Store) -> Result<(), Error> {
    let now = clock::now();
    let (first, second) = (worker("b", now), worker("a", now));
    store.record_worker(&first).await?;
    store.record_worker(&second).await?;
    assert_eq!(store.workers().await?, [second.clone(), first.clone()], "sorted by name");
    let window =
        LearnedModel { model: "a/b".to_owned(), context_tokens: Some(8_192), ..LearnedModel::default() };
    let later = WorkerRecord { in_flight: 3, steps_per_second: Some(12.5), seen_at: now + 10, ..first };
    let later = WorkerRecord { learned_models: vec![window], ..later };
    store.record_worker(&later).await?;
    assert_eq!(store.workers().await?, [second.clone(), later.clone()], "the last report replaces the first");
    store.remove_worker(later.id).await?;
    store.remove_worker(later.id).await?;
    assert_eq!(store.workers().await?, [second]);
    Ok(())
}

pub(super) async fn are_forgotten_after_a_day(store: &Store) -> Result<(), Error> {
    let now = clock::now();
    let (old, missing) = (worker("old", now - DAY - 1), worker("missing", now - DAY + 60_000_000));
    store.record_worker(&missing).await?;
    store.record_worker(&old).await?;
    assert_eq!(store.workers().await?, [missing]);
    Ok(())
}

pub(super) async fn show_signs_of_life(store: &Store) -> Result<(), Error> {
    let now = clock::now();
    let (before, after) = (worker("a", now - 1_000), worker("a", now + 5_000));
    let sign = async |except: Uuid, running_at| store.last_sign_of_life("a", except, running_at).await;
    assert_eq!(sign(Uuid::nil(), None).await?, None);
    store.record_worker(&before).await?;
    store.record_worker(&after).await?;
    store.show_life(before.id, now + 100).await?;
    store.show_life(Uuid::now_v7(), now + 900_000).await?;
    assert_eq!(sign(after.id, None).await?, Some(now + 100), "the other one with the name");
    assert_eq!(sign(Uuid::nil(), Some(now)).await?, Some(now + 100), "the one that ran then");
    assert_eq!(sign(Uuid::nil(), None).await?, Some(now + 5_000), "the last report counts too");
    assert_eq!(sign(Uuid::nil(), Some(now - 9_000)).await?, Some(now + 5_000), "none ran then");
    assert_eq!(store.workers().await?, [before, after], "a sign is no report");
    Ok(())
}

on_databases!(are_listed_as_they_last_reported, are_forgotten_after_a_day, show_signs_of_life);
