//! The search index with many turns: every query is quick, and the figures of `docs/scaling.md` are printed.
//!
//! `TURNFOLD_SEARCH_TURNS=100000 cargo nextest run -p store --no-capture search_at_size` measures with that many turns.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use queue::clock;
use serde_json::json;
use shared::{
    Answered, Asked, Event, Message, Reply, Request, Response, ThreadStatus, ToolCall, ToolOutput,
    TurnStatus, Usage,
};
use store::{
    Conditions, Error, NewTurn, Opening, QueryWords, Rank, RankOrder, ReadModelUpdate, Store, ThreadFilter,
    TurnFilter, TurnUpdate,
};
use test_servers::Postgres;

use crate::conformance::{decided, of_tenant, turn_started};

/// Words of the generated texts. A word is the rarer, the higher its number.
const VOCABULARY: u64 = 20_000;

/// Laps with and without the index.
const LAPS: u64 = 2;

/// Turns that are written together.
const AT_ONCE: u64 = 256;

/// Longest 95th percentile of a query.
const SLOWEST: Duration = Duration::from_secs(2);

fn turns() -> u64 {
    std::env::var("TURNFOLD_SEARCH_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Returns words, of which one with number `n` is about `1 / n` as frequent as the first.
    fn text(&mut self, words: usize) -> String {
        let word = |numbers: &mut Self| {
            let most = 1 + numbers.next(VOCABULARY);
            format!("w{}", numbers.next(most))
        };
        (0..words).map(|_| word(self)).collect::<Vec<_>>().join(" ")
    }
}

fn chat() -> Event {
    let request = json!({
        "request": "chat", "model": "openai/gpt-4o", "system": "Answer.", "context": {"start": 0, "end": 1},
        "prompt": "ab".repeat(32),
    });
    Asked { node: "plan".to_owned(), requests: vec![serde_json::from_value(request).unwrap()] }.into()
}

fn answered(response: Response) -> Event {
    let usage = Usage { input_tokens: 900, output_tokens: 60, micro_usd: Some(1_500), ..Usage::default() };
    Answered { slot: 0, response, usage: Some(usage), extras: None }.into()
}

/// Runs turn `nth`: a model calls a tool and answers. Nine events, six of them with texts.
async fn run(store: &Store, nth: u64) -> Result<(), Error> {
    let mut numbers = Numbers(nth);
    let tenant = if nth.is_multiple_of(10) { "small" } else { "default" };
    let words = vec![Message::user(format!("{} order A-{nth}/77", numbers.text(12)))];
    let base = of_tenant(tenant, "");
    let Opening::New(opened) = base.thread.clone() else { return Ok(()) };
    let new = NewTurn { messages: words, ..NewTurn::of(Opening::New(opened), vec![], "test".to_owned()) };
    let turn = store.submit(new).await?.into_turn();
    let call = ToolCall {
        id: "c".to_owned(),
        name: format!("tool{}", nth % 50),
        arguments: json!({"order": format!("A-{nth}/77")}),
    };
    let asks = Reply { content: String::new(), tool_calls: vec![call.clone()], ..Reply::default() };
    let reply = Reply { content: numbers.text(30), ..Reply::default() };
    let request = Request::CallTool { server: "shop".to_owned(), call };
    let events = [
        turn_started(&turn),
        chat(),
        answered(Response::Reply(asks)),
        Asked { node: "call".to_owned(), requests: vec![request] }.into(),
        answered(Response::Output(ToolOutput::Ok(numbers.text(60)))),
        chat(),
        answered(Response::Reply(reply)),
        decided("end"),
    ];
    let update = TurnUpdate { turn: turn.id, status: TurnStatus::Completed, error: None, outcome: None };
    let update = ReadModelUpdate { status: ThreadStatus::Idle, turn: Some(update) };
    store.append(&store.head(turn.thread).await?, &events, Some(&update)).await?;
    Ok(())
}

/// Runs these turns. Returns the number of their events.
async fn write(store: &Store, turns: Range<u64>) -> Result<u64, Error> {
    for from in turns.clone().step_by(AT_ONCE as usize) {
        let until = (from + AT_ONCE).min(turns.end);
        try_join_all((from..until).map(|nth| run(store, nth))).await?;
    }
    Ok(9 * (turns.end - turns.start))
}

/// Fills the index from nothing, as after an upgrade. Returns the time.
async fn fill(store: &Store) -> Result<Duration, Error> {
    store.begin_indexing().await?;
    let began = Instant::now();
    while 0 < store.index_round().await?.events {}
    Ok(began.elapsed())
}

async fn p95<T>(mut query: impl AsyncFnMut(u64) -> Result<T, Error>) -> Result<Duration, Error> {
    let mut times = Vec::new();
    for nth in 0..40 {
        let began = Instant::now();
        drop(query(nth).await?);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[37])
}

#[expect(clippy::print_stdout, reason = "prints figures")]
async fn measure(engine: &str, store: &Store, size: impl Fn() -> u64) -> Result<(), Error> {
    let events = write(store, 0..turns()).await?;
    let before = size();
    let took = fill(store).await?;
    if engine == "PostgreSQL" {
        // As autovacuum does.
        store::testing::tamper::execute_with(store, "ANALYZE turns", []).await?;
    }
    let bytes = size().saturating_sub(before) / events;
    println!(
        "{engine}: {events} events of {} turns in {took:.1?}, {:.0} events/s, {bytes} bytes an event",
        turns(),
        events as f64 / took.as_secs_f64()
    );
    let most = turns();
    let order = |nth: u64| format!("A-{}/77", nth * 37 % most);
    for (name, text) in [
        ("a number", None),
        ("the most common word", Some("w0")),
        ("two common words", Some("w0 w1")),
        ("two rarer words", Some("w5000 w77")),
        ("nothing", Some("nowhere w0")),
    ] {
        for tenant in [None, Some("small")] {
            let time = p95(async |nth| {
                let text = text.map_or_else(|| order(nth), str::to_owned);
                store.search(&QueryWords::parse(&text).unwrap_or_default(), tenant, 20).await
            });
            let time = time.await?;
            println!("{engine}: {name} for {}: p95 {time:.1?}", tenant.unwrap_or("all tenants"));
            assert!(time < SLOWEST, "{engine}: {name}: {time:?}");
        }
    }
    for filter in [
        "text = 'A-7/77'",
        "text = w0",
        "tool = tool7",
        "model = gpt-4o",
        "model = other",
        "usd > 0.01",
        "worker = w",
        "rating = good",
    ] {
        let conditions = Conditions::parse(filter, clock::now()).unwrap_or_default();
        let filter_of =
            TurnFilter { tenant: Some("default"), conditions: Some(&conditions), ..TurnFilter::default() };
        let time = p95(async |_| store.turns(filter_of, None, 50).await).await?;
        println!("{engine}: turns where {filter}: p95 {time:.1?}");
        assert!(time < SLOWEST, "{engine}: {filter}: {time:?}");
    }
    for rank in [Rank::Updated, Rank::MicroUsd, Rank::Tokens, Rank::Took] {
        let own = TurnFilter { tenant: Some("default"), ..TurnFilter::default() };
        let of_threads = ThreadFilter { tenant: Some("default"), ..ThreadFilter::default() };
        for order in [RankOrder::highest_first(rank), RankOrder::lowest_first(rank)] {
            let turns = p95(async |_| store.ranked_turns(own, order, None, 50).await).await?;
            let threads = p95(async |_| store.ranked_threads(of_threads, order, None, 50).await).await?;
            println!("{engine}: {order:?}: p95 turns {turns:.1?}, threads {threads:.1?}");
            assert!(turns.max(threads) < SLOWEST, "{engine}: {order:?}: {turns:?} {threads:?}");
        }
    }
    Ok(())
}

/// Returns the CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(10 * ticks)
}

