//! The pure core of turnfold: events, fold, replay and strategies.
//!
//! A **thread** is a log of [`Event`]s. Everything else is derived from it:
//!
//! ```text
//!   log ──fold──▶ Thread ──ask──▶ Requests ──(the world)──▶ Responses ──learn──▶ Events ──append──▶ log
//!        (pure)       (pure)              (the worker)              (pure)           (the store)
//! ```
//!
//! **Invariant:** this crate performs no I/O and uses neither a clock nor randomness, so the same log always leads to
//! the same next step. Nothing in its dependency tree can open a socket: `tests/it/purity.rs` inspects the tree with
//! cargo and fails otherwise.

#![warn(missing_docs)]

mod budget;
mod effect;
mod elicitation;
mod event;
mod graph;
mod message;
mod progress;
mod replay;
mod request;
mod rerun;
mod strategy;
mod tool_content;
mod usage;
mod value_diff;

pub mod strategies;

pub use budget::{Budget, BudgetExceeded, Limits, Measure, Scope};
pub use effect::{
    CallTool, Chat, Describe, Effect, Extract, GetPrompt, Index, Indexed, ListPrompts, ListTools, Search,
    Simulate, UnexpectedResponse,
};
pub use elicitation::{Elicitation, InputResponse, InputResponses, InvalidAnswer};
pub use event::{
    Abandoned, Answered, Asked, AttemptFailed, Attempted, Cancelled, DEFAULT_TENANT, Decided, Event, FORMAT,
    Failed, Forked, Goto, InDoubt, InputProvided, InputRequired, Interrupt, InterruptKind, Opened,
    Reconciled, Retried, Shape, TurnKind, TurnStarted, Unreadable, Upcast, Verdict,
};
pub use graph::{DynThread, Graph, Topology, Walked, map};
pub use message::{
    Citation, Message, Prompt, PromptArgument, Reply, Role, Safety, Tool, ToolCall, ToolOutput,
};
pub use progress::{
    ATTEMPTS_MAX, INPUT_ROUNDS_MAX, InvalidLog, MessageRejected, Next, PendingRequest, Policy, Progress,
    RunStatus,
};
pub use replay::{Divergence, Field, Replayer, replay};
pub use request::{Description, Fault, FaultKind, Hit, Request, Response, Simulation, WebSearch};
pub use rerun::{Rerun, rerun, transcript};
pub use strategy::{
    Edge, Edges, Node, PartialResult, Question, Step, Strategy, Thread, Transition, TurnSoFar,
};
pub use tool_content::{Content, ResponseExtras};
pub use usage::{Usage, UsageTotal, usd};
pub use value_diff::{ValueDifference, diff_values};
