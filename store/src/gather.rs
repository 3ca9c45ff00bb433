//! What queues up while the last batch was on its way goes together in the next: no timer, and nobody waits while nothing
//! is on its way.

use tokio::sync::{Mutex, mpsc, oneshot, watch};

use std::sync::Arc;

use crate::Error;

/// How many items may wait to be gathered; whoever brings one more waits with it.
const WAITING: usize = 8192;

/// Gathers single items into batches.
///
/// **Invariant:** an item that was taken is carried through, whatever becomes of whoever brought it. So nobody who is
/// dropped half way leaves a write half done, or a transaction open on a connection that others use next.
#[derive(Debug)]
pub(crate) struct Gather<T, A>(mpsc::Sender<Item<T, A>>);

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
    pub(crate) fn new<W, F>(hands: usize, most: usize, work: W) -> Self
    where
        W: Fn(Vec<T>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Vec<A>> + Send + 'static,
    {
        let (items, waiting) = mpsc::channel(WAITING);
        let gathered = Arc::new(Mutex::new(Gathered { waiting, most, left: 0 }));
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
    /// How many left together the last time.
    left: usize,
}

impl<T, A> Gathered<T, A> {
    /// Those whom the last answers have just woken bring their next items first, for as long as one of them does.
    ///
    /// Where one left alone the last time, its answer has woken nobody else, and there is nobody to wait for.
    async fn let_others_come(&mut self, batch: &mut Vec<Item<T, A>>) {
        let mut before = if self.left > 1 { 0 } else { batch.len() };
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
    /// wake have nothing to bring. So the next leaves when it is no smaller than what is on its way, or that has arrived.
    /// While nothing is on its way, it leaves at once.
    async fn next(&mut self, mut on_its_way: watch::Receiver<usize>) -> Option<Vec<Item<T, A>>> {
        let mut batch = Vec::new();
        if self.waiting.recv_many(&mut batch, self.most).await == 0 {
            return None;
        }
        loop {
            self.let_others_come(&mut batch).await;
            if batch.len() >= self.most.min(*on_its_way.borrow_and_update()) {
                self.left = batch.len();
                return Some(batch);
            }
            let nobody_brings_more = tokio::select! {
                _ = on_its_way.changed() => false,
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
