//! End of a turn whose budget is exceeded: it stops here, whatever its strategy, with a partial result.
//!
//! ## Why the engine does this and not a node
//!
//! A limit that every node must check is a limit that one node will miss. The engine checks it before every request to
//! the outside world, so a new strategy gets it without any code. The end is not part of the strategy's diagram,
//! because it can precede any node that issues requests.

use super::{
    InvalidLog, PendingRequest, Progress,
    phase::Place,
    slot::{Slot, SlotState},
};
use crate::{
    budget::{BudgetExceeded, Scope},
    event::{Abandoned, Decided, Event, Goto, InDoubt},
    message::Message,
    outcome::{Cause, Outcome, OutcomeKind},
    request::Response,
    strategy::{PartialResult, Strategy},
};

impl<S: Strategy> Progress<S> {
    /// Returns the part of the budget that is exceeded.
    pub(super) fn budget_exceeded(&self) -> Option<BudgetExceeded> {
        self.thread.budget.exceeded(&self.thread.turn.usage, &self.thread.usage)
    }

    /// Stops before `due` is carried out. A node that can continue without a response does so.
    pub(super) fn withhold(
        &self,
        place: Place<S::NodeName>,
        due: &PendingRequest,
        slot: &Slot,
        exceeded: BudgetExceeded,
    ) -> Result<Event, InvalidLog> {
        let why = self.thread.budget.describe(exceeded);
        if slot.may_have_happened() {
            // If the request were reported as not carried out, a model would make it again under another
            // idempotency key.
            let reason = match &slot.state {
                SlotState::ReadingBack(reason) => format!("{reason}; not read back: {why}"),
                SlotState::Open
                | SlotState::Attempted
                | SlotState::InDoubt(_)
                | SlotState::AwaitingInput(_)
                | SlotState::NotRetryable
                | SlotState::TooLarge
                | SlotState::Answered(_) => {
                    slot.error.as_ref().map_or(why.clone(), |error| format!("{error}; {why}"))
                }
            };
            return Ok(InDoubt::new(due.slot, reason).into());
        }
        let reason = match &slot.error {
            None => format!("not carried out: {why}"),
            Some(error) => format!("{error}; not tried again: {why}"),
        };
        let unavailable = Response::Unavailable { reason: reason.clone() };
        if self.check(place, &unavailable).is_ok() {
            return Ok(Abandoned { slot: due.slot, reason }.into());
        }
        self.stop(place.name(), exceeded)
    }

    /// Returns the decision that ends the turn.
    ///
    /// **Invariant:** the turn ends with a text, and every tool call in the conversation has a result.
    pub(super) fn stop(&self, node: String, exceeded: BudgetExceeded) -> Result<Event, InvalidLog> {
        let why = self.thread.budget.describe(exceeded);
        let PartialResult { text, facts } = S::partial(&self.thread);
        let facts = facts.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let there_is = match text.trim() {
            "" => format!("This turn has no result: {why}."),
            told => format!("The work stopped before its end: {why}.\n\nResults so far:\n{told}"),
        };
        let then = match exceeded.scope {
            Scope::Turn => "Say how to go on, and the next turn begins with a new budget.",
            Scope::Thread => "Nothing more can be done in this thread: open another one to go on.",
        };
        let mut messages = self.open_calls(&why);
        messages.push(Message::assistant(format!("{there_is}\n\n{then}")));
        let mut outcome = Outcome::default();
        outcome.add(OutcomeKind::Partial, Cause::budget(exceeded));
        Ok(Decided {
            node,
            messages,
            facts,
            reason: Some(why),
            to: Goto::End,
            budget_exceeded: Some(exceeded),
            outcome: self.outcome_with(outcome),
        }
        .into())
    }
}
