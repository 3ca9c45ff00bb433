//! What goes over the wire, as types: the document is made of them.

mod compare;
mod event;
mod failure;
mod inbox;
mod message;
mod pause;
mod strategy;
mod thread;
mod took;
mod turn;
mod wait;

pub(crate) use compare::{DiffView, WhyView};
pub(crate) use event::EventLine;
pub(crate) use failure::{FailurePage, FailureView};
pub(crate) use inbox::{AskedKind, HumanInterrupt, InboxAnswer, InboxItem, Way, Ways};
pub(crate) use message::{Interrupt, Message};
pub(crate) use pause::{NewPause, PausePage, PauseView};
pub(crate) use strategy::{StrategyLine, StrategyPage, StrategyView};
pub(crate) use thread::{
    Answer, ChainView, Fork, Origin, Reconcile, StandingName, StateView, ThreadLine, ThreadStatus,
    ThreadView, Verdict, Verification,
};
pub(crate) use took::{Spent, Took};
pub(crate) use turn::{NewTurn, Output, Priority, Turn, TurnStatus, Words};
pub(crate) use wait::{WaitCause, WaitGroup, WaitLine, WaitPage};
