//! The fold: the effect of each event on a thread.

mod asked;
mod decided;
mod forked;
mod slot;
mod turn;

use super::{
    InvalidLog, Progress,
    phase::{Phase, Place, is_node},
    slot::{Slot, SlotState},
};
use crate::{
    event::{Cancelled, Event, Failed, Retried, Summarised},
    request::{Request, Response},
    strategy::Strategy,
};

impl<S: Strategy> Progress<S> {
    /// Folds one event. Returns `false` and changes nothing if the event cannot occur at this point.
    pub(super) fn fold(&mut self, event: &Event) -> Result<bool, InvalidLog> {
        match event {
            Event::Opened(opened) if self.seq == 0 => {
                self.thread.servers.clone_from(&opened.servers);
                self.configure(&opened.config)?;
                self.tenant.clone_from(&opened.tenant);
                self.thread.budget.clone_from(&opened.budget);
                self.window.open(&opened.context);
            }
            Event::TurnStarted(started) => return Ok(self.fold_turn_started(started)),
            Event::Asked(asked) => return Ok(self.fold_asked(asked)),
            Event::Decided(decided) => return self.fold_decided(decided),
            Event::Summarised(Summarised { upto }) => return Ok(self.fold_summarised(*upto)),
            Event::Failed(failed) => return Ok(self.fold_failed(failed)),
            Event::Retried(retried) => return Ok(self.fold_retried(retried)),
            Event::Cancelled(cancelled) => return Ok(self.fold_cancelled(cancelled)),
            Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_) => return Ok(self.fold_slot(event)),
            Event::InputProvided(provided) => {
                if !self.fold_slot(event) {
                    return Ok(false);
                }
                self.turn = Some(provided.turn);
                self.thread.turn.from = self.thread.messages.len();
                self.mark_turn_start();
            }
            Event::WriteEnded(ended) => return Ok(self.fold_write_ended(ended)),
            // It changes nothing: the same step is next.
            Event::TakenOver(_) => {
                return Ok(matches!(self.at, Phase::Ready(_) | Phase::AwaitingResponses(..)));
            }
            Event::Forked(forked) if 0 < self.seq => self.fold_forked(forked)?,
            // A judgement changes nothing: the same step is next.
            Event::Rated(_) if 0 < self.seq => {}
            Event::Opened(_) | Event::Forked(_) | Event::Rated(_) => return Ok(false),
        }
        Ok(true)
    }

    /// A node fails while its requests are carried out, or before they are issued: because they are too large, or because a
    /// worker stops it.
    fn fold_failed(&mut self, Failed { node, reason, worker: _ }: &Failed) -> bool {
        self.at = match &mut self.at {
            Phase::AwaitingResponses(place, asked, slots) if place.is_named(node) => {
                Phase::Failed(*place, *asked, std::mem::take(slots), reason.clone())
            }
            Phase::Ready(place) if is_node(place, node) => {
                Phase::Failed(Place::Node(*place), self.seq, Vec::new(), reason.clone())
            }
            Phase::Idle
            | Phase::AwaitingAnswer(..)
            | Phase::Ready(_)
            | Phase::AwaitingResponses(..)
            | Phase::Failed(..) => return false,
        };
        true
    }

    fn fold_retried(&mut self, retried: &Retried) -> bool {
        let Phase::Failed(place, asked, slots, _) = &mut self.at else { return false };
        self.window.retry();
        self.window.limits.forget(&retried.forgotten_models);
        slots.iter_mut().for_each(Slot::retry);
        self.at = match slots.is_empty() {
            true => Phase::Ready(place.node()),
            false => Phase::AwaitingResponses(*place, *asked, std::mem::take(slots)),
        };
        true
    }

    fn fold_cancelled(&mut self, cancelled: &Cancelled) -> bool {
        if let Phase::Idle = self.at {
            return false;
        }
        self.abandon_tasks();
        self.leave_writes();
        if cancelled.rolled_back {
            self.rewind();
        }
        self.settle("the turn was cancelled");
        if cancelled.rolled_back {
            self.name_writes();
        }
        self.window.end_node();
        self.is_cancelled = true;
        self.at = Phase::Idle;
        true
    }

    fn fold_summarised(&mut self, upto: usize) -> bool {
        let Phase::AwaitingResponses(Place::Summarise(place), _, slots) = &self.at else { return false };
        let [Slot { request: Request::Chat { context, .. }, state: SlotState::Answered(response), .. }] =
            slots.as_slice()
        else {
            return false;
        };
        let Response::Reply(reply) = response else { return false };
        if context.end != upto || self.thread.messages.len() < upto {
            return false;
        }
        self.window.summarise(upto, &reply.content);
        self.at = Phase::Ready(*place);
        true
    }

    /// Notes the tasks whose results are not needed any more.
    fn abandon_tasks(&mut self) {
        let (Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _)) = &self.at else {
            return;
        };
        self.abandoned_tasks.extend(slots.iter().filter_map(Slot::open_task));
    }
}
