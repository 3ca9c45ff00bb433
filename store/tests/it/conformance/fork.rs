//! A key creates one fork, with its first messages, for as long as the fork exists.

use std::{collections::BTreeMap, sync::Arc};

use shared::{Cancelled, DEFAULT_TENANT, Event, Message, Policy};
use tokio::sync::Barrier;
use uuid::Uuid;

use super::{log_of, new_turn, of_tenant, opened, turn_started};
use shared::{ThreadStatus, TurnStatus};
use store::{
    DryRun, Error, Fork, Idempotency, Prune, ReadModelUpdate, Store, ThreadId, TurnFilter, TurnUpdate,
};
use threads::{ImportedEvent, NewFork, StrategyRegistry};

/// Number of concurrent requests with one key.
const RACERS: usize = 8;

pub(super) async fn knows_its_key(store: &Store) -> Result<(), Error> {
    let source = store.submit(new_turn("hello")).await?.into_turn().thread;
    let theirs = store.submit(of_tenant("theirs", "hello")).await?.into_turn().thread;
    let key = Uuid::now_v7().to_string();
    let of = |hash: &str| Idempotency { key: key.clone(), request_hash: hash.to_owned() };
    assert_eq!(store.forked(DEFAULT_TENANT, &of("hash")).await?, None);
    let Fork::New(thread) = fork(store, source, Some(of("hash"))).await? else { panic!("the key is new") };
    assert_eq!(log_of(store, thread).await?.len(), 2, "the opening, and that it was forked");
    let turns = store.turns(TurnFilter { thread: Some(thread), ..TurnFilter::default() }, None, 9).await?;
    let inputs: Vec<_> = turns.iter().map(|turn| (turn.status, turn.messages[0].content.as_str())).collect();
    assert_eq!(inputs, [(TurnStatus::Queued, "go on")], "its first input waits for it");

    let before = store.counts().await?;
    assert_eq!(store.forked(DEFAULT_TENANT, &of("hash")).await?, Some(thread));
    assert_eq!(fork(store, source, Some(of("hash"))).await?, Fork::Known(thread));
    let reused = fork(store, source, Some(of("another"))).await;
    assert!(matches!(reused, Err(Error::KeyReused)), "{reused:?}");
    let reused = store.forked(DEFAULT_TENANT, &of("another")).await;
    assert!(matches!(reused, Err(Error::KeyReused)), "{reused:?}");
    assert_eq!(store.counts().await?, before, "what is known leaves nothing behind");

    // Without a key every request creates a fork, and equal keys of different tenants do not collide.
    assert!(matches!(fork(store, source, None).await?, Fork::New(copy) if copy != thread));
    assert_eq!(store.forked("theirs", &of("hash")).await?, None);
    assert!(matches!(fork(store, theirs, Some(of("hash"))).await?, Fork::New(_)));

    // Deleting the fork also deletes its key.
    for turn in turns {
        store.cancel_queued(turn.id).await?;
    }
    let all = Prune { before: i64::MAX, strategy: Some("probe".to_owned()), by: "test".into() };
    store.hold(source, "it is the source", "eve").await?;
    store.prune(&all, DryRun::No, |_| ()).await?;
    store.release(source, "test").await?;
    assert_eq!(store.thread(thread).await?, None);
    assert_eq!(store.forked(DEFAULT_TENANT, &of("hash")).await?, None);
    assert!(matches!(fork(store, source, Some(of("hash"))).await?, Fork::New(_)));
    Ok(())
}

/// A turn that was cancelled in the source is cancelled in the fork.
pub(super) async fn keeps_what_became_of_turns(store: &Store) -> Result<(), Error> {
    let (head, turn) = opened(store).await?;
    let cancelled = Cancelled { actor: "eve".to_owned(), caller: None, rolled_back: false }.into();
    let status = TurnStatus::Cancelled;
    let mark = ReadModelUpdate {
        status: ThreadStatus::Idle,
        turn: Some(TurnUpdate { turn: turn.id, status, error: None, outcome: None }),
    };
    let head = store.append(&head, &[turn_started(&turn), cancelled], Some(&mark)).await?;
    let new = NewFork { at: head.seq - 1, input: None, ..new_fork(head.thread, None) };
    let forked = threads::fork(store, &StrategyRegistry::new(strategies::all()), new).await?;
    let (Fork::New(thread) | Fork::Known(thread)) = forked;
    let filter = TurnFilter { thread: Some(thread), ..TurnFilter::default() };
    let turns = store.turns(filter, None, 9).await?;
    let stands: Vec<_> = turns.iter().map(|turn| (turn.status, turn.ended_seq)).collect();
    assert_eq!(stands, [(status, Some(2))]);
    Ok(())
}

