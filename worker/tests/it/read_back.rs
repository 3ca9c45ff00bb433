//! A worker that dies during a write whose tool names a read. The next worker reads the write back, and asks no one.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shared::{DynThread, Event, Response, ToolOutput};
use store::ThreadId;
use threads::Backends;
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};
use worker::{
    StepOutcome, StepRunner,
    testing::{backends, first_turn, fixtures, read, steps, submit_turn},
};
use world::{Outcome, RecordedWorld, RequestContext, World};

const PATIENCE: Duration = Duration::from_secs(60);

/// A recorded thread with a calendar of its own.
struct Calendar {
    recorded: RecordedWorld,
    /// Number of times that the event was cancelled.
    cancelled: AtomicUsize,
    calls: AtomicUsize,
    reads: AtomicUsize,
    /// True if the first call is carried out; otherwise it is lost on its way.
    first_arrives: bool,
    /// True if the next read is never answered.
    read_hangs: AtomicBool,
    /// Answer to the first call.
    late: Mutex<Option<oneshot::Receiver<Outcome>>>,
    begun: Notify,
}

#[async_trait]
impl World for Calendar {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let text = |text: &str| Ok((Response::Output(ToolOutput::Ok(text.to_owned())), None));
        if context.due.is_read_back {
            assert!(context.key.ends_with(":read"), "a read never has the key of its write");
            self.reads.fetch_add(1, Ordering::SeqCst);
            if self.read_hangs.swap(false, Ordering::SeqCst) {
                self.begun.notify_one();
                return pending().await;
            }
            let is_cancelled = 0 < self.cancelled.load(Ordering::SeqCst);
            return text(if is_cancelled { r#"{"state":"cancelled"}"# } else { r#"{"state":"confirmed"}"# });
        }
        if !context.due.is_write() {
            return self.recorded.perform(thread, context).await;
        }
        let is_first = self.calls.fetch_add(1, Ordering::SeqCst) == 0;
        if !is_first || self.first_arrives {
            self.cancelled.fetch_add(1, Ordering::SeqCst);
        }
        if !is_first {
            return text("cancelled e1");
        }
        self.begun.notify_one();
        let late = self.late.lock().unwrap().take().unwrap();
        late.await.unwrap()
    }
}

/// A thread, and the worker that makes its first call.
struct Started {
    backends: Backends,
    calendar: Arc<Calendar>,
    thread: ThreadId,
    job: JoinHandle<StepOutcome>,
    answer: oneshot::Sender<Outcome>,
}

impl Started {
    /// Runs a thread up to its call. Its read-back begins `after_ms` after the doubt.
    async fn at_its_call(first_arrives: bool, after_ms: u64) -> Self {
        let graph = strategies::find("planner").unwrap();
        let name = "a_read_back_shows_that_nothing_was_done.jsonl";
        let path = fixtures(graph).into_iter().find(|path| path.ends_with(name)).unwrap();
        let delayed = |event: Event| {
            let text = serde_json::to_string(&event).unwrap();
            let text = text.replace(r#""after_ms":1,"#, &format!(r#""after_ms":{after_ms},"#));
            serde_json::from_str(&text).unwrap()
        };
        let script: Vec<Event> = read(&path).into_iter().map(delayed).collect();
        let new = first_turn(&script);
        let backends = backends().await;
        let (answer, late) = oneshot::channel();
        let calendar = Arc::new(Calendar {
            recorded: RecordedWorld::new(graph, &script).unwrap(),
            cancelled: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            first_arrives,
            read_hangs: AtomicBool::new(false),
            late: Mutex::new(Some(late)),
            begun: Notify::new(),
        });
        let thread = submit_turn(&backends, new).await.thread;
        let worker = steps(&backends, calendar.clone(), "first");
        let job = tokio::spawn(async move { run(&worker, thread).await });
        calendar.begun.notified().await;
        Self { backends, calendar, thread, job, answer }
    }

    /// Runs the thread's jobs on another worker until it has nothing to do.
    async fn other_worker(&self) {
        let worker = steps(&self.backends, self.calendar.clone(), "other");
        assert_eq!(timeout(PATIENCE, run(&worker, self.thread)).await, Ok(StepOutcome::Idle));
    }

    /// Kinds of the events since the first attempt.
    async fn since_the_attempt(&self) -> Vec<String> {
        let (_, rows) = self.backends.store.load(self.thread).await.unwrap();
        let attempted = rows.iter().position(|row| matches!(row.event, Event::Attempted(_))).unwrap();
        rows[attempted..].iter().map(|row| row.event.kind().to_owned()).collect()
    }

    fn counts(&self) -> [usize; 3] {
        let Calendar { calls, cancelled, reads, .. } = &*self.calendar;
        [calls, cancelled, reads].map(|count| count.load(Ordering::SeqCst))
    }
}

async fn run(worker: &StepRunner, thread: ThreadId) -> StepOutcome {
    loop {
        match worker.run_job(thread, &Notify::new()).await.unwrap() {
            StepOutcome::Continue => (),
            StepOutcome::RetryLater { after, .. } => sleep(after).await,
            other => return other,
        }
    }
}

const REST: [&str; 8] =
    ["decided", "asked", "answered", "decided", "decided", "asked", "answered", "decided"];

#[tokio::test]
async fn a_write_that_was_made_is_found_and_not_repeated() {
    let started = Started::at_its_call(true, 1).await;
    started.job.abort();
    started.other_worker().await;
    let kinds = started.since_the_attempt().await;
    assert_eq!(kinds[..3], ["attempted", "in_doubt", "reconciled"]);
    assert_eq!(kinds[3..], REST, "nobody was asked");
    assert_eq!(started.counts(), [1, 1, 1]);
}

#[tokio::test]
async fn a_write_that_never_arrived_is_sent_again() {
    let started = Started::at_its_call(false, 1).await;
    started.job.abort();
    started.other_worker().await;
    let kinds = started.since_the_attempt().await;
    assert_eq!(kinds[..5], ["attempted", "in_doubt", "reconciled", "attempted", "answered"]);
    assert_eq!(kinds[5..], REST);
    assert_eq!(started.counts(), [2, 1, 1]);
}

#[tokio::test]
async fn a_worker_that_dies_during_the_read_leaves_it_to_the_next() {
    let started = Started::at_its_call(true, 1).await;
    started.job.abort();
    started.calendar.read_hangs.store(true, Ordering::SeqCst);
    tokio::select! {
        () = started.other_worker() => panic!("the read hangs"),
        () = started.calendar.begun.notified() => (),
    }
    started.other_worker().await;
    assert_eq!(started.since_the_attempt().await[..3], ["attempted", "in_doubt", "reconciled"]);
    assert_eq!(started.counts(), [1, 1, 2]);
}

#[tokio::test]
async fn an_answer_that_arrives_before_the_read_settles_the_doubt() {
    let started = Started::at_its_call(true, 30_000).await;
    let worker = steps(&started.backends, started.calendar.clone(), "other");
    let waits = worker.run_job(started.thread, &Notify::new()).await.unwrap();
    assert!(matches!(waits, StepOutcome::RetryLater { .. }), "{waits:?}");
    let cancelled = Response::Output(ToolOutput::Ok("cancelled e1".to_owned()));
    started.answer.send(Ok((cancelled, None))).unwrap();
    assert_eq!(timeout(PATIENCE, started.job).await.unwrap().unwrap(), StepOutcome::Idle);
    let (_, rows) = started.backends.store.load(started.thread).await.unwrap();
    assert_eq!(rows.last().unwrap().event.kind(), "answered", "the late answer is recorded");
    assert_eq!(started.calendar.reads.load(Ordering::SeqCst), 0);
}
