//! A turn is stored once, however often it is submitted.

use std::sync::Arc;

use shared::{DEFAULT_TENANT, Event, Policy};
use tokio::sync::Barrier;
use uuid::Uuid;

use super::{keyed, log_of, new_turn, of_tenant, opened, queued, tamper};
use queue::{Priority, clock};
use shared::{ThreadStatus, TurnStatus};
use store::{AwaitedAnswer, Error, Idempotency, LostAnswer, NewTurn, Opening, Store, Submitted, TurnId};

/// Number of concurrent submissions with one key.
const RACERS: usize = 8;

pub(super) async fn a_list_of_threads_has_their_first_and_last_turns(store: &Store) -> Result<(), Error> {
    let (_, only) = opened(store).await?;
    let (_, first) = opened(store).await?;
    queued(store, first.thread, "later").await?;
    let last = queued(store, first.thread, "last").await?;
    opened(store).await?;
    let found = store.end_turns(&[first.thread, only.thread]).await?;
    assert_eq!(found.iter().map(|turn| turn.id).collect::<Vec<_>>(), [only.id, first.id, last.id]);
    assert_eq!(found[1], first);
    assert_eq!(store.end_turns(&[]).await?, []);
    Ok(())
}

pub(super) async fn opens_a_thread_or_finds_one(store: &Store) -> Result<(), Error> {
    let mut new = new_turn("für \"dich\" \0 🦀");
    new.author = "\0 me".to_owned();
    let Submitted::New(turn) = store.submit(new.clone()).await? else {
        panic!("a turn without a key is new")
    };
    assert_eq!(
        (turn.status, turn.policy, turn.author.as_str()),
        (TurnStatus::Queued, Policy::Auto, "\u{fffd} me")
    );
    assert_eq!((&turn.messages, &turn.metadata), (&new.messages, &new.metadata));
    assert_eq!(store.turn(turn.id).await?.as_ref(), Some(&turn));

    let thread = store.thread(turn.thread).await?.ok_or(Error::UnknownThread(turn.thread))?;
    assert_eq!((thread.strategy.as_str(), thread.status), ("probe", ThreadStatus::Idle));
    let Opening::New(opened) = new.thread else { panic!("it opens a thread") };
    assert_eq!(log_of(store, turn.thread).await?, [Event::Opened(opened)]);

    let options = serde_json::from_value(serde_json::json!({"response_format": {"type": "json_object"}}));
    let reply_options = Some(Box::new(options.unwrap()));
    let typed = store.submit(NewTurn { reply_options: reply_options.clone(), ..new_turn("typed") }).await?;
    let typed = typed.into_turn();
    assert_eq!(store.next_queued(typed.thread).await?.unwrap().reply_options, reply_options);
    assert_eq!(store.turn(typed.id).await?.unwrap().reply_options, reply_options);

    // Nothing is asked, so a message starts something new, and an answer is bound to the log as it is.
    for (policy, stored, answers_seq) in [
        (Policy::Replan, Policy::Replan, None),
        (Policy::Answer, Policy::Answer, Some(1)),
        (Policy::Auto, Policy::Replan, None),
    ] {
        let more = NewTurn { thread: Opening::Existing(turn.thread), policy, ..new_turn("more") };
        let more = store.submit(more).await?.into_turn();
        assert_eq!((more.thread, more.policy, more.answers_seq), (turn.thread, stored, answers_seq));
    }
    assert_eq!(store.head(turn.thread).await?.seq, 1, "a queued turn is in no log");

    let nobody = Uuid::now_v7();
    let lost = store.submit(NewTurn { thread: Opening::Existing(nobody), ..new_turn("lost") }).await;
    assert!(matches!(lost, Err(Error::UnknownThread(id)) if id == nobody), "{lost:?}");
    assert_eq!(store.next_queued(nobody).await?, None, "a turn for no thread is not kept");
    Ok(())
}

