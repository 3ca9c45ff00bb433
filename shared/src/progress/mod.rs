//! How far a thread has come: the fold of its log, the one rule that says what comes next, and the judge of answers.

mod fold;
mod judge;
mod slot;
mod standing;
mod stop;

use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use self::slot::{Slot, Stand};
pub use self::{
    judge::{FALTERS_MAX, ROUNDS_MAX},
    standing::Standing,
};

use crate::{
    budget::Budget,
    effect::Refused,
    event::{Asked, Decided, Event, Goto, Heard, Hearing, Interrupt, Supplied, Unreadable},
    form::{Supplies, Unfit},
    message::{Message, Role, Safety},
    meter::Tally,
    request::{Request, Response},
    strategy::{Edge, Strategy, Thread, Transition, TurnSoFar},
};

/// What a thread needs now.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made a step, and used up at once")]
pub enum Next {
    /// Append this event, then look again.
    Append(Event),
    /// Append an `attempted` for each that [may change the world](Due::is_write), carry all of them out side by
    /// side, and append what [`Progress::receive`] makes of each outcome.
    Perform(Vec<Due>),
    /// Wait for a person.
    Rest,
}

/// A request that waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// Which of the node's requests.
    pub slot: usize,
    /// The number of the `asked` event: with the thread and the slot it makes the idempotency key.
    pub asked: usize,
    /// The request.
    pub request: Request,
    /// What becomes of the world when it is repeated.
    pub safety: Safety,
    /// How often it faltered since it was asked, over all retries.
    pub falters: u32,
    /// How often it faltered since it was asked or last retried: what backoff grows with.
    pub tries: u32,
    /// What was wrong with the last reply, for the model to mend.
    pub complaint: Option<String>,
    /// What goes along, where more was wanted for it before.
    pub supplies: Option<Supplies>,
}

impl Due {
    /// Whether carrying it out may change the world.
    pub fn is_write(&self) -> bool {
        self.safety != Safety::Read
    }
}

/// How a message that arrives is to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As the answer, if one is waited for; else as a new matter.
    #[default]
    Auto,
    /// As the answer, or not at all.
    Answer,
    /// As a new matter, even if an answer is waited for.
    Replan,
}

/// Why a message cannot be heard now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unheard {
    /// A turn is under way, or waits for a verdict on a call in doubt.
    #[error("the thread is busy")]
    Busy,
    /// It was meant as an answer and nothing was asked.
    #[error("nothing was asked, so there is nothing to answer")]
    NothingAsked,
    /// A tool wants an answer, which still waits.
    #[error("this does not answer what a tool wants to hear, which still waits: {0}")]
    Unfit(Unfit),
}

/// A thread and where it stands.
pub struct Progress<S: Strategy> {
    pub(crate) thread: Thread<S>,
    /// Whom the thread belongs to.
    pub(crate) tenant: String,
    turn: Option<Uuid>,
    /// The session that each server kept for the thread when it was last called.
    sessions: BTreeMap<String, String>,
    /// What a model is told first in place of a node's own words, by node.
    prompts: BTreeMap<String, String>,
    seq: usize,
    at: At<S::NodeName>,
}

enum At<P> {
    /// Waiting for a person to speak.
    Rest,
    /// Waiting for a person to answer.
    Asking(Interrupt, P),
    /// About to ask.
    Before(P),
    /// Asked by that event; answers come in.
    Within(P, usize, Vec<Slot>),
    /// Gave up; waiting for an operator.
    Failed(P, usize, Vec<Slot>, String),
}

/// What is heard before a server's words, once it has forgotten what it was told before.
const SESSION_LOST: &str = "[the session with this server is a new one: whatever it was told or did for you before, it may have forgotten]";

/// What is heard of a call in doubt that a person has left alone; a strategy that repeats what fails looks for it.
pub(crate) const SKIPPED: &str = "nobody knows whether this happened, and it shall not be repeated";

