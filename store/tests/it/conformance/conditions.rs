//! Filters select the same turns on both engines, and failures are counted by cause.

use std::collections::BTreeSet;

use serde_json::json;
use shared::{Cause, Outcome, OutcomeKind, TurnEnd};

use super::{of_tenant, tamper, turn_started};
use queue::{Priority, clock};
use shared::{ThreadStatus, TurnStatus};
use store::{
    Conditions, Error, IdOf, NewTurn, Opening, Order, PartOfId, ReadModelUpdate, Store, ThreadFilter, Turn,
    TurnFilter, TurnId, TurnUpdate,
};

/// Tenant of this test alone, so that the turns of other tests do not match.
const TENANT: &str = "conditions";

fn conditions(words: &str) -> Conditions {
    match Conditions::parse(words, clock::now()) {
        Ok(store) => store,
        Err(unread) => panic!("{words}: {unread}"),
    }
}

async fn fails(store: &Store, turn: &Turn, error: &str) -> Result<(), Error> {
    let mark = |status, turn_status, error: Option<&str>| {
        let turn =
            TurnUpdate { turn: turn.id, status: turn_status, error: error.map(str::to_owned), outcome: None };
        ReadModelUpdate { status, turn: Some(turn) }
    };
    let head = store.head(turn.thread).await?;
    let running = mark(ThreadStatus::Busy, TurnStatus::Running, None);
    let head = store.append(&head, &[turn_started(turn)], Some(&running)).await?;
    let failed = mark(ThreadStatus::Error, TurnStatus::Failed, Some(error));
    store.append(&head, &[super::decided("failed")], Some(&failed)).await?;
    Ok(())
}

/// Runs a turn to an end with this outcome.
async fn ends(store: &Store, turn: &Turn, kind: OutcomeKind, cause: &str) -> Result<(), Error> {
    let causes = if cause.is_empty() { BTreeSet::new() } else { [Cause::from(cause)].into() };
    let outcome = Some(Outcome { kind, causes });
    let turn_update = TurnUpdate { turn: turn.id, status: TurnStatus::Completed, error: None, outcome };
    let update = ReadModelUpdate { status: ThreadStatus::Idle, turn: Some(turn_update) };
    let head = store.head(turn.thread).await?;
    store.append(&head, &[turn_started(turn), super::decided("ended")], Some(&update)).await?;
    Ok(())
}

pub(super) async fn find_outcomes(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "outcomes";
    let mut turns = Vec::new();
    for (kind, cause) in [
        (OutcomeKind::Answered, ""),
        (OutcomeKind::Partial, "mcp unreachable: files"),
        (OutcomeKind::Declined, "no expert fits"),
        (OutcomeKind::Partial, "mcp unreachable: files"),
    ] {
        let turn = store.submit(of_tenant(TENANT, "hello")).await?.into_turn();
        ends(store, &turn, kind, cause).await?;
        turns.push(turn.id);
    }
    let failed = store.submit(of_tenant(TENANT, "hello")).await?.into_turn();
    fails(store, &failed, "no expert fits").await?;
    turns.push(failed.id);
    for (words, found) in [
        ("outcome = answered", vec![0]),
        ("outcome = partial", vec![1, 3]),
        ("outcome = declined", vec![2]),
        ("outcome != partial", vec![0, 2, 4]),
        ("status = completed", vec![0, 1, 2, 3]),
        ("status = completed and outcome != answered", vec![1, 2, 3]),
        ("status = failed", vec![4]),
        ("cause = 'mcp unreachable: files'", vec![1, 3]),
        ("cause ~ unreachable and outcome = partial", vec![1, 3]),
        ("cause = 'no expert fits'", vec![2, 4]),
        ("cause = ''", vec![0]),
    ] {
        let conditions = conditions(&format!("tenant = {TENANT} and {words}"));
        let filter =
            TurnFilter { conditions: Some(&conditions), order: Order::OldestFirst, ..TurnFilter::default() };
        let ids: Vec<TurnId> = store.turns(filter, None, 9).await?.iter().map(|turn| turn.id).collect();
        assert_eq!(ids, found.iter().map(|nth| turns[*nth]).collect::<Vec<_>>(), "{words}");
    }
    let filter = TurnFilter { tenant: Some(TENANT), ..TurnFilter::default() };
    let ends = store.failures(filter, 9).await?;
    let causes: Vec<_> = ends.by_cause.iter().map(|row| (row.ended, row.cause.as_str(), row.turns)).collect();
    let expected = [
        (TurnEnd::Partial, "mcp unreachable: files", 2),
        (TurnEnd::Failed, "no expert fits", 1),
        (TurnEnd::Declined, "no expert fits", 1),
    ];
    assert_eq!(
        (ends.turns, causes),
        (4, expected.to_vec()),
        "the same cause of different ends is counted apart"
    );
    let failed = store.failures(TurnFilter { status: Some(TurnStatus::Failed), ..filter }, 9).await?;
    assert_eq!((failed.turns, failed.by_cause.len()), (1, 1));
    Ok(())
}

