//! Compares a recorded log with the log that today's code writes.

use shared::{Event, Graph, InvalidLog, is_same_decision, rerun};

use crate::request_diff::{Difference, difference};

/// The first event that differs.
#[derive(Debug)]
pub(crate) struct FirstDivergence {
    /// Sequence number in the recorded log.
    pub(crate) seq: usize,
    /// The recorded event; `None` if the log ends before.
    pub(crate) then: Option<Event>,
    /// The event of today's code; `None` if it stops before.
    pub(crate) today: Option<Event>,
}

impl FirstDivergence {
    /// The first difference within the two events, if both exist and are of one kind.
    pub(crate) fn difference(&self) -> Option<Difference> {
        let (then, today) = (self.then.as_ref()?, self.today.as_ref()?);
        difference(&serde_json::to_value(then).ok()?, &serde_json::to_value(today).ok()?)
    }
}

/// Replays a recorded log with today's code. Worker names and times of attempts are not compared.
///
/// # Errors
///
/// [`InvalidLog`] if today's code rejects the log.
pub(crate) fn first_divergence(
    graph: &'static dyn Graph,
    log: &[Event],
) -> Result<Option<FirstDivergence>, InvalidLog> {
    let result = rerun(graph, log)?.log;
    let mut today = result.into_iter().filter(|event| !matches!(event, Event::Attempted(_)));
    for (seq, then) in log.iter().enumerate().filter(|(_, event)| !matches!(event, Event::Attempted(_))) {
        match today.next() {
            Some(today) if is_same_decision(then, &today) => {}
            today => return Ok(Some(FirstDivergence { seq, then: Some(then.clone()), today })),
        }
    }
    let more = today.next();
    Ok(more.map(|today| FirstDivergence { seq: log.len(), then: None, today: Some(today) }))
}
