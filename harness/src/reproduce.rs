//! Whether today's code writes the log that was recorded.

use shared::{Corrupt, Event, Graph, reenact};

use crate::difference::{Difference, difference};

/// The first event that today's code writes otherwise.
#[derive(Debug)]
pub(crate) struct Parted {
    /// Its number in the recorded log.
    pub(crate) seq: usize,
    /// What the log says there; nothing, if it ends before.
    pub(crate) then: Option<Event>,
    /// What today's code writes there; nothing, if it stops before.
    pub(crate) today: Option<Event>,
}

impl Parted {
    /// Where the two events differ, if both are there and of one kind.
    pub(crate) fn difference(&self) -> Option<Difference> {
        let (then, today) = (self.then.as_ref()?, self.today.as_ref()?);
        difference(&serde_json::to_value(then).ok()?, &serde_json::to_value(today).ok()?)
    }
}

/// Lets today's code live a recorded log again. Who attempted a write and when is the worker's, so it is not compared.
///
/// # Errors
///
/// [`Corrupt`] if today's code could not go on.
pub(crate) fn parted(graph: &'static dyn Graph, log: &[Event]) -> Result<Option<Parted>, Corrupt> {
    let lived = reenact(graph, log)?.log;
    let mut today = lived.into_iter().filter(|it| !matches!(it, Event::Attempted(_)));
    for (seq, then) in log.iter().enumerate().filter(|(_, it)| !matches!(it, Event::Attempted(_))) {
        match today.next() {
            Some(today) if today == *then => {}
            today => return Ok(Some(Parted { seq, then: Some(then.clone()), today })),
        }
    }
    let more = today.next();
    Ok(more.map(|today| Parted { seq: log.len(), then: None, today: Some(today) }))
}
