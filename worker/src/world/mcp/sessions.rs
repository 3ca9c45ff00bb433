//! A session of its own for each thread, with a server that remembers what it was told: as long as this process serves
//! the thread, and not for ever.
//!
//! ## Why the log knows of it
//!
//! Another worker may take the thread over, or the server may die, and a new session knows nothing of the old one. Each
//! answer tells its session, so that the fold notices that it is another, and the model hears of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use shared::Fault;
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::{Server, connection::Connection, flight::Flight};

/// Whom a connection to a server is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// For everybody: the server remembers nothing.
    #[default]
    Shared,
    /// For one thread.
    Thread {
        /// How many threads may have one at once.
        most: usize,
        /// After how long without a call it ends.
        idle: Duration,
    },
}

/// The sessions with one server, by thread.
#[derive(Default)]
pub(super) struct Sessions {
    kept: Arc<Mutex<BTreeMap<Uuid, Kept>>>,
    /// Told whenever a request is over.
    freed: Arc<Notify>,
}

struct Kept {
    flight: Arc<Flight<Arc<Connection>>>,
    used: Instant,
}

/// What every request under way holds, so that its session is not taken for idle.
pub(super) struct InUse {
    flight: Arc<Flight<Arc<Connection>>>,
    freed: Arc<Notify>,
}

impl InUse {
    /// Where the connection is, or will be.
    pub(super) fn connection(&self) -> &Flight<Arc<Connection>> {
        &self.flight
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Before it is told: who is told looks at once.
        drop(std::mem::take(&mut self.flight));
        self.freed.notify_waiters();
    }
}

impl Sessions {
    /// Where the connection of this thread is, or will be. If there are as many as may be, and each is in use, it waits so
    /// long for one that is not.
    ///
    /// # Errors
    ///
    /// [`Fault`] if none came free.
    pub(super) async fn of(
        &self,
        name: &str,
        thread: Uuid,
        server: &Server,
        patience: Duration,
    ) -> Result<Option<InUse>, Fault> {
        let Session::Thread { most, idle } = server.session else { return Ok(None) };
        let free = async {
            loop {
                // Made before it is looked: whoever is done meanwhile tells it.
                let freed = self.freed.notified();
                if let Some(found) = self.take(thread, most, idle) {
                    return found;
                }
                freed.await;
            }
        };
        let Ok((session, ended)) = tokio::time::timeout(patience, free).await else {
            return Err(Fault::again(format!(
                "MCP server {name} has {most} sessions, and all of them are in use: the next is begun when one ends"
            )));
        };
        end(ended.into_iter().collect()).await;
        Ok(Some(session))
    }

    /// The thread's own session, or a new one, in the place of the one that was idle longest if there are as many as may be.
    fn take(&self, thread: Uuid, most: usize, idle: Duration) -> Option<(InUse, Option<Kept>)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            tokio::spawn(sweep(Arc::downgrade(&self.kept), idle));
        }
        let mut ended = None;
        if !kept.contains_key(&thread) && most <= kept.len() {
            let longest = kept.iter().filter(|(_, it)| it.is_free()).min_by_key(|(_, it)| it.used);
            let longest = longest.map(|(thread, _)| *thread)?;
            ended = kept.remove(&longest);
        }
        let fresh = || Kept { flight: Arc::default(), used: Instant::now() };
        let it = kept.entry(thread).or_insert_with(fresh);
        it.used = Instant::now();
        Some((InUse { flight: Arc::clone(&it.flight), freed: Arc::clone(&self.freed) }, ended))
    }

    /// Ends all of them.
    pub(super) async fn close(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        end(kept.into_values().collect()).await;
    }
}

impl Kept {
    /// Whether no request is under way.
    fn is_free(&self) -> bool {
        Arc::strong_count(&self.flight) == 1
    }
}

/// Ends those that were idle for too long, until there are none left.
async fn sweep(kept: Weak<Mutex<BTreeMap<Uuid, Kept>>>, idle: Duration) {
    loop {
        tokio::time::sleep(idle / 4).await;
        let Some(kept) = kept.upgrade() else { return };
        let (ended, is_over) = {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // What is in use now, is idle from now on at the earliest.
            kept.values_mut().filter(|it| !it.is_free()).for_each(|it| it.used = Instant::now());
            let old = |it: &Kept| idle <= it.used.elapsed();
            let old: Vec<Uuid> = kept.iter().filter(|(_, it)| old(it)).map(|(thread, _)| *thread).collect();
            let ended: Vec<Kept> = old.iter().filter_map(|it| kept.remove(it)).collect();
            // Whoever begins the next one begins to sweep again.
            (ended, kept.is_empty())
        };
        end(ended).await;
        if is_over {
            return;
        }
    }
}

async fn end(sessions: Vec<Kept>) {
    let closings = sessions.into_iter().map(|it| async move {
        if let Some(connection) = it.flight.take().await {
            connection.close().await;
        }
    });
    futures::future::join_all(closings).await;
}
