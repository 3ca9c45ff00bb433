//! What queues up while the last batch was on its way goes together in the next: no timer, and nothing waits for
//! company.

use tokio::sync::{Mutex, mpsc, oneshot};

use std::sync::Arc;

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
        let (items, gathered) = mpsc::channel(WAITING);
        let gathered = Arc::new(Mutex::new(gathered));
        for _ in 0..hands {
            tokio::spawn(run(Arc::clone(&gathered), most, work.clone()));
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

async fn run<T, A, W, F>(gathered: Arc<Mutex<mpsc::Receiver<Item<T, A>>>>, most: usize, work: W)
where
    W: Fn(Vec<T>) -> F,
    F: Future<Output = Vec<A>>,
{
    let mut batch = Vec::new();
    loop {
        if gathered.lock().await.recv_many(&mut batch, most).await == 0 {
            return;
        }
        let (items, waiting): (Vec<T>, Vec<_>) = batch.drain(..).unzip();
        for (answer, waiting) in work(items).await.into_iter().zip(waiting) {
            // Whoever brought it may not wait any more.
            let _ = waiting.send(answer);
        }
    }
}
