//! A worker that was stopped during a call that must not be repeated. Another worker takes its thread over and asks a
//! person; then the answer arrives after all.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shared::{
    Cancelled, DynThread, Event, Fault, InterruptKind, Reconciled, Response, RunStatus, Safety, ToolOutput,
    TurnStatus, Verdict,
};
use store::{CancelRequest, ThreadId};
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use worker::{
    StepOutcome, StepRunner,
    testing::{answered_at_once, backends, first_turn, fixtures, read, steps, submit_turn},
};
use world::{Outcome, RecordedWorld, RequestContext, World};

const PATIENCE: Duration = Duration::from_secs(60);

/// A recorded thread whose calls that must not be repeated are answered by the test.
struct Gated {
    recorded: RecordedWorld,
    calls: AtomicUsize,
    open: Mutex<Vec<oneshot::Sender<Outcome>>>,
    begun: Notify,
}

#[async_trait]
impl World for Gated {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        if context.due.safety != Safety::Write {
            return self.recorded.perform(thread, context).await;
        }
        let (answer, answered) = oneshot::channel();
        self.open.lock().unwrap().push(answer);
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.begun.notify_one();
        answered.await.unwrap()
    }
}

/// A thread, and the worker that is stopped during its call.
struct Stopped {
    backends: Backends,
    world: Arc<Gated>,
    thread: ThreadId,
    job: JoinHandle<StepOutcome>,
    /// Wakes the stopped worker, as a lost lease does.
    wake: Arc<Notify>,
}

impl Stopped {
    /// Runs a thread up to its call, and lets another worker take it over.
    async fn taken_over() -> Self {
        let this = Self::calling().await;
        assert_eq!(this.other_worker().await, StepOutcome::Idle);
        this.asks_a_person().await;
        this
    }

    /// Runs a thread up to its call.
    async fn calling() -> Self {
        let graph = strategies::find("retriever").unwrap();
        let path = fixtures(graph).into_iter().find(|path| path.ends_with("write_in_doubt.jsonl")).unwrap();
        let script: Vec<Event> = read(&path).into_iter().filter_map(answered_at_once).collect();
        let new = first_turn(&script);
        let backends = backends().await;
        let world = Arc::new(Gated {
            recorded: RecordedWorld::new(graph, &script).unwrap(),
            calls: AtomicUsize::new(0),
            open: Mutex::default(),
            begun: Notify::new(),
        });
        let thread = submit_turn(&backends, new).await.thread;
        let wake = Arc::<Notify>::default();
        let (worker, waking) = (steps(&backends, world.clone(), "stopped"), wake.clone());
        let job = tokio::spawn(async move { run(&worker, thread, &waking).await });
        let this = Self { backends, world, thread, job, wake };
        this.world.begun.notified().await;
        this
    }

    /// Cancels the turn, as the API does.
    async fn cancel(&self) {
        let mut log = self.log().await;
        log.push(Cancelled { actor: "person".to_owned(), caller: None, rolled_back: false }.into()).unwrap();
        log.flush(&self.backends).await.unwrap();
    }

    /// Returns the kinds of the events since the call, and the last message.
    async fn since_the_call(&self) -> (Vec<String>, String) {
        let (_, rows) = self.backends.store.load(self.thread).await.unwrap();
        let called = rows.iter().position(|row| matches!(row.event, Event::Attempted(_))).unwrap();
        let kinds = rows[called + 1..].iter().map(|row| row.event.kind().to_owned()).collect();
        (kinds, self.log().await.thread().messages().last().unwrap().content.clone())
    }

    /// Runs the thread's jobs on another worker until it has nothing to do.
    async fn other_worker(&self) -> StepOutcome {
        run(&steps(&self.backends, self.world.clone(), "other"), self.thread, &Notify::new()).await
    }

    async fn log(&self) -> ThreadLog {
        let strategies = StrategyRegistry::new(strategies::all());
        ThreadLog::open(&self.backends, &strategies, self.thread).await.unwrap()
    }

    async fn asks_a_person(&self) {
        let status = self.log().await.thread().status();
        assert!(
            matches!(&status, RunStatus::Waiting(interrupt) if interrupt.kind == InterruptKind::InDoubt),
            "{status:?}"
        );
    }

    /// Records what a person says of the call.
    async fn person_decides(&self, verdict: Verdict) {
        let mut log = self.log().await;
        log.push(
            Reconciled { slot: 0, verdict, actor: "person".to_owned(), caller: None, read_back: None }.into(),
        )
        .unwrap();
        log.flush(&self.backends).await.unwrap();
    }