pub(super) async fn find_the_same_rows(store: &Store) -> Result<(), Error> {
    let new = |author: &str, priority, metadata| NewTurn {
        author: author.to_owned(),
        priority,
        metadata,
        ..of_tenant(TENANT, "hello")
    };
    let submit = async |new| Ok::<_, Error>(store.submit(new).await?.into_turn());
    let a = submit(new("Ada", Priority::High, json!({"order": 7, "ok": true, "note": "it's 50% \"off\""})))
        .await?;
    let b = submit(new("Bob", Priority::Low, json!({"order": "7", "ok": false, "nul": "\0"}))).await?;
    let c = submit(new("ada", Priority::Normal, json!({"note": "", "un_der": "x"}))).await?;
    fails(store, &a, "openai/gpt-4o timed out after 30s").await?;
    fails(store, &b, "it's a 50% chance").await?;
    let all = [a.id, b.id, c.id];
    for (words, found) in [
        ("status = failed", vec![0, 1]),
        ("status != failed", vec![2]),
        ("status = failed and author = Bob", vec![1]),
        ("author = ada", vec![2]),
        ("author ~ da", vec![0, 2]),
        ("author != Ada", vec![1, 2]),
        ("priority = low", vec![1]),
        ("priority != low", vec![0, 2]),
        ("strategy = probe", vec![0, 1, 2]),
        ("strategy != probe", vec![]),
        ("strategy ~ rob and status = failed", vec![0, 1]),
        ("error ~ 'timed out'", vec![0]),
        ("error ~ 'TIMED'", vec![]),
        ("error ~ \"it's a 50% c\"", vec![1]),
        ("error ~ _t", vec![]),
        ("error != x", vec![0, 1, 2]),
        ("error = ''", vec![2]),
        ("cause = 'openai/gpt-4o timed out after #'", vec![0]),
        // Metadata that contains NUL counts as absent, because PostgreSQL cannot read it.
        ("metadata.order = 7", vec![0]),
        ("metadata.ok = true", vec![0]),
        ("metadata.ok != true", vec![1, 2]),
        ("metadata.note ~ '50% \"off'", vec![0]),
        ("metadata.un_der = x", vec![2]),
        ("metadata.nul ~ x", vec![]),
        ("created > 1h", vec![0, 1, 2]),
        ("created < 1h", vec![]),
        ("updated < 2999-01-01 and updated > 2026-01-01", vec![0, 1, 2]),
        (&format!("thread = {}", b.thread), vec![1]),
        (&format!("thread != {}", b.thread), vec![0, 2]),
        ("author ~ \"'; DROP TABLE turns; --\"", vec![]),
    ] {
        let conditions = conditions(&format!("tenant = {TENANT} and {words}"));
        let filter =
            TurnFilter { conditions: Some(&conditions), order: Order::OldestFirst, ..TurnFilter::default() };
        let ids: Vec<TurnId> = store.turns(filter, None, 9).await?.iter().map(|turn| turn.id).collect();
        assert_eq!(ids, found.iter().map(|nth| all[*nth]).collect::<Vec<_>>(), "{words}");
        let newest = TurnFilter { order: Order::NewestFirst, ..filter };
        let newest: Vec<TurnId> = store.turns(newest, None, 9).await?.iter().map(|turn| turn.id).collect();
        let before: Vec<TurnId> = ids.iter().rev().copied().collect();
        assert_eq!(newest, before, "{words}");
    }
    let oldest = TurnFilter { tenant: Some(TENANT), order: Order::OldestFirst, ..TurnFilter::default() };
    let page: Vec<TurnId> = store.turns(oldest, Some(a.id), 1).await?.iter().map(|turn| turn.id).collect();
    assert_eq!(page, [b.id]);
    Ok(())
}

pub(super) async fn count_failures_by_cause(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "causes";
    let new = || of_tenant(TENANT, "hello");
    let mut turns = Vec::new();
    for error in ["timed out after 30s", "timed out after 7s", "no paper \"A4\""] {
        let turn = store.submit(new()).await?.into_turn();
        fails(store, &turn, error).await?;
        turns.push(turn.id);
    }
    let refused = store.submit(new()).await?.into_turn();
    store.refuse_queued(refused.id, "timed out after 8s").await?;
    store.submit(new()).await?;

    let filter = TurnFilter { tenant: Some(TENANT), ..TurnFilter::default() };
    let failures = store.failures(filter, 9).await?;
    assert_eq!((failures.turns, failures.never_started), (4, 1));
    let causes: Vec<_> = failures
        .by_cause
        .iter()
        .map(|row| (row.cause.as_str(), row.turns, row.never_started, row.example))
        .collect();
    assert_eq!(causes, [("timed out after #", 3, 1, refused.id), ("no paper \"…\"", 1, 0, turns[2])]);
    assert!(failures.by_cause.iter().all(|row| row.first_at <= row.last_at));
    let first = store.failures(filter, 1).await?;
    assert_eq!((first.by_cause.len(), first.turns), (1, 4), "what is left out is counted");
    let some = conditions("cause ~ paper");
    let some = store.failures(TurnFilter { conditions: Some(&some), ..filter }, 9).await?;
    assert_eq!((some.by_cause.len(), some.turns), (1, 1));
    Ok(())
}

