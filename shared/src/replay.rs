//! Replay: runs the current code at every decision of a recorded log and reports where it decides differently.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{
    event::{Asked, Decided, Event, Goto},
    graph::{DynThread, Graph},
    progress::{InvalidLog, Next},
    prompt_name::is_template_hash,
    request::{Request, quoted},
    value_diff::{ValueDifference, diff_values},
};

/// Difference between a recorded decision and the decision of the current code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Position of the event in the log.
    pub seq: usize,
    /// Node that made the decision.
    pub node: String,
    /// Most important field that differs.
    pub field: Field,
    /// Recorded value as text, or the whole event.
    pub then: String,
    /// Value that the current code produces.
    pub today: String,
}

/// Field of a decision that differs, as a path. Ordered by importance, most important first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Part of the decision: `event` if another kind of event follows, `to` if control goes elsewhere, a path such as
    /// `state.plan.steps.2` if the state differs, or the messages or the reason.
    Decision(String),
    /// Part of a request, such as `requests.0.model`.
    Request(String),
    /// System prompt of a request: `requests.0.system`, or `requests.0.prompt` if only its built-in template differs.
    Prompt(String),
    /// Descriptions or schemas of the tools of a request, or the schema of its reply: `requests.0.offered`.
    Offer(String),
}

impl Field {
    /// Returns the path.
    pub fn path(&self) -> &str {
        let (Self::Decision(path) | Self::Request(path) | Self::Prompt(path) | Self::Offer(path)) = self;
        path
    }

    /// Returns the same field with `*` in place of list indexes.
    #[must_use]
    pub fn anywhere(&self) -> Self {
        let star = |part: &str| match part.parse::<usize>() {
            Ok(_) => "*".to_owned(),
            Err(_) => part.to_owned(),
        };
        let path = self.path().split('.').map(star).collect::<Vec<_>>().join(".");
        match self {
            Self::Decision(_) => Self::Decision(path),
            Self::Request(_) => Self::Request(path),
            Self::Prompt(_) => Self::Prompt(path),
            Self::Offer(_) => Self::Offer(path),
        }
    }

    /// Returns true if a model would be asked the same thing in other words: only a system prompt differs, or what describes the
    /// tools and the reply.
    pub fn is_wording(&self) -> bool {
        matches!(self, Self::Prompt(_) | Self::Offer(_))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.path())
    }
}

/// Number of divergences, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DivergenceCounts {
    /// Number of decisions and requests that differ.
    pub diverged: u64,
    /// Number of requests that differ only in the system prompt.
    pub reworded: u64,
    /// Number of requests that differ only in what describes the tools and the reply.
    pub redescribed: u64,
}

impl DivergenceCounts {
    /// Counts a divergence at this field.
    pub fn add(&mut self, field: &Field) {
        match field {
            Field::Decision(_) | Field::Request(_) => self.diverged += 1,
            Field::Prompt(_) => self.reworded += 1,
            Field::Offer(_) => self.redescribed += 1,
        }
    }

    /// Returns true if nothing differs. Wording counts only with `wording`.
    pub fn is_same(&self, wording: bool) -> bool {
        self.diverged == 0 && (!wording || self.reworded + self.redescribed == 0)
    }
}

/// Replays a log event by event, keeping only the folded thread in memory.
pub struct Replayer {
    thread: Box<dyn DynThread>,
}

impl Replayer {
    /// Starts before the first event of a log of this strategy.
    pub fn new(graph: &dyn Graph) -> Self {
        Self { thread: graph.begin() }
    }

