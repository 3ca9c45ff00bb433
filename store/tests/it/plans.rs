//! Query plans in PostgreSQL: even without statistics, rows are found through an index, so the amount read grows with
//! the request and not with the table.

use std::time::{Duration, Instant};

use queue::Priority;
use serde_json::json;
use shared::{Event, Message, Opened, Policy, TurnKind, TurnStarted};
use shared::{ThreadStatus, TurnStatus};
use store::{
    DryRun, NewTurn, Opening, Prune, Queued, ReadModelUpdate, Store, ThreadId, Turn, TurnUpdate,
    batches::{
        Batch, BatchId, BatchStatus, CacheKey, Chunk, Item, ItemState, ItemTransition, KnownBy, Line,
        LinePlace, NewBatch, NewFile, ResultSelection,
    },
};
use test_servers::Postgres;
use uuid::Uuid;

/// Number of lines in a batch. A statement that scans the batch for every page reads each line forty times.
const LINES: u64 = 2000;
const PAGE: u64 = 50;

const OWNER: &str = "owner";
const TENANT: &str = "default";
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the number of table rows and index entries read since the last call. No other client may be connected, and
/// `store` is consumed, because a PostgreSQL session publishes its statistics when it disconnects.
pub(crate) async fn read(postgres: &Postgres, store: Store) -> u64 {
    drop(store);
    let began = Instant::now();
    let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'turnfold'";
    while postgres.query(connected)[0][0] != "0" {
        assert!(began.elapsed() < PATIENCE, "somebody stays connected");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rows = postgres.query(
        "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)",
    );
    postgres.query("SELECT pg_stat_reset()");
    rows[0][0].parse().unwrap()
}

fn turn(nth: u64) -> NewTurn {
    let opened = json!({"strategy": "probe", "tenant": TENANT});
    let opened: Opened = serde_json::from_value(opened).unwrap();
    NewTurn {
        attachments: Vec::new(),
        thread: Opening::New(opened),
        policy: Policy::Auto,
        priority: Priority::Normal,
        messages: vec![Message::user(format!("echo {nth}"))],
        reply_options: None,
        metadata: json!({}),
        author: "test".to_owned(),
        idempotency: None,
        due_at: None,
        caller: None,
        trace_parent: None,
        multitask: shared::MultitaskStrategy::Enqueue,
        in_doubt: None,
        conversation: None,
        history_hash: None,
    }
}

async fn submit(store: &Store, numbers: impl Iterator<Item = u64>) -> Vec<Turn> {
    let submitted = store.submit_many(numbers.map(turn).collect()).await.unwrap();
    submitted.into_iter().map(|submitted| submitted.unwrap().into_turn()).collect()
}

async fn batch(store: &Store) -> Batch {
    let input_file = Uuid::now_v7();
    let (filename, purpose) = ("lines.jsonl".to_owned(), "batch".to_owned());
    let new = NewFile { tenant: TENANT.to_owned(), filename, purpose };
    store.begin_file(input_file, new).await.unwrap();
    let chunk = Chunk { starts_line: true, ends_line: true, data: b"{}\n".to_vec() };
    store.write_chunk(input_file, 0, chunk).await.unwrap();
    store.finish_file(input_file, 1, 3, None).await.unwrap();
    let new = NewBatch {
        tenant: TENANT.to_owned(),
        author: "test".to_owned(),
        trace_parent: None,
        by_operator: false,
        caller: None,
        endpoint: "/v1/turns".to_owned(),
        input_file,
        completion_window: "24h".to_owned(),
        seconds: 86_400,
        metadata: json!({}),
        output_seconds: None,
        reuse: true,
        max_micro_usd: None,
        window: 100,
        item_seconds: None,
        priority: Priority::Normal,
        request_hash: "hash".to_owned(),
        known_by: KnownBy::Nothing,
    };
    store.make_batch(new).await.unwrap().unwrap().0
}

fn line(cache_key: &str, nth: u64) -> Line {
    let cache_key = CacheKey {
        hash: format!("{cache_key}-{nth}"),
        strategy: "probe".to_owned(),
        priority: Priority::Normal,
    };
    let place = LinePlace::default();
    Line { nth, custom_id: Some(format!("line-{nth}")), place, checked: Ok(cache_key) }
}

/// Runs a batch as its coordinator does, from its lines to the pages of its results.
pub(crate) async fn run(store: &Store, cache_key: &str, lines: u64) {
    let id = batch(store).await.id;
    for from in (1..=lines).step_by(PAGE as usize) {
        let kept = store.acquire_batch_leases(OWNER, 60_000_000).await.unwrap();
        let last = lines.min(from + PAGE - 1);
        let page = last + 1 - from;
        let lines = (from..=last).map(|nth| line(cache_key, nth)).collect();
        let batch = kept.iter().find(|batch| batch.id == id).unwrap();
        store.add_lines(batch, OWNER, lines, last).await.unwrap();

        let waiting = store.waiting_items(id, PAGE).await.unwrap();
        assert_eq!(waiting.len() as u64, page);
        assert!(store.earlier_results(TENANT, &waiting).await.unwrap().is_empty());
        let turns = submit(store, waiting.iter().map(|item| item.nth)).await;
        let begun = |(item, turn): (&Item, &Turn)| ItemTransition {
            run: Some((turn.thread, turn.id)),
            ..ItemTransition::new(item.clone(), ItemState::Submitted)
        };
        store.apply_transitions(id, OWNER, waiting.iter().zip(&turns).map(begun).collect()).await.unwrap();
        assert!(store.running_items(id, i64::MAX, from - 1, PAGE).await.unwrap().is_empty());
        for turn in &turns {
            store.refuse_queued(turn.id, "the test wants none").await.unwrap();
        }
        let moved = store.moved_items(id, PAGE).await.unwrap();
        assert_eq!(moved.len() as u64, page);
        let ended =
            moved.into_iter().map(|(item, _)| ItemTransition::new(item, ItemState::Completed)).collect();
        store.apply_transitions(id, OWNER, ended).await.unwrap();
    }
    let mut after = 0;
    while let Some(last) =
        store.final_results(id, ResultSelection::Successful, after, PAGE).await.unwrap().last()
    {
        after = last.n;
    }
    assert_eq!(after, lines);
    let batch = store.batch(id).await.unwrap().unwrap();
    assert_eq!(batch.counts.of(ItemState::Completed), lines);
    assert!(store.advance_batch(&batch, OWNER, BatchStatus::Failed, None).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_reads_what_is_asked_for() {
    let postgres = Postgres::start();
    let connect = async || Store::connect(&postgres.url()).await.unwrap();
    let store = connect().await;
    store.migrate().await.unwrap();
    read(&postgres, store).await;

    // The statements are planned while the tables are empty, and no ANALYZE runs afterwards.
    let store = connect().await;
    run(&store, "young", LINES).await;
    let young = read(&postgres, store).await;
    assert!(young < MOST_OF_A_LINE * LINES, "{young} read for {LINES} lines of young tables");

    // The last ANALYZE runs while no turn is open.
    postgres.query("ANALYZE");
    let store = connect().await;
    let turns = submit(&store, 0..1000).await;
    read(&postgres, store).await;
    let store = connect().await;
    for turn in &turns {
        assert_eq!(store.next_queued(turn.thread).await.unwrap().unwrap().id, turn.id);
    }
    let asked = read(&postgres, store).await;
    assert!(asked < 3 * turns.len() as u64, "{asked} read to find {} turns", turns.len());
    // The first reader also visits the two thousand index entries of ended turns and marks them as dead; later readers
    // skip them.
    for most in [5, 3] {
        let store = connect().await;
        assert_eq!(store.runnable_after(None, turns.len() as u64).await.unwrap().len(), turns.len());
        let swept = read(&postgres, store).await;
        assert!(swept < most * turns.len() as u64, "{swept} read to sweep {} threads", turns.len());
    }
    let store = connect().await;
    run(&store, "quiet", LINES).await;
    let quiet = read(&postgres, store).await;
    assert!(quiet < MOST_OF_A_LINE * LINES, "{quiet} read for {LINES} lines after a quiet minute");

    let store = connect().await;
    let id = asks(&store).await;
    read(&postgres, store).await;
    let store = connect().await;
    for _ in 0..100 {
        assert!(store.moved_items(id, PAGE).await.unwrap().is_empty());
        assert_eq!(store.under_way(id).await.unwrap().queued, 0);
    }
    let looked = read(&postgres, store).await;
    assert!(looked < 2 * PAGE, "{looked} read in a hundred looks at {PAGE} lines that wait for a person");
}

/// Runs one conversation of many turns, each started and ended as a worker does it.
pub(crate) async fn converse(store: &Store, turns: u64) {
    let thread = submit(store, 0..1).await.remove(0).thread;
    for nth in 1..=turns {
        run_turn(store, thread).await;
        let new = NewTurn { thread: Opening::Existing(thread), ..turn(nth) };
        store.submit(new).await.unwrap();
    }
}

/// Starts and ends the next turn of a thread as a worker does it.
async fn run_turn(store: &Store, thread: ThreadId) {
    let mut head = store.head(thread).await.unwrap();
    let Queued { id, author, messages, .. } = store.next_queued(thread).await.unwrap().unwrap();
    let started = TurnStarted {
        turn: id,
        actor: author,
        time: String::new(),
        kind: TurnKind::New,
        messages,
        caller: None,
        forgotten_models: Vec::new(),
        toolbox: None,
        history_hash: None,
        priority: None,
        metadata: None,
        build: None,
        reply_options: None,
    };
    let decided = shared::Decided {
        node: "finish".to_owned(),
        messages: Vec::new(),
        facts: Vec::new(),
        reason: None,
        to: shared::Goto::End,
        budget_exceeded: None,
        outcome: None,
    };
    for (events, thread, status) in [
        (vec![Event::from(started)], ThreadStatus::Busy, TurnStatus::Running),
        (vec![decided.into()], ThreadStatus::Idle, TurnStatus::Completed),
    ] {
        let mark = ReadModelUpdate {
            status: thread,
            turn: Some(TurnUpdate { turn: id, status, error: None, outcome: None }),
        };
        head = store.append(&head, &events, Some(&mark)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_reads_no_more_for_the_last_turn_of_a_conversation_than_for_its_first() {
    const TURNS: u64 = 300;
    const MOST_OF_A_TURN: u64 = 30;
    let postgres = Postgres::start();
    let connect = async || Store::connect(&postgres.url()).await.unwrap();
    let store = connect().await;
    store.migrate().await.unwrap();
    read(&postgres, store).await;
    for tables in ["young", "quiet"] {
        let store = connect().await;
        converse(&store, TURNS).await;
        let asked = read(&postgres, store).await;
        assert!(asked < MOST_OF_A_TURN * TURNS, "{asked} read for {TURNS} turns of {tables} tables");
        postgres.query("ANALYZE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_reads_what_is_asked_for_by_plans_of_when_there_was_little() {
    const LITTLE: u64 = 1;
    const MOST_OF_A_TURN: u64 = 40;
    // The planner's choice of a table to scan depends on the other rows: none at all, or a page of items and turns.
    for beside in ["nothing", "a page"] {
        let postgres = Postgres::start();
        let connect = async || Store::connect(&postgres.url()).await.unwrap();
        let store = connect().await;
        store.migrate().await.unwrap();
        converse_in(&store, LITTLE).await;
        run(&store, "first", LITTLE).await;
        if beside == "a page" {
            asks(&store).await;
        }
        read(&postgres, store).await;
        postgres.query("ANALYZE");

        // The plans are made while there are few rows and are kept, because no ANALYZE runs afterwards.
        let store = connect().await;
        converse_in(&store, LITTLE).await;
        run(&store, "little", LITTLE).await;
        converse_in(&store, LINES).await;
        run(&store, "much", LINES).await;
        let asked = read(&postgres, store).await;
        assert!(
            asked < (MOST_OF_A_TURN + MOST_OF_A_LINE) * LINES,
            "{asked} read for {LINES} turns and as many lines, with plans of one turn beside {beside}"
        );
    }
}

/// Runs one turn on each of `threads` new threads, started and ended as a worker does it.
async fn converse_in(store: &Store, threads: u64) {
    let turns = submit(store, 0..threads).await;
    assert!(store.runnable_after(None, 2 * LINES).await.unwrap().len() as u64 >= threads);
    for turn in &turns {
        assert!(store.lane(turn.thread).await.unwrap().is_some());
        run_turn(store, turn.thread).await;
    }
}

/// Creates a batch with a page of lines that all wait for a person.
async fn asks(store: &Store) -> BatchId {
    let id = batch(store).await.id;
    let kept = store.acquire_batch_leases(OWNER, 60_000_000).await.unwrap();
    let lines = (1..=PAGE).map(|nth| line("asks", nth)).collect();
    store.add_lines(&kept[0], OWNER, lines, PAGE).await.unwrap();
    let waiting = store.waiting_items(id, PAGE).await.unwrap();
    let turns = submit(store, waiting.iter().map(|item| item.nth)).await;
    let begun = |(item, turn): (&Item, &Turn)| ItemTransition {
        run: Some((turn.thread, turn.id)),
        ..ItemTransition::new(item.clone(), ItemState::Submitted)
    };
    store.apply_transitions(id, OWNER, waiting.iter().zip(&turns).map(begun).collect()).await.unwrap();
    let begun = store.items_submitted_before(id, i64::MAX, PAGE).await.unwrap();
    let asked = begun.into_iter().map(|item| ItemTransition::new(item, ItemState::AwaitingInput)).collect();
    store.apply_transitions(id, OWNER, asked).await.unwrap();
    id
}

/// Maximum number of rows and index entries read per line: enough for indexed lookups, but less than reading all lines
/// for every page.
pub(crate) const MOST_OF_A_LINE: u64 = 30;

/// Each page of a prune once read the turns of all threads, but only with the statistics of a large database.
#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_prunes_without_reading_the_whole_table_for_each_page() {
    const THREADS: u64 = 30_000;
    const MOST_OF_A_THREAD: u64 = 20;
    let postgres = Postgres::start();
    let connect = async || Store::connect(&postgres.url()).await.unwrap();
    let store = connect().await;
    store.migrate().await.unwrap();
    read(&postgres, store).await;
    for insert in [
        "INSERT INTO threads (id, strategy, status, created_at, updated_at, tenant) \
         SELECT md5(n::text)::uuid, 'probe', 'idle', n, n, 'default' FROM generate_series(1, 30000) AS n",
        "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, created_at, updated_at, tenant, \
         priority) SELECT md5('turn' || n)::uuid, md5(n::text)::uuid, 'completed', 'auto', '[]', '{}', 'test', n, n, \
         'default', 1 FROM generate_series(1, 30000) AS n",
        "INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) SELECT md5(n::text)::uuid, n, 'json', seq, \
         'decided', '{}', '' FROM generate_series(1, 30000) AS n, generate_series(0, 3) AS seq",
        "ANALYZE",
        "SELECT pg_stat_reset()",
    ] {
        postgres.query(insert);
    }
    let store = connect().await;
    let all = Prune { before: i64::MAX, strategy: None, by: "test".into() };
    assert_eq!(store.prune(&all, DryRun::Yes, |_| ()).await.unwrap().threads, THREADS);
    let counted = read(&postgres, store).await;
    assert!(counted < MOST_OF_A_THREAD * THREADS, "{counted} read to count {THREADS} threads");
    let store = connect().await;
    let pruned = store.prune(&all, DryRun::No, |_| ()).await.unwrap();
    assert_eq!((pruned.threads, pruned.turns, pruned.events), (THREADS, THREADS, 4 * THREADS));
    let asked = read(&postgres, store).await;
    assert!(asked < MOST_OF_A_THREAD * THREADS, "{asked} read to prune {THREADS} threads");
}
