//! What queues up while the last batch was on its way goes together in the next: nobody waits while nothing is on its way,
//! or for long.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    time::sleep,
};

use crate::Error;

/// How many items may wait to be gathered; whoever brings one more waits with it.
const WAITING: usize = 8192;

/// How long a batch waits for company at most, while a hand is free: what is on its way may not arrive for hours, where
/// somebody else holds a lock that it needs.
const COMPANY: Duration = Duration::from_millis(50);

/// Gathers single items into batches.
///
/// **Invariant:** an item that was taken is carried through, whatever becomes of whoever brought it. So nobody who is
/// dropped half way leaves a write half done, or a transaction open on a connection that others use next.
#[derive(Debug)]
pub(crate) struct Gather<T, A>(mpsc::Sender<Item<T, A>>);

/// What becomes of an item that is brought alone, where the last one left alone too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lone {
    /// It leaves at once: the last answer has woken nobody but whoever brings it.
    Leaves,
    /// It lets others come: whoever brings it wakes them.
    Waits,
}

/// Something brought, and where its answer goes.
type Item<T, A> = (T, oneshot::Sender<A>);

impl<T, A> Clone for Gather<T, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static, A: Send + 'static> Gather<T, A> {
    /// `hands` batches at a time may be on their way, of at most `most` items each. `work` gives one answer an item,
    /// in their order.
    pub(crate) fn new<W, F>(hands: usize, most: usize, lone: Lone, work: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Vec<A>> + Send + 'static,
    {
        let (items, waiting) = mpsc::channel(WAITING);
        let gathered = Arc::new(Mutex::new(Gathered { waiting, most, lone, left: 0 }));
        let all = Arc::new(watch::Sender::new(0));
        for _ in 0..hands {
            tokio::spawn(run(Arc::clone(&gathered), Arc::clone(&all), work.clone()));
        }
        Self(items)
    }

    /// Brings an item, and waits for its answer; there is none if the process is coming to its end.
    pub(crate) async fn bring(&self, item: T) -> Option<A> {
        let (answer, answered) = oneshot::channel();
        self.0.send((item, answer)).await.ok()?;
        answered.await.ok()
    }
}

/// The answers of a batch whose work was one for all: each is told of all, and looks for its own.
pub(crate) fn told_of_all<A>(outcome: Result<A, Error>, many: usize) -> Vec<Result<Arc<A>, Error>> {
    match outcome.map(Arc::new) {
        Ok(all) => (0..many).map(|_| Ok(Arc::clone(&all))).collect(),
        Err(error) => (0..many).map(|_| Err(error.again())).collect(),
    }
}

/// What has been brought and is not on its way.
struct Gathered<T, A> {
    waiting: mpsc::Receiver<Item<T, A>>,
    most: usize,
    lone: Lone,
    /// How many left together the last time.
    left: usize,
}

impl<T, A> Gathered<T, A> {
    /// Those who have just been woken bring their items first, for as long as one of them does.
    async fn let_others_come(&mut self, batch: &mut Vec<Item<T, A>>) {
        let mut before = match self.lone {
            Lone::Leaves if self.left <= 1 => return,
            Lone::Leaves | Lone::Waits => 0,
        };
        while before < batch.len() && batch.len() < self.most {
            before = batch.len();
            tokio::task::yield_now().await;
            while batch.len() < self.most
                && let Ok(item) = self.waiting.try_recv()
            {
                batch.push(item);
            }
        }
    }

    /// The next batch; none, if nobody is left to bring anything.
    ///
    /// ## Why it may wait for company after all
    ///
    /// A batch costs something however small it is, and while another is on its way, those whom that one's answers will
    /// wake have nothing to bring. So the next leaves when it is no smaller than what is on its way, or that has arrived;
    /// after [`COMPANY`] all the same. While nothing is on its way, it leaves at once.
    async fn next(&mut self, mut on_its_way: watch::Receiver<usize>) -> Option<Vec<Item<T, A>>> {
        let mut batch = Vec::new();
        if self.waiting.recv_many(&mut batch, self.most).await == 0 {
            return None;
        }
        let late = sleep(COMPANY);
        tokio::pin!(late);
        loop {
            self.let_others_come(&mut batch).await;
            if late.is_elapsed() || batch.len() >= self.most.min(*on_its_way.borrow_and_update()) {
                self.left = batch.len();
                return Some(batch);
            }
            let nobody_brings_more = tokio::select! {
                _ = on_its_way.changed() => false,
                () = &mut late => false,
                brought = self.waiting.recv_many(&mut batch, 1) => brought == 0,
            };
            if nobody_brings_more {
                return Some(batch);
            }
        }
    }
}

/// How many items are on their way: until this is dropped, so many more.
struct OnItsWay<'a>(&'a watch::Sender<usize>, usize);

impl<'a> OnItsWay<'a> {
    fn new(all: &'a watch::Sender<usize>, many: usize) -> Self {
        all.send_modify(|it| *it += many);
        Self(all, many)
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it -= self.1);
    }
}

async fn run<T, A, W, F>(gathered: Arc<Mutex<Gathered<T, A>>>, all: Arc<watch::Sender<usize>>, work: W)
where
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Vec<A>>,
{
    loop {
        let mut waiting = gathered.lock().await;
        let Some(batch) = waiting.next(all.subscribe()).await else { return };
        let on_its_way = OnItsWay::new(&all, batch.len());
        drop(waiting);
        let (items, waiting): (Vec<T>, Vec<_>) = batch.into_iter().unzip();
        for (answer, waiting) in work(items).await.into_iter().zip(waiting) {
            // Whoever brought it may not wait any more.
            let _ = waiting.send(answer);
        }
        drop(on_its_way);
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

    /// How large the batches are if one item leaves alone, and then another is brought, whose bringer wakes somebody.
    async fn batches(lone: Lone) -> Vec<usize> {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let gather = Gather::new(1, 8, lone, move |items: Vec<u8>| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(items.len());
            async move { items }
        });
        assert_eq!(gather.bring(1).await, Some(1));
        let (woken, theirs) = (Arc::new(Notify::new()), gather.clone());
        let wakes = Arc::clone(&woken);
        let other = tokio::spawn(async move {
            woken.notified().await;
            theirs.bring(2).await
        });
        yield_now().await;
        let mut brought = pin!(gather.bring(3));
        assert!(poll!(&mut brought).is_pending(), "nobody has answered yet");
        wakes.notify_one();
        assert_eq!((brought.await, other.await.expect("it ends")), (Some(3), Some(2)));
        sizes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_arrives_keeps_nobody_else() {
        let gather = Gather::new(2, 8, Lone::Leaves, async |items: Vec<u8>| {
            if items.contains(&0) {
                std::future::pending::<()>().await;
            }
            items
        });
        let (first, second) = (gather.clone(), gather.clone());
        let stuck = tokio::spawn(async move { tokio::join!(first.bring(0), second.bring(1)) });
        yield_now().await;
        assert_eq!(tokio::time::timeout(2 * COMPANY, gather.bring(2)).await, Ok(Some(2)));
        stuck.abort();
    }

    #[tokio::test]
    async fn who_comes_alone_again_leaves_at_once_or_waits() {
        assert_eq!(batches(Lone::Leaves).await, [1, 1, 1]);
        assert_eq!(batches(Lone::Waits).await, [1, 2]);
    }
}