    /// Folds the next event, and compares it with the decision of the current code.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<Option<Divergence>, InvalidLog> {
        let divergence = if event.is_decision() { self.divergence(event)? } else { None };
        self.thread.apply(event)?;
        Ok(divergence)
    }

    /// Folds the next event without comparing it.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written the log.
    pub fn pass(&mut self, event: &Event) -> Result<(), InvalidLog> {
        self.thread.apply(event)
    }

    /// Returns the thread folded so far.
    pub fn thread(&self) -> &dyn DynThread {
        &*self.thread
    }

    fn divergence(&self, then: &Event) -> Result<Option<Divergence>, InvalidLog> {
        let differs = match self.thread.next()? {
            Next::Append(today) if is_same_decision(then, &today) => return Ok(None),
            Next::Append(today) => match (then, &today) {
                (Event::Decided(then), Event::Decided(today)) => self.decisions(then, today)?,
                (Event::Asked(then), Event::Asked(today)) => questions(then, today)?,
                _ => None,
            }
            .unwrap_or_else(|| Differs::event(then, format!("{today:#}"))),
            Next::Perform(due) => {
                let what = due.iter().map(|pending| pending.request.to_string()).collect::<Vec<_>>();
                Differs::event(then, format!("perform {}", what.join(", ")))
            }
            Next::Wait => Differs::event(then, "wait for a person".to_owned()),
        };
        let node = self.thread.node().unwrap_or_default();
        let Differs { field, then, today } = differs;
        Ok(Some(Divergence { seq: self.thread.seq(), node, field, then, today }))
    }

    /// Finds the most important difference between two decisions of a node.
    fn decisions(&self, then: &Decided, today: &Decided) -> Result<Option<Differs>, InvalidLog> {
        let differs = |name: &str, then: Value, today: Value| {
            let ValueDifference { path, left, right } = diff_values(name, &then, &today, 1).pop()?;
            Some(Differs { field: Field::Decision(path), then: left, today: right })
        };
        let value = serde_json::to_value::<&Decided>;
        let (then_json, today_json) = (value(then)?, value(today)?);
        let of = |name: &str| differs(name, then_json[name].clone(), today_json[name].clone());
        if goes(&then.to) != goes(&today.to) {
            let field = Field::Decision("to".to_owned());
            return Ok(Some(Differs { field, then: goes(&then.to), today: goes(&today.to) }));
        }
        if let Some(spent) = of("budget_exceeded") {
            return Ok(Some(spent));
        }
        let state = |decided: &Decided| self.thread.state_after(&decided.facts);
        let remembered = differs("state", state(then)?, state(today)?);
        Ok(remembered.or_else(|| ["facts", "to", "outcome", "messages", "reason"].into_iter().find_map(of)))
    }
}

/// Replays a log and returns every decision that the current code makes differently, in the order of the log.
///
/// # Errors
///
/// [`InvalidLog`] if no thread of this strategy could have written the log.
pub fn replay<'a>(
    graph: &dyn Graph,
    log: impl IntoIterator<Item = &'a Event>,
) -> Result<Vec<Divergence>, InvalidLog> {
    let mut replayer = Replayer::new(graph);
    log.into_iter().filter_map(|event| replayer.see(event).transpose()).collect()
}

struct Differs {
    field: Field,
    then: String,
    today: String,
}

impl Differs {
    fn event(then: &Event, today: String) -> Self {
        Self { field: Field::Decision("event".to_owned()), then: format!("{then:#}"), today }
    }
}

/// Describes the destination of control.
fn goes(to: &Goto) -> String {
    match to {
        Goto::Node(node) => node.clone(),
        Goto::End => "end".to_owned(),
        Goto::Interrupt(interrupt) => {
            format!("asks a person for {}, continues at {}", interrupt.kind.name(), interrupt.resume)
        }
    }
}

/// Returns true if the current code makes a decision as it was recorded.
///
/// Earlier versions recorded neither the names of built-in prompts nor the hashes of tools and schemas. What a recorded request
/// lacks is not compared.
pub fn is_same_decision(then: &Event, today: &Event) -> bool {
    if then == today {
        return true;
    }
    let (Event::Asked(then), Event::Asked(today)) = (then, today) else { return false };
    *then == today.as_detailed_as(then)
}

