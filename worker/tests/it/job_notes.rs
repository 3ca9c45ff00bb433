//! Jobs of new threads that bring what their worker would read, and notes that are out of date.

use std::sync::Arc;

use queue::{Lane, Schedule};
use shared::{Event, Message, TurnStatus};
use store::{Opening, Turn, Withdrawal};
use threads::{Backends, JobNote};
use worker::{
    Shutdown, Worker,
    testing::{CONFIG, EchoWorld, backends, opened, steps, submit, turn_over, until},
};

struct Site {
    backends: Backends,
    world: Arc<EchoWorld>,
}

impl Site {
    async fn new() -> Self {
        Self { backends: backends().await, world: Arc::default() }
    }

    /// Submits a turn, and returns it with the note of its job.
    async fn submit(&self) -> (Turn, String) {
        let message = vec![Message::user("echo stored")];
        let turn = submit(&self.backends, Opening::New(opened("probe")), message).await;
        let (seq, note) = JobNote::of(opened("probe"), &turn, None).expect("the note is short");
        assert_eq!(seq, 1, "the log has one event");
        (turn, note)
    }

    /// Runs a worker until nothing is enqueued.
    async fn work(&self) {
        let stop = Shutdown::default();
        let worker = Worker::new(steps(&self.backends, self.world.clone(), "w1"), CONFIG);
        let worker = tokio::spawn(worker.run(stop.clone()));
        let depth = async || self.backends.queue.depth().await.unwrap();
        until("the jobs are done", async || depth().await == queue::Depth::default()).await;
        stop.drain();
        worker.await.unwrap();
    }

    async fn enqueue(&self, turn: &Turn, note: String) {
        let when = Schedule::NowWith { seq: 1, note };
        self.backends.queue.enqueue(turn.thread, &Lane::default(), when).await.unwrap();
    }

    async fn texts(&self, turn: &Turn) -> Vec<String> {
        let (_, log) = self.backends.store.load(turn.thread).await.unwrap();
        let text = |event| match event {
            Event::TurnStarted(started) => Some(started.messages[0].content.clone()),
            _ => None,
        };
        log.into_iter().filter_map(|row| text(row.event)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_starts_what_the_note_says() {
    let site = Site::new().await;
    let (turn, note) = site.submit().await;
    site.enqueue(&turn, note.replace("stored", "noted")).await;
    site.work().await;
    assert_eq!(turn_over(&site.backends.store, &turn).await.status, TurnStatus::Completed);
    assert_eq!(site.texts(&turn).await, ["echo noted"], "the store was not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_of_another_version_is_not_used() {
    let site = Site::new().await;
    let (turn, note) = site.submit().await;
    let mut other: serde_json::Value = serde_json::from_str(&note.replace("stored", "noted")).unwrap();
    other["at"] = (turn.created_at + 1).into();
    site.enqueue(&turn, other.to_string()).await;
    site.work().await;
    assert_eq!(turn_over(&site.backends.store, &turn).await.status, TurnStatus::Completed);
    assert_eq!(site.texts(&turn).await, ["echo stored"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_cancelled_meanwhile_does_not_start() {
    let site = Site::new().await;
    let (turn, note) = site.submit().await;
    assert_eq!(site.backends.store.cancel_queued(turn.id).await.unwrap(), Withdrawal::Withdrawn);
    site.enqueue(&turn, note).await;
    site.work().await;
    assert_eq!((site.texts(&turn).await, site.world.begun()), (Vec::new(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_another_job_has_run_does_not_run_again() {
    let site = Site::new().await;
    let (turn, note) = site.submit().await;
    site.enqueue(&turn, note.clone()).await;
    site.work().await;
    let begun = site.world.begun();
    let next = submit(&site.backends, Opening::Existing(turn.thread), vec![Message::user("echo next")]).await;
    // A worker of its own, whose cache does not know the thread.
    site.enqueue(&turn, note).await;
    site.work().await;
    assert_eq!(turn_over(&site.backends.store, &next).await.status, TurnStatus::Completed);
    assert_eq!(site.texts(&turn).await, ["echo stored", "echo next"]);
    assert_eq!(site.world.begun(), begun * 2);
}
