//! Thread as its log folds to, with the position of its control.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{
    InvalidLog,
    offers::Offers,
    phase::Phase,
    rollback::TurnStart,
    slot::{OpenTask, Slot},
    stop::Writes,
    unended::Unended,
    window::Window,
};
use crate::{
    event::Event,
    node_config::EngineConfig,
    strategy::{Strategy, Thread},
    toolboxes::Toolboxes,
};

/// A thread together with the current position of its control.
pub struct Progress<S: Strategy> {
    pub(crate) thread: Thread<S>,
    /// Tenant that owns the thread.
    pub(crate) tenant: String,
    pub(super) turn: Option<Uuid>,
    /// Session that each server kept for the thread at its last call.
    pub(super) sessions: BTreeMap<String, String>,
    /// Configuration that belongs to the engine: that of the nodes, and the usable servers.
    pub(crate) engine: EngineConfig,
    /// Limits, sizes and the summary by which requests are made to fit.
    pub(super) window: Window,
    /// Hashes of what servers and the client offer.
    pub(super) offers: Offers,
    /// Tasks whose results are not needed any more, since the last requests.
    pub(super) abandoned_tasks: Vec<OpenTask>,
    /// Servers that carried out a write since the approval with which the turn began; `None` if it began otherwise.
    pub(super) written_since_approval: Option<BTreeSet<String>>,
    /// Calls of the current request that may have changed something.
    pub(super) writes: Writes,
    /// Calls of cancelled turns of which no end is known.
    pub(super) unended: Unended,
    /// True if the last turn was cancelled.
    pub(super) is_cancelled: bool,
    /// Toolboxes of the client.
    pub(super) toolboxes: Toolboxes,
    /// The thread as it was when the turn began; `None` before the first one.
    pub(super) turn_start: Option<Box<TurnStart<S::State>>>,
    pub(super) seq: usize,
    pub(super) at: Phase<S::NodeName>,
}

impl<S: Strategy> Clone for Progress<S> {
    fn clone(&self) -> Self {
        Self {
            thread: self.thread.clone(),
            tenant: self.tenant.clone(),
            turn: self.turn,
            sessions: self.sessions.clone(),
            engine: self.engine.clone(),
            window: self.window.clone(),
            offers: self.offers.clone(),
            seq: self.seq,
            at: self.at.clone(),
            abandoned_tasks: self.abandoned_tasks.clone(),
            written_since_approval: self.written_since_approval.clone(),
            writes: self.writes.clone(),
            unended: self.unended.clone(),
            is_cancelled: self.is_cancelled,
            toolboxes: self.toolboxes.clone(),
            turn_start: self.turn_start.clone(),
        }
    }
}

impl<S: Strategy> Progress<S> {
    /// Creates a thread with an empty log.
    pub fn new() -> Self {
        Self {
            thread: Thread::default(),
            tenant: String::new(),
            turn: None,
            sessions: BTreeMap::new(),
            engine: EngineConfig::default(),
            window: Window::default(),
            offers: Offers::default(),
            abandoned_tasks: Vec::new(),
            written_since_approval: None,
            writes: Writes::new(),
            unended: Unended::new(),
            is_cancelled: false,
            toolboxes: Toolboxes::default(),
            turn_start: None,
            seq: 0,
            at: Phase::Idle,
        }
    }

    /// Returns the number of folded events, which is the number of the next one.
    pub fn seq(&self) -> usize {
        self.seq
    }

    /// Returns the tasks of servers whose results are not needed any more. Their servers have not been told yet, or only by a
    /// worker that did not continue.
    pub fn abandoned_tasks(&self) -> &[OpenTask] {
        &self.abandoned_tasks
    }

    /// Returns true if the next write of `server` is its first one after a person's approval. The server's list is read again
    /// before it.
    pub fn is_first_approved_write(&self, server: &str) -> bool {
        self.written_since_approval.as_ref().is_some_and(|written| !written.contains(server))
    }

    /// Returns true if the thread does nothing but read requests in doubt back.
    pub fn is_only_reading_back(&self) -> bool {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return false };
        let mut moving = slots.iter().filter(|slot| slot.can_move()).peekable();
        moving.peek().is_some() && moving.all(Slot::is_reading_back)
    }

    /// Returns true if the thread is idle, and its last turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Returns the current turn, or the last one.
    pub fn turn(&self) -> Option<Uuid> {
        self.turn
    }

    /// Folds one event into the thread.
    ///
    /// # Errors
    ///
    /// [`InvalidLog::UnexpectedEvent`] if the event cannot occur at this point. The thread is unchanged then.
    pub fn apply(&mut self, event: &Event) -> Result<(), InvalidLog> {
        if !self.fold(event)? {
            return Err(InvalidLog::UnexpectedEvent { seq: self.seq, event: Box::new(event.clone()) });
        }
        self.seq += 1;
        Ok(())
    }

    /// Returns the toolboxes of the client so far.
    pub(crate) fn toolboxes(&self) -> &Toolboxes {
        &self.toolboxes
    }

    /// Returns the models whose limits were learned before an operator asked to forget them, by the RFC 3339 time of that.
    pub fn models_to_forget(&self, forgotten: &BTreeMap<String, String>) -> Vec<String> {
        self.window.limits.learned_before(forgotten)
    }
}

impl<S: Strategy> Default for Progress<S> {
    fn default() -> Self {
        Self::new()
    }
}
