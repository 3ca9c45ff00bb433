//! A world that says what a fixture says.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;
use shared::{Corrupt, Doubted, Event, Faltered, Fault, Graph, Remedy, Replay, Response, Wanted, reenact};

use super::{Ask, Outcome, World, speak};

/// A world that says what a fixture says: a recorded log, or one written by hand.
///
/// It keeps no state, so it does not matter how many workers ask, nor how often they crash.
///
/// ## Why a question is known by its place and not by its number
///
/// A worker that crashed leaves an event that the recording lacks (a second `attempted`), and every later number
/// is off by one. So a question is known by its node, the state it was asked in and how much had been said; the
/// number only decides between several such.
pub struct Recorded {
    asked: Vec<Asked>,
}

/// A question of the recording.
struct Asked {
    seq: usize,
    place: Place,
    /// What came of each of its requests, with how many events lay between.
    outcomes: BTreeMap<usize, Vec<Came>>,
}

#[derive(PartialEq)]
struct Place {
    node: String,
    messages: usize,
    state: Value,
}

struct Came {
    after: usize,
    /// How often it had faltered before.
    falters: u32,
    is_falter: bool,
    outcome: Outcome,
}

impl Recorded {
    /// The world in which today's code lives the thread that `script` tells of.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if today's code could not go on.
    pub fn new(graph: &'static dyn Graph, script: &[Event]) -> Result<Self, Corrupt> {
        let mut thread = graph.begin();
        let mut asked: Vec<Asked> = Vec::new();
        for (seq, event) in reenact(graph, script)?.log.iter().enumerate() {
            if let Event::Asked(it) = event {
                let place = Place::of(thread.as_ref(), &it.node)?;
                asked.push(Asked { seq, place, outcomes: BTreeMap::new() });
            }
            if let (Some((slot, outcome)), Some(asked)) = (outcome(event), asked.last_mut()) {
                let came = asked.outcomes.entry(slot).or_default();
                let falters = came.iter().filter(|it| it.is_falter).count();
                let falters = u32::try_from(falters).unwrap_or(u32::MAX);
                let is_falter = matches!(event, Event::Faltered(_));
                came.push(Came { after: seq - asked.seq, falters, is_falter, outcome });
            }
            thread.apply(event)?;
        }
        Ok(Self { asked })
    }

    fn question(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Option<&Asked> {
        let place = Place::of(thread, ask.node).ok()?;
        let same = || self.asked.iter().filter(|it| it.place == place);
        // A crash only ever adds events: the recording's number is the live one's or a smaller one.
        same().rfind(|it| it.seq <= ask.due.asked).or_else(|| same().next())
    }
}

impl Asked {
    fn find(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Option<&Outcome> {
        let came = self.outcomes.get(&ask.due.slot)?;
        let now = || came.iter().filter(|it| it.falters == ask.due.falters);
        // There are several where the answer was in doubt and a person said that it had not happened.
        let passed = thread.seq().saturating_sub(ask.due.asked);
        now().find(|it| passed <= it.after).or_else(|| now().next_back()).map(|it| &it.outcome)
    }
}

#[async_trait]
impl World for Recorded {
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Some(question) = self.question(thread, ask) else {
            let (asked, slot) = (ask.due.asked, ask.due.slot);
            return Err(Fault::operator(format!(
                "the recording does not know the question {} [{slot}] of {}, asked as event {asked}",
                ask.due.request, ask.node
            )));
        };
        let Some(outcome) = question.find(thread, ask) else {
            // It was still under way when the recording went on: when its turn was cancelled, or at the end.
            return std::future::pending().await;
        };
        match outcome {
            Ok((Response::Reply(reply), _)) => speak(&reply.content, ask.deltas).await,
            Ok((Response::Echo { says }, _)) => speak(says, ask.deltas).await,
            Ok(_) | Err(_) => (),
        }
        outcome.clone()
    }
}

impl Place {
    fn of(thread: &dyn Replay, node: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { node: node.to_owned(), messages: thread.messages().len(), state: thread.state()? })
    }
}

/// What came of a request, if the event says so.
fn outcome(event: &Event) -> Option<(usize, Outcome)> {
    match event {
        Event::Answered(it) => Some((it.slot, Ok(it.clone().outcome()))),
        Event::Faltered(Faltered { slot, error, again_after_ms, in_doubt, meter }) => {
            let remedy = match again_after_ms {
                None => Remedy::Operator,
                Some(_) if *in_doubt => Remedy::Doubt { after_ms: *again_after_ms },
                Some(_) => Remedy::Again { after_ms: *again_after_ms },
            };
            Some((*slot, Err(Fault { error: error.clone(), remedy, meter: meter.clone().map(Box::new) })))
        }
        Event::Doubted(Doubted { slot, reason }) => Some((*slot, Err(Fault::doubt(reason.as_str())))),
        Event::Wanted(Wanted { slot, forms, state }) => {
            Some((*slot, Ok((Response::Wants { forms: forms.clone(), state: state.clone() }, None))))
        }
        Event::Opened(_)
        | Event::Heard(_)
        | Event::Asked(_)
        | Event::Attempted(_)
        | Event::GaveUp(_)
        | Event::Reconciled(_)
        | Event::Supplied(_)
        | Event::Decided(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Cancelled(_)
        | Event::Forked(_) => None,
    }
}
