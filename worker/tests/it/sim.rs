//! Simulation of the whole engine: real workers, sweepers and folds over a log, a queue and a world that fail at
//! random.
//!
//! The seed determines everything that happens: what is submitted, how long each operation takes, which worker dies
//! when, and what is lost, repeated or reported wrongly. The clock is virtual, so a minute takes milliseconds. A
//! failure names its seed and prints the transcript; `TURNFOLD_SIM_SEED=N cargo nextest run -p worker sim` runs that
//! seed alone, event by event.
//!
//! These properties hold for every seed:
//!
//! * every acknowledged append is in the log, and the log has no gap;
//! * every accepted turn ends, with the decisions of a run without faults;
//! * a write happens once, unless it is declared repeatable; then it is repeated only under the same key.
//!
//! Two controls show that the simulation can fail: without the sweeper turns are lost, and without the fence decisions
//! are taken twice.

mod availability;
mod fault_source;
mod faulty_log;
mod faulty_queue;
mod faulty_world;
mod process;

use std::{
    collections::BTreeMap,
    env,
    sync::Arc,
    time::{Duration, Instant as SystemInstant},
};

use queue::{MemoryNotifications, clock};
use shared::{Event, Graph, InterruptKind, Reconciled, RunStatus, Verdict};
use store::ThreadId;
use threads::Backends;
use tokio::{
    runtime,
    time::{Instant, sleep},
};
use worker::{
    Backoff, Shutdown, StepRunner, TurnLimits, Worker, WorkerConfig,
    testing::{self, fixtures, in_doubt, only_the_world_acts, read},
};

use self::{
    fault_source::FaultSource,
    faulty_log::{LogConnection, SimLog},
    faulty_queue::FaultyQueue,
    faulty_world::{FaultyWorld, WriteRecords},
    process::Process,
};
use crate::sample::Sample;

/// Number of seeds that the two tests run together, with `TURNFOLD_LONG=1`.
const SEEDS: u64 = 3_000;

/// Number of worker processes at a time.
const WORKERS: usize = 3;

/// Time after which the job of a silent worker goes to another.
const LEASE: Duration = Duration::from_secs(1);

/// Duration of the faults; after it, every thread must become idle.
const WITH_FAULTS: Duration = Duration::from_secs(12);
const WITHOUT_FAULTS: Duration = Duration::from_secs(240);

/// Time at which each simulation begins, in microseconds since the Unix epoch.
const EPOCH: i64 = 1_700_000_000_000_000;

/// Part of the engine to disable, to show that it is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Sweep,
    Fence,
}

/// A thread to run: its strategy, its messages and the answers of the world.
struct Scenario {
    graph: &'static dyn Graph,
    script: Vec<Event>,
    decisions: Vec<Event>,
}

/// All fixtures in which only the world acts after the first message and no call is in doubt.
fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for graph in strategies::all() {
        for path in fixtures(graph) {
            let script = read(&path);
            if !only_the_world_acts(&script) {
                continue;
            }
            let log = shared::rerun(graph, &script).unwrap().log;
            let thread = graph.fold(&log).unwrap();
            let rests = matches!(thread.status(), RunStatus::Idle | RunStatus::Waiting(_));
            let by_operator = log.iter().any(|event| matches!(event, Event::Retried(_) | Event::Failed(_)));
            let turns = log.iter().filter(|event| matches!(event, Event::TurnStarted(_))).count();
            if rests && !by_operator && turns == 1 {
                scenarios.push(Scenario { graph, script, decisions: decisions(&log) });
            }
        }
    }
    scenarios
}

#[test]
fn simulated_turns_with_even_seeds() {
    run_all(0);
}

#[test]
fn simulated_turns_with_odd_seeds() {
    run_all(1);
}

/// Returns the seed of the environment, to repeat one simulation.
fn chosen_seed() -> Option<u64> {
    env::var("TURNFOLD_SIM_SEED").ok().map(|seed| seed.parse().unwrap())
}

