//! Standing today's code at every point of an old log: where it would decide otherwise, and in what.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{
    differences::{Differing, differences},
    event::{Asked, Decided, Event, Goto},
    graph::{Graph, Replay},
    progress::{Corrupt, Next},
    request::{Request, quoted},
};

/// Where the code of today parts from the log of then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The number of the event.
    pub seq: usize,
    /// The node that decided it.
    pub node: String,
    /// What of the decision differs: the gravest thing, if there are many.
    pub field: Field,
    /// What it was then, in words on one line; of a whole event, as it reads.
    pub then: String,
    /// What it would be today.
    pub today: String,
}

/// What of a decision differs: a path into it. The order is that in which they matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// What follows from what was known: `event`, where another kind of event would follow; `to`, where control would go
    /// elsewhere; `state.plan.steps.2`, where another thing would be remembered; what is said and why.
    Decision(String),
    /// What is put to the world: `requests.0.model`.
    Request(String),
    /// The words that a model is told first: `requests.0.system`.
    Prompt(String),
}

impl Field {
    /// The path.
    pub fn path(&self) -> &str {
        let (Field::Decision(path) | Field::Request(path) | Field::Prompt(path)) = self;
        path
    }

    /// Whether nothing but the words differ that a model is told first.
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

/// Today's code, standing where a log stands, event by event: of a log of any length it keeps the thread only.
pub struct Verifier {
    thread: Box<dyn Replay>,
}

impl Verifier {
    /// Before the first event of a log of this strategy.
    pub fn new(graph: &dyn Graph) -> Self {
        Self { thread: graph.begin() }
    }

    /// Goes on by one event: how today's code would have decided it otherwise, if it would.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<Option<Divergence>, Corrupt> {
        let divergence = if event.is_decision() { self.divergence(event)? } else { None };
        self.thread.apply(event)?;
        Ok(divergence)
    }

    /// Goes on by one event, without a look at how today's code would decide it.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no thread of this strategy could have written the log.
    pub fn pass(&mut self, event: &Event) -> Result<(), Corrupt> {
        self.thread.apply(event)
    }

    /// The thread, as the log says so far.
    pub fn thread(&self) -> &dyn Replay {
        &*self.thread
    }

    fn divergence(&self, then: &Event) -> Result<Option<Divergence>, Corrupt> {
        let differs = match self.thread.next()? {
            Next::Append(today) if today == *then => return Ok(None),
            Next::Append(today) => match (then, &today) {
                (Event::Decided(then), Event::Decided(today)) => self.decisions(then, today)?,
                (Event::Asked(then), Event::Asked(today)) => questions(then, today)?,
                _ => None,
            }
            .unwrap_or_else(|| Differs::event(then, today.to_string())),
            Next::Perform(due) => {
                let what = due.iter().map(|it| it.request.to_string()).collect::<Vec<_>>();
                Differs::event(then, format!("perform {}", what.join(", ")))
            }
            Next::Rest => Differs::event(then, "wait for a person".to_owned()),
        };
        let node = self.thread.node().unwrap_or_default();
        let Differs { field, then, today } = differs;
        Ok(Some(Divergence { seq: self.thread.seq(), node, field, then, today }))
    }

    /// In what two decisions of one node differ, the gravest first.
    fn decisions(&self, then: &Decided, today: &Decided) -> Result<Option<Differs>, Corrupt> {
        let differs = |name: &str, then: Value, today: Value| {
            let Differing { path, left, right } = differences(name, &then, &today, 1).pop()?;
            Some(Differs { field: Field::Decision(path), then: left, today: right })
        };
        let value = serde_json::to_value::<&Decided>;
        let (then_json, today_json) = (value(then)?, value(today)?);
        let of = |name: &str| differs(name, then_json[name].clone(), today_json[name].clone());
        if goes(&then.to) != goes(&today.to) {
            let field = Field::Decision("to".to_owned());
            return Ok(Some(Differs { field, then: goes(&then.to), today: goes(&today.to) }));
        }
        if let Some(spent) = of("spent") {
            return Ok(Some(spent));
        }
        let state = |it: &Decided| self.thread.state_after(&it.learned);
        let remembered = differs("state", state(then)?, state(today)?);
        Ok(remembered.or_else(|| ["learned", "to", "said", "why"].into_iter().find_map(of)))
    }
}

/// Where today's code, standing where the log stood, would have decided otherwise, in the order of the log.
///
/// # Errors
///
/// [`Corrupt`] if no thread of this strategy could have written the log.
pub fn verify<'a>(
    graph: &dyn Graph,
    log: impl IntoIterator<Item = &'a Event>,
) -> Result<Vec<Divergence>, Corrupt> {
    let mut verifier = Verifier::new(graph);
    log.into_iter().filter_map(|event| verifier.see(event).transpose()).collect()
}

struct Differs {
    field: Field,
    then: String,
    today: String,
}

impl Differs {
    fn event(then: &Event, today: String) -> Self {
        Self { field: Field::Decision("event".to_owned()), then: then.to_string(), today }
    }
}

/// Where control goes, in words.
fn goes(to: &Goto) -> String {
    match to {
        Goto::Node(node) => node.clone(),
        Goto::End => "end".to_owned(),
        Goto::Interrupt(it) => format!("asks a person for {}, heard at {}", it.kind.name(), it.resume),
    }
}

/// In what two questions of one node differ; in the words of a prompt only if in nothing else.
fn questions(then: &Asked, today: &Asked) -> Result<Option<Differs>, Corrupt> {
    let without_words = |it: &Asked| -> Result<Value, Corrupt> {
        let mut requests = serde_json::to_value(&it.requests)?;
        let all = requests.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        all.for_each(|it| drop(it.remove("system")));
        Ok(requests)
    };
    let found = differences("requests", &without_words(then)?, &without_words(today)?, 1).pop();
    if let Some(Differing { path, left, right }) = found {
        return Ok(Some(Differs { field: Field::Request(path), then: left, today: right }));
    }
    let words = |it: &Asked, slot: usize| match it.requests.get(slot) {
        Some(Request::Chat { system, .. }) => system.clone(),
        Some(_) | None => String::new(),
    };
    let reworded = (0..then.requests.len()).find(|slot| words(then, *slot) != words(today, *slot));
    Ok(reworded.map(|slot| {
        let (then, today) = first_line(&words(then, slot), &words(today, slot));
        Differs { field: Field::Prompt(format!("requests.{slot}.system")), then, today }
    }))
}

/// The first line in which two texts differ.
fn first_line(then: &str, today: &str) -> (String, String) {
    let same = then.lines().zip(today.lines()).take_while(|(then, today)| then == today).count();
    let told = |text: &str| match text.lines().nth(same) {
        Some(line) => format!("line {}: {}", same + 1, quoted(line)),
        None => format!("no line {}", same + 1),
    };
    (told(then), told(today))
}