pub(super) async fn knows_its_key(store: &Store) -> Result<(), Error> {
    let key = Uuid::now_v7().to_string();
    let of = |hash: &str| Idempotency { key: key.clone(), request_hash: hash.to_owned() };
    assert_eq!(store.submitted(DEFAULT_TENANT, &of("hash")).await?, None);
    let Submitted::New(first) = keyed(store, &key, "hash").await? else { panic!("the key is new") };
    assert_eq!(store.submitted(DEFAULT_TENANT, &of("hash")).await?.as_ref(), Some(&first));
    let reused = store.submitted(DEFAULT_TENANT, &of("another")).await;
    assert!(matches!(reused, Err(Error::KeyReused)), "{reused:?}");
    let before = store.counts().await?;
    let Submitted::Known(again) = keyed(store, &key, "hash").await? else {
        panic!("the key was used before")
    };
    assert_eq!(again, first);
    let reused = keyed(store, &key, "another").await;
    assert!(matches!(reused, Err(Error::KeyReused)), "{reused:?}");
    assert_eq!(store.counts().await?, before, "what is known leaves nothing behind");

    store.give_up_key(first.id).await?;
    let Submitted::New(other) = keyed(store, &key, "another").await? else { panic!("the key is free") };
    assert_ne!(other.id, first.id);
    assert_eq!(store.turn(first.id).await?, Some(first), "but for its key it is as it was");
    Ok(())
}

/// Equal keys of two tenants do not collide.
pub(super) async fn knows_keys_by_tenant(store: &Store) -> Result<(), Error> {
    let key = Uuid::now_v7().to_string();
    let of = |hash: &str| Idempotency { key: key.clone(), request_hash: hash.to_owned() };
    let new = |tenant: &str, hash: &str| NewTurn { idempotency: Some(of(hash)), ..of_tenant(tenant, "once") };
    let mut turns = Vec::new();
    for tenant in [DEFAULT_TENANT, "mine", "theirs"] {
        assert_eq!(store.submitted(tenant, &of("hash")).await?, None);
        let Submitted::New(turn) = store.submit(new(tenant, tenant)).await? else {
            panic!("{tenant} has no such key")
        };
        assert_eq!(store.submitted(tenant, &of(tenant)).await?.as_ref(), Some(&turn));
        let Submitted::Known(again) = store.submit(new(tenant, tenant)).await? else {
            panic!("{tenant} knows it")
        };
        assert_eq!(again, turn);
        let more = NewTurn { thread: Opening::Existing(turn.thread), ..new(DEFAULT_TENANT, tenant) };
        assert!(matches!(store.submit(more).await?, Submitted::Known(_)), "the thread says whose key it is");
        turns.push(turn.id);
    }
    turns.dedup();
    assert_eq!(turns.len(), 3);
    let reused = store.submit(new("mine", "theirs")).await;
    assert!(matches!(reused, Err(Error::KeyReused)), "{reused:?}");
    Ok(())
}

pub(super) async fn races_with_itself(store: &Store) -> Result<(), Error> {
    let key = Uuid::now_v7().to_string();
    let before = store.counts().await?;
    let barrier = Arc::new(Barrier::new(RACERS));
    let racer = |store: Store, key: String, barrier: Arc<Barrier>| async move {
        barrier.wait().await;
        keyed(&store, &key, "hash").await
    };
    let racers = (0..RACERS).map(|_| tokio::spawn(racer(store.clone(), key.clone(), Arc::clone(&barrier))));
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for it in racers.collect::<Vec<_>>() {
        match it.await.expect("a racer panicked")? {
            Submitted::New(turn) | Submitted::Behind(turn) => new.push(turn),
            Submitted::Known(turn) => known.push(turn),
        }
    }
    assert_eq!((new.len(), known.len()), (1, RACERS - 1));
    assert!(known.iter().all(|thread| *thread == new[0]), "{known:?}");
    let after = store.counts().await?;
    assert_eq!(after.events, before.events + 1, "one thread was opened");
    assert_eq!(
        after.turns[&TurnStatus::Queued],
        before.turns.get(&TurnStatus::Queued).copied().unwrap_or_default() + 1
    );
    Ok(())
}

