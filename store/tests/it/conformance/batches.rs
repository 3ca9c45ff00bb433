//! Batches, items and results on every engine.

pub(super) mod prune;
pub(super) mod retries;

use serde_json::{Value, json};
use shared::{ResultResponse, ResultRun, UsageTotal};
use uuid::Uuid;

use super::{new_turn, tamper, turn_started};
use queue::{Priority, clock};
use shared::{ThreadStatus, TurnStatus};
use store::testing::count_items;
use store::{
    Error, Idempotency, NewTurn, Order, ReadModelUpdate, Store, Submitted, Turn, TurnUpdate,
    batches::{
        Batch, BatchStatus, CacheKey, Chunk, Item, ItemState, ItemTransition, KnownBy, Line, LinePlace,
        NewBatch, NewFile, ResultLine, ResultSelection, StopReason,
    },
};

pub(super) const LEASE: i64 = 60_000_000;

pub(super) const NONE: [Uuid; 0] = [];

pub(super) fn chunk(data: &[u8]) -> Chunk {
    Chunk { starts_line: true, ends_line: true, data: data.to_vec() }
}

pub(super) fn new_file(tenant: &str) -> NewFile {
    let (filename, purpose) = ("lines.jsonl".to_owned(), "batch".to_owned());
    NewFile { tenant: tenant.to_owned(), filename, purpose }
}

pub(super) async fn file(store: &Store, tenant: &str) -> Result<Uuid, Error> {
    let id = Uuid::now_v7();
    store.begin_file(id, new_file(tenant)).await?;
    store.write_chunk(id, 0, chunk(b"a\nb\n")).await?;
    store.finish_file(id, 1, 4, None).await?;
    Ok(id)
}

pub(super) fn new_batch(tenant: &str, input_file: Uuid) -> NewBatch {
    NewBatch {
        tenant: tenant.to_owned(),
        author: "conformance".to_owned(),
        trace_parent: None,
        by_operator: false,
        caller: None,
        endpoint: "/v1/turns".to_owned(),
        input_file,
        completion_window: "24h".to_owned(),
        seconds: 86_400,
        metadata: json!({"für": "dich \u{0} 🦀"}),
        output_seconds: None,
        // The tests play the coordinator, which finds earlier results itself.
        reuse: false,
        max_micro_usd: Some(5),
        window: 7,
        item_seconds: None,
        priority: Priority::Low,
        request_hash: "hash".to_owned(),
        known_by: KnownBy::Nothing,
    }
}

/// Creates a new batch.
pub(super) async fn made(store: &Store, new: NewBatch) -> Result<Batch, Error> {
    let made = store.make_batch(new).await?;
    let batch = made.filter(|(_, is_new)| *is_new).map(|(batch, _)| batch);
    batch.ok_or_else(|| Error::Database("the batch is not new".to_owned()))
}

/// Creates a batch with these lines, leased to `owner`. Each line is a name, and the hash of its content if it is
/// valid.
pub(super) async fn batch(
    store: &Store,
    tenant: &str,
    owner: &str,
    lines: &[(&str, Option<&str>)],
) -> Result<Batch, Error> {
    let input = file(store, tenant).await?;
    let batch = made(store, new_batch(tenant, input)).await?;
    store.acquire_batch_leases(owner, LEASE).await?;
    let count = lines.len() as u64;
    store.add_lines(&batch, owner, taken_lines(1, lines), count).await?;
    assert!(
        matches!(store.add_lines(&batch, owner, Vec::new(), count).await, Err(Error::BatchLost(_))),
        "a chunk is taken once"
    );
    let batch = known(store, batch.id).await?;
    assert!(store.advance_batch(&batch, owner, BatchStatus::InProgress, None).await?);
    known(store, batch.id).await
}

/// Builds these lines, numbered from `first`.
fn taken_lines(first: u64, lines: &[(&str, Option<&str>)]) -> Vec<Line> {
    let line = |(nth, (name, cache_key)): (u64, &(&str, Option<&str>))| Line {
        nth,
        custom_id: Some((*name).to_owned()),
        place: LinePlace { chunk: 0, start: 2, length: 3 },
        checked: cache_key
            .map(|hash| CacheKey {
                hash: hash.to_owned(),
                strategy: "probe".to_owned(),
                priority: Priority::Low,
            })
            .ok_or_else(|| ("bad".to_owned(), "it is \u{0} bad".to_owned())),
    };
    (first..).zip(lines).map(line).collect()
}

