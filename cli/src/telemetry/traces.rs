//! Traces of turns, read from the log.

use std::collections::{BTreeMap, BTreeSet};

use audit::otel::{Content, Span, TraceParent, export_request, turn_spans};
use serde_json::Value;
use store::{Store, ThreadId, TurnId};

/// Maximum spans of one request.
const SPANS_MAX: usize = 500;

/// Reads the traces of turns.
pub(crate) struct Traces {
    pub(crate) store: Store,
    pub(crate) content: Content,
}

impl Traces {
    /// Returns the spans of these turns of a thread, as far as they have ended.
    ///
    /// # Errors
    ///
    /// [`store::Error`] if the log cannot be read.
    pub(crate) async fn of(
        &self,
        thread: ThreadId,
        turns: &BTreeSet<TurnId>,
    ) -> Result<Vec<Span>, store::Error> {
        let (_, log) = self.store.load(thread).await?;
        let headers = self.store.trace_parents(thread).await?;
        let parents: BTreeMap<TurnId, TraceParent> =
            headers.into_iter().filter_map(|(turn, header)| Some((turn, header.parse().ok()?))).collect();
        let spans = turn_spans(thread, &log, &parents, self.content);
        Ok(spans.into_iter().filter(|span| turns.contains(&span.turn)).collect())
    }
}

/// Divides spans into requests to a collector.
pub(crate) fn requests(spans: &[Span]) -> impl Iterator<Item = Value> + '_ {
    spans.chunks(SPANS_MAX).map(|chunk| export_request(chunk, env!("CARGO_PKG_VERSION")))
}
