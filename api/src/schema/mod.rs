//! What goes over the wire, as types: the document is made of them.

mod event;
mod inbox;
mod message;
mod strategy;
mod thread;
mod took;
mod turn;

pub(crate) use event::EventLine;
pub(crate) use inbox::{AskedKind, HumanInterrupt, InboxAnswer, InboxItem, Way, Ways};
pub(crate) use message::{Interrupt, Message};
pub(crate) use strategy::{StrategyLine, StrategyPage, StrategyView};
pub(crate) use thread::{
    Answer, ChainView, Reconcile, StandingName, StateView, ThreadLine, ThreadStatus, ThreadView, Verdict,
    Verification,
};
pub(crate) use took::{Spent, Took};
pub(crate) use turn::{NewTurn, Output, Priority, Turn, TurnStatus, Words};