/// Runs every second seed, from this one on.
#[expect(clippy::print_stdout, reason = "who runs one seed alone wants to see it")]
fn run_all(first: u64) {
    let scenarios = scenarios();
    assert!(scenarios.len() > 50, "{} scenarios", scenarios.len());
    let chosen = chosen_seed();
    let mut sample = Sample::new(0);
    let sampled = (first..SEEDS).step_by(2).filter(|_| sample.takes_next());
    let mut faults = 0;
    for seed in chosen.map_or_else(|| sampled.collect(), |seed| vec![seed]) {
        let run = run(&scenarios, seed, Without::Nothing);
        if chosen.is_some() {
            println!("{}", run.transcript.join("\n"));
        }
        faults += run.faults;
        if let Err(error) = run.verdict {
            panic!("seed {seed}: {error}\n{}", run.transcript.join("\n"));
        }
    }
    assert!(chosen.is_some() || faults > 1_000, "{faults} faults");
}

/// The same seed produces the same transcript.
#[test]
fn a_seed_can_be_repeated() {
    let scenarios = scenarios();
    for seed in [3, 4] {
        let [first, second] = [(); 2].map(|()| run(&scenarios, seed, Without::Nothing).transcript);
        assert!(first == second, "seed {seed} differs:\n{}\n---\n{}", first.join("\n"), second.join("\n"));
    }
}

#[test]
fn without_the_sweep_turns_are_lost() {
    some_seed_fails(Without::Sweep);
}

#[test]
fn without_the_fence_decisions_are_taken_twice() {
    some_seed_fails(Without::Fence);
}

fn some_seed_fails(without: Without) {
    let scenarios = scenarios();
    assert!((0..60).any(|seed| run(&scenarios, seed, without).verdict.is_err()), "the control did not fail");
}

/// Result of a simulation.
struct Run {
    verdict: Result<(), String>,
    transcript: Vec<String>,
    faults: usize,
}

/// Runs a simulation on a virtual clock. Everything that is left to chance comes from the seed.
///
/// The seed also starts the random generator of this system thread, from which the product takes jitter and the keys of its
/// filters. The wall clock is virtual too.
fn simulate<T>(seed: u64, simulation: impl Future<Output = T>) -> T {
    fastrand::seed(seed);
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        // A reading that is not over yet has no age.
        clock::follow(EPOCH, SystemInstant::now() + WITHOUT_FAULTS);
        simulation.await
    })
}

fn run(scenarios: &[Scenario], seed: u64, without: Without) -> Run {
    simulate(seed, async {
        let source = FaultSource::new(seed);
        let log = SimLog::new(source.clone(), without);
        let queue = FaultyQueue::new(source.clone(), LEASE);
        let mut threads = BTreeMap::new();
        let chosen: Vec<&Scenario> = (0..source.below(4) + 2).map(|_| source.one_of(scenarios)).collect();
        let records = Arc::new(WriteRecords::default());
        let world = Arc::new(FaultyWorld::new(source.clone(), records.clone()));
        let workers = run_workers(&log, &queue, &world, &source);
        let submissions = async {
            for scenario in &chosen {
                sleep(Duration::from_millis(source.below(2_000))).await;
                let (thread, message) = log.submit(&scenario.script);
                world.add(thread, scenario.graph, &scenario.script);
                threads.insert(thread, *scenario);
                log.note(format!("submitted {thread} to {}: {message}", scenario.graph.name()));
                queue.enqueue_as_api(thread);
            }
        };
        tokio::join!(workers, submissions);
        let began = Instant::now();
        while began.elapsed() < WITHOUT_FAULTS && !log.all_over() {
            reconcile(&log, &queue, &records);
            sleep(Duration::from_millis(500)).await;
        }
        let verdict = check_properties(&log, &records, &threads);
        Run { verdict, transcript: log.transcript(), faults: log.faults() }
    })
}

/// Runs workers under faults for [`WITH_FAULTS`], then starts new workers without faults.
async fn run_workers(log: &SimLog, queue: &Arc<FaultyQueue>, world: &Arc<FaultyWorld>, source: &FaultSource) {
    let mut names = 0;
    let mut start = |is_faulty| {
        names += 1;
        let process = Process::new(format!("w{names}"), is_faulty);
        start_worker(&process, log, queue, world, source);
        process
    };
    let mut processes: Vec<Arc<Process>> = (0..WORKERS).map(|_| start(true)).collect();
    let began = Instant::now();
    while began.elapsed() < WITH_FAULTS {
        sleep(Duration::from_millis(source.below(900) + 50)).await;
        let any = || usize::try_from(source.below(WORKERS as u64)).unwrap();
        match source.below(12) {
            0..6 => {
                let process = &mut processes[any()];
                log.fault(format!("{} dies", process.name()));
                process.end();
                *process = start(true);
            }
            6 => {
                log.fault("the queue forgets everything".to_owned());
                queue.flush();
            }
            7 | 8 => {
                let process = &processes[any()];
                log.fault(format!("{} stalls", process.name()));
                process.stall(Duration::from_millis(source.below(4_000)));
            }
            9 => {
                let process = &processes[any()];
                log.fault(format!("the clock of {} jumps", process.name()));
                process.jump(i64::try_from(source.below(20_000_000)).unwrap() - 10_000_000);
            }
            _ => {}
        }
    }
    for process in processes {
        process.end();
    }
    log.note("no more faults".to_owned());
    for _ in 0..WORKERS {
        start(false);
    }
}

