//! Workers that die, stall and meet: the decisions stay the same, and no write is repeated.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shared::{Event, Message, Opened, Policy, Replay, Request, Response, Standing, strategies};
use store::{Error, NewTurn, Opening, Parts, Strategies, Submitted, ThreadId, ThreadLog};
use tokio::sync::{Barrier, Notify};
use worker::{
    Backoff, Done, Hands,
    world::{Ask, Outcome, Recorded, World},
};

use crate::lived::{fixtures, parts, read};

/// A world in which the worker dies at the `nth` question, before it is put or after it was answered.
struct Deadly {
    world: Recorded,
    questions: AtomicUsize,
    nth: usize,
    dies: Dies,
    /// The keys of the writes that happened.
    writes: Arc<Mutex<Vec<String>>>,
    dead: Notify,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Dies {
    Before,
    After,
}

#[async_trait]
impl World for Deadly {
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let dies = self.questions.fetch_add(1, Ordering::SeqCst) + 1 == self.nth;
        if dies && self.dies == Dies::Before {
            self.die().await;
        }
        let outcome = self.world.perform(thread, ask).await;
        if ask.due.is_write() && matches!(outcome, Ok((Response::Output(_), _))) {
            self.writes.lock().unwrap().push(ask.key.to_owned());
        }
        if dies {
            self.die().await;
        }
        outcome
    }
}

impl Deadly {
    async fn die(&self) {
        self.dead.notify_one();
        std::future::pending().await
    }
}

/// The worker is killed at every single question of every planner fixture in which nothing but the world speaks after
/// the first message; another goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_question() {
    let graph = strategies::find("planner").unwrap();
    let mut kills = 0;
    for path in fixtures(graph) {
        let script = read(&path);
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let moves_on = script.iter().skip(2).any(|it| !matches!(it, Event::Answered(_) | Event::Faltered(_)));
        if moves_on {
            continue;
        }
        let (whole, writes) = run_killed(graph, &script, usize::MAX, Dies::Before).await;
        let mut nth = 1;
        loop {
            let mut died = false;
            for dies in [Dies::Before, Dies::After] {
                let (log, done) = run_killed(graph, &script, nth, dies).await;
                died |= log.deaths > 0;
                let case = format!("{name} killed {dies:?} question {nth}");
                assert_eq!(decisions(&log.events), decisions(&whole.events), "{case}");
                let mut keys = done.clone();
                keys.sort();
                keys.dedup();
                assert_eq!(keys.len(), writes.len(), "{case}: a write is missing");
                // A tool that may be repeated was, with the same key; one that may not be was not.
                let repeats = usize::from(name != "a_write_that_may_not_be_repeated");
                assert!(done.len() <= writes.len() + repeats, "{case}: {done:?}");
            }
            if !died {
                break;
            }
            kills += 2;
            nth += 1;
        }
    }
    assert!(kills > 100, "{kills} kills");
}

struct Lived {
    events: Vec<Event>,
    deaths: usize,
}

/// Runs a fixture to its end, with the worker killed once and its work taken up by another.
async fn run_killed(
    graph: &'static dyn shared::Graph,
    script: &[Event],
    nth: usize,
    dies: Dies,
) -> (Lived, Vec<String>) {
    let parts = parts().await;
    let writes = Arc::<Mutex<Vec<String>>>::default();
    let world = Arc::new(Deadly {
        world: Recorded::new(graph, script).unwrap(),
        questions: AtomicUsize::new(0),
        nth,
        dies,
        writes: writes.clone(),
        dead: Notify::new(),
    });
    let hands = Arc::new(hands(&parts, world.clone()));
    let thread = submit(&parts, script).await;
    let mut deaths = 0;
    loop {
        let job = {
            let hands = hands.clone();
            tokio::spawn(async move { hands.work(thread, &Notify::new()).await })
        };
        let abort = job.abort_handle();
        let done = tokio::select! {
            done = job => done.unwrap().unwrap(),
            () = world.dead.notified() => {
                abort.abort();
                deaths += 1;
                continue;
            }
        };
        match done {
            Done::Moved => (),
            Done::Faltered(pause) => tokio::time::sleep(pause).await,
            Done::Rested => {
                let mut log =
                    ThreadLog::open(&parts, &Strategies::new(strategies::all()), thread).await.unwrap();
                // What the dead worker had begun to write may land late: the next is then not first, and looks again.
                if log.thread().standing() == Standing::Busy {
                    continue;
                }
                let Standing::Waiting(it) = log.thread().standing() else { break };
                assert_eq!(it.kind, shared::InterruptKind::InDoubt);
                // The person looks: did it happen?
                let happened = !writes.lock().unwrap().is_empty();
                let verdict = match happened {
                    true => shared::Verdict::Happened { result: answer_of(script) },
                    false => shared::Verdict::DidNot,
                };
                log.push(shared::Reconciled { slot: 0, verdict, by: "person".into() }.into()).unwrap();
                log.flush(&parts).await.unwrap();
            }
        }
    }
    let (_, log) = parts.store.load(thread).await.unwrap();
    let done = writes.lock().unwrap().clone();
    (Lived { events: log.into_iter().map(|it| it.event).collect(), deaths }, done)
}

