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
    Answered, DynThread, Event, Fault, InterruptKind, Reconciled, Response, RunStatus, Safety, ToolOutput,
    Verdict,
};
use store::ThreadId;
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use worker::{StepOutcome, StepRunner};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::{
    crash::{hands, submit_words},
    lived::{fixtures, parts, read},
};

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
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        if ask.due.safety != Safety::Write {
            return self.recorded.perform(thread, ask).await;
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
    parts: Backends,
    world: Arc<Gated>,
    thread: ThreadId,
    job: JoinHandle<StepOutcome>,
    /// Wakes the stopped worker, as a lost lease does.
    wake: Arc<Notify>,
}

impl Stopped {
    /// Runs a thread up to its call, and lets another worker take it over.
    async fn taken_over() -> Self {
        let graph = strategies::find("retriever").unwrap();
        let path = fixtures(graph).into_iter().find(|it| it.ends_with("write_in_doubt.jsonl")).unwrap();
        let script: Vec<Event> = read(&path).into_iter().filter_map(answered_at_once).collect();
        let (Event::Opened(opened), Event::TurnStarted(started)) = (&script[0], &script[1]) else {
            panic!("not a fixture")
        };
        let parts = parts().await;
        let world = Arc::new(Gated {
            recorded: RecordedWorld::new(graph, &script).unwrap(),
            calls: AtomicUsize::new(0),
            open: Mutex::default(),
            begun: Notify::new(),
        });
        let thread = submit_words(&parts, opened.clone(), started.messages.clone()).await;
        let wake = Arc::<Notify>::default();
        let (worker, waking) = (hands(&parts, world.clone()), wake.clone());
        let job = tokio::spawn(async move { run(&worker, thread, &waking).await });
        let this = Self { parts, world, thread, job, wake };
        this.world.begun.notified().await;
        assert_eq!(this.other_worker().await, StepOutcome::Idle);
        this.asks_a_person().await;
        this
    }

    /// Runs the thread's jobs on another worker until it has nothing to do.
    async fn other_worker(&self) -> StepOutcome {
        run(&hands(&self.parts, self.world.clone()), self.thread, &Notify::new()).await
    }

    async fn log(&self) -> ThreadLog {
        let strategies = StrategyRegistry::new(strategies::all());
        ThreadLog::open(&self.parts, &strategies, self.thread).await.unwrap()
    }

    async fn asks_a_person(&self) {
        let status = self.log().await.thread().status();
        assert!(matches!(&status, RunStatus::Waiting(it) if it.kind == InterruptKind::InDoubt), "{status:?}");
    }

    /// Records what a person says of the call.
    async fn person_says(&self, verdict: Verdict) {
        let mut log = self.log().await;
        log.push(Reconciled { slot: 0, verdict, actor: "person".to_owned(), caller: None }.into()).unwrap();
        log.flush(&self.parts).await.unwrap();
    }

    /// Answers the oldest open call.
    fn answer(&self, outcome: Outcome) {
        let answer = self.world.open.lock().unwrap().remove(0);
        // The worker that waited may have been told to stop waiting.
        drop(answer.send(outcome));
    }

    /// Kinds of the events since the question to the person, and the thread's last reply.
    async fn since_the_question(&self) -> (Vec<String>, Option<String>) {
        let (_, rows) = self.parts.store.load(self.thread).await.unwrap();
        let asked = rows.iter().position(|it| matches!(it.event, Event::InDoubt(_))).unwrap();
        let kinds = rows[asked + 1..].iter().map(|it| it.event.kind().to_owned()).collect();
        (kinds, self.log().await.thread().reply().map(str::to_owned))
    }

    /// Waits until the stopped worker has nothing to do.
    async fn ends(&mut self) {
        let ended = tokio::time::timeout(PATIENCE, &mut self.job).await;
        assert_eq!(ended.expect("the stopped worker waits no longer").unwrap(), StepOutcome::Idle);
    }

    async fn is_enqueued(&self) -> bool {
        self.parts.queue.list(10).await.unwrap().iter().any(|it| it.thread == self.thread)
    }
}

/// Replaces the doubt of the fixture by an answer.
pub(crate) fn answered_at_once(event: Event) -> Option<Event> {
    match event {
        Event::InDoubt(it) => {
            let response = Response::Output(ToolOutput::Ok("cancelled e1".to_owned()));
            Some(Answered { slot: it.slot, response, usage: None, extras: None }.into())
        }
        Event::Reconciled(_) => None,
        other => Some(other),
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
        stopped.person_says(Verdict::Skip).await;
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
    stopped.person_says(Verdict::DidNotHappen).await;
    let worker = hands(&stopped.parts, stopped.world.clone());
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
        let (worker, thread) = (hands(&stopped.parts, stopped.world.clone()), stopped.thread);
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

/// The worker still does not know the outcome, so the question stays.
#[tokio::test]
async fn an_outcome_that_is_unknown_settles_nothing() {
    let mut stopped = Stopped::taken_over().await;
    stopped.answer(Err(Fault::in_doubt("the connection was lost")));
    stopped.ends().await;
    stopped.asks_a_person().await;
    assert_eq!(stopped.since_the_question().await.0, Vec::<String>::new());
}
