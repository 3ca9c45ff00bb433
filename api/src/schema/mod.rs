//! What goes over the wire, as types: the document is made of them.

mod event;
mod message;
mod strategy;
mod thread;
mod turn;

pub(crate) use event::EventLine;
pub(crate) use message::{Interrupt, Message};
pub(crate) use strategy::{StrategyLine, StrategyPage, StrategyView};
pub(crate) use thread::{
    Answer, ChainView, Reconcile, StandingName, StateView, ThreadLine, ThreadStatus, ThreadView, Verification,
};
pub(crate) use turn::{NewTurn, Output, Turn, TurnStatus, Words};
