//! The interface of a strategy: the two traits that a new graph implements.

mod definition;
mod edge;
mod node;
mod question;
mod server_scope;
mod thread;
mod transition;
mod turn;

pub(crate) use self::thread::own_tools;
pub use self::{
    definition::{PartialResult, ProposedCall, Strategy},
    edge::{Edge, Edges},
    node::{Node, Step, verbatim},
    question::Question,
    server_scope::ServerScope,
    thread::Thread,
    transition::Transition,
    turn::TurnSoFar,
};
