//! The time of a turn by its uses: attributes of its span, and a span for each time without a worker.

use std::collections::BTreeMap;

use api_types::TimeKind;
use store::{Recorded, ThreadId, TurnId};

use super::{
    attributes::{Attribute, AttributeValue},
    ids::{Part, span_id},
    trace::{Span, SpanKind},
};
use crate::time::{Timekeeper, TurnTime};

/// Adds the times to the spans of the turns of a log that have ended.
pub(super) fn add_times(thread: ThreadId, log: &[Recorded], spans: &mut Vec<Span>) {
    let times = Timekeeper::of_log(log, 0).into_iter().filter(|time| time.is_over);
    let mut times: BTreeMap<TurnId, TurnTime> = times.map(|time| (time.turn, time)).collect();
    let mut added = Vec::new();
    // A turn that was retried has a span for each part. The last one has the times of all.
    for span in spans.iter_mut().rev().filter(|span| span.kind == SpanKind::Server) {
        let Some(time) = times.remove(&span.turn) else { continue };
        span.attributes.extend(TimeKind::ALL.into_iter().filter_map(|kind| total(&time, kind)));
        added.extend(time.takeovers.iter().map(|(at, seq, taken)| Span {
            turn: span.turn,
            trace: span.trace,
            id: span_id(thread, *seq, Part::Takeover),
            parent: Some(span.id),
            name: "no worker".to_owned(),
            kind: SpanKind::Internal,
            start: died(&time, *at),
            end: *at,
            attributes: vec![
                ("turnfold.seq", (*seq).into()),
                ("turnfold.worker", taken.worker.as_str().into()),
                ("turnfold.worker.before", taken.from.as_str().into()),
            ],
            error: None,
        }));
    }
    spans.extend(added);
}

/// Returns the start of the time without a worker that ended at this time.
fn died(time: &TurnTime, at: i64) -> i64 {
    let gap = time.segments.iter().find(|part| part.kind == TimeKind::NoWorker && part.to == at);
    gap.map_or(at, |part| part.from)
}

fn total(time: &TurnTime, kind: TimeKind) -> Option<Attribute> {
    let name = match kind {
        TimeKind::Slot => "turnfold.time.slot_ms",
        TimeKind::Limit => "turnfold.time.limit_ms",
        TimeKind::Person => "turnfold.time.person_ms",
        TimeKind::Model => "turnfold.time.model_ms",
        TimeKind::Tool => "turnfold.time.tool_ms",
        TimeKind::Engine => "turnfold.time.engine_ms",
        TimeKind::NoWorker => "turnfold.time.no_worker_ms",
    };
    let ms = time.total(kind).max(0).unsigned_abs() / 1_000;
    (0 < ms).then_some((name, AttributeValue::Integer(ms)))
}