    /// Answers the oldest open call.
    fn answer(&self, outcome: Outcome) {
        let answer = self.world.open.lock().unwrap().remove(0);
        // The worker that waited may have been told to stop waiting.
        drop(answer.send(outcome));
    }

    /// Kinds of the events since the question to the person, and the thread's last reply.
    async fn since_the_question(&self) -> (Vec<String>, Option<String>) {
        let (_, rows) = self.backends.store.load(self.thread).await.unwrap();
        let asked = rows.iter().position(|row| matches!(row.event, Event::InDoubt(_))).unwrap();
        let kinds = rows[asked + 1..].iter().map(|row| row.event.kind().to_owned()).collect();
        (kinds, self.log().await.thread().reply().map(str::to_owned))
    }

    /// Waits until the stopped worker has nothing to do.
    async fn ends(&mut self) {
        let ended = tokio::time::timeout(PATIENCE, &mut self.job).await;
        assert_eq!(ended.expect("the stopped worker waits no longer").unwrap(), StepOutcome::Idle);
    }

    async fn is_enqueued(&self) -> bool {
        self.backends.queue.list(10).await.unwrap().iter().any(|entry| entry.thread == self.thread)
    }
}

async fn run(worker: &StepRunner, thread: ThreadId, wake: &Notify) -> StepOutcome {
    loop {
        match worker.run_job(thread, wake).await.unwrap() {
            StepOutcome::Continue => (),
            other => return other,
        }
    }
}

fn cancelled() -> Outcome {
    Ok((Response::Output(ToolOutput::Ok("cancelled e1".to_owned())), None))
}

#[tokio::test]
async fn an_answer_that_arrives_late_settles_the_doubt() {
    for is_woken in [false, true] {
        let mut stopped = Stopped::taken_over().await;
        if is_woken {
            // It notices that another worker took over before the answer arrives.
            stopped.wake.notify_one();
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(!stopped.job.is_finished(), "it waits for the answer");
        }
        stopped.answer(cancelled());
        stopped.ends().await;
        assert!(stopped.is_enqueued().await, "the thread continues without a person");
        assert_eq!(stopped.other_worker().await, StepOutcome::Idle);
        let (kinds, reply) = stopped.since_the_question().await;
        assert_eq!(kinds, ["answered", "decided", "asked", "answered", "decided"]);
        assert_eq!(reply.as_deref(), Some("e1 is cancelled."));
        assert_eq!(stopped.world.calls.load(Ordering::SeqCst), 1, "the call was made once");
    }
}

#[tokio::test]
async fn a_person_who_was_faster_has_decided() {
    for is_woken in [false, true] {
        let mut stopped = Stopped::taken_over().await;
        stopped.person_decides(Verdict::Skip).await;
        if is_woken {
            stopped.wake.notify_one();
        } else {
            stopped.answer(cancelled());
        }
        stopped.ends().await;
        let (kinds, _) = stopped.since_the_question().await;
        assert_eq!(kinds, ["reconciled"], "the late answer is not recorded");
    }
}

#[tokio::test]
async fn an_answer_settles_no_doubt_about_another_attempt() {
    let mut stopped = Stopped::taken_over().await;
    stopped.person_decides(Verdict::DidNotHappen).await;
    let worker = steps(&stopped.backends, stopped.world.clone(), "other");
    let thread = stopped.thread;
    let second = tokio::spawn(async move { run(&worker, thread, &Notify::new()).await });
    stopped.world.begun.notified().await;
    second.abort();
    assert!(second.await.is_err(), "the second worker died during its attempt");
    assert_eq!(stopped.other_worker().await, StepOutcome::Idle);
    stopped.asks_a_person().await;
    stopped.answer(cancelled());
    stopped.ends().await;
    stopped.asks_a_person().await;
    let (kinds, _) = stopped.since_the_question().await;
    assert_eq!(kinds, ["reconciled", "attempted", "in_doubt"]);
}