fn answer_of(script: &[Event]) -> String {
    let answer = script.iter().find_map(|it| match it {
        Event::Answered(it) => match &it.response {
            Response::Output(shared::ToolOutput::Ok(text)) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    });
    answer.unwrap_or_default()
}

fn decisions(log: &[Event]) -> Vec<Event> {
    log.iter().filter(|it| matches!(it, Event::Decided(_))).cloned().collect()
}

/// Two workers on the same threads: whatever they do at the same moment, no turn is decided twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_workers_meet_on_every_node() {
    let parts = parts().await;
    let world: Arc<dyn World> = Arc::new(Echo);
    let both = [Arc::new(hands(&parts, world.clone())), Arc::new(hands(&parts, world))];
    let mut stale = 0;
    for round in 0..10 {
        let opened = Opened {
            format: 1,
            strategy: "probe".into(),
            version: 1,
            config: serde_json::Value::Null,
            experts: Default::default(),
            budget: shared::Budget::default(),
            by: String::new(),
        };
        let heard = vec![Message::user("call 3; nested; steps 4; stream hello; echo end")];
        let thread = submit_words(&parts, opened, heard).await;
        let barrier = Arc::new(Barrier::new(2));
        loop {
            let race = both.clone().map(|hands| {
                let barrier = barrier.clone();
                tokio::spawn(async move {
                    barrier.wait().await;
                    hands.work(thread, &Notify::new()).await
                })
            });
            let before = parts.store.head(thread).await.unwrap().seq;
            let [a, b] = race;
            let outcomes = [a.await.unwrap().unwrap(), b.await.unwrap().unwrap()];
            let (_, log) = parts.store.load(thread).await.unwrap();
            // Each appended at most what its own look at the log allowed; the log has no gap and no double.
            assert!(log.iter().enumerate().all(|(n, it)| it.seq == n as u64), "round {round}");
            let log: Vec<Event> = log.into_iter().map(|it| it.event).collect();
            let probe = strategies::find("probe").unwrap();
            probe.replay(&log).unwrap_or_else(|err| panic!("round {round}: {err}"));
            stale += usize::from(outcomes.contains(&Done::Rested) && outcomes.contains(&Done::Moved));
            if outcomes == [Done::Rested, Done::Rested] && log.len() as u64 == before {
                let ends =
                    log.iter().filter(|it| matches!(it, Event::Decided(it) if it.to == shared::Goto::End));
                assert_eq!(ends.count(), 1, "the turn ended once");
                break;
            }
        }
    }
    assert!(stale > 0, "the workers never met, so nothing was shown");
}

/// Says at once what a rehearsal says.
struct Echo;

#[async_trait]
impl World for Echo {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        match &ask.due.request {
            Request::Rehearse(it) => Ok((Response::Echo { says: it.says.clone() }, None)),
            other => panic!("the probe asks for nothing but rehearsals: {other}"),
        }
    }
}

/// A log that no strategy here can go on with is parked: the turn fails with the reason, and nobody spins on it.
#[tokio::test]
async fn a_thread_that_cannot_go_on_is_parked() {
    let parts = parts().await;
    let opened = Opened {
        format: 1,
        strategy: "gone".into(),
        version: 1,
        config: serde_json::Value::Null,
        experts: Default::default(),
        budget: shared::Budget::default(),
        by: String::new(),
    };
    let thread = submit_words(&parts, opened, vec![Message::user("hello")]).await;
    let hands = hands(&parts, Arc::new(Echo));
    assert_eq!(hands.work(thread, &Notify::new()).await.unwrap(), Done::Rested);
    let turn = parts.store.turns(store::TurnFilter::default(), None, 1).await.unwrap().remove(0);
    assert_eq!(turn.status, store::TurnStatus::Failed);
    let error = turn.error.unwrap();
    assert!(
        error.contains("no strategy is called \"gone\" here; known: ") && error.contains("probe"),
        "{error}"
    );
    assert!(parts.store.runnable(10).await.unwrap().is_empty());
    let unknown = hands.work(uuid::Uuid::now_v7(), &Notify::new()).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownThread(_)), "{unknown}");
}

fn hands(parts: &Parts, world: Arc<dyn World>) -> Hands {
    Hands {
        parts: parts.clone(),
        strategies: Strategies::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(1), max: Duration::from_millis(2) },
        name: "w".to_owned(),
    }
}

async fn submit(parts: &Parts, script: &[Event]) -> ThreadId {
    let (Event::Opened(opened), Event::Heard(heard)) = (&script[0], &script[1]) else {
        panic!("not a fixture")
    };
    submit_words(parts, opened.clone(), heard.messages.clone()).await
}

async fn submit_words(parts: &Parts, opened: Opened, messages: Vec<Message>) -> ThreadId {
    let new = NewTurn {
        thread: Opening::New(opened),
        policy: Policy::Auto,
        messages,
        metadata: serde_json::json!({}),
        author: "test".to_owned(),
        idempotency: None,
    };
    let Submitted::New(turn) = parts.store.submit(new).await.unwrap() else { panic!("not new") };
    turn.thread
}