pub(super) async fn find_threads_by_their_turns(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "threads";
    let first = store.submit(of_tenant(TENANT, "hello")).await?.into_turn();
    let second = store.submit(of_tenant(TENANT, "hello")).await?.into_turn();
    fails(store, &first, "no paper").await?;
    let again = NewTurn { thread: Opening::Existing(first.thread), ..of_tenant(TENANT, "again") };
    store.submit(again).await?;
    let found = async |words: &str, status| {
        let turns = conditions(words);
        let filter =
            ThreadFilter { tenant: Some(TENANT), status, turns: Some(&turns), ..ThreadFilter::default() };
        let threads = store.threads(filter, None, 9).await?;
        Ok::<_, Error>(threads.into_iter().map(|thread| thread.id).collect::<Vec<_>>())
    };
    assert_eq!(found("status = failed", None).await?, [first.thread]);
    assert_eq!(found("error ~ paper and age < 1h", None).await?, [first.thread]);
    assert_eq!(found("status = queued", None).await?, [second.thread, first.thread], "each thread once");
    assert_eq!(found("strategy = probe", Some(ThreadStatus::Error)).await?, [first.thread]);
    assert!(found("status = failed", Some(ThreadStatus::Idle)).await?.is_empty());
    assert!(found("tenant != threads", None).await?.is_empty());
    Ok(())
}

pub(super) async fn find_ids_by_their_parts(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "parts";
    let turn = store.submit(of_tenant(TENANT, "hello")).await?.into_turn();
    let other = store.submit(of_tenant(TENANT, "hello")).await?.into_turn();
    let part = |id: uuid::Uuid, from: usize| PartOfId::parse(&id.to_string()[from..]).unwrap();
    let found = async |of, part: &PartOfId, tenant| store.ids_with(of, part, tenant).await;
    for from in [0, 19, 24, 28] {
        let of_thread = part(turn.thread, from);
        assert_eq!(
            found(IdOf::Thread, &of_thread, Some(TENANT)).await?,
            (vec![turn.thread], false),
            "{from}"
        );
        assert_eq!(found(IdOf::Turn, &part(turn.id, from), None).await?, (vec![turn.id], false), "{from}");
        assert!(found(IdOf::Thread, &of_thread, Some("other")).await?.0.is_empty(), "of another tenant");
        assert!(found(IdOf::Batch, &of_thread, None).await?.0.is_empty(), "of another kind");
    }
    let beginning = PartOfId::parse(&turn.thread.to_string()[..6]).unwrap();
    let (mut ids, _) = found(IdOf::Thread, &beginning, Some(TENANT)).await?;
    ids.sort();
    assert_eq!(ids, [turn.thread, other.thread], "ids of the same minute begin alike");
    let matching = async |words: String| {
        let conditions = conditions(&words);
        let filter = TurnFilter { conditions: Some(&conditions), ..TurnFilter::default() };
        Ok::<_, Error>(store.turns(filter, None, 10).await?.into_iter().map(|it| it.id).collect::<Vec<_>>())
    };
    let end = &turn.thread.to_string()[28..];
    assert_eq!(matching(format!("thread = {end}")).await?, [turn.id]);
    assert_eq!(matching(format!("thread != {end} and tenant = {TENANT}")).await?, [other.id]);
    Ok(())
}

/// A fork's turns have the times of those that it copies.
pub(super) async fn find_what_was_made_recently(store: &Store) -> Result<(), Error> {
    let turn = store.submit(of_tenant("recent", "hello")).await?.into_turn();
    tamper::execute(store, "UPDATE turns SET created_at = 1 WHERE thread_id = $1", turn.thread).await?;
    let found = async |at: i64| {
        let conditions = conditions("tenant = recent").and_since(at);
        let filter = TurnFilter { conditions: Some(&conditions), ..TurnFilter::default() };
        Ok::<_, Error>(store.turns(filter, None, 10).await?.len())
    };
    let now = clock::now();
    assert_eq!(found(now - 60_000_000).await?, 1, "its thread was made within the time");
    assert_eq!(found(now + 1_000_000).await?, 0);
    let submitted = "UPDATE turns SET created_at = 9000000000000000 WHERE thread_id = $1";
    tamper::execute(store, submitted, turn.thread).await?;
    assert_eq!(found(now + 1_000_000).await?, 1, "a turn of an older thread");
    Ok(())
}

on_databases! {
    find_what_was_made_recently,
    find_ids_by_their_parts,
    find_threads_by_their_turns,
    find_the_same_rows,
    find_outcomes,
    count_failures_by_cause,
}
