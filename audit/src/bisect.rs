//! The first event of a log at which something holds: a predicate on the thread, or that today's code would decide
//! otherwise.
//!
//! ## Why every event is looked at
//!
//! What holds at one event need not hold at the next, so halving would find some such event and not the first. A fold goes
//! by every event anyway.

use serde::Serialize;
use shared::{Corrupt, Divergence, Event, Graph, Verifier};
use store::Predicate;

/// What is looked for.
#[derive(Clone, Debug)]
pub enum Sought {
    /// An event after which this holds.
    Holds(Predicate),
    /// A decision that today's code would take otherwise; not a prompt that is only worded otherwise.
    Diverges,
}

/// Where it was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The number of the event.
    pub seq: usize,
    /// The event.
    pub text: String,
    /// How today's code would decide it, if that was looked for.
    pub divergence: Option<Divergence>,
}

/// Somebody who goes along a log until it is found.
pub struct Search {
    sought: Sought,
    verifier: Verifier,
}

impl Search {
    /// Before the first event of a log of this strategy.
    pub fn new(graph: &dyn Graph, sought: Sought) -> Self {
        Self { sought, verifier: Verifier::new(graph) }
    }

    /// Goes on by one event; what is found there, if it is.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<Option<Found>, Corrupt> {
        let seq = self.verifier.thread().seq();
        let found = |divergence| Found { seq, text: event.to_string(), divergence };
        match &self.sought {
            Sought::Diverges => {
                let divergence = self.verifier.see(event)?;
                Ok(divergence.filter(|it| !it.field.is_prompt()).map(|it| found(Some(it))))
            }
            Sought::Holds(predicate) => {
                self.verifier.pass(event)?;
                let holds = predicate.holds(self.verifier.thread(), event)?;
                Ok(holds.then(|| found(None)))
            }
        }
    }
}
