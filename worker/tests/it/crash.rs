//! Concurrent workers, and threads that cannot continue: no turn is decided twice, and no worker spins.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{Depth, Lane, Schedule};
use shared::{DynThread, Event, Fault, FaultKind, Message, Opened, Policy, Request, Response};
use store::testing::tamper::execute_with;
use store::{Error, NewTurn, Opening, Submitted, ThreadId, TurnFilter};
use threads::{Backends, StrategyRegistry};
use tokio::sync::{Barrier, Notify};
use worker::{Backoff, RequestAdmission, Shutdown, StepOutcome, StepRunner, Worker, WorkerConfig};
use world::{Outcome, RequestContext, World};

use crate::lived::parts;

/// Two workers on the same threads: whatever they do concurrently, no turn is decided twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_workers_meet_on_every_node() {
    let parts = parts().await;
    let world: Arc<dyn World> = Arc::new(Echo);
    let both = [Arc::new(hands(&parts, world.clone())), Arc::new(hands(&parts, world))];
    let mut stale = 0;
    for round in 0..10 {
        let opened = Opened { strategy: "probe".into(), ..opened() };
        let heard = vec![Message::user("call 3; nested; steps 4; stream hello; echo end")];
        let thread = submit_words(&parts, opened, heard).await;
        let barrier = Arc::new(Barrier::new(2));
        loop {
            let race = both.clone().map(|hands| {
                let barrier = barrier.clone();
                tokio::spawn(async move {
                    barrier.wait().await;
                    hands.run_job(thread, &Notify::new()).await
                })
            });
            let before = parts.store.head(thread).await.unwrap().seq;
            let [a, b] = race;
            let outcomes = [a.await.unwrap().unwrap(), b.await.unwrap().unwrap()];
            let (_, log) = parts.store.load(thread).await.unwrap();
            // Each append was valid for the log its writer had read: there is no gap and no duplicate.
            assert!(log.iter().enumerate().all(|(n, it)| it.seq == n as u64), "round {round}");
            let log: Vec<Event> = log.into_iter().map(|it| it.event).collect();
            let probe = strategies::find("probe").unwrap();
            probe.fold(&log).unwrap_or_else(|err| panic!("round {round}: {err}"));
            stale += usize::from(
                outcomes.contains(&StepOutcome::Idle) && outcomes.contains(&StepOutcome::Continue),
            );
            if outcomes == [StepOutcome::Idle, StepOutcome::Idle] && log.len() as u64 == before {
                let ends =
                    log.iter().filter(|it| matches!(it, Event::Decided(it) if it.to == shared::Goto::End));
                assert_eq!(ends.count(), 1, "the turn ended once");
                break;
            }
        }
    }
    assert!(stale > 0, "the workers never met, so nothing was shown");
}

/// A world that answers simulated requests at once.
struct Echo;

#[async_trait]
impl World for Echo {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        match &ask.due.request {
            Request::Simulate(it) => Ok((Response::Echo { text: it.text.clone() }, None)),
            other => panic!("the probe asks for nothing but rehearsals: {other}"),
        }
    }
}

/// A log that no strategy can continue is parked: the turn fails with the reason, and no worker spins on it.
#[tokio::test]
async fn a_thread_that_cannot_go_on_is_parked() {
    let parts = parts().await;
    let thread = submit_words(&parts, opened(), vec![Message::user("hello")]).await;
    let hands = hands(&parts, Arc::new(Echo));
    assert_eq!(hands.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::Idle);
    let turn = parts.store.turns(store::TurnFilter::default(), None, 1).await.unwrap().remove(0);
    assert_eq!(turn.status, store::TurnStatus::Failed);
    let error = turn.error.unwrap();
    assert!(
        error.contains("this build has no strategy \"gone\"; its strategies are: ")
            && error.contains("probe"),
        "{error}"
    );
    assert!(parts.store.runnable_after(None, 10).await.unwrap().is_empty());
    let unknown = hands.run_job(uuid::Uuid::now_v7(), &Notify::new()).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownThread(_)), "{unknown}");
}

