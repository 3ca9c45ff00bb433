//! One request of a node, and how far it has come.

use crate::{
    event::{Event, Verdict},
    message::ToolOutput,
    request::{Request, Response},
};

#[derive(Clone)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) falters: u32,
    pub(super) tries: u32,
    pub(super) error: Option<String>,
    pub(super) stand: Stand,
}

#[derive(Clone, PartialEq)]
pub(super) enum Stand {
    Open,
    Attempted,
    Doubted(String),
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

    pub(super) fn answer(&self) -> Option<Response> {
        match &self.stand {
            Stand::Answered(response) => Some(response.clone()),
            Stand::Open | Stand::Attempted | Stand::Doubted(_) | Stand::Hopeless => None,
        }
    }

    /// Where this event leaves the slot; nowhere if it cannot happen here.
    pub(super) fn after(&mut self, event: &Event) -> Option<Stand> {
        match (event, &self.stand) {
            (Event::Attempted(_), Stand::Open | Stand::Attempted) => Some(Stand::Attempted),
            (Event::Answered(it), Stand::Open | Stand::Attempted) => {
                Some(Stand::Answered(it.response.clone()))
            }
            (Event::Faltered(it), Stand::Open | Stand::Attempted) => {
                self.falters += 1;
                self.tries += 1;
                self.error = Some(it.error.clone());
                Some(if it.again_after_ms.is_some() { Stand::Open } else { Stand::Hopeless })
            }
            (Event::GaveUp(it), Stand::Open | Stand::Attempted | Stand::Hopeless) => {
                Some(Stand::Answered(Response::Unavailable { reason: it.reason.clone() }))
            }
            (Event::Doubted(it), Stand::Attempted) => Some(Stand::Doubted(it.reason.clone())),
            (Event::Reconciled(it), Stand::Doubted(_)) => Some(match &it.verdict {
                Verdict::Happened { result } => {
                    Stand::Answered(Response::Output(ToolOutput::Ok(result.clone())))
                }
                Verdict::DidNot => Stand::Open,
                Verdict::Skip => {
                    Stand::Answered(Response::Output(ToolOutput::Error(super::SKIPPED.to_owned())))
                }
            }),
            _ => None,
        }
    }
}
