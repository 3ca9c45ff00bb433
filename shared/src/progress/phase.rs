//! Position of control in a thread: its node, and the state of the node's requests.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::slot::Slot;
use crate::event::{Decided, Interrupt};

/// Name of the engine's node that summarises messages. No node of a strategy has a name with this prefix.
pub const SUMMARISE_NODE: &str = "engine.summarise";

/// Position of control.
#[derive(Clone)]
pub(super) enum Phase<P> {
    /// A person may send a new request.
    Idle,
    /// A question waits for the person's answer.
    AwaitingAnswer(Interrupt, P),
    /// The node's requests are about to be recorded.
    Ready(P),
    /// The event of this number recorded the requests, and their answers are arriving.
    AwaitingResponses(Place<P>, usize, Vec<Slot>),
    /// The node failed and waits for an operator. Without requests, it failed before it could issue any.
    Failed(Place<P>, usize, Vec<Slot>, String),
}

impl<P: Serialize + DeserializeOwned> Phase<P> {
    /// Returns true if this decision may be recorded now. A decision for an exceeded budget needs no answers.
    pub(super) fn may_decide(&self, decided: &Decided) -> bool {
        match self {
            Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Failed(..) => false,
            Phase::Ready(place) => is_node(place, &decided.node),
            Phase::AwaitingResponses(place, _, slots) => {
                let answered = || slots.iter().all(|slot| slot.answer().is_some());
                place.is_named(&decided.node) && (decided.budget_exceeded.is_some() || answered())
            }
        }
    }
}

/// Issuer of requests.
#[derive(Clone, Copy)]
pub(super) enum Place<P> {
    /// A node of the strategy.
    Node(P),
    /// The engine, which summarises messages to make room for the requests of this node.
    Summarise(P),
}

impl<P: Serialize + DeserializeOwned> Place<P> {
    /// Returns true if this name stands for the issuer: its name now, or an earlier one.
    pub(super) fn is_named(&self, wanted: &str) -> bool {
        match self {
            Self::Node(node) => is_node(node, wanted),
            Self::Summarise(_) => wanted == SUMMARISE_NODE,
        }
    }

    /// Returns the node, or the node that follows.
    pub(super) fn node(self) -> P {
        let (Self::Node(node) | Self::Summarise(node)) = self;
        node
    }

    /// Returns the name as written in the log.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Node(node) => name(node),
            Self::Summarise(_) => SUMMARISE_NODE.to_owned(),
        }
    }
}

/// Returns true if this name stands for the node: the name that it has now, or an earlier one that serde still reads.
pub(super) fn is_node<P: Serialize + DeserializeOwned>(place: &P, wanted: &str) -> bool {
    let now = name(place);
    now == wanted || read::<P>(&Value::from(wanted)).is_ok_and(|place| name(&place) == now)
}

/// Returns a node's name as written in the log.
pub(crate) fn name<P: Serialize>(place: &P) -> String {
    match serde_json::to_value(place) {
        Ok(Value::String(name)) => name,
        other => unreachable!("a node serializes to its name, not to {other:?}"),
    }
}

pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}
