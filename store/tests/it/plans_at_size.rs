//! Query plans in PostgreSQL with a million rows: a statement reads what is asked for, whether the tables were analysed or not, and
//! with plans for all values.
//!
//! ## Why rows are counted and not estimated
//!
//! A wrong estimate is the reason for a wrong plan, so the cost in a plan shows no fault. The server counts the rows that each call
//! of the store reads.

mod rows;

use std::collections::BTreeSet;

use queue::{Priority, clock};
use shared::{ThreadStatus, TurnStatus};
use store::{
    AwaitedAnswer, Conditions, ConnectionSettings, Conversation, DryRun, IdOf, Idempotency, Order, PartOfId,
    PendingFilter, Prune, RANKED_MAX, Rank, RankOrder, Resolution, Store, ThreadFilter, ThreadScan,
    TurnFilter, WaitReason,
    batches::{BatchRank, CacheKey, ItemState, ResultSelection, StopReason},
    webhooks::{DeliveryFilter, DeliveryLimits},
};
use test_servers::Postgres;
use uuid::Uuid;

use self::rows::{BATCH, CONTENT, DELIVERY, FILE, LINES, LONG, THREAD, THREADS, TURN, WEBHOOK, id_of};
use crate::plans::{MOST_OF_A_LINE, converse, read, run};

/// Rows and index entries that a call may read which asks for one row, or for few. The hundred holds are read whole.
const FEW: u64 = 400;

/// Rows that a list returns, and what a list may read: a few entries for each row.
const PAGE: u64 = 50;
const LIST: u64 = 30 * PAGE;