/// A fork asks a person about a write with an unknown outcome, even a repeatable one, because the fork would send it
/// with another idempotency key.
pub(super) async fn puts_what_may_have_happened_to_a_person(store: &Store) -> Result<(), Error> {
    let golden =
        include_str!("../../../../fixtures/golden/v1/planner__repeats_of_a_write_run_out_in_doubt.jsonl");
    let log: Vec<Event> =
        golden.lines().map(|line| serde_json::from_str(line).expect("an event of the golden log")).collect();
    let lost =
        log.iter().position(|event| matches!(event, Event::AttemptFailed(_))).expect("an answer is lost");
    let foreign = |event: &Event| {
        let payload = event.payload().expect("an event has JSON");
        ImportedEvent { at: 1, kind: event.kind().to_owned(), payload }
    };
    let source = Uuid::now_v7();
    let strategies = StrategyRegistry::new(strategies::all());
    let known = log[..=lost + 1].iter().map(foreign).collect();
    threads::import_thread(store, &strategies, source, known, Vec::new()).await?;
    // Before the call no effect is in doubt; from the call on it is, whether or not its response is recorded as lost.
    for (at, doubted) in [(lost - 2, 0), (lost - 1, 1), (lost, 1), (lost + 1, 1)] {
        let new = NewFork { at: at as u64, input: None, ..new_fork(source, None) };
        let thread = threads::fork(store, &strategies, new).await?.thread();
        let log = log_of(store, thread).await?;
        let many = log.iter().filter(|event| matches!(event, Event::InDoubt(_))).count();
        assert_eq!(many, doubted, "forked after event {at}: {log:?}");
    }
    // Facts that can be folded, but from which no strategy can continue.
    let facts = vec![serde_json::json!({"planned": {"tasks": [], "current": 0, "since": 0}})];
    let new = NewFork { at: lost as u64 - 3, input: None, facts, ..new_fork(source, None) };
    let forked = threads::fork(store, &strategies, new).await;
    assert!(matches!(forked, Err(Error::Stuck { .. })), "{forked:?}");
    Ok(())
}

pub(super) async fn races_with_itself(store: &Store) -> Result<(), Error> {
    let source = store.submit(new_turn("hello")).await?.into_turn().thread;
    let idempotency = Idempotency { key: Uuid::now_v7().to_string(), request_hash: "hash".to_owned() };
    let before = store.counts().await?;
    let barrier = Arc::new(Barrier::new(RACERS));
    let racer = |store: Store, idempotency: Idempotency, barrier: Arc<Barrier>| async move {
        barrier.wait().await;
        fork(&store, source, Some(idempotency)).await
    };
    let racers =
        (0..RACERS).map(|_| tokio::spawn(racer(store.clone(), idempotency.clone(), Arc::clone(&barrier))));
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for it in racers.collect::<Vec<_>>() {
        match it.await.expect("a racer panicked")? {
            Fork::New(thread) => new.push(thread),
            Fork::Known(thread) => known.push(thread),
        }
    }
    assert_eq!((new.len(), known.len()), (1, RACERS - 1));
    assert!(known.iter().all(|thread| *thread == new[0]), "{known:?}");
    assert_eq!(store.counts().await?.events, before.events + 2, "one thread was forked");
    Ok(())
}

pub(super) async fn fork(
    store: &Store,
    source: ThreadId,
    idempotency: Option<Idempotency>,
) -> Result<Fork, Error> {
    threads::fork(store, &StrategyRegistry::new(strategies::all()), new_fork(source, idempotency)).await
}

fn new_fork(source: ThreadId, idempotency: Option<Idempotency>) -> NewFork {
    NewFork {
        source,
        at: 0,
        config: serde_json::Value::Null,
        budget: None,
        prompts: BTreeMap::new(),
        facts: Vec::new(),
        input: Some((Policy::Auto, vec![Message::user("go on")])),
        by: "conformance".into(),
        idempotency,
        caller: None,
    }
}

on_databases! {
    distributed:
    knows_its_key,
    races_with_itself,
    keeps_what_became_of_turns,
    puts_what_may_have_happened_to_a_person,
}
