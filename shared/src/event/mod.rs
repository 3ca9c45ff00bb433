//! Events of a thread's log: past tense, immutable, complete.
//!
//! ```text
//! thread  = opened turn*
//! turn    = turn_started step*                the last step decides `end` or `interrupt`
//! step    = [asked attempt+] decided
//!         | [asked attempt+] failed [retried …]
//!         | asked attempt+ summarised          by the engine, before the step that it makes room for
//! attempt = [attempted] [task_started] (answered | attempt_failed | abandoned | in_doubt settled | input_required input_provided*)
//! settled = attempt_failed* (reconciled | in_doubt settled)   by a read-back, which may leave it to a person
//!         | reconciled | answered | attempt_failed            by a person, or by an outcome that arrives late
//! anywhere between events of a turn: cancelled, or taken_over by another worker
//! anywhere after the first event, once: forked
//! ```
//!
//! **Invariant:** everything that follows from a decision is in one event, so a crash falls between decisions and never
//! inside one.
//!
//! ## Why one struct for each kind
//!
//! The store keeps the kind in its own column and decodes the payload into the struct of that kind. An internally
//! tagged enum must buffer the payload to find its tag, and decodes 1.6 times slower. Fixtures are JSON lines with the
//! tag inside; they use the serde form of the enum.

mod display;
mod kinds;
mod retained_bytes;
mod upcast;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use kinds::{
    Abandoned, Answered, Asked, AttemptFailed, Attempted, CallerId, Cancelled, DEFAULT_TENANT, Decided,
    Failed, Forked, Goto, InDoubt, InputProvided, InputRequired, Interrupt, InterruptKind, Opened,
    RATING_NOTE_MAX, Rated, Rating, Reading, Reconciled, Retried, Summarised, TakenOver, TaskStarted,
    TurnKind, TurnStarted, Verdict, WriteEnded, WriteEnding,
};

pub use upcast::{Shape, Upcast};

use crate::{attachment::Attachment, status::Priority, usage::Usage};

/// Format version that this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Error of an event that this build cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Unknown kind.
    #[error(
        "event kind {kind:?} is unknown: written by a newer version of turnfold (this one reads format {FORMAT}); hint: run that version"
    )]
    Kind {
        /// Kind as stored.
        kind: String,
    },
    /// Log format newer than this build.
    #[error(
        "the log has format {format}, but this build reads formats up to {FORMAT}; hint: run a newer version of turnfold"
    )]
    Format {
        /// Format version as stored.
        format: u32,
    },
    /// Payload that does not fit its kind.
    #[error(
        "cannot read the payload of a {kind:?} event: {error}; hint: run turnfold thread verify; if the log is intact, a newer version of turnfold wrote it"
    )]
    Payload {
        /// Kind as stored.
        kind: String,
        /// Error of the decoder.
        error: serde_json::Error,
    },
}

