//! Concurrent workers, and threads that cannot continue: no turn is decided twice, and no worker spins.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use queue::{Depth, Lane, Schedule};
use shared::TurnStatus;
use shared::{DynThread, Event, Fault, FaultKind, Message, Policy, Response};
use store::{
    Error, NewTurn, Opening, Stored, ThreadId, Turn, TurnFilter, TurnId,
    integrity::hash_chain,
    testing::tamper::{self, execute_with},
};
use threads::{Backends, StrategyRegistry};
use tokio::{
    sync::{Barrier, Notify},
    task::JoinHandle,
};
use worker::{
    Shutdown, StepOutcome, StepRunner, Worker,
    testing::{self, CONFIG, EchoWorld, backends, opened, start_turn, turn_over, until},
};
use world::{Outcome, RequestContext, World};

/// Two workers on the same threads: whatever they do concurrently, no turn is decided twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_workers_meet_on_every_node() {
    let backends = backends().await;
    let world: Arc<dyn World> = Arc::<EchoWorld>::default();
    let both = [(); 2].map(|()| Arc::new(steps(&backends, world.clone())));
    let mut stale = 0;
    for round in 0..10 {
        let thread = submit(&backends, "probe", "call 3; nested; steps 4; stream hello; echo end").await;
        let barrier = Arc::new(Barrier::new(2));
        loop {
            let race = both.clone().map(|steps| {
                let barrier = barrier.clone();
                tokio::spawn(async move {
                    barrier.wait().await;
                    steps.run_job(thread, &Notify::new()).await
                })
            });
            let before = backends.store.head(thread).await.unwrap().seq;
            let [a, b] = race;
            let outcomes = [a.await.unwrap().unwrap(), b.await.unwrap().unwrap()];
            let (_, rows) = backends.store.load(thread).await.unwrap();
            // Each append was valid for the log its writer had read: there is no gap and no duplicate.
            assert!(rows.iter().enumerate().all(|(nth, row)| row.seq == nth as u64), "round {round}");
            let log: Vec<Event> = rows.into_iter().map(|row| row.event).collect();
            let probe = strategies::find("probe").unwrap();
            probe.fold(&log).unwrap_or_else(|error| panic!("round {round}: {error}"));
            stale += usize::from(
                outcomes.contains(&StepOutcome::Idle) && outcomes.contains(&StepOutcome::Continue),
            );
            if outcomes == [StepOutcome::Idle, StepOutcome::Idle] && log.len() as u64 == before {
                let ends = |event: &&Event| matches!(event, Event::Decided(decision) if decision.to == shared::Goto::End);
                assert_eq!(log.iter().filter(ends).count(), 1, "the turn ended once");
                break;
            }
        }
    }
    assert!(stale > 0, "the workers never met, so nothing was shown");
}

/// A log that no strategy can continue is parked: the turn fails with the reason, and no worker spins on it.
#[tokio::test]
async fn a_thread_that_cannot_go_on_is_parked() {
    let backends = backends().await;
    let thread = submit(&backends, "gone", "hello").await;
    let steps = steps(&backends, Arc::<EchoWorld>::default());
    assert_eq!(steps.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::Idle);
    let turn = backends.store.turns(TurnFilter::default(), None, 1).await.unwrap().remove(0);
    assert_eq!(turn.status, TurnStatus::Failed);
    let error = turn.error.unwrap();
    assert!(
        error.contains("this build has no strategy \"gone\"; its strategies are: ")
            && error.contains("probe"),
        "{error}"
    );
    assert!(backends.store.runnable_after(None, 10).await.unwrap().is_empty());
    let unknown = steps.run_job(uuid::Uuid::now_v7(), &Notify::new()).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownThread(_)), "{unknown}");
}

/// A database that refuses the content of an answer refuses it always: the turn fails with the reason, and the model is not
/// asked again.
#[tokio::test]
async fn an_answer_that_the_database_refuses_fails_the_turn() {
    let backends = backends().await;
    let trigger = "CREATE TRIGGER no_poison BEFORE INSERT ON events WHEN NEW.payload LIKE '%poison%' \
                   BEGIN SELECT RAISE(ABORT, 'this rule refuses it'); END";
    execute_with(&backends.store, trigger, []).await.unwrap();
    let world = Arc::new(Poisonous::default());
    let steps = steps(&backends, world.clone());
    let thread = submit(&backends, "probe", "call 1").await;
    let neighbour = submit(&backends, "probe", "echo hello").await;
    let mut jobs = 0;
    while backends.store.runnable_after(None, 10).await.unwrap().iter().any(|row| row.thread == thread) {
        steps.run_job(thread, &Notify::new()).await.unwrap();
        jobs += 1;
        assert!(jobs < 20, "the turn does not end");
    }
    while steps.run_job(neighbour, &Notify::new()).await.unwrap() == StepOutcome::Continue {}
    let turns = backends.store.turns(TurnFilter::default(), None, 2).await.unwrap();
    let of = |thread| turns.iter().find(|turn| turn.thread == thread).unwrap();
    let error = of(thread).error.clone().unwrap_or_default();
    assert!(error.contains("refuses what is to be stored: this rule refuses it"), "{error}");
    assert_eq!(of(thread).status, TurnStatus::Failed);
    assert_eq!(of(neighbour).status, TurnStatus::Completed);
    assert_eq!(*world.requests.lock().unwrap(), 1);
}

