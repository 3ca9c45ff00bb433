//! What the api, the workers and the auditor agree on.
//!
//! A **thread** is a log of [`Event`]s. Everything else is derived from it:
//!
//! ```text
//!   log ──fold──▶ Thread ──ask──▶ Requests ──(the world)──▶ Responses ──learn──▶ Events ──append──▶ log
//!        (pure)       (pure)              (the worker)              (pure)           (the store)
//! ```
//!
//! **Invariant:** this crate performs no I/O, reads no clock and rolls no dice, so the same log always
//! leads to the same next step. Nothing in its dependency tree can open a socket: `tests/it/purity.rs` asks
//! cargo and fails otherwise.

mod budget;
mod content;
mod differences;
mod effect;
mod event;
mod form;
mod graph;
mod message;
mod meter;
mod progress;
mod reenact;
mod request;
mod strategy;
mod verify;

pub mod strategies;

pub use budget::{Budget, Limits, Measure, Scope, Spent};
pub use content::{Content, Kept};
pub use differences::{Differing, differences};
pub use effect::{
    CallTool, Chat, Describe, Effect, Extract, GetPrompt, Index, Indexed, ListPrompts, ListTools, Refused,
    Rehearse, Search,
};
pub use event::{
    Answered, Asked, Attempted, Cancelled, DEFAULT_TENANT, Decided, Doubted, Event, FORMAT, Failed, Faltered,
    Forked, GaveUp, Goto, Heard, Hearing, Interrupt, InterruptKind, Opened, Reconciled, Retried, Shape,
    Supplied, Unreadable, Upcast, Verdict, Wanted,
};
pub use form::{Form, Supplies, Supply, Unfit};
pub use graph::{Graph, Replay, Topology, Walked, map};
pub use message::{
    Citation, Message, Prompt, PromptArgument, Reply, Role, Safety, Tool, ToolCall, ToolOutput,
};
pub use meter::{Meter, Tally, usd};
pub use progress::{Corrupt, Due, FALTERS_MAX, Next, Policy, Progress, ROUNDS_MAX, Standing, Unheard};
pub use reenact::{Reenacted, reenact, transcript};
pub use request::{Description, Fault, Hit, Rehearsal, Remedy, Request, Response, Searching};
pub use strategy::{Edge, Edges, Node, Partial, Question, Step, Strategy, Thread, Transition, TurnSoFar};
pub use verify::{Divergence, Field, Verifier, verify};