impl Asked {
    /// Returns the event without the hashes that the requests of another one lack, because an earlier version recorded it.
    #[must_use]
    pub fn as_detailed_as(&self, other: &Self) -> Self {
        let mut asked = self.clone();
        for (request, other) in asked.requests.iter_mut().zip(&other.requests) {
            if let Request::Chat { prompt, offered, .. } = request
                && let Request::Chat { prompt: other_prompt, offered: other_offer, .. } = other
            {
                prompt.take_if(|name| other_prompt.is_none() && is_template_hash(name));
                offered.take_if(|_| other_offer.is_none());
            }
        }
        asked
    }
}

/// Finds the difference between the requests of a node: first in what is asked, then in words, then in what describes the tools
/// and the reply.
fn questions(then: &Asked, today: &Asked) -> Result<Option<Differs>, InvalidLog> {
    let today = today.as_detailed_as(then);
    let (then, today) = (&then.requests, &today.requests);
    let (left, right) = (without_words(then, today)?, without_words(today, then)?);
    if let Some(ValueDifference { path, left, right }) = diff_values("requests", &left, &right, 1).pop() {
        return Ok(Some(Differs { field: Field::Request(path), then: left, today: right }));
    }
    let slots = || then.iter().zip(today).map(|(then, today)| (Words::of(then), Words::of(today)));
    let reworded = slots().enumerate().find_map(|(slot, (then, today))| {
        if then.system != today.system {
            let (then, today) = first_line(then.system, today.system);
            return Some(Differs { field: Field::Prompt(format!("requests.{slot}.system")), then, today });
        }
        then.differs("prompt", slot, Field::Prompt, |words| words.prompt, &today)
    });
    let described_anew = || {
        slots().enumerate().find_map(|(slot, (then, today))| {
            then.differs("offered", slot, Field::Offer, |words| words.offered, &today)
        })
    };
    Ok(reworded.or_else(described_anew))
}

/// Returns requests as JSON, without their words. The names of prompts remain unless both requests have built-in ones.
fn without_words(requests: &[Request], others: &[Request]) -> Result<Value, InvalidLog> {
    let built_in = |request: &Request| Words::of(request).prompt.is_some_and(is_template_hash);
    let mut requests = requests.to_vec();
    for (slot, request) in requests.iter_mut().enumerate() {
        let are_built_in = built_in(request) && others.get(slot).is_some_and(built_in);
        if let Request::Chat { system, prompt, offered, .. } = request {
            system.clear();
            *offered = None;
            prompt.take_if(|_| are_built_in);
        }
    }
    Ok(serde_json::to_value(requests)?)
}

/// Parts of a request to a model that put the same thing in words.
#[derive(Default)]
struct Words<'a> {
    system: &'a str,
    prompt: Option<&'a str>,
    offered: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn of(request: &'a Request) -> Self {
        let Request::Chat { system, prompt, offered, .. } = request else { return Self::default() };
        Self { system, prompt: prompt.as_deref(), offered: offered.as_deref() }
    }

    fn differs(
        &self,
        name: &str,
        slot: usize,
        field: fn(String) -> Field,
        hash: fn(&Self) -> Option<&'a str>,
        today: &Self,
    ) -> Option<Differs> {
        let (then, today) = (hash(self), hash(today));
        let shown = |hash: Option<&str>| hash.unwrap_or("none").to_owned();
        (then != today).then(|| Differs {
            field: field(format!("requests.{slot}.{name}")),
            then: shown(then),
            today: shown(today),
        })
    }
}

/// Finds the first line that differs between two texts.
fn first_line(then: &str, today: &str) -> (String, String) {
    let same = then.lines().zip(today.lines()).take_while(|(then, today)| then == today).count();
    let told = |text: &str| match text.lines().nth(same) {
        Some(line) => format!("line {}: {}", same + 1, quoted(line, true)),
        None => format!("no line {}", same + 1),
    };
    (told(then), told(today))
}