fn start_worker(
    process: &Arc<Process>,
    log: &SimLog,
    queue: &Arc<FaultyQueue>,
    world: &Arc<FaultyWorld>,
    source: &FaultSource,
) {
    let backends = connect(process, log, queue);
    let backoff = Backoff { base: Duration::from_millis(50), max: Duration::from_millis(400) };
    let world = world.of(process.clone());
    let steps = StepRunner { backoff, ..testing::steps(&backends, world, process.name()) };
    let config = WorkerConfig {
        slots: 4,
        max_jobs_in_place: [1, 16, 1000][usize::try_from(source.below(3)).unwrap()],
        drain_timeout: Duration::from_secs(5),
        ..CONFIG
    };
    // Workers die at random here, so the deaths of one turn do not mean that it is to blame.
    let turn_limits = TurnLimits { deaths: u64::MAX, ..TurnLimits::default() };
    tokio::spawn(Worker::new(steps, config).with_turn_limits(turn_limits).run(Shutdown::default()));
}

/// Configuration of all simulated workers.
const CONFIG: WorkerConfig =
    WorkerConfig { lease: LEASE, sweep_interval: Duration::from_secs(2), ..testing::CONFIG };

/// Connects a process to the log and the queue.
fn connect(process: &Arc<Process>, log: &SimLog, queue: &Arc<FaultyQueue>) -> Backends<LogConnection> {
    Backends {
        store: LogConnection::new(log.clone(), process.clone()),
        queue: queue.consumer(process.clone()),
        notifications: Arc::new(MemoryNotifications::new()),
    }
}

/// Resolves each write in doubt as a person would, from the record of writes, once no process is performing it.
fn reconcile(log: &SimLog, queue: &Arc<FaultyQueue>, records: &WriteRecords) {
    for thread in log.threads() {
        let folded = log.fold(thread);
        let RunStatus::Waiting(interrupt) = folded.status() else { continue };
        if interrupt.kind != InterruptKind::InDoubt || records.has_write_in_flight(thread) {
            continue;
        }
        let (asked, slots) = in_doubt(&log.events(thread));
        let slot = slots.into_iter().min().unwrap();
        let key = format!("{thread}:{asked}:{slot}");
        let verdict =
            records.result(&key).map_or(Verdict::DidNotHappen, |result| Verdict::Happened { result });
        log.note(format!("a person reports of {key}: {verdict:?}"));
        log.push(
            thread,
            Reconciled { slot, verdict, actor: "person".to_owned(), caller: None, read_back: None }.into(),
        );
        queue.enqueue_as_api(thread);
    }
}

fn check_properties(
    log: &SimLog,
    records: &WriteRecords,
    threads: &BTreeMap<ThreadId, &Scenario>,
) -> Result<(), String> {
    log.kept_all_it_acknowledged()?;
    for (thread, scenario) in threads {
        let events = log.events(*thread);
        let folded =
            scenario.graph.fold(&events).map_err(|error| format!("{thread} does not fold: {error}"))?;
        if !matches!(folded.status(), RunStatus::Idle | RunStatus::Waiting(_)) {
            return Err(format!("{thread} did not end: {:?}", folded.status()));
        }
        if decisions(&events) != scenario.decisions {
            let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
            return Err(format!("{thread} decided otherwise than without faults:\n{}", lines.join("\n")));
        }
    }
    records.no_write_was_repeated()
}

fn decisions(log: &[Event]) -> Vec<Event> {
    log.iter().filter(|event| matches!(event, Event::Decided(_))).cloned().collect()
}