pub(super) async fn known(store: &Store, id: Uuid) -> Result<Batch, Error> {
    store.batch(id).await?.ok_or_else(|| Error::Database("the batch is gone".to_owned()))
}

pub(super) fn to(item: &Item, state: ItemState) -> ItemTransition {
    ItemTransition::new(item.clone(), state)
}

pub(super) fn response(body: Value) -> ResultResponse {
    ResultResponse { body, request_id: Uuid::nil(), status_code: 200 }
}

/// Returns the results of a batch, as JSON.
async fn results(store: &Store, batch: Uuid) -> Result<Vec<(u64, Value)>, Error> {
    let results = store.results(batch, 0, 1000).await?;
    Ok(results
        .into_iter()
        .map(|result| (result.n, serde_json::from_str(&result.line).expect("a line")))
        .collect())
}

/// A client without a response repeats its request and marks it as a retry. For a limited time the request is
/// recognised by its content.
pub(super) async fn a_request_that_was_sent_before_makes_no_other(store: &Store) -> Result<(), Error> {
    let input = file(store, "again").await?;
    let new = |hash: &str, known_by| NewBatch {
        request_hash: hash.to_owned(),
        known_by,
        ..new_batch("again", input)
    };
    let is_new = async |new: NewBatch| Ok::<_, Error>(store.make_batch(new).await?.map(|(_, is_new)| is_new));
    let first = made(store, new("hash", KnownBy::Nothing)).await?;
    let again = || new("hash", KnownBy::Content);
    assert_eq!(store.make_batch(again()).await?, Some((first.clone(), false)));
    assert_eq!(
        is_new(new("hash", KnownBy::Nothing)).await?,
        Some(true),
        "it does not say that it is the same"
    );
    assert_eq!(is_new(new("another", KnownBy::Content)).await?, Some(true), "it is unknown");
    let theirs = NewBatch { tenant: "theirs".to_owned(), ..again() };
    assert_eq!(is_new(theirs).await?, Some(true), "tenants never meet");
    let elsewhere = NewBatch { input_file: file(store, "again").await?, ..again() };
    assert_eq!(is_new(elsewhere).await?, Some(true), "it is another file");
    tamper::execute(store, "UPDATE batches SET created_at = 0 WHERE input_file = $1", input).await?;
    assert_eq!(is_new(again()).await?, Some(true), "nobody sends a request again for so long");
    tidy(store).await
}