/// A database that refuses the content of an answer refuses it always: the turn fails with the reason, and the model is not
/// asked again.
#[tokio::test]
async fn an_answer_that_the_database_refuses_fails_the_turn() {
    let parts = parts().await;
    let trigger = "CREATE TRIGGER no_poison BEFORE INSERT ON events WHEN NEW.payload LIKE '%poison%' \
                   BEGIN SELECT RAISE(ABORT, 'this rule refuses it'); END";
    execute_with(&parts.store, trigger, []).await.unwrap();
    let world = Arc::new(Poisonous::default());
    let hands = hands(&parts, world.clone());
    let probe = || Opened { strategy: "probe".into(), ..opened() };
    let thread = submit_words(&parts, probe(), vec![Message::user("call 1")]).await;
    let neighbour = submit_words(&parts, probe(), vec![Message::user("echo hello")]).await;
    let mut jobs = 0;
    while parts.store.runnable_after(None, 10).await.unwrap().iter().any(|it| it.thread == thread) {
        hands.run_job(thread, &Notify::new()).await.unwrap();
        jobs += 1;
        assert!(jobs < 20, "the turn does not end");
    }
    while hands.run_job(neighbour, &Notify::new()).await.unwrap() == StepOutcome::Continue {}
    let turns = parts.store.turns(TurnFilter::default(), None, 2).await.unwrap();
    let of = |thread| turns.iter().find(|it| it.thread == thread).unwrap();
    let error = of(thread).error.clone().unwrap_or_default();
    assert!(error.contains("refuses what is to be stored: this rule refuses it"), "{error}");
    assert_eq!(of(thread).status, store::TurnStatus::Failed);
    assert_eq!(of(neighbour).status, store::TurnStatus::Completed);
    assert_eq!(*world.asked.lock().unwrap(), 1);
}

/// A world whose answers the database refuses.
#[derive(Default)]
struct Poisonous {
    asked: Mutex<u32>,
}

