//! The judge of answers: what of the world's outcomes enters the log, and what is said of a request of which nothing comes.

use super::{
    At, Progress, name,
    slot::{Slot, Stand},
};
use crate::{
    event::{Answered, Doubted, Event, Failed, Faltered, GaveUp, Wanted},
    message::{Safety, ToolOutput},
    meter::Meter,
    request::{Fault, Remedy, Request, Response},
    strategy::Strategy,
};

/// How often one request may falter before it is given up, or its node fails.
pub const FALTERS_MAX: u32 = 4;

/// How often more may be wanted for one request before it has come to nothing.
pub const ROUNDS_MAX: u32 = 10;

impl<S: Strategy> Progress<S> {
    /// What to write of what came back at `slot`: an answer if it is of use, else why not.
    ///
    /// `backoff_ms` is the pause where the world named none, or a shorter one.
    ///
    /// **Invariant:** an answer that the node could not read never enters the log as an answer, so no malformed
    /// reply can stick a thread.
    pub fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Meter>), Fault>,
        backoff_ms: u64,
    ) -> Event {
        let At::Within(place, _, slots) = &self.at else {
            let error = "nothing was asked".to_owned();
            return Faltered { slot, error, again_after_ms: None, in_doubt: false, meter: None }.into();
        };
        let (outcome, kept) = match outcome {
            Ok((Response::Whole { output, kept }, meter)) => {
                (Ok((Response::Output(output), meter)), Some(kept))
            }
            other => (other, None),
        };
        let rounds = slots.get(slot).map_or(0, |it| it.rounds);
        let fault = match outcome {
            Ok((Response::Wants { forms, state }, _)) if rounds < ROUNDS_MAX => {
                return Wanted { slot, forms, state }.into();
            }
            Ok((Response::Wants { .. }, meter)) => {
                let words =
                    format!("it came to nothing: after {rounds} rounds it still wanted more of a person");
                return Answered { slot, response: Response::Output(ToolOutput::Error(words)), meter, kept }
                    .into();
            }
            Ok((response, meter)) => match S::node(*place).check(&response) {
                Ok(()) => return Answered { slot, response, meter, kept }.into(),
                Err(refused) => {
                    // The world was there: it is asked again at once.
                    let (error, again_after_ms) = (refused.to_string(), Some(0));
                    return Faltered { slot, error, again_after_ms, in_doubt: false, meter }.into();
                }
            },
            Err(fault) => fault,
        };
        let safety = slots.get(slot).map_or(Safety::Read, |it| self.safety(&it.request));
        let again_after_ms = match fault.remedy {
            Remedy::Doubt { .. } if safety == Safety::Write => {
                return Doubted { slot, reason: fault.error }.into();
            }
            Remedy::Again { after_ms } | Remedy::Doubt { after_ms } => {
                Some(after_ms.unwrap_or_default().max(backoff_ms))
            }
            Remedy::Operator => None,
        };
        let in_doubt = matches!(fault.remedy, Remedy::Doubt { .. }) && safety != Safety::Read;
        let meter = fault.meter.map(|it| *it);
        Faltered { slot, error: fault.error, again_after_ms, in_doubt, meter }.into()
    }

    /// What must be said of a slot before anything more is performed.
    pub(super) fn verdict(&self, place: S::NodeName, nth: usize, slot: &Slot) -> Option<Event> {
        match &slot.stand {
            Stand::Attempted if self.safety(&slot.request) == Safety::Write => {
                let reason = "the worker that attempted it is gone, and the answer with it".to_owned();
                Some(Doubted { slot: nth, reason }.into())
            }
            Stand::Hopeless => Some(self.give_up(place, nth, slot)),
            Stand::Open | Stand::Attempted if FALTERS_MAX <= slot.tries => {
                Some(self.give_up(place, nth, slot))
            }
            Stand::Open | Stand::Attempted | Stand::Doubted(_) | Stand::Wanting(_) | Stand::Answered(_) => {
                None
            }
        }
    }

    /// **Invariant:** what may have happened is never told as if it had not: who asks for it again would do so under another
    /// idempotency key.
    fn give_up(&self, place: S::NodeName, nth: usize, slot: &Slot) -> Event {
        let error = slot.error.as_deref().unwrap_or("no reason was given");
        let reason = match (&slot.stand, slot.tries) {
            (Stand::Hopeless, _) | (_, 1) => error.to_owned(),
            (_, tries) => format!("{error} (tried {tries} times)"),
        };
        if slot.in_doubt {
            let reason = format!("{reason}; the answer to a try was lost");
            return Doubted { slot: nth, reason }.into();
        }
        let unavailable = Response::Unavailable { reason: reason.clone() };
        if S::node(place).check(&unavailable).is_ok() {
            return GaveUp { slot: nth, reason }.into();
        }
        Failed {
            node: name(&place),
            reason: format!("{reason}; mend it and retry the turn, or say something new"),
        }
        .into()
    }

    /// The requests that may have changed the world, and of which nobody knows, or was asked, whether they did.
    pub(crate) fn at_stake(&self) -> Vec<usize> {
        let (At::Within(_, _, slots) | At::Failed(_, _, slots, _)) = &self.at else { return Vec::new() };
        let open = |it: &Slot| it.may_have_happened() && !matches!(it.stand, Stand::Doubted(_));
        slots.iter().enumerate().filter(|(_, it)| open(it)).map(|(nth, _)| nth).collect()
    }

    /// A tool that nobody declared is taken for one that must not be repeated.
    pub(super) fn safety(&self, request: &Request) -> Safety {
        match request {
            Request::CallTool { server, call } => {
                let tools = self.thread.toolboxes.get(server).map_or(&[][..], Vec::as_slice);
                tools.iter().find(|it| it.name == call.name).map_or(Safety::Write, |it| it.safety)
            }
            // Indexing twice what is the same changes nothing, so it needs no fence.
            Request::Chat { .. }
            | Request::ListTools { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Rehearse(_) => Safety::Read,
        }
    }
}
