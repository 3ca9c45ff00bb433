//! The time of a turn, by what it was spent on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

shared::status! {
    /// Use of a part of the time of a turn.
    #[derive(ToSchema)]
    TimeKind {
        /// It waited for a worker with a free slot.
        Slot = "slot",
        /// It waited for a rate limit, a pause, or a provider or server that refused requests or failed.
        Limit = "limit",
        /// It waited for a person: an answer to the elicitation of a tool or about a call in doubt, or a retry.
        Person = "person",
        /// A model worked on it.
        Model = "model",
        /// A tool or the index worked on it.
        Tool = "tool",
        /// The engine worked on it.
        Engine = "engine",
        /// No worker was alive that ran it: one had died or stalled, and no other had taken it over.
        NoWorker = "no_worker",
    }
}

/// The time of a turn. Each moment has one use: `segments` follow each other without a gap, and `totals` add up to `ms`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnTimeline {
    /// Id of the turn.
    pub turn_id: Uuid,
    /// Id of its thread.
    pub thread_id: Uuid,
    /// Time from which the turn could run (RFC 3339): it was submitted and due, and the turn before it had ended.
    pub from: String,
    /// Its end (RFC 3339), or the present if it is not over.
    pub to: String,
    /// True if the turn is over.
    pub is_over: bool,
    /// Milliseconds from `from` to `to`.
    pub ms: u64,
    /// Milliseconds by use, without uses of none.
    pub totals: Vec<TimeTotal>,
    /// The parts of the time, in order.
    pub segments: Vec<TimeSegment>,
    /// Attempts at the requests of its nodes, in the order of their ends. Those of one node may overlap.
    pub attempts: Vec<TimedAttempt>,
    /// Takeovers from workers that died or stalled.
    pub takeovers: Vec<Takeover>,
}

/// Time with one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimeTotal {
    /// Use of the time.
    pub kind: TimeKind,
    /// Sum of the parts with this use, in milliseconds.
    pub ms: u64,
}

/// A part of the time of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimeSegment {
    /// Use of the time.
    pub kind: TimeKind,
    /// Its start, in milliseconds after the start of the turn.
    pub from_ms: u64,
    /// Its end, in milliseconds after the start of the turn.
    pub to_ms: u64,
}

/// An attempt at a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimedAttempt {
    /// Node that made the request.
    pub node: String,
    /// Index among the requests of the node.
    pub slot: usize,
    /// Event by which the node made the request.
    pub asked_seq: u64,
    /// Event that ended the attempt; null if it is under way, or its worker died.
    pub seq: Option<u64>,
    /// Model, tool as `server.tool`, or kind of the request.
    pub name: String,
    /// `model` or `tool`.
    pub kind: TimeKind,
    /// Its start, in milliseconds after the start of the turn.
    pub from_ms: u64,
    /// Its end, in milliseconds after the start of the turn.
    pub to_ms: u64,
    /// True if it was answered.
    pub is_answered: bool,
}

/// A worker that continued the turn of one that died or stalled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Takeover {
    /// Event of the takeover.
    pub seq: u64,
    /// Time of the takeover, in milliseconds after the start of the turn.
    pub at_ms: u64,
    /// Worker that continued.
    pub worker: String,
    /// Worker that died or stalled.
    pub from: String,
}