/// Calls that read more by their nature, or tables that stay small, each with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("connect", "reads no table"),
    ("connect_with", "reads no table"),
    ("check_migrated", "reads the migrations"),
    ("pending", "reads the migrations"),
    ("migrate", "reads the migrations"),
    ("distribute", "copies the logs once, while nothing else runs"),
    ("identity", "reads one row of the deployment"),
    ("server_info", "reads no table"),
    ("check_writable", "writes one row"),
    ("counts", "counts all turns and events, for `doctor`"),
    ("append_at", "as append"),
    ("update_read_model", "as append with an update"),
    ("insert_thread", "inserts the rows of a new thread"),
    ("insert_fork", "inserts the rows of a new thread"),
    ("begin_results", "changes one file of one batch by its key"),
    ("name_results", "changes one batch by its key"),
    ("stored_bytes", "adds up all that a tenant stores; called once in minutes"),
    ("verify", "reads all logs"),
    ("verify_against", "reads all logs"),
    ("verify_reading", "reads all logs"),
    ("verify_admin_logs", "reads all administrative logs"),
    ("admin_stored", "reads a page of one log by its key"),
    ("deletions", "reads all administrative logs, if an attested thread is missing"),
    ("admin_entries", "reads a page of an index, or the log of one tenant from its end"),
    ("pin_findings", "a row for each MCP server"),
    ("forks_with_key", "passes over all forks, in an audit of all threads"),
    ("item_findings", "reads the lines of the threads that an audit has just read"),
    ("batch_findings", "passes over all batches, in an audit of all threads"),
    ("has_batches", "reads one row"),
    ("low_counts", "passes over all counts, in an audit of all threads"),
    ("mistyped", "passes over all tables of SQLite, and does nothing in PostgreSQL"),
    ("grown", "reads the end of each log"),
    ("read_logs", "reads all logs"),
    ("for_each", "reads all logs"),
    ("put_right", "repairs one thread, under its lock"),
    ("replace_counts", "counts all again, after a rebuild"),
    ("add_lost_counts", "reads what ended in the minutes after the death of a process"),
    ("threads_changed_since", "passes over all threads once, after the death of a process"),
    ("lost_counts", "reads a row for each process"),
    ("write_counts", "adds a row for each subject"),
    ("prompt_uses", "at most ten thousand rows for each tenant"),
    ("threads_of_prompt", "at most ten thousand rows for each tenant"),
    ("keep_templates", "a row for each built-in prompt, once for each process"),
    ("template", "reads one row"),
    ("end_counting", "deletes one row"),
    ("index_alone", "reads no table"),
    ("begin_indexing", "a row for each process"),
    ("end_indexing", "a row for each process"),
    ("search_progress", "a row for each process"),
    ("check_searchable", "a row for each process"),
    ("index_round", "reads the logs that grew, off the hot path; measured in search_at_size"),
    ("rebuild_search", "empties the search index"),
    ("search", "measured in search_at_size"),
    ("worker_starts", "reads a row for each thread that may have killed a worker"),
    ("worker_stops", "as worker_starts"),
    ("set_deaths", "as worker_starts"),
    ("forget_deaths", "as worker_starts"),
    ("record_worker", "a row for each worker"),
    ("show_life", "a row for each worker"),
    ("last_sign_of_life", "a row for each worker"),
    ("remove_worker", "a row for each worker"),
    ("workers", "a row for each worker"),
    ("pauses", "a row for each order of an operator"),
    ("pause", "a row for each order of an operator"),
    ("resume", "a row for each order of an operator"),
    ("holds", "lists all holds"),
    ("pins", "a row for each MCP server"),
    ("pin", "a row for each MCP server"),
    ("pin_if_absent", "a row for each MCP server"),
    ("approve", "a row for each MCP server"),
    ("unpin", "a row for each MCP server"),
    ("mcp_server", "a row for each MCP server"),
    ("record_mcp_offer", "a row for each MCP server"),
    ("record_mcp_failure", "a row for each MCP server"),
    ("forgotten_models", "a row for each model"),
    ("forget_model", "a row for each model"),
    ("store_id", "reads one row of the deployment"),
    ("checkpoints", "a row for each key that signs"),
    ("record_checkpoint", "a row for each key that signs"),
    ("add_key", "at most a thousand for each tenant"),
    ("rotate_key", "at most a thousand for each tenant"),
    ("key", "at most a thousand for each tenant"),
    ("keys", "at most a thousand for each tenant"),
    ("revoke_key", "at most a thousand for each tenant"),
    ("key_used", "at most a thousand for each tenant"),
    ("add_schedule", "at most a thousand for each tenant"),
    ("schedule", "at most a thousand for each tenant"),
    ("schedules", "at most a thousand for each tenant"),
    ("remove_schedule", "at most a thousand for each tenant"),
    ("pause_schedule", "at most a thousand for each tenant"),
    ("stop_schedule", "at most a thousand for each tenant"),
    ("note_configuration", "reads at most fifty entries of an index"),
    ("resume_schedule", "at most a thousand for each tenant"),
    ("due_schedules", "at most a thousand for each tenant"),
    ("advance_schedule", "at most a thousand for each tenant"),
    ("retry_schedule", "at most a thousand for each tenant"),
    ("add_webhook", "at most twenty for each tenant"),
    ("webhook", "at most twenty for each tenant"),
    ("webhooks", "at most twenty for each tenant"),
    ("remove_webhook", "deletes all deliveries of a webhook"),
];

/// Names of the calls of a store, from its source.
fn calls() -> BTreeSet<String> {
    fn collect(folder: &std::path::Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("testing") && !path.ends_with("vector_index") {
                    collect(&path, names);
                }
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let after = text.split("\n    pub async fn ").skip(1);
            names.extend(after.map(|rest| {
                rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect::<String>()
            }));
        }
    }
    let mut names = BTreeSet::new();
    collect(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut names);
    names
}

/// Number of calls on one connection after which PostgreSQL may plan for all values.
const TIMES: u64 = 7;

/// Runs each call `times` times on a connection of its own, and collects those that read too much.
macro_rules! measured {
    ($postgres:expr, $times:expr, $over:expr, $($most:expr => |$store:ident| $call:expr;)+) => {$({
        let one = ConnectionSettings { max: 1, ..ConnectionSettings::default() };
        let $store = Store::connect_with(&$postgres.url(), one).await.unwrap();
        let call = stringify!($call).split_whitespace().collect::<String>();
        for _ in 0..$times {
            $call.await.unwrap_or_else(|error| panic!("{call}: {error}"));
        }
        let count = read(&$postgres, $store).await / $times;
        println!("{count:>8} of {:>6} {call}", $most);
        if $most < count {
            $over.push(format!("{count} read, at most {}: {call}", $most));
        }
    })+};
}