pub(super) async fn batches_are_kept_by_one_at_a_time(store: &Store) -> Result<(), Error> {
    let input = file(store, "kept").await?;
    let key = KnownBy::Key("once".to_owned());
    let new = |hash: &str| NewBatch {
        request_hash: hash.to_owned(),
        known_by: key.clone(),
        ..new_batch("kept", input)
    };
    let made = made(store, new("hash")).await?;
    assert_eq!(made.status, BatchStatus::Validating);
    assert_eq!(made.metadata, json!({"für": "dich \u{0} 🦀"}));
    assert_eq!(store.make_batch(new("hash")).await?, Some((made.clone(), false)));
    assert!(matches!(store.make_batch(new("another")).await, Err(Error::KeyReused)));
    let input_file = file(store, "theirs").await?;
    let theirs = NewBatch { tenant: "theirs".to_owned(), input_file, ..new("another") };
    assert!(matches!(store.make_batch(theirs).await?, Some((_, true))), "tenants never meet");
    let ids = |it: Vec<Batch>| it.into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert!(ids(store.acquire_batch_leases("ada", LEASE).await?).contains(&made.id));
    assert_eq!(ids(store.acquire_batch_leases("bob", LEASE).await?), NONE);
    assert!(!store.advance_batch(&made, "bob", BatchStatus::InProgress, None).await?);
    assert!(matches!(store.apply_transitions(made.id, "bob", Vec::new()).await, Err(Error::BatchLost(_))));
    store.apply_transitions(made.id, "ada", Vec::new()).await?;
    store.release_batch_leases("ada").await?;
    assert!(ids(store.acquire_batch_leases("bob", LEASE).await?).contains(&made.id));
    assert_eq!(ids(store.acquire_batch_leases("ada", LEASE).await?), NONE);
    assert!(
        matches!(store.apply_transitions(made.id, "ada", Vec::new()).await, Err(Error::BatchLost(_))),
        "a coordinator without the lease changes nothing"
    );

    assert!(store.stop_batch(made.id, StopReason::Paused).await?);
    assert_eq!(known(store, made.id).await?.stopped, Some(StopReason::Paused));
    assert!(store.resume_batch(made.id, Some(9), "test").await?);
    assert!(store.cancel_batch(made.id, "test").await? && !store.cancel_batch(made.id, "test").await?);
    let now = known(store, made.id).await?;
    assert_eq!((now.status, now.max_micro_usd), (BatchStatus::Cancelling, Some(9)));
    assert!(now.at.cancelling.is_some() && now.stopped.is_none());
    assert!(!store.advance_batch(&made, "bob", BatchStatus::Failed, None).await?, "it stands there no more");
    assert!(store.advance_batch(&now, "bob", BatchStatus::Cancelled, None).await?);
    assert_eq!(ids(store.batches(Some("kept"), Order::NewestFirst, None, 10).await?), [made.id]);
    assert_eq!(ids(store.batches(Some("kept"), Order::NewestFirst, Some(made.id), 10).await?), NONE);
    tidy(store).await
}

/// Returns the items whose outcome the coordinator has to record.
pub(super) async fn to_collect(store: &Store, batch: Uuid) -> Result<Vec<(Item, Turn)>, Error> {
    let (under_way, asked) = (store.moved_items(batch, 10).await?, store.answered_items(batch, 10).await?);
    Ok([under_way, asked].concat())
}

/// Fails all open batches that no coordinator holds.
pub(super) async fn tidy(store: &Store) -> Result<(), Error> {
    for it in store.acquire_batch_leases("bob", LEASE).await? {
        store.advance_batch(&it, "bob", BatchStatus::Failed, Some("tidied \u{0} up")).await?;
    }
    Ok(())
}