/// Submitting many turns at once gives the same outcomes as submitting them individually: repeated ones are recognised,
/// and an error affects only its own turn.
pub(super) async fn takes_many_at_once(store: &Store) -> Result<(), Error> {
    let run = Uuid::now_v7();
    let later = clock::now() + 3_600_000_000;
    let keyed = |nth: usize, hash: &str| NewTurn {
        idempotency: Some(Idempotency { key: format!("{run}:{nth}"), request_hash: hash.to_owned() }),
        priority: if nth.is_multiple_of(3) { Priority::High } else { Priority::Low },
        due_at: nth.is_multiple_of(2).then_some(later),
        ..new_turn(&format!("number {nth} \0 \"quoted\" 🦀"))
    };
    assert_eq!(store.submit_many(Vec::new()).await?.len(), 0);
    let Submitted::New(before) = store.submit(keyed(0, "hash")).await? else { panic!("it is new") };
    let counted = store.counts().await?;
    let nobody = Uuid::now_v7();
    let mut many: Vec<NewTurn> = (0..50).map(|nth| keyed(nth, "hash")).collect();
    many.push(keyed(7, "hash"));
    many.push(keyed(8, "another"));
    many.push(NewTurn { thread: Opening::Existing(nobody), ..new_turn("lost") });
    many.push(NewTurn { thread: Opening::Existing(before.thread), ..new_turn("more") });
    many.push(new_turn("without a key"));
    let outcomes = store.submit_many(many.clone()).await?;
    assert_eq!(outcomes.len(), many.len());
    let [known, fresh @ ..] = &outcomes[..50] else { panic!("there are fifty") };
    assert!(matches!(known, Ok(Submitted::Known(it)) if *it == before), "{known:?}");
    let mut last = before.position;
    for (outcome, new) in fresh.iter().zip(&many[1..50]) {
        let Ok(Submitted::New(turn)) = outcome else { panic!("it is new: {outcome:?}") };
        assert_eq!((&turn.messages, &turn.metadata), (&new.messages, &new.metadata));
        assert!(last < turn.position, "they are started in their order");
        last = turn.position;
        assert_eq!(store.turn(turn.id).await?.as_ref(), Some(turn));
        let Opening::New(opened) = new.thread.clone() else { panic!("it opens a thread") };
        assert_eq!(log_of(store, turn.thread).await?, [Event::Opened(opened)]);
        let thread = store.thread(turn.thread).await?.ok_or(Error::UnknownThread(turn.thread))?;
        assert_eq!((thread.strategy.as_str(), thread.status), ("probe", ThreadStatus::Idle));
    }
    let Ok(Submitted::New(seventh)) = &outcomes[7] else { panic!("it is new") };
    assert!(matches!(&outcomes[50], Ok(Submitted::Known(it)) if it == seventh), "{:?}", outcomes[50]);
    assert!(matches!(outcomes[51], Err(Error::KeyReused)), "{:?}", outcomes[51]);
    assert!(matches!(outcomes[52], Err(Error::UnknownThread(id)) if id == nobody), "{:?}", outcomes[52]);
    assert!(matches!(&outcomes[53], Ok(Submitted::New(it)) if it.thread == before.thread));
    assert!(matches!(outcomes[54], Ok(Submitted::New(_))), "{:?}", outcomes[54]);
    assert_eq!(store.counts().await?.events, counted.events + 50, "each opens its thread once");
    let again = store.submit_many(many[..50].to_vec()).await?;
    assert!(again.iter().all(|submitted| matches!(submitted, Ok(Submitted::Known(_)))), "{again:?}");
    assert_eq!(store.counts().await?.events, counted.events + 50);
    Ok(())
}

pub(super) async fn is_found_by_its_history(store: &Store) -> Result<(), Error> {
    let hash = Uuid::now_v7().to_string();
    let submit = |hash: &str| {
        let history_hash = Some(hash.to_owned());
        store.submit(NewTurn { history_hash, ..new_turn("echo hi") })
    };
    let first = submit(&hash).await?.into_turn();
    submit("another").await?;
    let following = NewTurn {
        thread: Opening::Existing(first.thread),
        history_hash: Some(hash.clone()),
        ..new_turn("echo hi")
    };
    let second = store.submit(following).await?.into_turn();
    assert_eq!(store.turns_of_history(&hash, 5).await?, [second.id, first.id]);
    assert_eq!(store.turns_of_history(&hash, 1).await?, [second.id]);
    assert!(store.turns_of_history("unknown", 5).await?.is_empty());
    Ok(())
}

