//! Sessions: one connection per thread, for servers that keep state. A session lasts while this process serves the
//! thread, up to an idle timeout.
//!
//! ## Why the log knows of sessions
//!
//! Another worker may take the thread over, or the server may die, and a new session knows nothing of the old one. Each
//! answer records its session, so the fold notices a change and the model is informed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use shared::Fault;
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::{Server, connection::Connection, single_flight::SingleFlight};

/// Scope of a connection to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// One connection for all threads: the server keeps no state.
    #[default]
    Shared,
    /// One connection per thread.
    Thread {
        /// Maximum concurrent sessions.
        max_sessions: usize,
        /// Idle time after which a session ends.
        idle_timeout: Duration,
    },
}

/// Sessions with one server, by thread.
#[derive(Default)]
pub(super) struct Sessions {
    sessions: Arc<Mutex<BTreeMap<Uuid, Entry>>>,
    /// Notified whenever a request ends.
    freed: Arc<Notify>,
}

struct Entry {
    connection: Arc<SingleFlight<Arc<Connection>>>,
    used: Instant,
}

/// Held by every request in flight, so that its session does not count as idle.
pub(super) struct InUse {
    connection: Arc<SingleFlight<Arc<Connection>>>,
    freed: Arc<Notify>,
}

impl InUse {
    /// The connection of the session, opened on first use.
    pub(super) fn connection(&self) -> &SingleFlight<Arc<Connection>> {
        &self.connection
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Dropped before the notification, because waiters check at once.
        drop(std::mem::take(&mut self.connection));
        self.freed.notify_waiters();
    }
}

impl Sessions {
    /// Returns the session of a thread; `None` for a shared connection. If the maximum is reached and all sessions are
    /// in use, waits up to `timeout` for one to become idle.
    ///
    /// # Errors
    ///
    /// [`Fault`] if none became idle.
    pub(super) async fn get(
        &self,
        name: &str,
        thread: Uuid,
        server: &Server,
        timeout: Duration,
    ) -> Result<Option<InUse>, Fault> {
        let Session::Thread { max_sessions, idle_timeout } = server.session else { return Ok(None) };
        let free = async {
            loop {
                // Registered before the check, so that no notification is missed.
                let freed = self.freed.notified();
                if let Some(found) = self.acquire(thread, max_sessions, idle_timeout) {
                    return found;
                }
                freed.await;
            }
        };
        let Ok((session, ended)) = tokio::time::timeout(timeout, free).await else {
            return Err(Fault::transient(format!(
                "all {max_sessions} sessions with MCP server {name} are in use"
            )));
        };
        close_all(ended.into_iter().collect()).await;
        Ok(Some(session))
    }

    /// Returns the thread's session, or a new one that replaces the longest-idle session if the maximum is reached.
    fn acquire(
        &self,
        thread: Uuid,
        max_sessions: usize,
        idle_timeout: Duration,
    ) -> Option<(InUse, Option<Entry>)> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.is_empty() {
            tokio::spawn(end_idle_sessions(Arc::downgrade(&self.sessions), idle_timeout));
        }
        let mut ended = None;
        if !sessions.contains_key(&thread) && max_sessions <= sessions.len() {
            let longest =
                sessions.iter().filter(|(_, entry)| entry.is_idle()).min_by_key(|(_, entry)| entry.used);
            let longest = longest.map(|(thread, _)| *thread)?;
            ended = sessions.remove(&longest);
        }
        let fresh = || Entry { connection: Arc::default(), used: Instant::now() };
        let entry = sessions.entry(thread).or_insert_with(fresh);
        entry.used = Instant::now();
        Some((InUse { connection: Arc::clone(&entry.connection), freed: Arc::clone(&self.freed) }, ended))
    }

    /// Ends all sessions.
    pub(super) async fn close(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        close_all(sessions.into_values().collect()).await;
    }
}

impl Entry {
    /// Returns true if no request is in flight, and the server works on no task of the thread.
    fn is_idle(&self) -> bool {
        let has_tasks = || matches!(self.connection.peek(), Some(Ok(connection)) if connection.has_tasks());
        Arc::strong_count(&self.connection) == 1 && !has_tasks()
    }
}

/// Ends idle sessions until none is left.
async fn end_idle_sessions(sessions: Weak<Mutex<BTreeMap<Uuid, Entry>>>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep(idle_timeout / 4).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let (ended, is_empty) = {
            let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
            // A session in use is idle from now on at the earliest.
            sessions
                .values_mut()
                .filter(|entry| !entry.is_idle())
                .for_each(|entry| entry.used = Instant::now());
            let old = |entry: &Entry| idle_timeout <= entry.used.elapsed();
            let old: Vec<Uuid> =
                sessions.iter().filter(|(_, entry)| old(entry)).map(|(thread, _)| *thread).collect();
            let ended: Vec<Entry> = old.iter().filter_map(|thread| sessions.remove(thread)).collect();
            // Opening the next session starts this task again.
            (ended, sessions.is_empty())
        };
        close_all(ended).await;
        if is_empty {
            return;
        }
    }
}

async fn close_all(sessions: Vec<Entry>) {
    let closings = sessions.into_iter().map(|entry| async move {
        if let Some(connection) = entry.connection.take().await {
            connection.close().await;
        }
    });
    futures::future::join_all(closings).await;
}