/// **Invariant:** every call of the store is measured here, or listed with the reason why not.
#[test]
fn every_call_of_the_store_is_measured_at_size() {
    let source = include_str!("plans_at_size.rs").to_owned() + include_str!("plans.rs");
    let source: String = source.split_whitespace().collect();
    let known = |name: &String| {
        OTHERS.iter().any(|(other, _)| other == name) || source.contains(&format!("store.{name}("))
    };
    let missing: Vec<String> = calls().into_iter().filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "measure these calls of the store: {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_reads_what_is_asked_for_from_a_million_rows() {
    let postgres = Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    read(&postgres, store).await;
    postgres.query("ALTER SYSTEM SET autovacuum = off");
    postgres.query("SELECT pg_reload_conf()");
    rows::insert(&postgres);
    postgres.query("SELECT pg_stat_reset()");
    for (tables, analysed) in [("tables without statistics", false), ("analysed tables", true)] {
        let mut over = Vec::new();
        if analysed {
            postgres.query("VACUUM ANALYZE");
            postgres.query("SELECT pg_stat_reset()");
            over.extend(lists(&postgres).await);
        }
        over.extend(lookups(&postgres).await);
        over.extend(of_batches(&postgres).await);
        over.extend(reopening(&postgres).await);
        over.extend(changes(&postgres).await);
        assert!(over.is_empty(), "{tables}:\n{}", over.join("\n"));
    }
}