/// A log that no thread of this strategy could have written.
#[derive(Debug, thiserror::Error)]
pub enum Corrupt {
    /// An event that cannot follow the ones before it.
    #[error("event {seq} cannot happen here: {event}")]
    Misplaced {
        /// Its number.
        seq: usize,
        /// The event.
        event: Box<Event>,
    },
    /// Something stored that this version cannot read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A fact, a node or a configuration that this version of the strategy cannot read.
    #[error("this version of the strategy cannot read what the log holds: {0}")]
    Strange(#[from] serde_json::Error),
    /// An answer of the wrong kind.
    #[error("the log holds an answer of the wrong kind: {0}")]
    Refused(#[from] Refused),
}

impl<S: Strategy> Progress<S> {
    /// A thread of which nothing is known yet.
    pub fn new() -> Self {
        let thread = Thread {
            config: S::Config::default(),
            experts: BTreeMap::new(),
            messages: Vec::new(),
            toolboxes: BTreeMap::new(),
            turn: TurnSoFar::default(),
            budget: Budget::default(),
            took: Tally::default(),
            state: S::State::default(),
        };
        Self {
            thread,
            tenant: String::new(),
            turn: None,
            sessions: BTreeMap::new(),
            prompts: BTreeMap::new(),
            seq: 0,
            at: At::Rest,
        }
    }

    /// How many events were folded in: the number of the next.
    pub fn seq(&self) -> usize {
        self.seq
    }

    /// The turn that is under way, or was last.
    pub fn turn(&self) -> Option<Uuid> {
        self.turn
    }

    /// Folds one event in.
    ///
    /// # Errors
    ///
    /// [`Corrupt::Misplaced`] if it cannot happen here; the thread is as it was.
    pub fn apply(&mut self, event: &Event) -> Result<(), Corrupt> {
        if !self.fold(event)? {
            return Err(Corrupt::Misplaced { seq: self.seq, event: Box::new(event.clone()) });
        }
        self.seq += 1;
        Ok(())
    }

    /// What comes next. The only rule there is.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the log holds what no version of this strategy could have written.
    pub fn next(&self) -> Result<Next, Corrupt> {
        match &self.at {
            At::Rest | At::Asking(..) | At::Failed(..) => Ok(Next::Rest),
            At::Before(place) => {
                let requests = self.requests(*place);
                if requests.is_empty() {
                    return Ok(Next::Append(self.decide(*place, &[])?));
                }
                if let Some(spent) = self.spent() {
                    return Ok(Next::Append(self.stop(*place, spent)?));
                }
                Ok(Next::Append(Asked { node: name(place), requests }.into()))
            }
            At::Within(place, asked, slots) => {
                if let Some(event) =
                    slots.iter().enumerate().find_map(|(nth, it)| self.verdict(*place, nth, it))
                {
                    return Ok(Next::Append(event));
                }
                let due: Vec<Due> =
                    slots.iter().enumerate().filter_map(|(n, it)| self.due(*asked, n, it)).collect();
                if let (Some(first), Some(spent)) = (due.first(), self.spent()) {
                    return Ok(Next::Append(self.withhold(*place, first, &slots[first.slot], spent)?));
                }
                if !due.is_empty() {
                    return Ok(Next::Perform(due));
                }
                let responses: Vec<Response> = slots.iter().filter_map(Slot::answer).collect();
                if responses.len() < slots.len() {
                    return Ok(Next::Rest);
                }
                Ok(Next::Append(self.decide(*place, &responses)?))
            }
        }
    }

    /// What a node asks.
    fn requests(&self, place: S::NodeName) -> Vec<Request> {
        let mut requests = S::node(place).requests(&self.thread);
        if let Some(words) = self.prompts.get(&name(&place)) {
            for request in &mut requests {
                if let Request::Chat { system, .. } = request {
                    *system = words.replace("{prompt}", system);
                }
            }
        }
        requests
    }

    fn due(&self, asked: usize, slot: usize, it: &Slot) -> Option<Due> {
        let open = matches!(it.stand, Stand::Open | Stand::Attempted);
        let wrong_shape = matches!(it.request, Request::Chat { shape: Some(_), .. });
        open.then(|| Due {
            slot,
            asked,
            safety: self.safety(&it.request),
            request: it.request.clone(),
            falters: it.falters,
            tries: it.tries,
            complaint: it.error.clone().filter(|_| wrong_shape),
            supplies: it.supplies.clone(),
        })
    }

    /// The event by which the thread hears `messages` now.
    ///
    /// # Errors
    ///
    /// [`Unheard`] if it cannot.
    pub fn hear(
        &self,
        turn: Uuid,
        by: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, Unheard> {
        if let (Some(wish), Policy::Auto | Policy::Answer) = (self.wish(), policy) {
            let words = messages.iter().rfind(|it| it.role == Role::User).map_or("", |it| &it.content);
            let answer = wish.form.read(words).map_err(Unheard::Unfit)?;
            let (slot, form) = (wish.slot, wish.name.to_owned());
            return Ok(Supplied { slot, form, answer, by: by.to_owned(), turn }.into());
        }
        let hearing = match (&self.at, policy) {
            (At::Within(..), Policy::Replan) if self.is_wanting() => Hearing::Input,
            (At::Before(_) | At::Within(..), _) => return Err(Unheard::Busy),
            (At::Asking(..), Policy::Auto | Policy::Answer) => Hearing::Answer,
            (At::Rest | At::Failed(..), Policy::Answer) => return Err(Unheard::NothingAsked),
            (At::Rest | At::Failed(..), Policy::Auto) | (_, Policy::Replan) => Hearing::Input,
        };
        Ok(Heard { turn, by: by.to_owned(), time: time.to_owned(), hearing, messages }.into())
    }

    /// The schema and the tools of the node that is asking.
    pub(crate) fn asking(&self) -> Option<&'static dyn crate::strategy::Step<S>> {
        match &self.at {
            At::Within(place, ..) => Some(S::node(*place)),
            At::Rest | At::Asking(..) | At::Before(_) | At::Failed(..) => None,
        }
    }

    /// The node that control is at, if a turn is under way.
    pub fn node(&self) -> Option<String> {
        match &self.at {
            At::Before(place) | At::Within(place, ..) | At::Failed(place, ..) => Some(name(place)),
            At::Rest | At::Asking(..) => None,
        }
    }

    fn decide(&self, place: S::NodeName, responses: &[Response]) -> Result<Event, Corrupt> {
        let Transition { said, learned, why, to, question } =
            S::node(place).transition(&self.thread, responses)?;
        let learned = learned.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let to = match (to, question) {
            (Edge::To(node), _) => Goto::Node(name(&node)),
            (Edge::Ask(resume), Some(it)) => Goto::Interrupt(Interrupt {
                kind: it.kind,
                question: it.question,
                options: it.options,
                form: None,
                resume: name(&resume),
            }),
            (Edge::End | Edge::Ask(_), _) => Goto::End,
        };
        Ok(Decided { node: name(&place), said, learned, why, to, spent: None }.into())
    }
}

impl<S: Strategy> Default for Progress<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: serde::Serialize> At<P> {
    /// Whether this may be decided now. What a spent budget ends needs no answers.
    fn may_decide(&self, decided: &Decided) -> bool {
        match self {
            At::Rest | At::Asking(..) | At::Failed(..) => false,
            At::Before(place) => name(place) == decided.node,
            At::Within(place, _, slots) => {
                let answered = || slots.iter().all(|it| it.answer().is_some());
                name(place) == decided.node && (decided.spent.is_some() || answered())
            }
        }
    }
}

/// A node's name in the log.
pub(crate) fn name<P: serde::Serialize>(place: &P) -> String {
    match serde_json::to_value(place) {
        Ok(Value::String(name)) => name,
        other => unreachable!("a node serializes to its name, not to {other:?}"),
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}
