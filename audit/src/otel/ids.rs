//! Ids of traces and spans.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Id of a trace.
pub(super) type TraceId = [u8; 16];

/// Id of a span.
pub(super) type SpanId = [u8; 8];

/// Part of a turn that a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The turn, or what follows a retry.
    Turn,
    /// A node.
    Node,
    /// A request, by its index within its node.
    Request(usize),
    /// The time without a worker before a takeover.
    Takeover,
}

/// Returns the id of a turn's trace.
pub(super) fn trace_id(thread: Uuid, turn: Uuid) -> TraceId {
    let hash =
        Sha256::new().chain_update("turnfold trace").chain_update(thread).chain_update(turn).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id
}

/// Returns the id of a span. `seq` is the event that begins a turn, or ends a node or an attempt at a request.
pub(super) fn span_id(thread: Uuid, seq: u64, part: Part) -> SpanId {
    let (kind, slot) = match part {
        Part::Turn => ("turn", 0),
        Part::Node => ("node", 0),
        Part::Request(slot) => ("request", slot),
        Part::Takeover => ("takeover", 0),
    };
    let hash = Sha256::new()
        .chain_update("turnfold span")
        .chain_update(kind)
        .chain_update(thread)
        .chain_update(seq.to_be_bytes())
        .chain_update(u64::try_from(slot).unwrap_or(u64::MAX).to_be_bytes())
        .finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&hash[..8]);
    id
}

/// The span of a client, from its `traceparent` header (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
}

/// Error for a header that is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "traceparent must have the form 00-TRACE-SPAN-FLAGS with lower-case hexadecimal ids that are not zero"
)]
pub struct InvalidTraceParent;

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", hex::encode(self.trace), hex::encode(self.span))
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    /// Parses a header. A version after 00 may have more fields, which are ignored.
    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let is_hex =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let mut fields = text.split('-');
        let (Some(version), Some(trace), Some(span), Some(flags)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(InvalidTraceParent);
        };
        let has_form =
            (version.len(), flags.len()) == (2, 2) && [version, trace, span, flags].into_iter().all(is_hex);
        let has_end = version != "00" || fields.next().is_none();
        let mut parent = Self { trace: [0; 16], span: [0; 8] };
        hex::decode_to_slice(trace, &mut parent.trace).map_err(|_| InvalidTraceParent)?;
        hex::decode_to_slice(span, &mut parent.span).map_err(|_| InvalidTraceParent)?;
        let is_valid =
            has_form && has_end && version != "ff" && parent.trace != [0; 16] && parent.span != [0; 8];
        if is_valid { Ok(parent) } else { Err(InvalidTraceParent) }
    }
}

#[test]
fn a_traceparent_is_read_as_the_standard_says() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let parent: TraceParent = format!("00-{trace}-{span}-01").parse().unwrap();
    assert_eq!((hex::encode(parent.trace).as_str(), hex::encode(parent.span).as_str()), (trace, span));
    assert!(format!("01-{trace}-{span}-01-more").parse::<TraceParent>().is_ok());
    for text in [
        format!("00-{trace}-{span}-01-more"),
        format!("ff-{trace}-{span}-01"),
        format!("00-{}-{span}-01", trace.to_uppercase()),
        format!("00-{}-{span}-01", "0".repeat(32)),
        format!("00-{trace}-{}-01", "0".repeat(16)),
        format!("00-{trace}-{span}"),
        format!("00-{trace}-{span}-0"),
        "00-é-x-01".to_owned(),
        String::new(),
    ] {
        assert_eq!(text.parse::<TraceParent>(), Err(InvalidTraceParent), "{text}");
    }
}