async fn lists(postgres: &Postgres) -> Vec<String> {
    let mut over = Vec::new();
    let failed = Conditions::parse("status = failed", clock::now()).unwrap();
    let asked = Conditions::parse("status = interrupted and strategy = probe", clock::now()).unwrap();
    let partial = Conditions::parse("outcome = partial", clock::now()).unwrap();
    let one = Conditions::parse(&format!("thread = {}", id_of(THREAD, 7)), clock::now()).unwrap();
    let end = Conditions::parse(&format!("thread = {}", &id_of(THREAD, 7).to_string()[24..]), clock::now())
        .unwrap();
    let turns = TurnFilter::default();
    let (own, small) =
        (TurnFilter { tenant: Some("default"), ..turns }, TurnFilter { tenant: Some("small"), ..turns });
    let of_status = |status| TurnFilter { status: Some(status), ..own };
    let that = |conditions| TurnFilter { conditions: Some(conditions), ..own };
    let threads = ThreadFilter::default();
    let thread_status = |status| ThreadFilter { tenant: Some("default"), status: Some(status), ..threads };
    let (middle, middle_thread) = (Some(id_of(TURN, THREADS / 2)), Some(id_of(THREAD, THREADS / 2)));
    let long = TurnFilter { thread: Some(id_of(THREAD, LONG)), ..turns };
    measured! {
        postgres, TIMES, over,
        LIST => |store| store.turns(turns, None, PAGE);
        LIST => |store| store.turns(own, middle, PAGE);
        LIST => |store| store.turns(small, middle, PAGE);
        LIST => |store| store.turns(TurnFilter { order: Order::OldestFirst, ..small }, middle, PAGE);
        LIST => |store| store.turns(long, None, PAGE);
        LIST => |store| store.turns(of_status(TurnStatus::Queued), None, PAGE);
        LIST => |store| store.turns(of_status(TurnStatus::Running), None, PAGE);
        LIST => |store| store.turns(of_status(TurnStatus::Interrupted), None, PAGE);
        LIST => |store| store.turns(of_status(TurnStatus::Failed), middle, PAGE);
        LIST => |store| store.turns(of_status(TurnStatus::Cancelled), None, PAGE);
        LIST => |store| store.turns(of_status(TurnStatus::Completed), middle, PAGE);
        LIST => |store| store.turns(that(&failed), None, PAGE);
        LIST => |store| store.turns(that(&asked), None, PAGE);
        LIST => |store| store.turns(that(&partial), None, PAGE);
        LIST => |store| store.turns(that(&one), None, PAGE);
        LIST => |store| store.turns(that(&end), None, PAGE);
        6 * RANKED_MAX => |store| store.ranked_turns(own, RankOrder::highest_first(Rank::Updated), None, PAGE);
        6 * RANKED_MAX => |store| store.ranked_turns(own, RankOrder::lowest_first(Rank::Updated), middle, PAGE);
        6 * RANKED_MAX => |store| store.ranked_turns(own, RankOrder::highest_first(Rank::Took), middle, PAGE);
        LIST => |store| store.ranked_turns(of_status(TurnStatus::Failed), RankOrder::highest_first(Rank::Took), None, PAGE);
        LIST => |store| store.ranked_turns(of_status(TurnStatus::Failed), RankOrder::lowest_first(Rank::Took), None, PAGE);
        6 * RANKED_MAX => |store| store.ranked_threads(threads, RankOrder::highest_first(Rank::Updated), None, PAGE);
        6 * RANKED_MAX => |store| store.ranked_threads(threads, RankOrder::lowest_first(Rank::Took), middle_thread, PAGE);
        LIST => |store| store.threads(threads, None, PAGE);
        LIST => |store| store.threads(ThreadFilter { tenant: Some("small"), ..threads }, Some(id_of(THREAD, 90_000)), PAGE);
        LIST => |store| store.threads(ThreadFilter { order: Order::OldestFirst, ..threads }, middle_thread, PAGE);
        LIST => |store| store.threads(ThreadFilter { tenant: Some("small"), order: Order::OldestFirst, ..threads }, middle_thread, PAGE);
        LIST => |store| store.threads(
            ThreadFilter { order: Order::OldestFirst, ..thread_status(ThreadStatus::Error) }, None, PAGE);
        LIST => |store| store.threads(thread_status(ThreadStatus::Idle), None, PAGE);
        LIST => |store| store.threads(thread_status(ThreadStatus::Busy), None, PAGE);
        LIST => |store| store.threads(thread_status(ThreadStatus::Error), None, PAGE);
        LIST => |store| store.threads(thread_status(ThreadStatus::Interrupted), None, PAGE);
        10 * LIST => |store| store.threads(ThreadFilter { turns: Some(&failed), ..threads }, None, PAGE);
        LIST => |store| store.waiting(Some("default"), None, PAGE);
        LIST => |store| store.runnable_after(None, PAGE);
        LIST => |store| store.runnable_after(Some(id_of(THREAD, THREADS / 2)), PAGE);
        10 * LIST => |store| store.count_pending(PendingFilter::default());
        10 * LIST => |store| store.count_pending(PendingFilter { tenant: Some("small"), ..PendingFilter::default() });
        FEW => |store| store.count_pending(PendingFilter { thread: Some(id_of(THREAD, 5)), ..PendingFilter::default() });
        10 * LIST => |store| store.pending_turns(WaitReason::Runnable, PendingFilter::default(), PAGE);
        10 * LIST => |store| store.pending_turns(WaitReason::AwaitingInput, PendingFilter::default(), PAGE);
        10 * LIST => |store| store.queued(Some("default"), 1000);
        10 * LIST => |store| store.queued(None, 1000);
        10 * LIST => |store| store.failures(own, PAGE);
        3 * 20_000 => |store| store.stats(Resolution::Hour, 100 * 3_600_000_000, Some("default"), PAGE);
        LIST => |store| store.batches(None, Order::NewestFirst, None, PAGE);
        LIST => |store| store.batches(Some("small"), Order::NewestFirst, Some(id_of(BATCH, 10_000)), PAGE);
        LIST => |store| store.batches(Some("small"), Order::OldestFirst, Some(id_of(BATCH, 10_000)), PAGE);
        6 * RANKED_MAX => |store| store.ranked_batches(None, RankOrder::highest_first(BatchRank::Failed), None, PAGE);
        6 * RANKED_MAX => |store| store.ranked_batches(
            Some("default"), RankOrder::lowest_first(BatchRank::Changed), Some(id_of(BATCH, 15_000)), PAGE);
        LIST => |store| store.files(Some("default"), None, Order::NewestFirst, Some(id_of(FILE, 20_000)), PAGE);
        LIST => |store| store.files(None, Some("batch"), Order::OldestFirst, None, PAGE);
        LIST => |store| store.deliveries(DeliveryFilter::default(), None, PAGE);
        LIST => |store| store.deliveries(DeliveryFilter { webhook: Some(id_of(WEBHOOK, 1)), ..DeliveryFilter::default() }, None, PAGE);
        LIST => |store| store.deliveries(
            DeliveryFilter { state: Some(store::webhooks::DeliveryState::Pending), ..DeliveryFilter::default() }, None, PAGE);
    }
    over
}

