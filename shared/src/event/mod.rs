//! What happened. Past tense, immutable, complete: the grammar of the log, and how each event reads in one line.
//!
//! ```text
//! thread = opened turn*
//! turn   = heard step*                        the last step decides `end` or `interrupt`
//! step   = [asked try+] decided
//!        | asked try+ failed [retried …]
//! try    = [attempted] (answered | faltered | gave_up | doubted reconciled | wanted supplied*)
//! anywhere between events of a turn: cancelled
//! anywhere after the first event, once: forked
//! ```
//!
//! **Invariant:** all that follows from a decision stands in one event, so a crash can fall between decisions
//! but never inside one.
//!
//! ## Why a struct a kind
//!
//! The kind is a column of its own in the store and picks the payload's struct: an internally tagged enum must
//! buffer the payload to find its tag, and decodes 1.6 times slower. Fixtures are JSON lines, where the tag
//! stands in the line; they use the enum's own serde form.

mod kinds;
mod shown;
mod upcast;
mod weight;

use serde::{Deserialize, Serialize};

pub use kinds::{
    Answered, Asked, Attempted, Cancelled, DEFAULT_TENANT, Decided, Doubted, Failed, Faltered, Forked,
    GaveUp, Goto, Heard, Hearing, Interrupt, InterruptKind, Opened, Reconciled, Retried, Supplied, Verdict,
    Wanted,
};

pub use upcast::{Shape, Upcast};

/// The version of the grammar that this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// An event that this build cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Nobody here knows this kind.
    #[error(
        "event kind {kind:?} is unknown: a newer turnfold wrote it; run that version (this one reads format {FORMAT})"
    )]
    Kind {
        /// The stored kind.
        kind: String,
    },
    /// The log says of itself that it is newer.
    #[error(
        "the log has format {format} and this build reads up to {FORMAT}: a newer turnfold wrote it; run that version"
    )]
    Format {
        /// The stored format.
        format: u32,
    },
    /// The payload does not fit its kind.
    #[error(
        "cannot read a payload of kind {kind:?}: {error}; a newer turnfold wrote it, or the log is damaged (`turnfold thread verify` tells)"
    )]
    Payload {
        /// The stored kind.
        kind: String,
        /// What does not fit.
        error: serde_json::Error,
    },
}

macro_rules! events {
    ($($(#[$doc:meta])* $kind:literal $name:ident),* $(,)?) => {
        /// One line of a thread's log.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "event")]
        pub enum Event {
            $($(#[$doc])* #[serde(rename = $kind)] $name($name),)*
        }

        $(impl From<$name> for Event {
            fn from(event: $name) -> Self {
                Event::$name(event)
            }
        })*

        impl Event {
            /// Every kind there is.
            pub const KINDS: &[&str] = &[$($kind),*];

            /// Its kind, as the store's column holds it.
            pub fn kind(&self) -> &'static str {
                match self { $(Event::$name(_) => $kind,)* }
            }

            /// Its payload, as the store keeps it byte for byte.
            pub fn payload(&self) -> Result<String, serde_json::Error> {
                match self { $(Event::$name(it) => serde_json::to_string(it),)* }
            }

            /// The event of this kind and payload, if it is of today's shape.
            fn decode_today(kind: &str, payload: &str) -> Result<Self, Unreadable> {
                let event = match kind {
                    $($kind => serde_json::from_str(payload).map(Event::$name),)*
                    _ => return Err(Unreadable::Kind { kind: kind.to_owned() }),
                };
                let event = event.map_err(|error| Unreadable::Payload { kind: kind.to_owned(), error })?;
                match &event {
                    Event::Opened(Opened { format, .. }) if *format > FORMAT => Err(Unreadable::Format { format: *format }),
                    _ => Ok(event),
                }
            }
        }
    };
}

events! {
    /// A thread began.
    "opened" Opened,
    /// A person spoke: a turn begins.
    "heard" Heard,
    /// A node put questions to the world.
    "asked" Asked,
    /// A request that may change the world is about to be carried out.
    "attempted" Attempted,
    /// The world answered one request.
    "answered" Answered,
    /// The world did not, or not with anything of use.
    "faltered" Faltered,
    /// A request is given up; its node can do without an answer.
    "gave_up" GaveUp,
    /// A request that may change the world lost its answer.
    "doubted" Doubted,
    /// A person told what had become of it.
    "reconciled" Reconciled,
    /// More is wanted of a person before a request can be carried out.
    "wanted" Wanted,
    /// A person supplied it, or would not.
    "supplied" Supplied,
    /// The node drew its conclusions.
    "decided" Decided,
    /// The node gave up; an operator may have it try again.
    "failed" Failed,
    /// An operator did.
    "retried" Retried,
    /// The turn was called off.
    "cancelled" Cancelled,
    /// What stands before was copied from another thread, and this one lives on by itself.
    "forked" Forked,
}

impl Event {
    /// The event of this kind and payload, whichever version wrote it.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if it is of no shape that this build has ever known.
    pub fn decode(kind: &str, payload: &str) -> Result<Self, Unreadable> {
        Self::decode_by(upcast::STEPS, kind, payload)
    }

    /// The same by these steps: what today's shape does not fit is lifted by them.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if it does not fit then either.
    pub fn decode_by(steps: &[Upcast], kind: &str, payload: &str) -> Result<Self, Unreadable> {
        Self::decode_today(kind, payload).or_else(|error| match upcast::lifted(steps, kind, payload) {
            Some((kind, payload)) => Self::decode_today(&kind, &payload),
            None => Err(error),
        })
    }

    /// Whether it came from outside, rather than from a decision of the code.
    ///
    /// `attempted` is neither: the worker writes it by rule, and a re-enactment writes it anew.
    pub fn is_outside(&self) -> bool {
        match self {
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Answered(_)
            | Event::Faltered(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Supplied(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_) => true,
            Event::Asked(_)
            | Event::Attempted(_)
            | Event::GaveUp(_)
            | Event::Decided(_)
            | Event::Failed(_) => false,
        }
    }

    /// Which of its node's requests it is about, if about one.
    pub fn slot(&self) -> Option<usize> {
        match self {
            Event::Attempted(it) => Some(it.slot),
            Event::Answered(it) => Some(it.slot),
            Event::Faltered(it) => Some(it.slot),
            Event::GaveUp(it) => Some(it.slot),
            Event::Doubted(it) => Some(it.slot),
            Event::Reconciled(it) => Some(it.slot),
            Event::Wanted(it) => Some(it.slot),
            Event::Supplied(it) => Some(it.slot),
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Asked(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_) => None,
        }
    }

    /// Whether the code decided it: today's code must decide the same at the same place.
    pub fn is_decision(&self) -> bool {
        match self {
            Event::Asked(_) | Event::GaveUp(_) | Event::Decided(_) | Event::Failed(_) => true,
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::Faltered(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Supplied(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_) => false,
        }
    }
}