/// A world whose answers the database refuses.
#[derive(Default)]
struct Poisonous {
    requests: Mutex<u32>,
}

#[async_trait]
impl World for Poisonous {
    async fn perform(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Outcome {
        *self.requests.lock().unwrap() += 1;
        Ok((Response::Echo { text: "poison".to_owned() }, None))
    }
}

/// During an upgrade a worker may meet a strategy that only newer workers have: the turn waits for one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_of_another_version_is_left_to_its_workers() {
    let backends = backends().await;
    let stop = Shutdown::default();
    let world = || Arc::<EchoWorld>::default();
    let old = StepRunner { strategies: StrategyRegistry::new([]), ..steps(&backends, world()) };
    let old = start_worker(old, &stop);
    let turn = start_turn(&backends, Opening::New(opened("probe")), "echo one; echo two").await;
    let status = async || backends.store.turn(turn.id).await.unwrap().unwrap().status;
    until("the old worker leaves the thread", async || {
        assert_eq!(status().await, TurnStatus::Queued);
        format!("{:?}", backends.queue.list(10).await.unwrap()).contains("this build has no strategy")
    })
    .await;

    let new = start_worker(steps(&backends, world()), &stop);
    assert_eq!(turn_over(&backends.store, &turn).await.status, TurnStatus::Completed);
    stop.drain();
    old.await.unwrap();
    new.await.unwrap();
}

/// A newer worker wrote a field that this one does not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_with_fields_of_another_version_is_left_to_its_workers() {
    let backends = backends().await;
    let turn = start_turn(&backends, Opening::New(opened("probe")), "echo one").await;
    let head = backends.store.head(turn.thread).await.unwrap();
    let (kind, payload) = ("cancelled".to_owned(), r#"{"newer":1}"#.to_owned());
    let hash = hash_chain::link(&head.hash, head.seq, 7, &kind, &payload);
    let event = Stored { seq: head.seq, at: 7, kind, codec: "json".to_owned(), payload, hash };
    tamper::insert_event(&backends.store, turn.thread, &event).await.unwrap();
    let stop = Shutdown::default();
    let worker = start_worker(steps(&backends, Arc::<EchoWorld>::default()), &stop);
    until("the worker leaves the thread", async || {
        format!("{:?}", backends.queue.list(10).await.unwrap()).contains("unknown field")
    })
    .await;
    assert_eq!(backends.store.turn(turn.id).await.unwrap().unwrap().status, TurnStatus::Queued);
    stop.drain();
    worker.await.unwrap();
}

/// A thread parked in the middle of a turn starts no other turn, and a new job does not revive it.
#[tokio::test]
async fn a_parked_turn_stays_as_it_was_reported() {
    let backends = backends().await;
    let thread = submit(&backends, "probe", "echo one; echo two").await;
    let all = steps(&backends, Arc::<EchoWorld>::default());
    assert_eq!(all.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::Continue);
    let none = StepRunner { strategies: StrategyRegistry::new([]), ..steps(&backends, all.world.clone()) };
    assert_eq!(none.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::Idle);
    let turns = async || backends.store.turns(TurnFilter::default(), None, 9).await.unwrap();
    let statuses = |turns: &[Turn]| turns.iter().map(|turn| turn.status).collect::<Vec<_>>();
    let seq = async || backends.store.head(thread).await.unwrap().seq;
    let before = seq().await;
    assert_eq!(statuses(&turns().await), [TurnStatus::Failed]);

    let turn = start_turn(&backends, Opening::Existing(thread), "echo three").await;
    let stop = Shutdown::default();
    let worker = start_worker(all, &stop);
    turn_over(&backends.store, &turn).await;
    stop.drain();
    worker.await.unwrap();
    let turns = turns().await;
    assert_eq!(statuses(&turns), [TurnStatus::Failed; 2]);
    let error = turns[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("the thread is parked"), "{error}");
    assert_eq!(seq().await, before, "nothing more has happened");
}

/// Answers the question that the thread asks now, without enqueuing the thread.
async fn answer(backends: &Backends, thread: ThreadId) -> TurnId {
    let asked_at = backends.store.head(thread).await.unwrap().seq;
    answer_to(backends, thread, asked_at).await
}

async fn answer_to(backends: &Backends, thread: ThreadId, asked_at: u64) -> TurnId {
    let messages = vec![Message::user("yes")];
    let new = NewTurn::of(Opening::Asking(thread, asked_at), messages, "test".to_owned());
    let new = NewTurn { policy: Policy::Answer, ..new };
    backends.store.submit(new).await.unwrap().into_turn().id
}

