//! Lists by last change, cost, tokens and time, in both directions, and of batches by failed lines: whole, in pages, of one tenant, and
//! refused where the search index is behind.

use shared::{Answered, Event, Reply, Response, ThreadStatus, TurnStatus, Usage};
use store::{
    Conditions, Error, NewTurn, Opening, Order, Rank, RankOrder, ReadModelUpdate, Store, ThreadFilter,
    ThreadId, Turn, TurnFilter, TurnId, TurnUpdate,
    batches::{BatchId, BatchRank},
    testing::tamper,
};
use uuid::Uuid;

use super::{
    batches::{file, made, new_batch},
    decided, of_tenant,
    search::fill,
    turn_started,
};

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
    let listed = async |filter, order: RankOrder, after: Option<TurnId>, limit| {
        let rows = store.ranked_turns(filter, order, after, limit).await?;
        Ok::<_, Error>(rows.iter().map(|turn| turn.id).collect::<Vec<_>>())
    };
    for (rank, order) in [
        (Rank::MicroUsd, [&dear, &cheap, &queued, &free]),
        (Rank::Tokens, [&cheap, &dear, &queued, &free]),
        (Rank::Updated, [&dear, &free, &cheap, &queued]),
        (Rank::Took, [&queued, &free, &cheap, &dear]),
    ] {
        let highest = order.map(|turn| turn.id);
        let mut lowest = highest;
        lowest.reverse();
        for (order, ids) in
            [(RankOrder::highest_first(rank), highest), (RankOrder::lowest_first(rank), lowest)]
        {
            assert_eq!(listed(filter, order, None, 9).await?, ids, "{order:?}");
            let mut pages = Vec::new();
            while let [id] = listed(filter, order, pages.last().copied(), 1).await?[..] {
                pages.push(id);
            }
            assert_eq!(pages, ids, "{order:?}, row by row");
        }
    }
    let conditions = Conditions::parse("status = completed and usd < 0.004", queue::clock::now()).unwrap();
    let some = TurnFilter { conditions: Some(&conditions), ..filter };
    let longest = RankOrder::highest_first(Rank::Took);
    assert_eq!(listed(some, longest, None, 9).await?, [free.id, cheap.id]);
    let unknown = store.ranked_turns(filter, longest, Some(Uuid::now_v7()), 1).await.unwrap_err();
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
    let listed = async |order: RankOrder, after: Option<ThreadId>, limit| {
        let rows = store.ranked_threads(filter, order, after, limit).await?;
        Ok::<_, Error>(rows.iter().map(|thread| thread.id).collect::<Vec<_>>())
    };
    for (rank, order) in [
        (Rank::MicroUsd, [twice, once]),
        (Rank::Tokens, [once, twice]),
        (Rank::Updated, [twice, once]),
        (Rank::Took, [twice, once]),
    ] {
        let (highest, lowest) = (RankOrder::highest_first(rank), RankOrder::lowest_first(rank));
        assert_eq!(listed(highest, None, 9).await?, order, "{rank:?}");
        assert_eq!(listed(highest, Some(order[0]), 9).await?, order[1..], "{rank:?}");
        assert_eq!(listed(lowest, None, 9).await?, [order[1], order[0]], "{rank:?}");
        assert_eq!(listed(lowest, Some(order[1]), 9).await?, order[..1], "{rank:?}");
    }
    for (order, ids) in [(Order::NewestFirst, [once, twice]), (Order::OldestFirst, [twice, once])] {
        let filter = ThreadFilter { order, ..filter };
        let listed = async |after, limit| {
            let rows = store.threads(filter, after, limit).await?;
            Ok::<_, Error>(rows.iter().map(|thread| thread.id).collect::<Vec<_>>())
        };
        assert_eq!(listed(None, 1).await?, ids[..1], "{order:?}");
        assert_eq!(listed(Some(ids[0]), 9).await?, ids[1..], "{order:?}");
    }
    // After an upgrade, the index has no costs yet.
    store.rebuild_search().await?;
    let behind =
        store.ranked_threads(filter, RankOrder::highest_first(Rank::MicroUsd), None, 9).await.unwrap_err();
    assert!(matches!(behind, Error::SearchBehind { .. }), "{behind}");
    let turns = TurnFilter { tenant: Some(TENANT), ..TurnFilter::default() };
    let fewest_tokens = RankOrder::lowest_first(Rank::Tokens);
    let behind = store.ranked_turns(turns, fewest_tokens, None, 9).await.unwrap_err();
    assert!(matches!(behind, Error::SearchBehind { .. }), "{behind}");
    let indexed = Conditions::parse("updated < 1970-01-01", queue::clock::now()).unwrap();
    let turns = TurnFilter { conditions: Some(&indexed), ..turns };
    assert!(store.ranked_turns(turns, fewest_tokens, None, 9).await?.is_empty(), "follows the hint");
    let updated = RankOrder::highest_first(Rank::Updated);
    assert_eq!(listed(updated, None, 9).await?, [twice, once], "needs no index");
    Ok(())
}