/// Turns are written in turn to a store that is indexed meanwhile, and to one that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "prints figures")]
async fn sqlite_appends_cost_the_same_beside_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let open = async |name: &str| {
        let store = Store::connect(&format!("sqlite:{}", folder.path().join(name).display())).await.unwrap();
        store.migrate().await.unwrap();
        store
    };
    let stores = [open("on.db").await, open("off.db").await.with_search(false)];
    let mut used = [Duration::ZERO; 2];
    let lap = (turns() / LAPS).max(500);
    for nth in 0..LAPS {
        for (store, used) in stores.iter().zip(&mut used) {
            let stop = until_dropped();
            let index = tokio::spawn(threads::keep_indexing(store.clone(), stop.1));
            let before = cpu();
            write(store, nth * lap..(nth + 1) * lap).await.unwrap();
            *used += cpu().saturating_sub(before);
            drop(stop.0);
            index.await.unwrap();
        }
    }
    let [on, off] = used.map(|time| time.as_secs_f64());
    println!(
        "SQLite: CPU time of {} turns beside the index {on:.2} s, without it {off:.2} s: {:+.1} %",
        LAPS * lap,
        100.0 * (on / off - 1.0)
    );
    assert!(on < 1.3 * off, "{on} {off}");
}

/// Returns a sender, and a future that ends when it is dropped.
fn until_dropped() -> (tokio::sync::oneshot::Sender<()>, impl Future<Output = ()> + Send) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    (sender, async move { drop(receiver.await) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.db");
    let store = Store::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    store.migrate().await.unwrap();
    let size = || std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
    measure("SQLite", &store, size).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres() {
    let postgres = Postgres::prepared("migrated", store::testing::migrate);
    let store = Store::connect(&postgres.url()).await.unwrap();
    let size = || {
        let sql = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'search%'";
        postgres.query(sql)[0][0].parse().unwrap_or(0)
    };
    measure("PostgreSQL", &store, size).await.unwrap();
}