/// Two people answer at once: the second answer was meant for the first question and is not taken as an answer to the
/// next.
#[tokio::test]
async fn an_answer_settles_its_own_question_or_none() {
    let backends = backends().await;
    let thread = submit(&backends, "probe", "ask One? | yes | no; ask Two? | yes | no").await;
    let steps = steps(&backends, Arc::<EchoWorld>::default());
    let run = async || while steps.run_job(thread, &Notify::new()).await.unwrap() != StepOutcome::Idle {};
    run().await;
    let asked_at = backends.store.head(thread).await.unwrap().seq;
    let answers =
        [answer_to(&backends, thread, asked_at).await, answer_to(&backends, thread, asked_at).await];
    run().await;
    let turn = async |id| backends.store.turn(id).await.unwrap().unwrap();
    let (first, second) = (turn(answers[0]).await, turn(answers[1]).await);
    let first = (first.status, first.error);
    assert_eq!(first, (TurnStatus::Interrupted, None), "it goes on to the second question");
    assert_eq!(second.status, TurnStatus::Failed);
    assert!(second.error.as_deref().unwrap_or_default().contains("settled"), "{second:?}");
}

/// A late worker with a job of an earlier question does not reject the answer to the next question as late.
#[tokio::test]
async fn a_late_worker_leaves_the_answer_to_a_question_that_it_has_not_seen() {
    let backends = backends().await;
    let asks =
        start_turn(&backends, Opening::New(opened("probe")), "ask One? | yes | no; ask Two? | yes | no");
    let thread = asks.await.thread;
    let enqueue = async |when| backends.queue.enqueue(thread, &Lane::default(), when).await.unwrap();
    let stop = Shutdown::default();
    let late = start_worker(steps(&backends, Arc::<EchoWorld>::default()), &stop);
    let asks = async |turns: usize| {
        let filter = TurnFilter { status: Some(TurnStatus::Interrupted), ..TurnFilter::default() };
        until("the thread asks", async || {
            turns <= backends.store.turns(filter, None, 9).await.unwrap().len()
        })
        .await;
    };
    asks(1).await;
    let first = backends.store.head(thread).await.unwrap().seq;
    answer(&backends, thread).await;
    // Another worker advances the thread to its second question.
    let other = steps(&backends, Arc::<EchoWorld>::default());
    while other.run_job(thread, &Notify::new()).await.unwrap() != StepOutcome::Idle {}
    asks(2).await;
    let second = answer(&backends, thread).await;
    enqueue(Schedule::NowAtSeq(first)).await;
    until("the job is done", async || backends.queue.depth().await.unwrap() == Depth::default()).await;
    let turn = backends.store.turn(second).await.unwrap().unwrap();
    assert_eq!((turn.status, &turn.error), (TurnStatus::Queued, &None));
    enqueue(Schedule::Now).await;
    assert_eq!(turn_over(&backends.store, &turn).await.status, TurnStatus::Completed);
    stop.drain();
    late.await.unwrap();
}

/// One of two concurrent calls fails permanently; the other is retried only after the requested delay.
#[tokio::test]
async fn a_call_waits_as_it_was_told_though_another_is_given_up() {
    let backends = backends().await;
    let builder = serde_json::json!({
        "strategy": "index_builder",
        "servers": {"calendar": "dates", "contacts": "people"},
    });
    let builder = serde_json::from_value(builder).unwrap();
    let message = vec![Message::user("build")];
    let thread = testing::submit(&backends, Opening::New(builder), message).await.thread;
    let world = Arc::new(OneWaits::default());
    let steps = steps(&backends, world.clone());
    let outcome = loop {
        match steps.run_job(thread, &Notify::new()).await.unwrap() {
            StepOutcome::Continue => {}
            outcome => break outcome,
        }
    };
    let StepOutcome::RetryLater { after, why } = outcome else { panic!("it waits: {outcome:?}") };
    assert_eq!((after.as_secs(), &*why), (29, "come later"));
    assert_eq!(*world.0.lock().unwrap(), [0, 1], "each was asked once");
    assert!(matches!(steps.run_job(thread, &Notify::new()).await.unwrap(), StepOutcome::RetryLater { .. }));
    assert_eq!(*world.0.lock().unwrap(), [0, 1]);
}

/// A world that records its requests. The first one fails permanently, the others ask for a later retry.
#[derive(Default)]
struct OneWaits(Mutex<Vec<usize>>);

#[async_trait]
impl World for OneWaits {
    async fn perform(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        self.0.lock().unwrap().push(context.due.slot);
        let (error, kind) = match context.due.slot {
            0 => ("no such server", FaultKind::Permanent),
            _ => ("come later", FaultKind::Transient { retry_after_ms: Some(30_000) }),
        };
        Err(Fault { error: error.to_owned(), kind, usage: None, pin_changed: false })
    }
}

fn steps(backends: &Backends, world: Arc<dyn World>) -> StepRunner {
    testing::steps(backends, world, "w")
}

fn start_worker(steps: StepRunner, stop: &Shutdown) -> JoinHandle<()> {
    tokio::spawn(Worker::new(steps, CONFIG).run(stop.clone()))
}

/// Submits a turn of a new thread without enqueuing it.
async fn submit(backends: &Backends, strategy: &str, message: &str) -> ThreadId {
    let opening = Opening::New(opened(strategy));
    testing::submit(backends, opening, vec![Message::user(message)]).await.thread
}