/// Sets the values of a batch by which batches are ordered.
async fn batch_with(store: &Store, counts: &str, micro_usd: i64, times: [i64; 3]) -> Result<Uuid, Error> {
    let id = made(store, new_batch(TENANT, file(store, TENANT).await?)).await?.id;
    let [created, cancelling, completed] = times;
    let known = |at: i64| Some(at).filter(|at| *at != 0);
    let sql = "UPDATE batches SET counts = $2, micro_usd = $3, created_at = $4, cancelling_at = $5, completed_at = $6 \
               WHERE id = $1";
    let values = [
        id.into(),
        counts.into(),
        micro_usd.into(),
        created.into(),
        known(cancelling).into(),
        known(completed).into(),
    ];
    tamper::execute_with(store, sql, values).await?;
    Ok(id)
}

pub(super) async fn batches_are_put_in_order(store: &Store) -> Result<(), Error> {
    let all_failed = r#"{"failed":2,"invalid":1,"expired":1}"#;
    let dear = batch_with(store, r#"{"completed":9,"failed":1}"#, 900, [10, 0, 50]).await?;
    let failed = batch_with(store, all_failed, 20, [20, 0, 30]).await?;
    // Lines that were cancelled one by one count as failed, and those of a cancelled batch do not.
    let one_by_one = batch_with(store, r#"{"cancelled":3}"#, 10, [30, 0, 0]).await?;
    let cancelled = batch_with(store, r#"{"cancelled":9}"#, 0, [5, 40, 0]).await?;
    let tenant = Some(TENANT);
    let listed = async |order: RankOrder<BatchRank>, after: Option<BatchId>, limit| {
        let rows = store.ranked_batches(tenant, order, after, limit).await?;
        Ok::<_, Error>(rows.map(|rows| rows.iter().map(|batch| batch.id).collect::<Vec<_>>()))
    };
    for (rank, highest) in [
        (BatchRank::Changed, [dear, cancelled, one_by_one, failed]),
        (BatchRank::Failed, [failed, one_by_one, dear, cancelled]),
        (BatchRank::MicroUsd, [dear, failed, one_by_one, cancelled]),
    ] {
        let mut lowest = highest;
        lowest.reverse();
        for (order, all) in
            [(RankOrder::highest_first(rank), highest), (RankOrder::lowest_first(rank), lowest)]
        {
            assert_eq!(listed(order, None, 9).await?, Some(all.to_vec()), "{order:?}");
            let mut pages = Vec::new();
            while let Some([id]) = listed(order, pages.last().copied(), 1).await?.as_deref() {
                pages.push(*id);
            }
            assert_eq!(pages, all, "{order:?}, row by row");
        }
    }
    let highest = RankOrder::highest_first(BatchRank::Failed);
    assert_eq!(listed(highest, Some(Uuid::now_v7()), 9).await?, None, "it does not exist");
    let oldest = store.batches(tenant, Order::OldestFirst, Some(dear), 9).await?;
    assert_eq!(oldest.iter().map(|batch| batch.id).collect::<Vec<_>>(), [failed, one_by_one, cancelled]);
    Ok(())
}

on_databases! {
    turns_are_put_in_order,
    threads_are_put_in_order,
    batches_are_put_in_order,
}
