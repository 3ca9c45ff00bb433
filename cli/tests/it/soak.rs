//! Soak test: the API and four workers over real PostgreSQL and Redis under load, while processes die and stall and
//! connections break at random; with keys, limits of tenants and metrics. Afterwards the logs are compared with the servers'
//! ledgers and with the dashboard: nothing is lost, no write happened twice, and the counters are true.
//!
//! `TURNFOLD_SOAK_SECONDS` sets the duration of the faults, `TURNFOLD_SOAK_SEED` their order.

mod dashboard;
mod faults;
mod load;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use self::{
    dashboard::Counted,
    faults::{Deployment, Fault, WORKERS},
    load::{Ended, Load},
};
use crate::{
    engine::{Engine, is_long, turnfold},
    ledgers,
};

/// Default durations of the faults, in seconds: of `./check --long`, in which every fault occurs, and of `./check`.
const LONG: u64 = 120;
const SHORT: u64 = 12;

/// Numbers of threads checked with `turnfold thread verify`, in a long and in a short test; the API verifies all of them.
const VERIFIED_BY_HAND: [usize; 2] = [20, 5];

/// Results of the test.
#[derive(Debug, Default)]
struct Figures {
    threads: usize,
    turns: usize,
    node_steps: usize,
    events: usize,
    doubted: usize,
    confirmed_writes: usize,
    /// Accepted turns that did not complete, and confirmed writes that are in no ledger.
    lost: Vec<String>,
    /// Writes that a ledger contains more than once, or that no log contains.
    duplicates: Vec<String>,
    /// Counters of all workers.
    counted: Counted,
    completed: usize,
    /// Threads whose log has a gap, an invalid hash chain, or decisions that today's code does not repeat.
    broken: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures are the result of the test")]
async fn real_engine_under_every_fault_loses_nothing() {
    let seconds = number_of("TURNFOLD_SOAK_SECONDS").unwrap_or(if is_long() { LONG } else { SHORT });
    let seed = number_of("TURNFOLD_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("a soak of {seconds} seconds with TURNFOLD_SOAK_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut deployment = Deployment::start().await;
    let load = Load::begin(&deployment.engine);
    let mut injected = BTreeMap::<Fault, usize>::new();
    let (duration, began) = (Duration::from_secs(seconds), Instant::now());
    while began.elapsed() < duration {
        // Faults are dealt from a shuffled deck, so that kinds rarely repeat in a short test.
        let mut deck = Fault::DECK;
        random.shuffle(&mut deck);
        for fault in deck {
            if duration <= began.elapsed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(random.u64(300..2_000))).await;
            deployment.inject(fault, &mut random).await;
            *injected.entry(fault).or_default() += 1;
        }
    }
    let load_ends = Instant::now();
    let ended = load.end().await;
    let drained_in = load_ends.elapsed();
    dashboard::until_idle(&deployment.engine, WORKERS).await;
    let mut figures = check(&deployment.engine, &ended).await;
    figures.counted = deployment.dashboard.counted();
    println!("faults: {injected:?}\nidle {drained_in:.1?} after the last of them\n{figures:#?}");
    let by_themselves = deployment.ended_by_themselves();
    assert!(by_themselves.is_empty(), "processes ended by themselves: {by_themselves:#?}");
    assert!(figures.lost.is_empty() && figures.duplicates.is_empty() && figures.broken.is_empty());
    figures.check_dashboard(injected.values().sum());
    let all = Fault::DECK.iter().all(|fault| injected.contains_key(fault));
    assert!(seconds < LONG || all, "a soak without some of the faults: {injected:?}");
    let scaled = |count: u64| usize::try_from(count * seconds.min(LONG) / LONG).unwrap();
    assert!(
        ended.len() > scaled(50) && figures.confirmed_writes > scaled(20),
        "too little was done to show anything: {figures:#?}"
    );
}

impl Figures {
    /// Compares what the dashboard shows with the logs. A fault may cost a count: the process dies between the commit and the
    /// counter, or the answer to a commit is lost.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand turns")]
    #[expect(clippy::print_stdout, reason = "the figures are the result of the test")]
    fn check_dashboard(&self, faults: usize) {
        let missing = self.completed as f64 - self.counted.completed;
        println!("the dashboard lacks {missing} of {} completed turns", self.completed);
        assert!((0.0..=faults as f64).contains(&missing), "after {faults} faults: {self:#?}");
        assert!(self.node_steps as f64 <= self.counted.steps + faults as f64 * 4.0, "{self:#?}");
    }
}

fn number_of(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, and not {value:?}")))
}

async fn check(engine: &Engine, ended: &[Ended]) -> Figures {
    let mut figures = Figures { threads: ended.len(), ..Figures::default() };
    let mut ledgers = ledgers::applied(engine.folder());
    for (nth, Ended { thread, turns, status }) in ended.iter().enumerate() {
        if status != "completed" {
            figures.lost.push(format!("the last turn of {thread} is {status}"));
        }
        figures.turns += turns;
        let events = engine.events(thread).await;
        let of_kind = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        figures.events += events.len();
        figures.node_steps += of_kind("decided");
        figures.doubted += of_kind("in_doubt");
        if events.iter().enumerate().any(|(nth, event)| event["seq"] != nth) {
            figures.broken.push(format!("{thread} has a gap"));
        }
        for key in ledgers::confirmed(thread, &events) {
            figures.confirmed_writes += 1;
            match ledgers.remove(&key) {
                Some(1) => (),
                Some(times) => figures.duplicates.push(format!("{key} happened {times} times")),
                None => figures.lost.push(format!("{key} is confirmed, and in no ledger")),
            }
        }
        for check in ["verify", "replay"] {
            let audit = engine.get(&format!("/v1/threads/{thread}/{check}")).await;
            if audit["ok"] != true {
                figures.broken.push(format!("{thread}: {check}: {audit}"));
            }
        }
        if nth % ended.len().div_ceil(VERIFIED_BY_HAND[usize::from(!is_long())]) == 0
            && !verified_by_hand(engine.folder(), thread)
        {
            figures.broken.push(format!("`turnfold thread verify {thread}` finds something"));
        }
    }
    figures.duplicates.extend(ledgers.into_iter().map(|(key, times)| format!("{key}: {times}, in no log")));
    let rows = |sql: &str| engine.postgres.query(sql).swap_remove(0).swap_remove(0);
    let kept = format!("{} threads, {} turns", figures.threads, figures.turns);
    figures.completed = rows("SELECT count(*) FROM turns WHERE status = 'completed'").parse().unwrap();
    let stored = format!(
        "{} threads, {} turns",
        rows("SELECT count(*) FROM threads"),
        rows("SELECT count(*) FROM turns")
    );
    if stored != kept {
        figures.duplicates.push(format!("stored are {stored}, accepted were {kept}"));
    }
    let gaps = "SELECT count(*) FROM (SELECT thread_id FROM events GROUP BY thread_id \
                HAVING count(*) <> max(seq) + 1 OR min(seq) <> 0) AS it";
    if rows(gaps) != "0" {
        figures.broken.push(format!("{} logs have gaps", rows(gaps)));
    }
    figures
}

fn verified_by_hand(folder: &Path, thread: &str) -> bool {
    turnfold(folder).args(["thread", "verify", thread]).output().unwrap().status.success()
}