/// Each item ends once, and results are numbered in order of arrival.
pub(super) async fn items_end_once(store: &Store) -> Result<(), Error> {
    let lines = [("a", Some("1")), ("b", None), ("a", Some("2")), ("c", Some("3")), ("d", Some("4"))];
    let made = batch(store, "items", "ada", &lines).await?;
    assert_eq!((made.total, made.lines, made.done, made.validated), (5, 5, 2, 1));
    let counts = count_items(store, made.id).await?;
    assert_eq!(counts, [(ItemState::Waiting, 3), (ItemState::Invalid, 2)].into());
    let bad = store.invalid_lines(made.id, 10).await?;
    assert_eq!(
        bad.iter().map(|line| (line.nth, line.code.as_str())).collect::<Vec<_>>(),
        [(2, "bad"), (3, "duplicate_custom_id")]
    );
    let found = results(store, made.id).await?;
    assert_eq!(found[1].1["custom_id"], "a", "its name is told");
    assert_eq!(store.waiting_by_strategy(made.id).await?, [("probe".to_owned(), 3)]);

    let waiting = store.waiting_items(made.id, 10).await?;
    let [a, c, d] = &waiting[..] else { panic!("three wait: {waiting:?}") };
    assert_eq!((a.nth, a.place, a.attempt), (1, LinePlace { chunk: 0, start: 2, length: 3 }, 1));
    let begun = |item: &Item| NewTurn { idempotency: Some(item.key()), ..new_turn("go") };
    let single = store.queued(None, 1000).await?;
    let turns = store.submit_many([a, c, d].map(begun).into()).await?;
    let turns: Vec<Turn> =
        turns.into_iter().map(|submitted| submitted.map(Submitted::into_turn)).collect::<Result<_, _>>()?;
    let fed = [a, c, d].into_iter().zip(&turns).map(|(item, turn)| ItemTransition {
        run: Some((turn.thread, turn.id)),
        ..to(item, ItemState::Submitted)
    });
    let fed: Vec<ItemTransition> = fed.collect();
    store.release_batch_leases("ada").await?;
    store.acquire_batch_leases("bob", LEASE).await?;
    assert!(matches!(store.apply_transitions(made.id, "ada", fed.clone()).await, Err(Error::BatchLost(_))));
    assert_eq!(
        store.waiting_items(made.id, 10).await?,
        waiting,
        "what was changed before it showed is undone"
    );
    store.release_batch_leases("bob").await?;
    store.acquire_batch_leases("ada", LEASE).await?;
    store.apply_transitions(made.id, "ada", fed.clone()).await?;
    let twice = store.apply_transitions(made.id, "ada", fed).await;
    assert!(matches!(twice, Err(Error::BatchLost(_))), "they do not stand as they were read: {twice:?}");
    assert_eq!(store.batch_of(turns[0].thread).await?, Some(made.id));
    assert_eq!(store.batch_of(uuid::Uuid::nil()).await?, None);
    let key = format!("batch:{}:4", made.id);
    let idempotency = Some(Idempotency { key: format!("{key}:9"), request_hash: "another".to_owned() });
    let other = store.submit(NewTurn { idempotency, ..new_turn("of that name") }).await?.into_turn();
    assert_eq!(store.batch_of(other.thread).await?, None, "it is only called so");
    assert_eq!(store.under_way(made.id).await?.queued, 3);
    assert_eq!(
        store.queued(None, 1000).await?,
        single + 1,
        "turns of a batch are not counted, a turn that only has a key like theirs is"
    );
    assert_eq!(store.queued(Some("default"), 1000).await?, single + 1);
    assert_eq!(to_collect(store, made.id).await?.len(), 0);
    assert_eq!(store.items_submitted_before(made.id, clock::now(), 10).await?.len(), 3);

    // One turn completes, one asks a person and is answered by another turn, and one waits.
    for (turn, status) in turns.iter().zip([TurnStatus::Completed, TurnStatus::Interrupted]) {
        end(store, turn, status).await?;
    }
    let moved = to_collect(store, made.id).await?;
    assert_eq!(moved.len(), 2);
    let usage = UsageTotal { input_tokens: 10, output_tokens: 5, micro_usd: 7, ..UsageTotal::default() };
    let moves = moved.iter().map(|(item, turn)| {
        let over = turn.status == TurnStatus::Completed;
        let state = if over { ItemState::Completed } else { ItemState::AwaitingInput };
        let response = over.then(|| response(json!("für \u{0} dich")));
        ItemTransition { usage, response, ..to(item, state) }
    });
    store.apply_transitions(made.id, "ada", moves.collect()).await?;
    let now = known(store, made.id).await?;
    assert_eq!((now.input_tokens, now.output_tokens, now.micro_usd, now.done), (20, 10, 14, 3));
    assert_eq!(to_collect(store, made.id).await?.len(), 0, "a turn that asks still waits");
    let answer = NewTurn { thread: store::Opening::Existing(turns[1].thread), ..new_turn("yes") };
    let answer = store.submit(answer).await?.into_turn();
    let late = NewTurn { thread: store::Opening::Existing(turns[0].thread), ..new_turn("and more") };
    let late = store.submit(late).await?.into_turn();
    assert_eq!(to_collect(store, made.id).await?.len(), 0, "nothing has ended yet");
    let wrong = NewTurn { thread: store::Opening::Existing(turns[1].thread), ..new_turn("is no answer") };
    let wrong = store.submit(wrong).await?.into_turn();
    for turn in [&answer, &late] {
        end(store, turn, TurnStatus::Completed).await?;
    }
    store.refuse_queued(wrong.id, "nothing was asked").await?;
    let answer = store.turn(answer.id).await?.ok_or(Error::UnknownTurn(answer.id))?;
    let moved = to_collect(store, made.id).await?;
    let [(asked, last)] = &moved[..] else { panic!("one was answered: {moved:?}") };
    assert_eq!((asked.nth, last), (c.nth, &answer));
    assert_eq!((asked.usage.input_tokens, asked.usage.micro_usd), (10, 7));
    let more = UsageTotal { micro_usd: 9, ..usage };
    let late = ItemTransition {
        usage: more,
        error: Some(("late".to_owned(), "too \u{0} late".to_owned())),
        ..to(asked, ItemState::Expired)
    };
    let again = ItemTransition { response: Some(response(json!("twice"))), ..to(a, ItemState::Completed) };
    let under_way = store.items_submitted_before(made.id, clock::now(), 10).await?;
    let fed = under_way.iter().find(|item| item.nth == d.nth).expect("it was begun");
    let failed = to(fed, ItemState::Failed);
    let stale = store.apply_transitions(made.id, "ada", vec![late.clone(), again, failed.clone()]).await;
    assert!(matches!(stale, Err(Error::BatchLost(_))), "one of them has ended: {stale:?}");
    assert_eq!(known(store, made.id).await?, now, "what was changed before it showed is undone");
    store.apply_transitions(made.id, "ada", vec![late.clone(), failed]).await?;
    assert!(matches!(store.apply_transitions(made.id, "ada", vec![late]).await, Err(Error::BatchLost(_))));
    let now = known(store, made.id).await?;
    assert_eq!((now.micro_usd, now.done), (16, 5), "what it took more is added once");

    let found = results(store, made.id).await?;
    assert_eq!(found.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(found[2].1["response"]["body"], "für \u{0} dich");
    assert_eq!((&found[3].1["custom_id"], &found[3].1["error"]["code"]), (&json!("c"), &json!("late")));
    assert_eq!(store.results(made.id, 3, 1).await?[0].n, 4);
    let good = store.final_results(made.id, ResultSelection::Successful, 0, 10).await?;
    assert_eq!(good.iter().map(|line| line.n).collect::<Vec<_>>(), [3]);
    assert_eq!(store.final_results(made.id, ResultSelection::Unsuccessful, 0, 10).await?.len(), 4);
    let causes = store.causes(made.id, 10).await?;
    assert_eq!(causes.iter().map(|cause| cause.count).sum::<u64>(), 3, "{causes:?}");
    assert_eq!(store.pace(made.id, now.done, 1000).await?.expect("five came").results, 4);
    assert_eq!(
        store.past_turns("default", "probe", 500).await?.iter().filter(|turn| turn.id == turns[0].id).count(),
        1
    );
    retries::reopens(store, &now).await?;
    retries::asks(store).await
}

/// The lines of one chunk may end before the next chunk is validated: the totals stay correct, the first line of each
/// name wins, and validation stops when the batch is cancelled or taken over.
pub(super) async fn items_end_while_lines_are_looked_at(store: &Store) -> Result<(), Error> {
    let input = file(store, "early").await?;
    let made = made(store, new_batch("early", input)).await?;
    store.acquire_batch_leases("ada", LEASE).await?;
    let lines = taken_lines(1, &[("a", Some("1")), ("b", Some("2"))]);
    store.add_lines(&made, "ada", lines, 2).await?;
    let taken = known(store, made.id).await?;
    let waiting = store.waiting_items(made.id, 10).await?;
    let [a, _] = &waiting[..] else { panic!("two wait: {waiting:?}") };
    let run = Some((Uuid::now_v7(), Uuid::now_v7()));
    let well = ItemTransition { run, response: Some(response(json!("well"))), ..to(a, ItemState::Completed) };
    store.apply_transitions(made.id, "ada", vec![well]).await?;
    let ended = known(store, made.id).await?;
    assert_eq!((ended.status, ended.done, ended.total), (BatchStatus::Validating, 1, 2));

    let lines = || taken_lines(3, &[("a", Some("1")), ("c", Some("3"))]);
    assert!(
        matches!(store.add_lines(&made, "ada", lines(), 4).await, Err(Error::BatchLost(_))),
        "the first chunk is taken"
    );
    // Items that have ended in the meantime make no difference.
    store.add_lines(&taken, "ada", lines(), 4).await?;
    let all = known(store, made.id).await?;
    assert_eq!((all.total, all.lines, all.validated, all.done), (4, 4, 2, 2));
    let counts = [(ItemState::Waiting, 2), (ItemState::Completed, 1), (ItemState::Invalid, 1)];
    assert!(counts.iter().all(|(state, count)| all.counts.of(*state) == *count), "{:?}", all.counts);
    assert_eq!(count_items(store, made.id).await?, counts.into());
    let found = results(store, made.id).await?;
    assert_eq!(
        (&found[0].1["response"]["body"], &found[1].1["error"]["code"]),
        (&json!("well"), &json!("duplicate_custom_id"))
    );

    assert!(store.cancel_batch(made.id, "test").await?);
    assert!(
        matches!(store.add_lines(&all, "ada", Vec::new(), 4).await, Err(Error::BatchLost(_))),
        "no more is looked at"
    );
    let waiting = store.waiting_items(made.id, 10).await?;
    let moves = waiting.iter().zip([ItemState::Cancelled, ItemState::Failed]);
    store.apply_transitions(made.id, "ada", moves.map(|(item, state)| to(item, state)).collect()).await?;
    let off = known(store, made.id).await?;
    assert_eq!((off.status, off.counts.open()), (BatchStatus::Cancelling, 0));
    assert!(store.advance_batch(&off, "ada", BatchStatus::Cancelled, None).await?);
    assert_eq!(
        store.reopen_batch(made.id, ItemState::Failed, 60, None, "test").await?,
        Some(0),
        "it would end without the lines that nobody looked at"
    );
    Ok(())
}

/// A line with the same name and content as an earlier one has its result already and is not paid for again.
pub(super) async fn earlier_results_are_found(store: &Store) -> Result<(), Error> {
    let first =
        batch(store, "cache_key", "ada", &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))]).await?;
    let items = store.waiting_items(first.id, 10).await?;
    let run = Some((Uuid::now_v7(), Uuid::now_v7()));
    let response = Some(response(json!({"output": "für dich"})));
    // What was not answered may be answered another time.
    let partial = ItemTransition { run, response: response.clone(), ..to(&items[2], ItemState::Partial) };
    let model = Some("m".to_owned());
    let led = Some(ResultRun { model: model.clone(), attempts: 1, ..ResultRun::default() });
    let moves = vec![
        ItemTransition {
            run,
            response: response.clone(),
            result_run: led.clone(),
            ..to(&items[0], ItemState::Completed)
        },
        to(&items[1], ItemState::Failed),
        partial,
    ];
    store.apply_transitions(first.id, "ada", moves).await?;
    assert_eq!(known(store, first.id).await?.model, model);
    let lines = [("a", Some("1")), ("b", Some("2")), ("c", Some("3")), ("d", Some("1"))];
    for (tenant, hit) in [("cache_key", true), ("other", false)] {
        let again = batch(store, tenant, "ada", &lines).await?;
        let items = store.waiting_items(again.id, 10).await?;
        let found = store.earlier_results(tenant, &items).await?;
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), if hit { vec![1] } else { vec![] });
        if let Some(it) = found.get(&1) {
            assert_eq!((Some(&it.response), it.thread.zip(it.turn)), (response.as_ref(), run));
            assert_eq!(it.run, led);
        }
        let changed = batch(store, tenant, "ada", &[("a", Some("changed"))]).await?;
        let items = store.waiting_items(changed.id, 10).await?;
        assert_eq!(store.earlier_results(tenant, &items).await?.len(), 0);
    }
    Ok(())
}