async fn lookups(postgres: &Postgres) -> Vec<String> {
    let mut over = Vec::new();
    let (thread, turn) = (id_of(THREAD, 4242), id_of(TURN, 4242));
    let long = id_of(THREAD, LONG);
    let end = |id: Uuid| PartOfId::parse(&id.to_string()[24..]).unwrap();
    let (end_of_thread, end_of_turn, end_of_batch) = (end(thread), end(turn), end(id_of(BATCH, 2)));
    let beginning = PartOfId::parse("0190").unwrap();
    let ends: Vec<_> = (1..=PAGE).map(|nth| (id_of(THREAD, 100 * nth), 2)).collect();
    let of_a_page: Vec<_> = ends.iter().map(|(thread, _)| *thread).collect();
    let key = Idempotency { key: "key-777".to_owned(), request_hash: "hash".to_owned() };
    let fork = Idempotency { key: "fork-777".to_owned(), request_hash: "hash".to_owned() };
    let events =
        |store: Store| async move { store.along(thread, 0, None, |_| Ok::<_, store::Error>(())).await };
    let until = |store: Store| async move {
        let go_on = |_| Ok::<_, store::Error>(std::ops::ControlFlow::Continue(()));
        store.along_until(thread, 0, Some(1), go_on).await
    };
    measured! {
        postgres, TIMES, over,
        FEW => |store| store.thread(thread);
        FEW => |store| store.ids_with(IdOf::Thread, &end_of_thread, Some("default"));
        FEW => |store| store.ids_with(IdOf::Turn, &end_of_turn, None);
        FEW => |store| store.ids_with(IdOf::Batch, &end_of_batch, None);
        3_000 => |store| store.ids_with(IdOf::Turn, &beginning, Some("small"));
        FEW => |store| store.turn(turn);
        FEW => |store| store.lane(thread);
        FEW => |store| store.next_queued(id_of(THREAD, 5));
        FEW => |store| store.next_queued(long);
        FEW => |store| store.head(thread);
        FEW => |store| store.load(thread);
        FEW => |store| store.load_since(&store::Head { thread, seq: 1, hash: [0xab; 32] });
        FEW => |store| store.events(thread, None, PAGE);
        FEW => |store| store.stored(thread, 0, PAGE);
        LIST => |store| store.event_hashes(&ends);
        LIST => |store| store.end_turns(&of_a_page);
        FEW => |store| store.end_turns(&[long]);
        FEW => |store| store.verify_chain(thread);
        FEW => |store| store.lost_its_log(thread);
        FEW => |store| events(store.clone());
        FEW => |store| until(store.clone());
        FEW => |store| store.verify(&ThreadScan::of(thread, 1));
        FEW => |store| store.attachment(thread, CONTENT);
        FEW => |store| store.conversation(thread);
        FEW => |store| store.submitted("default", &key);
        FEW => |store| store.submitted_many("default", std::slice::from_ref(&key));
        FEW => |store| store.forked("default", &fork);
        FEW => |store| store.turns_of_history("history-777", PAGE);
        FEW => |store| store.take_lost_answer("unknown", 0);
        FEW => |store| store.cancel_request(thread);
        FEW => |store| store.trace_parents(thread);
        FEW => |store| store.delivery(id_of(DELIVERY, 7));
        FEW => |store| store.batch_of(thread);
        FEW => |store| store.begun_anew(thread);
        FEW => |store| store.agreeing([]);
    }
    over
}

