//! Traces of OpenTelemetry, made from logs.
//!
//! A turn is a trace: a span for the turn, below it a span for each node and for each time without a worker, and below a node a span
//! for each request to a model or a tool. Attributes follow the semantic conventions for generative AI, `gen_ai.*`.
//!
//! **Invariant:** the same log gives the same spans, with the same ids, and with the same attributes while the addresses of servers stay
//! configured. A turn that is exported twice is stored once by every
//! backend that knows spans by their id.
//!
//! **Invariant:** without [`Content::Include`], nothing that a person, a model or a tool wrote is exported, nor an
//! error, which may quote them.

mod attributes;
mod content;
mod fit;
mod ids;
mod otlp;
mod peers;
mod protobuf;
mod times;
mod trace;

pub use self::{
    attributes::{Attribute, AttributeValue},
    ids::TraceParent,
    otlp::export_request,
    peers::{Peer, Peers},
    protobuf::{export_protobuf, rejected_spans},
    trace::{Content, Span, SpanKind, turn_spans},
};