/// A line with an earlier result is inserted with it. A duplicate of its name has the number that was reserved for it.
pub(super) async fn known_lines_are_inserted_with_their_results(store: &Store) -> Result<(), Error> {
    let first = batch(store, "known", "ada", &[("a", Some("1")), ("b", Some("2"))]).await?;
    let items = store.waiting_items(first.id, 10).await?;
    let (run, model) = ((Uuid::now_v7(), Uuid::now_v7()), Some("m".to_owned()));
    let answered = ItemTransition {
        run: Some(run),
        response: Some(response(json!("answer"))),
        result_run: Some(ResultRun { model: model.clone(), ..ResultRun::default() }),
        ..to(&items[0], ItemState::Completed)
    };
    store.apply_transitions(first.id, "ada", vec![answered, to(&items[1], ItemState::Failed)]).await?;

    let input = file(store, "known").await?;
    let again = made(store, NewBatch { reuse: true, ..new_batch("known", input) }).await?;
    store.acquire_batch_leases("ada", LEASE).await?;
    let lines = [("a", Some("1")), ("b", Some("2")), ("a", Some("1")), ("c", None)];
    store.add_lines(&again, "ada", taken_lines(1, &lines), 4).await?;

    let known = known(store, again.id).await?;
    let counts =
        [ItemState::Reused, ItemState::Waiting, ItemState::Invalid].map(|state| known.counts.of(state));
    assert_eq!((counts, known.done, known.total, known.model), ([1, 1, 2], 3, 4, model));
    let by_rows = count_items(store, again.id).await?;
    assert_eq!(by_rows.into_values().sum::<u64>(), 4);
    let results = results(store, again.id).await?;
    let ids: Vec<_> = results.iter().map(|(n, line)| (*n, line["id"].as_str().unwrap().to_owned())).collect();
    let id = |nth: u64| format!("batch_req_{}_{nth}", again.id.simple());
    assert_eq!(ids, [(1, id(1)), (2, id(3)), (3, id(4))]);
    assert_eq!(results[0].1["response"]["body"], "answer");
    assert_eq!(results[1].1["error"]["code"], "duplicate_custom_id");
    let good = store.final_results(again.id, ResultSelection::Successful, 0, 10).await?;
    let bad = store.final_results(again.id, ResultSelection::Unsuccessful, 0, 10).await?;
    let numbers = |lines: &[ResultLine]| lines.iter().map(|line| line.n).collect::<Vec<_>>();
    assert_eq!((numbers(&good), numbers(&bad)), (vec![1], vec![2, 3]));
    let waiting = store.waiting_items(again.id, 10).await?;
    assert_eq!(waiting.iter().map(|item| item.nth).collect::<Vec<_>>(), [2]);
    Ok(())
}

