//! Finds the first event of a log after which a predicate holds, or at which today's code decides differently.
//!
//! ## Why a linear search
//!
//! A predicate that holds after one event need not hold after the next, so a binary search would find some matching
//! event and not the first. Folding visits every event anyway.

use serde::Serialize;
use shared::{Divergence, Event, Graph, InvalidLog, Replayer};
use threads::Predicate;

/// The condition to search for.
#[derive(Clone, Debug)]
pub enum Condition {
    /// The first event after which the predicate holds.
    Holds(Predicate),
    /// The first decision that today's code would take differently. Reworded prompts, and tools and schemas that are only described differently, are ignored.
    Diverges,
}

/// A matching event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Sequence number of the event.
    pub seq: usize,
    /// Text of the event.
    pub text: String,
    /// Today's decision, if the search was for a divergence.
    pub divergence: Option<Divergence>,
}

/// Searches a log event by event.
pub struct Search {
    sought: Condition,
    verifier: Replayer,
}

impl Search {
    /// Starts a search before the first event of a log of this strategy.
    pub fn new(graph: &dyn Graph, sought: Condition) -> Self {
        Self { sought, verifier: Replayer::new(graph) }
    }

    /// Reads the next event and returns a match, if it is one.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<Option<Found>, InvalidLog> {
        let seq = self.verifier.thread().seq();
        let found = |divergence| Found { seq, text: event.to_string(), divergence };
        match &self.sought {
            Condition::Diverges => {
                let divergence = self.verifier.see(event)?;
                Ok(divergence.filter(|it| !it.field.is_wording()).map(|it| found(Some(it))))
            }
            Condition::Holds(predicate) => {
                self.verifier.pass(event)?;
                let holds = predicate.holds(self.verifier.thread(), event)?;
                Ok(holds.then(|| found(None)))
            }
        }
    }
}