#[tokio::test]
async fn a_refusal_that_arrives_late_lets_the_call_be_made() {
    let mut stopped = Stopped::taken_over().await;
    stopped.answer(Err(Fault::transient("the server was busy and did nothing")));
    stopped.ends().await;
    let other = tokio::spawn({
        let (worker, thread) = (steps(&stopped.backends, stopped.world.clone(), "other"), stopped.thread);
        async move {
            loop {
                match worker.run_job(thread, &Notify::new()).await.unwrap() {
                    StepOutcome::Idle => return,
                    _ => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        }
    });
    stopped.world.begun.notified().await;
    stopped.answer(cancelled());
    other.await.unwrap();
    let (kinds, reply) = stopped.since_the_question().await;
    assert_eq!(kinds[..4], ["attempt_failed", "attempted", "answered", "decided"]);
    assert_eq!(reply.as_deref(), Some("e1 is cancelled."));
}

/// The end is the same if the worker learns of the cancellation before the answer, after it, or by the append of the answer.
#[tokio::test]
async fn the_end_of_a_call_whose_turn_was_cancelled_is_recorded() {
    type Late = fn() -> Outcome;
    let outcomes: [(Late, &str); 3] = [
        (
            cancelled,
            "A call of the cancelled turn was made after all:\n- calendar.cancel {\"event_id\":\"e1\"}: cancelled e1",
        ),
        (
            || Err(Fault::transient("the server was busy and did nothing")),
            "A call of the cancelled turn was not made:\n- calendar.cancel {\"event_id\":\"e1\"}: the server was busy and did nothing",
        ),
        (
            || Err(Fault::in_doubt("the connection was lost")),
            "It is not known how a call of the cancelled turn ended. It may have been made, or still be made:\n- calendar.cancel {\"event_id\":\"e1\"}: the connection was lost",
        ),
    ];
    for (outcome, message) in outcomes {
        for how in ["woken", "not woken", "requested"] {
            let mut stopped = Stopped::calling().await;
            if how == "requested" {
                let turn = stopped.log().await.thread().turn().unwrap();
                let (thread, actor) = (stopped.thread, "person".to_owned());
                let request = CancelRequest { thread, turn, actor, caller: None, rolled_back: false };
                stopped.backends.store.request_cancel(&request).await.unwrap();
            } else {
                stopped.cancel().await;
            }
            if how == "woken" {
                stopped.wake.notify_one();
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert!(!stopped.job.is_finished(), "it waits for the answer");
            }
            stopped.answer(outcome());
            stopped.ends().await;
            let (kinds, last) = stopped.since_the_call().await;
            assert_eq!(
                (kinds, last.as_str()),
                (vec!["cancelled".to_owned(), "write_ended".to_owned()], message),
                "{how}"
            );
            let turn = stopped.log().await.thread().turn().unwrap();
            let row = stopped.backends.store.turn(turn).await.unwrap().unwrap();
            assert_eq!(row.status, TurnStatus::Cancelled, "its end does not change the turn");
            assert_eq!(stopped.other_worker().await, StepOutcome::Idle);
            assert_eq!(stopped.world.calls.load(Ordering::SeqCst), 1, "the call was made once");
        }
    }
}

/// The next turn waits for the server no longer than for ten seconds.
#[tokio::test]
async fn a_call_that_is_not_answered_after_the_cancellation_is_given_up() {
    let mut stopped = Stopped::calling().await;
    stopped.cancel().await;
    stopped.wake.notify_one();
    stopped.ends().await;
    let (kinds, last) = stopped.since_the_call().await;
    assert_eq!(kinds, ["cancelled"]);
    assert_eq!(last, "it is unknown whether this call took effect: the turn was cancelled");
}

#[tokio::test]
async fn the_end_of_a_call_is_unknown_after_a_crash_and_nothing_is_repeated() {
    let stopped = Stopped::calling().await;
    stopped.cancel().await;
    stopped.job.abort();
    assert_eq!(stopped.other_worker().await, StepOutcome::Idle);
    let (kinds, last) = stopped.since_the_call().await;
    assert_eq!(kinds, ["cancelled"]);
    assert_eq!(last, "it is unknown whether this call took effect: the turn was cancelled");
    assert!(!stopped.log().await.thread().unended_writes()[0].is_given_up);
    assert_eq!(stopped.world.calls.load(Ordering::SeqCst), 1);
}

/// The worker still does not know the outcome, so the question stays.
#[tokio::test]
async fn an_outcome_that_is_unknown_settles_nothing() {
    let mut stopped = Stopped::taken_over().await;
    stopped.answer(Err(Fault::in_doubt("the connection was lost")));
    stopped.ends().await;
    stopped.asks_a_person().await;
    assert_eq!(stopped.since_the_question().await.0, Vec::<String>::new());
}