/// Reading the first of a thousand large lines does not load all of them into memory.
pub(super) async fn pages_of_long_lines_are_short(store: &Store) -> Result<(), Error> {
    let made = batch(store, "long", "ada", &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))]).await?;
    let long = "x".repeat(5 << 20);
    let items = store.waiting_items(made.id, 10).await?;
    let moves = items.iter().map(|item| ItemTransition {
        response: Some(response(json!(long))),
        ..to(item, ItemState::Completed)
    });
    store.apply_transitions(made.id, "ada", moves.collect()).await?;
    let numbers = |page: Vec<ResultLine>| page.into_iter().map(|line| line.n).collect::<Vec<_>>();
    assert_eq!(
        numbers(store.results(made.id, 0, 1000).await?),
        [1, 2],
        "the one that goes beyond is the last"
    );
    assert_eq!(numbers(store.results(made.id, 2, 1000).await?), [3]);
    assert_eq!(numbers(store.final_results(made.id, ResultSelection::Successful, 1, 1000).await?), [2, 3]);
    Ok(())
}

/// Starts a turn on its thread and ends it with this status.
async fn end(store: &Store, turn: &Turn, status: TurnStatus) -> Result<(), Error> {
    let head = store.head(turn.thread).await?;
    let mark = |thread, status| ReadModelUpdate {
        status: thread,
        turn: Some(TurnUpdate { turn: turn.id, status, error: None, outcome: None }),
    };
    let head = store
        .append(&head, &[turn_started(turn)], Some(&mark(ThreadStatus::Busy, TurnStatus::Running)))
        .await?;
    store.update_read_model(&head, &mark(ThreadStatus::Idle, status)).await
}

on_databases! {
    batches_are_kept_by_one_at_a_time,
    a_request_that_was_sent_before_makes_no_other,
    items_end_once,
    items_end_while_lines_are_looked_at,
    earlier_results_are_found,
    known_lines_are_inserted_with_their_results,
    pages_of_long_lines_are_short,
}
