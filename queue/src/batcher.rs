//! Groups concurrent calls into batches.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    time::sleep,
};

/// Items that can wait for a batch. Further callers wait until there is space.
const MAX_WAITING: usize = 8192;

/// Longest time that a batch waits for more items. The batches in flight may hang for hours, when another session holds a
/// database lock that they need.
const MAX_LINGER: Duration = Duration::from_millis(50);

/// Groups concurrent calls into batches: whatever arrives while a batch is in flight forms the next one. While nothing is in
/// flight, a batch is sent at once; otherwise an item waits at most 50 ms for more.
///
/// **Invariant:** an accepted item is processed even if its caller is dropped. A cancelled request therefore never leaves a
/// write half done, or a transaction open on a pooled connection.
///
/// ## Why there are three rules for when a batch is sent
///
/// Each was measured:
/// - a full batch, or one as large as everything in flight, is sent at once; otherwise it lingers. Together with cheaper
///   updates this cut a third of the cost of a step on PostgreSQL.
/// - [`WhenAlone::SendNow`] lets a thread that works alone commit without looking for company: a lone step takes 1.1 times a
///   bare commit, instead of 1.2 to 1.3.
/// - [`WhenAlone::YieldFirst`] lets tasks that were just woken join. It halved the scripts sent to Redis per step and saved a
///   third of the statements sent to PostgreSQL (64 slots, every node handed over through Redis).
#[derive(Debug)]
pub struct Batcher<T, A>(mpsc::Sender<Item<T, A>>);

/// Treatment of a single item after a batch of one.
#[derive(Clone, Copy, Debug)]
pub enum WhenAlone {
    /// Sends it at once. For items whose previous answer woke only their own caller.
    SendNow,
    /// Yields to the scheduler first. For callers that wake others, which are about to submit too.
    YieldFirst,
}

/// A submitted item and the channel for its answer.
type Item<T, A> = (T, oneshot::Sender<A>);

impl<T, A> Clone for Batcher<T, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static, A: Send + 'static> Batcher<T, A> {
    /// Starts `concurrency` tasks that each process one batch of at most `max_batch` items at a time. `process` returns one
    /// answer per item, in the order of the items.
    pub fn new<W, F>(concurrency: usize, max_batch: usize, when_alone: WhenAlone, process: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Vec<A>> + Send + 'static,
    {
        let (items, incoming) = mpsc::channel(MAX_WAITING);
        let pending = Arc::new(Mutex::new(Pending { incoming, max_batch, when_alone, last_batch: 0 }));
        let in_flight = Arc::new(watch::Sender::new(0));
        for _ in 0..concurrency {
            tokio::spawn(run(Arc::clone(&pending), Arc::clone(&in_flight), process.clone()));
        }
        Self(items)
    }

    /// Submits an item and waits for its answer. Returns `None` if the process is shutting down.
    pub async fn submit(&self, item: T) -> Option<A> {
        let (answer, answered) = oneshot::channel();
        self.0.send((item, answer)).await.ok()?;
        answered.await.ok()
    }
}

/// Items that are not in flight yet.
struct Pending<T, A> {
    incoming: mpsc::Receiver<Item<T, A>>,
    max_batch: usize,
    when_alone: WhenAlone,
    /// Size of the previous batch.
    last_batch: usize,
}

impl<T, A> Pending<T, A> {
    /// Yields to the scheduler, so that tasks that were just woken can submit, until a yield brings nothing new.
    async fn let_others_join(&mut self, batch: &mut Vec<Item<T, A>>) {
        let mut before = match self.when_alone {
            WhenAlone::SendNow if self.last_batch <= 1 => return,
            WhenAlone::SendNow | WhenAlone::YieldFirst => 0,
        };
        while before < batch.len() && batch.len() < self.max_batch {
            before = batch.len();
            tokio::task::yield_now().await;
            while batch.len() < self.max_batch
                && let Ok(item) = self.incoming.try_recv()
            {
                batch.push(item);
            }
        }
    }

