//! A thread folded up to an event of its log.

use std::collections::BTreeSet;

use api_types::Interrupt;
use shared::{Asked, CallerId, DynThread, Event, Forked, Graph, Request, RunStatus, TurnKind};
use store::Recorded;
use threads::{Course, TurnResult};

use crate::server::problem::{ApiError, Kind};

/// A thread folded up to an event of its log.
#[derive(Clone)]
pub(crate) struct Folded {
    pub(crate) thread: Box<dyn DynThread>,
    /// Slots of the requests that are in doubt.
    pub(crate) in_doubt: BTreeSet<usize>,
    /// Origin of a forked thread.
    pub(crate) forked: Option<Forked>,
    /// Requests of the node that asked last.
    pub(crate) asked: Option<Asked>,
    /// Caller who submitted the last new request, as its key proves it.
    pub(crate) submitter: Option<CallerId>,
    /// Last event of the fold. `None` before the first.
    last: Option<Recorded>,
}

impl Folded {
    /// Begins a fold.
    pub(super) fn new(graph: &dyn Graph) -> Self {
        Self {
            thread: graph.begin(),
            in_doubt: BTreeSet::new(),
            forked: None,
            asked: None,
            submitter: None,
            last: None,
        }
    }

    /// Creates a fold that seems to end at event `seq`.
    #[cfg(test)]
    pub(super) fn at(seq: u64) -> std::sync::Arc<Self> {
        let event =
            Event::Cancelled(shared::Cancelled { actor: String::new(), caller: None, rolled_back: false });
        std::sync::Arc::new(Self {
            last: Some(Recorded { seq, at: 0, event }),
            ..Self::new(&strategies::probe::Probe)
        })
    }

    /// Returns the number of the last event of the fold.
    pub(crate) fn seq(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.seq)
    }

    /// Returns the last event of the fold.
    pub(crate) fn last(&self) -> Option<&Recorded> {
        self.last.as_ref()
    }

    /// Estimates the size in memory in bytes: that of the conversation and of the state of the strategy.
    ///
    /// The events themselves would be a poor estimate: most of their facts only change a number in the state.
    pub(super) fn bytes(&self) -> usize {
        let messages = self.thread.messages().iter().map(shared::Message::retained_bytes).sum::<usize>();
        messages + self.thread.state().map_or(0, |state| state.to_string().len())
    }

    /// Reports whether the fold ends with a cancelled turn.
    pub(crate) fn ends_cancelled(&self) -> bool {
        self.thread.is_cancelled()
    }

    /// Returns a request of the node that asked last.
    pub(crate) fn request(&self, slot: usize) -> Option<&Request> {
        self.asked.as_ref()?.requests.get(slot)
    }

    /// Folds the next event.
    pub(super) fn apply(&mut self, recorded: Recorded) -> Result<(), ApiError> {
        self.thread.apply(&recorded.event).map_err(|err| invalid_log(&err))?;
        update_in_doubt(&mut self.in_doubt, &recorded.event);
        if let Event::Asked(asked) = &recorded.event {
            self.asked = Some(asked.clone());
        }
        if let Event::TurnStarted(started) = &recorded.event
            && started.kind == TurnKind::New
        {
            self.submitter = started.caller.clone();
        }
        if let Event::Forked(forked) = &recorded.event {
            self.forked = Some(forked.clone());
        }
        self.last = Some(recorded);
        Ok(())
    }

    /// Returns the result of a turn that ended with the last event. `first_message` is the turn's first message.
    pub(super) fn result(&self, first_message: usize, course: Course) -> EndedTurn {
        let last = self.last.as_ref().map(|last| &last.event);
        let result = TurnResult::of(&*self.thread, first_message, last, course);
        EndedTurn { result, interrupt: interrupt(&*self.thread, &self.in_doubt) }
    }
}

/// A turn that is over, as its log says.
#[derive(Clone)]
pub(crate) struct EndedTurn {
    pub(crate) result: TurnResult,
    /// Question that it left open.
    pub(crate) interrupt: Option<Interrupt>,
}

/// Returns the open question of a thread.
pub(crate) fn interrupt(thread: &dyn DynThread, in_doubt: &BTreeSet<usize>) -> Option<Interrupt> {
    match thread.status() {
        RunStatus::Waiting(interrupt) => {
            Some(Interrupt::new(&interrupt, thread.proposed_calls(), in_doubt.first().copied()))
        }
        RunStatus::Idle | RunStatus::Busy | RunStatus::Failed { .. } => None,
    }
}

/// Applies an event to the set of requests in doubt.
fn update_in_doubt(slots: &mut BTreeSet<usize>, event: &Event) {
    match event {
        Event::InDoubt(in_doubt) => drop(slots.insert(in_doubt.slot)),
        Event::Reconciled(reconciled) => drop(slots.remove(&reconciled.slot)),
        // Late outcomes.
        Event::TaskStarted(started) => drop(slots.remove(&started.slot)),
        Event::Answered(answered) => drop(slots.remove(&answered.slot)),
        Event::AttemptFailed(failed) if failed.read_back => (),
        Event::AttemptFailed(failed) => drop(slots.remove(&failed.slot)),
        Event::Asked(_) | Event::Decided(_) | Event::Cancelled(_) | Event::TurnStarted(_) => slots.clear(),
        Event::Opened(_)
        | Event::Attempted(_)
        | Event::Abandoned(_)
        | Event::InputRequired(_)
        | Event::InputProvided(_)
        | Event::Summarised(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::WriteEnded(_)
        | Event::Forked(_)
        | Event::TakenOver(_)
        | Event::Rated(_) => (),
    }
}

/// Creates the error for a log that cannot be folded.
pub(crate) fn invalid_log(error: &shared::InvalidLog) -> ApiError {
    tracing::error!(%error, "cannot fold a log");
    Kind::Damaged
        .because(format!("the log cannot be folded: {error}"))
        .hint("run `turnfold thread verify` to check the log")
}