async fn of_batches(postgres: &Postgres) -> Vec<String> {
    let mut over = Vec::new();
    let [done, runs, failed] = [1, 2, 3].map(|nth| id_of(BATCH, nth));
    let (file, owner) = (id_of(FILE, 777), "generated");
    let cache_key = |hash: &str| CacheKey {
        hash: hash.to_owned(),
        strategy: "probe".to_owned(),
        priority: Priority::Normal,
    };
    let lines = [("line-777".to_owned(), cache_key("key-1-777")), ("line-9".to_owned(), cache_key("other"))];
    let key = Idempotency { key: "key".to_owned(), request_hash: "hash".to_owned() };
    let reused = |store: Store| async move {
        let mut items = store.waiting_items(runs, PAGE).await?;
        for item in &mut items {
            item.cache_key = Some(format!("key-1-{}", item.nth));
        }
        assert_eq!(store.earlier_results("default", &items).await?.len() as u64, PAGE);
        Ok::<_, store::Error>(())
    };
    measured! {
        postgres, TIMES, over,
        FEW => |store| store.batch(runs);
        FEW => |store| store.made_batch(None, file, &key);
        FEW => |store| store.leased_batch(runs, owner);
        FEW => |store| store.acquire_batch_leases("generated", 60_000_000);
        FEW => |store| store.stop_batch(runs, StopReason::Paused);
        FEW => |store| store.pause_batch(runs, "test");
        FEW => |store| store.resume_batch(runs, None, "test");
        FEW => |store| store.cancel_batch(id_of(BATCH, 7), "test");
        LIST => |store| store.waiting_items(runs, PAGE);
        LIST => |store| store.moved_items(runs, PAGE);
        LIST => |store| store.running_items(runs, i64::MAX, 0, PAGE);
        LIST => |store| store.items_submitted_before(runs, i64::MAX, PAGE);
        20 * LIST => |store| store.answered_items(failed, PAGE);
        LIST => |store| store.results(done, LINES / 2, PAGE);
        LIST => |store| store.final_results(done, ResultSelection::Successful, LINES / 2, PAGE);
        LIST => |store| store.under_way(runs);
        2 * LINES => |store| store.waiting_by_strategy(runs);
        10 * LIST => |store| store.causes(failed, 5);
        LIST => |store| store.invalid_lines(failed, PAGE);
        FEW => |store| store.pace(done, LINES, 1000);
        2 * 10_000 => |store| store.past_turns("default", "probe", PAGE);
        LIST => |store| reused(store.clone());
        FEW => |store| store.known_lines("default", &lines);
        FEW => |store| store.rename_items(runs, "generated", vec![(LINES, "other".to_owned())]);
        FEW => |store| store.file(file);
        FEW => |store| store.chunk(file, 0);
        FEW => |store| store.release_batch_leases("nobody");
    }
    over
}

/// Runs the failed lines of a batch again, and makes them failed lines after that.
async fn reopening(postgres: &Postgres) -> Vec<String> {
    let mut over = Vec::new();
    let failed = id_of(BATCH, 3);
    let again = |store: Store| async move {
        let reopened = store.reopen_batch(failed, ItemState::Failed, 60, None, "test").await?;
        assert_eq!(reopened, Some(1000));
        Ok::<_, store::Error>(())
    };
    measured! {
        postgres, 1, over,
        10 * 1000 => |store| again(store.clone());
    }
    postgres.query(&format!("UPDATE batches SET status = 'completed' WHERE id = '{failed}'"));
    postgres.query(&format!(
        "UPDATE batch_items SET state = 'failed', code = 'turn_failed', message = 'error', result_no = nth \
         WHERE batch_id = '{failed}' AND nth % 60 = 1"
    ));
    postgres.query("SELECT pg_stat_reset()");
    over
}

