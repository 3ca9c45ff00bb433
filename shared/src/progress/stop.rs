//! A budget is spent: the turn ends here, whatever its strategy, with what there is.
//!
//! ## Why the engine does it and no node
//!
//! A limit that every node must look at is one that some node forgets. Here it stands before all that is put to the
//! world, so a new strategy has it for nothing. The end is not on the strategy's map: it can come before any node that
//! wants something of the world.

use super::{Corrupt, Due, Progress, name, slot::Slot};
use crate::{
    budget::{Scope, Spent},
    event::{Decided, Doubted, Event, GaveUp, Goto},
    message::Message,
    request::Response,
    strategy::{Partial, Strategy},
};

impl<S: Strategy> Progress<S> {
    /// What of the budget is spent.
    pub(super) fn spent(&self) -> Option<Spent> {
        self.thread.budget.spent(&self.thread.turn.took, &self.thread.took)
    }

    /// Instead of putting `due` to the world: a node that can do without goes on with what it has.
    pub(super) fn withhold(
        &self,
        place: S::NodeName,
        due: &Due,
        slot: &Slot,
        spent: Spent,
    ) -> Result<Event, Corrupt> {
        let why = self.thread.budget.told(spent);
        if slot.may_have_happened() {
            // Told as not done, it would be done again under another idempotency key.
            let reason = slot.error.as_ref().map_or(why.clone(), |error| format!("{error}; {why}"));
            return Ok(Doubted { slot: due.slot, reason }.into());
        }
        let reason = match &slot.error {
            None => format!("not carried out: {why}"),
            Some(error) => format!("{error}; not tried again: {why}"),
        };
        let unavailable = Response::Unavailable { reason: reason.clone() };
        if S::node(place).check(&unavailable).is_ok() {
            return Ok(GaveUp { slot: due.slot, reason }.into());
        }
        self.stop(place, spent)
    }

    /// The end of the turn.
    ///
    /// **Invariant:** it ends in words, and every tool call that was said has its result.
    pub(super) fn stop(&self, place: S::NodeName, spent: Spent) -> Result<Event, Corrupt> {
        let why = self.thread.budget.told(spent);
        let Partial { so_far, learned } = S::partial(&self.thread);
        let learned = learned.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let there_is = match so_far.trim() {
            "" => format!("Nothing came of this turn: {why}."),
            told => format!("The work stopped before its end: {why}.\n\nWhat came of it so far:\n{told}"),
        };
        let then = match spent.of {
            Scope::Turn => "Say how to go on, and the next turn begins with a new budget.",
            Scope::Thread => "Nothing more can be done in this thread: open another one to go on.",
        };
        let mut said = self.open_calls(&why);
        said.push(Message::assistant(format!("{there_is}\n\n{then}")));
        Ok(Decided { node: name(&place), said, learned, why: Some(why), to: Goto::End, spent: Some(spent) }
            .into())
    }
}