macro_rules! events {
    ($($(#[$doc:meta])* $kind:literal $name:ident),* $(,)?) => {
        /// Event of a thread's log.
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
    /// Returns the images and files of the event's messages, and the images of a tool's answer.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        let messages = match self {
            Event::TurnStarted(started) => &started.messages[..],
            Event::Decided(decided) => &decided.messages,
            Event::Opened(_)
            | Event::Asked(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_)
            | Event::Summarised(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => &[],
        };
        let extras = if let Event::Answered(answered) = self { answered.extras.as_deref() } else { None };
        let of_a_tool = extras.into_iter().flat_map(crate::tool_content::ResponseExtras::attachments);
        messages.iter().flat_map(|message| &message.attachments).chain(of_a_tool)
    }

            /// All kinds, in the order of the enum.
            pub const KINDS: &[&str] = &[$($kind),*];

            /// Returns the kind as stored in its column.
            pub fn kind(&self) -> &'static str {
                match self { $(Event::$name(_) => $kind,)* }
            }

            /// Returns the payload as stored, byte for byte.
            pub fn payload(&self) -> Result<String, serde_json::Error> {
                match self { $(Event::$name(event) => serde_json::to_string(event),)* }
            }

            /// Decodes an event in the current format.
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
    /// A thread was opened.
    "opened" Opened,
    /// A turn started with a message.
    "turn_started" TurnStarted,
    /// A node issued requests.
    "asked" Asked,
    /// A request that may change the outside world is about to be sent.
    "attempted" Attempted,
    /// A request was answered.
    "answered" Answered,
    /// An attempt failed, or its response did not fit.
    "attempt_failed" AttemptFailed,
    /// A request was given up. Its node continues without a response.
    "abandoned" Abandoned,
    /// A request that may have changed the outside world lost its response.
    "in_doubt" InDoubt,
    /// A person, or a read-back, decided the outcome of a request in doubt.
    "reconciled" Reconciled,
    /// A server carries a call out as a task.
    "task_started" TaskStarted,
    /// A tool needs input from a person.
    "input_required" InputRequired,
    /// A person provided one input, or refused to.
    "input_provided" InputProvided,
    /// Messages were summarised.
    "summarised" Summarised,
    /// A node decided.
    "decided" Decided,
    /// A node failed. An operator may retry it.
    "failed" Failed,
    /// An operator retried a failed node.
    "retried" Retried,
    /// A turn was cancelled.
    "cancelled" Cancelled,
    /// A call that was under way at the cancellation of its turn has ended.
    "write_ended" WriteEnded,
    /// The log was copied from another thread up to here.
    "forked" Forked,
    /// A worker continues the turn of one that died or stalled.
    "taken_over" TakenOver,
    /// A person rated the answer of a turn.
    "rated" Rated,
}

impl Event {
    /// Returns the turn that this event starts.
    pub fn turn_started(&self) -> Option<uuid::Uuid> {
        let (Event::TurnStarted(TurnStarted { turn, .. }) | Event::InputProvided(InputProvided { turn, .. })) =
            self
        else {
            return None;
        };
        Some(*turn)
    }

    /// Decodes a stored event of any released version.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if no released version wrote this shape.
    pub fn decode(kind: &str, payload: &str) -> Result<Self, Unreadable> {
        Self::decode_by(upcast::STEPS, kind, payload)
    }

    /// Decodes a stored event, upgrading payloads of older versions with `steps`.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the upgraded payload does not fit either.
    pub fn decode_by(steps: &[Upcast], kind: &str, payload: &str) -> Result<Self, Unreadable> {
        Self::decode_today(kind, payload).or_else(|error| match upcast::lifted(steps, kind, payload) {
            Some((kind, payload)) => Self::decode_today(&kind, &payload),
            None => Err(error),
        })
    }

    /// Returns true for events that come from outside: messages, responses, and actions of people.
    ///
    /// `attempted` is not external: a worker writes it by rule, and a rerun writes it again.
    pub fn is_external(&self) -> bool {
        match self {
            Event::Opened(_)
            | Event::TurnStarted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => true,
            Event::Asked(_)
            | Event::Attempted(_)
            | Event::Abandoned(_)
            | Event::Summarised(_)
            | Event::Decided(_) => false,
            Event::Failed(failed) => failed.worker.is_some(),
        }
    }

    /// Returns the index of the request that the event is about.
    pub fn slot(&self) -> Option<usize> {
        match self {
            Event::Attempted(attempted) => Some(attempted.slot),
            Event::Answered(answered) => Some(answered.slot),
            Event::AttemptFailed(failed) => Some(failed.slot),
            Event::Abandoned(abandoned) => Some(abandoned.slot),
            Event::InDoubt(in_doubt) => Some(in_doubt.slot),
            Event::Reconciled(reconciled) => Some(reconciled.slot),
            Event::TaskStarted(started) => Some(started.slot),
            Event::InputRequired(required) => Some(required.slot),
            Event::InputProvided(provided) => Some(provided.slot),
            Event::Opened(_)
            | Event::TurnStarted(_)
            | Event::Asked(_)
            | Event::Summarised(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => None,
        }
    }

    /// Returns the slot and the usage of the attempt that the event ends. A failed attempt without usage used nothing.
    pub fn spent(&self) -> Option<(usize, Cow<'_, Usage>)> {
        if let Event::Answered(answered) = self {
            let usage = answered.usage.as_ref().map_or_else(Cow::default, Cow::Borrowed);
            return Some((answered.slot, usage));
        }
        let Event::AttemptFailed(failed) = self else { return None };
        Some((failed.slot, Cow::Borrowed(failed.usage.as_ref()?)))
    }

    /// Sets the authenticated sender of an event that a person or a program causes by a request. Other events have none.
    #[must_use]
    pub fn sent_by(mut self, caller: Option<CallerId>) -> Self {
        match &mut self {
            Event::Opened(opened) => opened.caller = caller,
            Event::TurnStarted(started) => started.caller = caller,
            Event::Reconciled(reconciled) => reconciled.caller = caller,
            Event::InputProvided(provided) => provided.caller = caller,
            Event::Retried(retried) => retried.caller = caller,
            Event::Cancelled(cancelled) => cancelled.caller = caller,
            Event::Forked(forked) => forked.caller = caller,
            Event::Rated(rated) => rated.caller = caller,
            Event::Asked(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::Summarised(_)
            | Event::Decided(_)
            | Event::WriteEnded(_)
            | Event::TakenOver(_)
            | Event::Failed(_) => {}
        }
        self
    }

    /// Sets the hash of the conversation that the client sent whole, if the event starts a turn.
    #[must_use]
    pub fn with_history(mut self, hash: Option<String>) -> Self {
        if let Event::TurnStarted(TurnStarted { history_hash, .. })
        | Event::InputProvided(InputProvided { history_hash, .. }) = &mut self
        {
            *history_hash = hash;
        }
        self
    }

    /// Sets the priority and the metadata of the turn, if the event starts one. Those of a turn without a choice are left out.
    #[must_use]
    pub fn submitted_with(mut self, chosen: Priority, given: Value) -> Self {
        if let Event::TurnStarted(TurnStarted { priority, metadata, .. })
        | Event::InputProvided(InputProvided { priority, metadata, .. }) = &mut self
        {
            *priority = (chosen != Priority::Normal).then_some(chosen);
            *metadata = Some(given).filter(|given| given.as_object().is_some_and(|given| !given.is_empty()));
        }
        self
    }

    /// Sets the build of the worker, if the event starts a turn.
    #[must_use]
    pub fn by_build(mut self, worker: &str) -> Self {
        if let Event::TurnStarted(TurnStarted { build, .. })
        | Event::InputProvided(InputProvided { build, .. }) = &mut self
        {
            *build = Some(worker.to_owned());
        }
        self
    }

    /// Returns true for decisions of the code, which replay compares with the decisions of the current code.
    pub fn is_decision(&self) -> bool {
        match self {
            Event::Asked(_) | Event::Abandoned(_) | Event::Summarised(_) | Event::Decided(_) => true,
            Event::Failed(failed) => failed.worker.is_none(),
            Event::Opened(_)
            | Event::TurnStarted(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => false,
        }
    }
}