async fn changes(postgres: &Postgres) -> Vec<String> {
    const TURNS: u64 = 20;
    let mut over = Vec::new();
    let (thread, turn, waiter) = (id_of(THREAD, 4242), id_of(TURN, 4242), Uuid::now_v7());
    let old = Prune { before: 1_700_000_000_002_000, strategy: None, by: "test".into() };
    let run_batch = |store: Store| async move {
        run(&store, &Uuid::now_v7().to_string(), 200).await;
        Ok::<_, store::Error>(())
    };
    let talk = |store: Store| async move {
        converse(&store, TURNS).await;
        Ok::<_, store::Error>(())
    };
    let conversation = |store: Store| async move {
        let new = Conversation::new("default", serde_json::Map::new(), Vec::new());
        assert!(store.keep_conversation(&new, Vec::new(), 100_000).await?);
        assert!(store.set_conversation_metadata(new.id, &serde_json::Map::new()).await?);
        assert!(store.add_conversation_items(new.id, Vec::new(), Vec::new(), 1000).await?);
        assert!(store.delete_conversation(new.id).await?);
        Ok::<_, store::Error>(())
    };
    let deleted = |store: Store| async move {
        let new = Uuid::now_v7();
        let new_file = store::batches::NewFile {
            tenant: "default".to_owned(),
            filename: "lines".to_owned(),
            purpose: "batch".to_owned(),
        };
        store.begin_file(new, new_file).await?;
        assert!(store.finish_file(new, 0, 0, None).await?.is_some());
        assert!(store.delete_file(new, "test").await?);
        Ok::<_, store::Error>(())
    };
    let cancelled = |store: Store| async move {
        let request =
            store::CancelRequest { thread, turn, actor: "test".to_owned(), caller: None, rolled_back: false };
        store.request_cancel(&request).await?;
        store.drop_cancel_request(&request).await
    };
    let held = |store: Store| async move {
        store.hold(thread, "test", "test").await?;
        store.release(thread, "test").await
    };
    let claimed = |store: Store| async move {
        let limits = DeliveryLimits { all: 10, tenant: 10, webhook: 10 };
        let claimed = store.claim_deliveries(limits, &[], 60_000_000).await?;
        let (_, first) = claimed.first().expect("deliveries are due");
        let again =
            store::webhooks::AttemptOutcome::Missed { status: None, error: "no".to_owned(), again: Some(0) };
        store.settle_delivery(first, again).await
    };
    let awaited = |store: Store| async move {
        let answer = AwaitedAnswer { turn, key: "key".to_owned(), since: 0 };
        store.write_awaited_answers(waiter, vec![answer], Vec::new()).await?;
        store.write_awaited_answers(waiter, Vec::new(), vec![turn]).await?;
        store.end_awaiting(waiter).await
    };
    measured! {
        postgres, 1, over,
        MOST_OF_A_LINE * 200 => |store| run_batch(store.clone());
        30 * TURNS + FEW => |store| talk(store.clone());
        FEW => |store| conversation(store.clone());
        FEW => |store| deleted(store.clone());
        FEW => |store| cancelled(store.clone());
        FEW => |store| held(store.clone());
        LIST => |store| claimed(store.clone());
        FEW => |store| awaited(store.clone());
        FEW => |store| store.keep_attachment(thread, b"content".to_vec());
        FEW => |store| store.keep_trace_parent(thread, turn, "header");
        FEW => |store| store.lose_answer(turn, "lost");
        FEW => |store| store.take_lost_answer("lost", 0);
        FEW => |store| store.give_up_key(id_of(TURN, 4243));
        FEW => |store| store.cancel_queued(turn);
        FEW => |store| store.refuse_queued(turn, "test");
        FEW => |store| store.redeliver(id_of(DELIVERY, 7));
        FEW => |store| store.delete_thread(Uuid::now_v7(), "test");
        FEW => |store| store.sweep_files();
        // It passes over all threads, files and deliveries once. For each old batch, it looks up the first turn of each hold.
        10 * THREADS => |store| store.prune(&old, DryRun::Yes, |_| ());
        FEW => |store| store.sweep_deliveries();
    }
    over
}
