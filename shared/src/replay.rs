//! Replay: runs the current code at every decision of a recorded log and reports where it decides differently.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{
    event::{Asked, Decided, Event, Goto},
    graph::{DynThread, Graph},
    progress::{InvalidLog, Next},
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
    /// System prompt of a request: `requests.0.system`.
    Prompt(String),
}

impl Field {
    /// Returns the path.
    pub fn path(&self) -> &str {
        let (Field::Decision(path) | Field::Request(path) | Field::Prompt(path)) = self;
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
        }
    }

    /// Returns true if only a system prompt differs.
    pub fn is_prompt(&self) -> bool {
        matches!(self, Field::Prompt(_))
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
            Next::Append(today) if today == *then => return Ok(None),
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

/// Finds the difference between the requests of a node. Prompts are compared last.
fn questions(then: &Asked, today: &Asked) -> Result<Option<Differs>, InvalidLog> {
    let without_words = |asked: &Asked| -> Result<Value, InvalidLog> {
        let mut requests = serde_json::to_value(&asked.requests)?;
        let all = requests.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        all.for_each(|request| drop(request.remove("system")));
        Ok(requests)
    };
    let found = diff_values("requests", &without_words(then)?, &without_words(today)?, 1).pop();
    if let Some(ValueDifference { path, left, right }) = found {
        return Ok(Some(Differs { field: Field::Request(path), then: left, today: right }));
    }
    let words = |asked: &Asked, slot: usize| match asked.requests.get(slot) {
        Some(Request::Chat { system, .. }) => system.clone(),
        Some(_) | None => String::new(),
    };
    let reworded = (0..then.requests.len()).find(|slot| words(then, *slot) != words(today, *slot));
    Ok(reworded.map(|slot| {
        let (then, today) = first_line(&words(then, slot), &words(today, slot));
        Differs { field: Field::Prompt(format!("requests.{slot}.system")), then, today }
    }))
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