#[async_trait]
impl World for Poisonous {
    async fn perform(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Outcome {
        *self.asked.lock().unwrap() += 1;
        Ok((Response::Echo { text: "poison".to_owned() }, None))
    }
}

/// During an upgrade a worker may meet a strategy that only newer workers have: the turn waits for one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_of_another_version_is_left_to_its_workers() {
    let parts = parts().await;
    let (stop, minute) = (Shutdown::default(), Duration::from_secs(60));
    let limits = WorkerConfig {
        slots: 4,
        max_jobs_in_place: 16,
        lease: minute,
        sweep_interval: minute,
        drain_timeout: minute,
    };
    let old = StepRunner { strategies: StrategyRegistry::new([]), ..hands(&parts, Arc::new(Echo)) };
    let old = tokio::spawn(Worker::new(old, limits).run(stop.clone()));
    let probe = Opened { strategy: "probe".into(), ..opened() };
    let thread = submit_words(&parts, probe, vec![Message::user("echo one; echo two")]).await;
    parts.queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    let held = async || format!("{:?}", parts.queue.list(10).await.unwrap());
    let turn = async || parts.store.turns(TurnFilter::default(), None, 1).await.unwrap().remove(0);
    while !held().await.contains("this build has no strategy") {
        assert_eq!(turn().await.status, store::TurnStatus::Queued, "{:?}", turn().await.error);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let new = tokio::spawn(Worker::new(hands(&parts, Arc::new(Echo)), limits).run(stop.clone()));
    while turn().await.status != store::TurnStatus::Completed {
        assert_ne!(turn().await.status, store::TurnStatus::Failed, "{:?}", turn().await.error);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.drain();
    old.await.unwrap();
    new.await.unwrap();
}

/// A thread parked in the middle of a turn starts no other turn, and a new job does not revive it.
#[tokio::test]
async fn a_parked_turn_stays_as_it_was_reported() {
    let parts = parts().await;
    let probe = Opened { strategy: "probe".into(), ..opened() };
    let thread = submit_words(&parts, probe, vec![Message::user("echo one; echo two")]).await;
    let all = hands(&parts, Arc::new(Echo));
    assert_eq!(all.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::Continue);
    let none = StepRunner { strategies: StrategyRegistry::new([]), ..hands(&parts, Arc::new(Echo)) };
    assert_eq!(none.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::Idle);
    let stands = async || {
        let turns = parts.store.turns(store::TurnFilter::default(), None, 9).await.unwrap();
        let of = |it: &store::Turn| (it.status, it.error.clone().unwrap_or_default());
        (turns.iter().map(of).collect::<Vec<_>>(), parts.store.head(thread).await.unwrap().seq)
    };
    let (turns, seq) = stands().await;
    assert_eq!(turns.iter().map(|it| it.0).collect::<Vec<_>>(), [store::TurnStatus::Failed]);

    let next = new_turn(Opening::Existing(thread), vec![Message::user("echo three")]);
    let Submitted::New(turn) = parts.store.submit(next).await.unwrap() else { panic!("it is not under way") };
    parts.queue.enqueue(thread, &Lane::default(), Schedule::Now).await.unwrap();
    let (stop, minute) = (Shutdown::default(), Duration::from_secs(60));
    let limits = WorkerConfig {
        slots: 4,
        max_jobs_in_place: 16,
        lease: minute,
        sweep_interval: minute,
        drain_timeout: minute,
    };
    let worker = tokio::spawn(Worker::new(all, limits).run(stop.clone()));
    while parts.store.turn(turn.id).await.unwrap().unwrap().status == store::TurnStatus::Queued {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.drain();
    worker.await.unwrap();
    let (turns, after) = stands().await;
    assert_eq!(turns.iter().map(|it| it.0).collect::<Vec<_>>(), [store::TurnStatus::Failed; 2]);
    assert!(turns[0].1.contains("the thread is parked"), "{turns:?}");
    assert_eq!(after, seq, "nothing more has happened");
}

/// Two people answer at once: the second answer was meant for the first question and is not taken as an answer to the
/// next.
#[tokio::test]
async fn an_answer_is_heard_to_its_own_question_or_not_at_all() {
    let parts = parts().await;
    let probe = Opened { strategy: "probe".into(), ..opened() };
    let thread =
        submit_words(&parts, probe, vec![Message::user("ask One? | yes | no; ask Two? | yes | no")]).await;
    let hands = hands(&parts, Arc::new(Echo));
    let live = async || while hands.run_job(thread, &Notify::new()).await.unwrap() != StepOutcome::Idle {};
    live().await;
    let asked_at = parts.store.head(thread).await.unwrap().seq;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let opening = Opening::Asking(thread, asked_at);
        let answer = NewTurn { policy: Policy::Answer, ..new_turn(opening, vec![Message::user("yes")]) };
        answers.push(parts.store.submit(answer).await.unwrap().into_turn().id);
    }
    live().await;
    let mut turns = Vec::new();
    for id in answers {
        turns.push(parts.store.turn(id).await.unwrap().unwrap());
    }
    let [first, second] = [&turns[0], &turns[1]].map(|it| (it.status, it.error.as_deref().unwrap_or("")));
    assert_eq!(first, (store::TurnStatus::Interrupted, ""), "it goes on to the second question");
    assert_eq!(second.0, store::TurnStatus::Failed);
    assert!(second.1.contains("settled"), "{second:?}");
}

/// A late worker with a job of an earlier question does not reject the answer to the next question as late.
#[tokio::test]
async fn an_answer_to_what_a_late_worker_has_not_seen_is_left_to_be_heard() {
    let parts = parts().await;
    let probe = Opened { strategy: "probe".into(), ..opened() };
    let words = "ask One? | yes | no; ask Two? | yes | no";
    let thread = submit_words(&parts, probe, vec![Message::user(words)]).await;
    let ring = async |when| parts.queue.enqueue(thread, &Lane::default(), when).await.unwrap();
    let answer = async || {
        let asked_at = parts.store.head(thread).await.unwrap().seq;
        let opening = Opening::Asking(thread, asked_at);
        let answer = NewTurn { policy: Policy::Answer, ..new_turn(opening, vec![Message::user("yes")]) };
        parts.store.submit(answer).await.unwrap().into_turn().id
    };
    let (stop, minute) = (Shutdown::default(), Duration::from_secs(60));
    let limits = WorkerConfig {
        slots: 1,
        max_jobs_in_place: 16,
        lease: minute,
        sweep_interval: minute,
        drain_timeout: minute,
    };
    let late = Worker::new(hands(&parts, Arc::new(Echo)), limits);
    let late = tokio::spawn(late.run(stop.clone()));
    let rests = async |turns: usize| {
        let filter = TurnFilter { status: Some(store::TurnStatus::Interrupted), ..TurnFilter::default() };
        while parts.store.turns(filter, None, 9).await.unwrap().len() < turns {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    ring(Schedule::Now).await;
    rests(1).await;
    let first = parts.store.head(thread).await.unwrap().seq;
    answer().await;
    // Another worker advances the thread to its second question.
    let other = hands(&parts, Arc::new(Echo));
    while other.run_job(thread, &Notify::new()).await.unwrap() != StepOutcome::Idle {}
    rests(2).await;
    let second = answer().await;
    ring(Schedule::NowAtSeq(first)).await;
    while parts.queue.depth().await.unwrap() != Depth::default() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let turn = parts.store.turn(second).await.unwrap().unwrap();
    assert_eq!((turn.status, turn.error), (store::TurnStatus::Queued, None));
    ring(Schedule::Now).await;
    while parts.store.turn(second).await.unwrap().unwrap().status != store::TurnStatus::Completed {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.drain();
    late.await.unwrap();
}

/// One of two concurrent calls fails permanently; the other is retried only after the requested delay.
#[tokio::test]
async fn a_call_waits_as_it_was_told_though_another_is_given_up() {
    let parts = parts().await;
    let builder = serde_json::json!({
        "strategy": "index_builder",
        "servers": {"calendar": "dates", "contacts": "people"},
    });
    let builder = serde_json::from_value(builder).unwrap();
    let thread = submit_words(&parts, builder, vec![Message::user("build")]).await;
    let world = Arc::new(OneWaits::default());
    let hands = hands(&parts, world.clone());
    let done = loop {
        match hands.run_job(thread, &Notify::new()).await.unwrap() {
            StepOutcome::Continue => {}
            done => break done,
        }
    };
    let StepOutcome::RetryLater { after, why } = done else { panic!("it waits: {done:?}") };
    assert_eq!((after.as_secs(), &*why), (29, "come later"));
    assert_eq!(*world.0.lock().unwrap(), [0, 1], "each was asked once");
    assert!(matches!(hands.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::RetryLater { .. }));
    assert_eq!(*world.0.lock().unwrap(), [0, 1]);
}

/// A world that records its requests. The first one fails permanently, the others ask for a later retry.
#[derive(Default)]
struct OneWaits(Mutex<Vec<usize>>);

#[async_trait]
impl World for OneWaits {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        self.0.lock().unwrap().push(ask.due.slot);
        let (error, remedy) = match ask.due.slot {
            0 => ("no such server", FaultKind::Permanent),
            _ => ("come later", FaultKind::Transient { retry_after_ms: Some(30_000) }),
        };
        Err(Fault { error: error.to_owned(), kind: remedy, usage: None, pin_changed: false })
    }
}

fn opened() -> Opened {
    Opened {
        format: 1,
        strategy: "gone".into(),
        version: 1,
        config: serde_json::Value::Null,
        servers: Default::default(),
        budget: shared::Budget::default(),
        context: shared::ContextSettings::default(),
        actor: String::new(),
        tenant: shared::DEFAULT_TENANT.into(),
        caller: None,
    }
}

pub(crate) fn hands(parts: &Backends, world: Arc<dyn World>) -> StepRunner {
    StepRunner {
        parts: parts.clone(),
        strategies: StrategyRegistry::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(1), max: Duration::from_millis(2) },
        admission: RequestAdmission::default(),
        name: "w".to_owned(),
    }
}

pub(crate) async fn submit_words(parts: &Backends, opened: Opened, messages: Vec<Message>) -> ThreadId {
    let new = new_turn(Opening::New(opened), messages);
    let Submitted::New(turn) = parts.store.submit(new).await.unwrap() else { panic!("not new") };
    turn.thread
}

pub(crate) fn new_turn(thread: Opening, messages: Vec<Message>) -> NewTurn {
    NewTurn::of(thread, messages, "test".to_owned())
}
