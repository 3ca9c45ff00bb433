//! Lists by last change, cost, tokens and time: whole, in pages, of one tenant, and refused where the search index is behind.

use shared::{Answered, Event, Reply, Response, ThreadStatus, TurnStatus, Usage};
use store::{
    Conditions, Error, NewTurn, Opening, Rank, ReadModelUpdate, Store, ThreadFilter, ThreadId, Turn,
    TurnFilter, TurnId, TurnUpdate, testing::tamper,
};

use super::{decided, of_tenant, search::fill, turn_started};

const TENANT: &str = "ranked";

/// Runs a turn to its end that uses these tokens and costs these millionths of a US dollar.
async fn spends(store: &Store, new: NewTurn, tokens: u32, micro_usd: u64) -> Result<Turn, Error> {
    let turn = store.submit(new).await?.into_turn();
    let head = store.head(turn.thread).await?;
    let usage = Usage { input_tokens: tokens.into(), micro_usd: Some(micro_usd), ..Usage::default() };
    let response = Response::Reply(Reply { content: "yes".to_owned(), ..Reply::default() });
    let answered: Event = Answered { slot: 0, response, usage: Some(usage), extras: None }.into();
    let ended = TurnUpdate { turn: turn.id, status: TurnStatus::Completed, error: None, outcome: None };
    let update = ReadModelUpdate { status: ThreadStatus::Idle, turn: Some(ended) };
    store.append(&head, &[turn_started(&turn), answered, decided("end")], Some(&update)).await?;
    Ok(turn)
}

/// Sets the times of a turn, in microseconds after its submission and after the epoch.
async fn took(store: &Store, turn: &Turn, took: i64, updated: i64) -> Result<(), Error> {
    let sql = "UPDATE turns SET created_at = $2, updated_at = $3 WHERE id = $1";
    tamper::execute_with(store, sql, [turn.id.into(), (updated - took).into(), updated.into()]).await?;
    Ok(())
}

pub(super) async fn turns_are_put_in_order(store: &Store) -> Result<(), Error> {
    store.begin_indexing().await?;
    let cheap = spends(store, of_tenant(TENANT, "cheap"), 900, 10).await?;
    let dear = spends(store, of_tenant(TENANT, "dear"), 100, 5_000).await?;
    let free = spends(store, of_tenant(TENANT, "free"), 0, 0).await?;
    let queued = store.submit(of_tenant(TENANT, "queued")).await?.into_turn();
    spends(store, of_tenant("other", "other"), 9_999, 9_999).await?;
    fill(store).await?;
    took(store, &cheap, 30, 7_000_000).await?;
    took(store, &dear, 20, 9_000_000).await?;
    took(store, &free, 40, 8_000_000).await?;
    took(store, &queued, 99, 6_000_000).await?;
    let filter = TurnFilter { tenant: Some(TENANT), ..TurnFilter::default() };
    let listed = async |filter, rank, after: Option<TurnId>, limit| {
        let rows = store.ranked_turns(filter, rank, after, limit).await?;
        Ok::<_, Error>(rows.iter().map(|turn| turn.id).collect::<Vec<_>>())
    };
    for (rank, order) in [
        (Rank::MicroUsd, [&dear, &cheap, &queued, &free]),
        (Rank::Tokens, [&cheap, &dear, &queued, &free]),
        (Rank::Updated, [&dear, &free, &cheap, &queued]),
        (Rank::Took, [&queued, &free, &cheap, &dear]),
    ] {
        let order = order.map(|turn| turn.id);
        assert_eq!(listed(filter, rank, None, 9).await?, order, "{rank:?}");
        let mut pages = Vec::new();
        while let [id] = listed(filter, rank, pages.last().copied(), 1).await?[..] {
            pages.push(id);
        }
        assert_eq!(pages, order, "{rank:?}, row by row");
    }
    let conditions = Conditions::parse("status = completed and usd < 0.004", queue::clock::now()).unwrap();
    let some = TurnFilter { conditions: Some(&conditions), ..filter };
    assert_eq!(listed(some, Rank::Took, None, 9).await?, [free.id, cheap.id]);
    let unknown = store.ranked_turns(filter, Rank::Took, Some(uuid::Uuid::now_v7()), 1).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownTurn(_)), "{unknown}");
    Ok(())
}

pub(super) async fn threads_are_put_in_order(store: &Store) -> Result<(), Error> {
    store.begin_indexing().await?;
    let twice = spends(store, of_tenant(TENANT, "one"), 10, 3_000).await?.thread;
    let once = spends(store, of_tenant(TENANT, "other"), 90, 5_000).await?.thread;
    let again = NewTurn { thread: Opening::Existing(twice), ..of_tenant(TENANT, "again") };
    spends(store, again, 20, 3_000).await?;
    fill(store).await?;
    let filter = ThreadFilter { tenant: Some(TENANT), ..ThreadFilter::default() };
    let listed = async |rank, after: Option<ThreadId>, limit| {
        let rows = store.ranked_threads(filter, rank, after, limit).await?;
        Ok::<_, Error>(rows.iter().map(|thread| thread.id).collect::<Vec<_>>())
    };
    for (rank, order) in [
        (Rank::MicroUsd, [twice, once]),
        (Rank::Tokens, [once, twice]),
        (Rank::Updated, [twice, once]),
        (Rank::Took, [twice, once]),
    ] {
        assert_eq!(listed(rank, None, 9).await?, order, "{rank:?}");
        assert_eq!(listed(rank, Some(order[0]), 9).await?, order[1..], "{rank:?}");
    }
    // After an upgrade, the index has no costs yet.
    store.rebuild_search().await?;
    let behind = store.ranked_threads(filter, Rank::MicroUsd, None, 9).await.unwrap_err();
    assert!(matches!(behind, Error::SearchBehind { .. }), "{behind}");
    let turns = TurnFilter { tenant: Some(TENANT), ..TurnFilter::default() };
    let behind = store.ranked_turns(turns, Rank::Tokens, None, 9).await.unwrap_err();
    assert!(matches!(behind, Error::SearchBehind { .. }), "{behind}");
    let indexed = Conditions::parse("updated < 1970-01-01", queue::clock::now()).unwrap();
    let turns = TurnFilter { conditions: Some(&indexed), ..turns };
    assert!(store.ranked_turns(turns, Rank::Tokens, None, 9).await?.is_empty(), "follows the hint");
    assert_eq!(listed(Rank::Updated, None, 9).await?, [twice, once], "needs no index");
    Ok(())
}

on_databases! {
    turns_are_put_in_order,
    threads_are_put_in_order,
}
