//! One request of a node, and how far it has come.

use std::collections::BTreeMap;

use crate::{
    event::{Event, Verdict},
    form::{Form, Supplies},
    message::ToolOutput,
    request::{Request, Response},
};

#[derive(Clone)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) falters: u32,
    pub(super) tries: u32,
    pub(super) error: Option<String>,
    /// How often more was wanted.
    pub(super) rounds: u32,
    /// What goes along with the next attempt.
    pub(super) supplies: Option<Supplies>,
    /// An attempt has lost its answer, so it may have happened, whatever became of the next ones.
    pub(super) in_doubt: bool,
    pub(super) stand: Stand,
}

#[derive(Clone, PartialEq)]
pub(super) enum Stand {
    Open,
    Attempted,
    Doubted(String),
    /// This is still to be supplied.
    Wanting(BTreeMap<String, Form>),
    Hopeless,
    Answered(Response),
}

impl Slot {
    pub(super) fn retry(&mut self) {
        self.tries = 0;
        if self.stand == Stand::Hopeless {
            self.stand = Stand::Open;
        }
    }

    /// Whether anything has become of it since it was asked, but that it faltered.
    pub(super) fn is_begun(&self) -> bool {
        match &self.stand {
            Stand::Open | Stand::Hopeless => 0 < self.rounds || self.in_doubt,
            Stand::Attempted | Stand::Doubted(_) | Stand::Wanting(_) | Stand::Answered(_) => true,
        }
    }

    /// Whether it may have changed the world, and nobody knows.
    pub(super) fn may_have_happened(&self) -> bool {
        match &self.stand {
            Stand::Attempted | Stand::Doubted(_) => true,
            Stand::Open | Stand::Wanting(_) | Stand::Hopeless => self.in_doubt,
            Stand::Answered(_) => false,
        }
    }

    /// Whether something can be done about it without a person.
    pub(super) fn can_move(&self) -> bool {
        match &self.stand {
            Stand::Open | Stand::Attempted | Stand::Hopeless => true,
            Stand::Doubted(_) | Stand::Wanting(_) | Stand::Answered(_) => false,
        }
    }

    pub(super) fn answer(&self) -> Option<Response> {
        match &self.stand {
            Stand::Answered(response) => Some(response.clone()),
            Stand::Open | Stand::Attempted | Stand::Doubted(_) | Stand::Wanting(_) | Stand::Hopeless => None,
        }
    }

    /// Where this event leaves the slot; nowhere if it cannot happen here.
    pub(super) fn after(&mut self, event: &Event) -> Option<Stand> {
        match (event, &self.stand) {
            (Event::Attempted(_), Stand::Open) => Some(Stand::Attempted),
            (Event::Attempted(_), Stand::Attempted) => {
                self.in_doubt = true;
                Some(Stand::Attempted)
            }
            (Event::Answered(it), Stand::Open | Stand::Attempted) => {
                Some(Stand::Answered(it.response.clone()))
            }
            (Event::Faltered(it), Stand::Open | Stand::Attempted) => {
                self.falters += 1;
                self.tries += 1;
                self.in_doubt |= it.in_doubt;
                self.error = Some(it.error.clone());
                Some(if it.again_after_ms.is_some() { Stand::Open } else { Stand::Hopeless })
            }
            (Event::GaveUp(it), Stand::Open | Stand::Attempted | Stand::Hopeless) => {
                Some(Stand::Answered(Response::Unavailable { reason: it.reason.clone() }))
            }
            (Event::Wanted(it), Stand::Open | Stand::Attempted) => {
                self.rounds += 1;
                self.tries = 0;
                self.supplies = Some(Supplies { state: it.state.clone(), answers: BTreeMap::new() });
                Some(wanting(it.forms.clone()))
            }
            (Event::Supplied(it), Stand::Wanting(forms)) => {
                let mut left = forms.clone();
                left.remove(&it.form)?;
                let supplies = self.supplies.get_or_insert_default();
                supplies.answers.insert(it.form.clone(), it.answer.clone());
                Some(wanting(left))
            }
            (Event::Doubted(it), Stand::Open | Stand::Attempted | Stand::Hopeless)
                if self.may_have_happened() =>
            {
                Some(Stand::Doubted(it.reason.clone()))
            }
            (Event::Reconciled(it), Stand::Doubted(_)) => Some(match &it.verdict {
                Verdict::Happened { result } => {
                    Stand::Answered(Response::Output(ToolOutput::Ok(result.clone())))
                }
                Verdict::DidNot => {
                    (self.in_doubt, self.tries) = (false, 0);
                    Stand::Open
                }
                Verdict::Skip => {
                    Stand::Answered(Response::Output(ToolOutput::Error(super::SKIPPED.to_owned())))
                }
            }),
            _ => None,
        }
    }
}

/// Where a slot stands for which this is still to be supplied.
fn wanting(forms: BTreeMap<String, Form>) -> Stand {
    if forms.is_empty() { Stand::Open } else { Stand::Wanting(forms) }
}