pub(super) async fn is_joined_once_after_a_lost_answer(store: &Store) -> Result<(), Error> {
    let key = Uuid::now_v7().to_string();
    let began = clock::now();
    let turn = store.submit(new_turn("echo hi")).await?.into_turn();
    assert_eq!(store.take_lost_answer(&key, began).await?, LostAnswer::None);
    store.lose_answer(turn.id, &key).await?;
    let late = store.take_lost_answer(&key, clock::now() + 60_000_000).await?;
    assert_eq!(late, LostAnswer::None, "it was lost long ago");
    assert_eq!(store.take_lost_answer("another", began).await?, LostAnswer::None);
    assert_eq!(takers(store, &key, began).await?, [turn.id]);
    Ok(())
}

/// Returns the turns that concurrent repetitions of a request take.
async fn takers(store: &Store, key: &str, since: i64) -> Result<Vec<TurnId>, Error> {
    let takes = (0..RACERS).map(|_| store.take_lost_answer(key, since));
    let taken = futures::future::try_join_all(takes).await?.into_iter();
    Ok(taken
        .filter_map(|taken| if let LostAnswer::Taken(turn) = taken { Some(turn.id) } else { None })
        .collect())
}

pub(super) async fn is_joined_once_after_its_process_was_killed(store: &Store) -> Result<(), Error> {
    let (key, began, process) = (Uuid::now_v7().to_string(), clock::now(), Uuid::now_v7());
    let turns = [
        store.submit(new_turn("echo one")).await?.into_turn().id,
        store.submit(new_turn("echo two")).await?.into_turn().id,
    ];
    let awaited = |turn| AwaitedAnswer { turn, key: key.clone(), since: clock::now() };
    store.write_awaited_answers(process, turns.map(awaited).to_vec(), Vec::new()).await?;
    assert_eq!(store.take_lost_answer(&key, began).await?, LostAnswer::None, "the process runs");
    store.write_awaited_answers(process, vec![awaited(turns[1])], vec![turns[0]]).await?;

    let last_seen = async |before: i64| {
        let sql = "UPDATE answer_waiters SET seen_at = $1 WHERE id = $2";
        tamper::execute_with(store, sql, [(clock::now() - before).into(), process.into()]).await
    };
    last_seen(1_000_000).await?;
    assert_eq!(store.take_lost_answer(&key, began - 9_000_000).await?, LostAnswer::Unclear, "it may be late");
    last_seen(3_000_000).await?;
    assert_eq!(store.take_lost_answer("another", began - 9_000_000).await?, LostAnswer::None);
    assert_eq!(takers(store, &key, began - 9_000_000).await?, [turns[1]], "the other answer has arrived");

    store.write_awaited_answers(process, vec![awaited(turns[0])], Vec::new()).await?;
    last_seen(1_000_000_000).await?;
    assert_eq!(store.take_lost_answer(&key, began).await?, LostAnswer::None, "it was killed long ago");
    store.write_awaited_answers(Uuid::now_v7(), vec![awaited(turns[1])], Vec::new()).await?;
    last_seen(3_000_000).await?;
    assert!(takers(store, &key, began - 9_000_000).await?.is_empty(), "what it left is deleted");
    store.write_awaited_answers(process, vec![awaited(turns[0])], Vec::new()).await?;
    store.end_awaiting(process).await?;
    last_seen(3_000_000).await?;
    assert!(takers(store, &key, began - 9_000_000).await?.is_empty(), "it ended");
    Ok(())
}

on_databases! {
    distributed:
    a_list_of_threads_has_their_first_and_last_turns,
    is_joined_once_after_a_lost_answer,
    is_joined_once_after_its_process_was_killed,
    is_found_by_its_history,
    opens_a_thread_or_finds_one,
    knows_its_key,
    knows_keys_by_tenant,
    races_with_itself,
    takes_many_at_once,
}