    /// Returns the next batch, or `None` if every [`Batcher`] was dropped.
    ///
    /// ## Why a batch may linger
    ///
    /// Every batch has a fixed cost. While another batch is in flight, the callers that its answers will wake have nothing
    /// to submit yet. So the next batch is sent when it is at least as large as everything in flight, when that has arrived,
    /// or after [`MAX_LINGER`]. While nothing is in flight, it is sent at once.
    async fn next(&mut self, mut in_flight: watch::Receiver<usize>) -> Option<Vec<Item<T, A>>> {
        let mut batch = Vec::new();
        if self.incoming.recv_many(&mut batch, self.max_batch).await == 0 {
            return None;
        }
        let deadline = sleep(MAX_LINGER);
        tokio::pin!(deadline);
        loop {
            self.let_others_join(&mut batch).await;
            if deadline.is_elapsed() || batch.len() >= self.max_batch.min(*in_flight.borrow_and_update()) {
                self.last_batch = batch.len();
                return Some(batch);
            }
            let is_closed = tokio::select! {
                _ = in_flight.changed() => false,
                () = &mut deadline => false,
                received = self.incoming.recv_many(&mut batch, 1) => received == 0,
            };
            if is_closed {
                return Some(batch);
            }
        }
    }
}

/// Counts the items of a batch as in flight until it is dropped.
struct InFlight<'a>(&'a watch::Sender<usize>, usize);

impl<'a> InFlight<'a> {
    fn new(total: &'a watch::Sender<usize>, items: usize) -> Self {
        total.send_modify(|count| *count += items);
        Self(total, items)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= self.1);
    }
}

async fn run<T, A, W, F>(pending: Arc<Mutex<Pending<T, A>>>, total: Arc<watch::Sender<usize>>, process: W)
where
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Vec<A>>,
{
    loop {
        let mut next = pending.lock().await;
        let Some(batch) = next.next(total.subscribe()).await else { return };
        let in_flight = InFlight::new(&total, batch.len());
        drop(next);
        let (items, callers): (Vec<T>, Vec<_>) = batch.into_iter().unzip();
        for (answer, caller) in process(items).await.into_iter().zip(callers) {
            // The caller may have been dropped.
            let _ = caller.send(answer);
        }
        drop(in_flight);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{Mutex, PoisonError},
    };

    use futures::poll;
    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    /// Submits one item alone, then another whose caller wakes a third. Returns the sizes of the batches.
    async fn batch_sizes(when_alone: WhenAlone) -> Vec<usize> {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let batcher = Batcher::new(1, 8, when_alone, move |items: Vec<u8>| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(items.len());
            async move { items }
        });
        assert_eq!(batcher.submit(1).await, Some(1));
        let (woken, theirs) = (Arc::new(Notify::new()), batcher.clone());
        let wakes = Arc::clone(&woken);
        let other = tokio::spawn(async move {
            woken.notified().await;
            theirs.submit(2).await
        });
        yield_now().await;
        let mut submitted = pin!(batcher.submit(3));
        assert!(poll!(&mut submitted).is_pending(), "there is no answer yet");
        wakes.notify_one();
        assert_eq!((submitted.await, other.await.expect("the task ends")), (Some(3), Some(2)));
        sizes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_hangs_does_not_block_the_next() {
        let batcher = Batcher::new(2, 8, WhenAlone::SendNow, async |items: Vec<u8>| {
            if items.contains(&0) {
                std::future::pending::<()>().await;
            }
            items
        });
        let (first, second) = (batcher.clone(), batcher.clone());
        let stuck = tokio::spawn(async move { tokio::join!(first.submit(0), second.submit(1)) });
        yield_now().await;
        assert_eq!(tokio::time::timeout(2 * MAX_LINGER, batcher.submit(2)).await, Ok(Some(2)));
        stuck.abort();
    }

    #[tokio::test]
    async fn a_second_single_item_is_sent_at_once_or_after_a_yield() {
        assert_eq!(batch_sizes(WhenAlone::SendNow).await, [1, 1, 1]);
        assert_eq!(batch_sizes(WhenAlone::YieldFirst).await, [1, 2]);
    }
}
