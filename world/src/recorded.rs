//! A world that answers from a fixture.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;
use shared::{
    AttemptFailed, BlockedBy, DynThread, Event, Fault, FaultKind, Graph, InDoubt, InputRequired, InvalidLog,
    Oversize, Reconciled, Response, ToolOutput, Verdict, rerun,
};

use crate::world::{Outcome, RequestContext, World, stream_words};

/// A world that answers from a recorded log, or from one written by hand.
///
/// It keeps no state, so any number of workers may ask, however often they crash.
///
/// ## Why a request is identified by its position in the conversation and not by its sequence number
///
/// A crashed worker leaves an event that the recording lacks (a second `attempted`), so every later number is off by
/// one. A request is therefore identified by its node, the state it was sent in and the number of messages before it.
/// The number only decides between several such requests.
pub struct RecordedWorld {
    asked: Vec<Asked>,
}

/// A request of the recording.
struct Asked {
    seq: usize,
    position: Position,
    /// Outcomes of each slot, with the number of events in between.
    outcomes: BTreeMap<usize, Vec<RecordedOutcome>>,
}

#[derive(PartialEq)]
struct Position {
    node: String,
    messages: usize,
    state: Value,
}

struct RecordedOutcome {
    after: usize,
    /// Number of failures before this outcome.
    failures: u32,
    is_failure: bool,
    /// True if this answers a read-back of the request.
    is_read_back: bool,
    outcome: Outcome,
}

impl RecordedWorld {
    /// Creates the world in which today's code produces the thread that `script` records.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if today's code could not continue it.
    pub fn new(graph: &'static dyn Graph, script: &[Event]) -> Result<Self, InvalidLog> {
        let mut thread = graph.begin();
        let mut asked: Vec<Asked> = Vec::new();
        for (seq, event) in rerun(graph, script)?.log.iter().enumerate() {
            if let Event::Asked(event) = event {
                let position = Position::of(thread.as_ref(), &event.node)?;
                asked.push(Asked { seq, position, outcomes: BTreeMap::new() });
            }
            let read_back = read_back_outcome(event);
            let is_read_back = read_back.is_some();
            if let (Some((slot, outcome)), Some(asked)) =
                (read_back.or_else(|| outcome(event)), asked.last_mut())
            {
                let recorded = asked.outcomes.entry(slot).or_default();
                let failures = recorded.iter().filter(|outcome| outcome.is_failure).count();
                let failures = u32::try_from(failures).unwrap_or(u32::MAX);
                let is_failure = matches!(event, Event::AttemptFailed(_));
                let after = seq - asked.seq;
                recorded.push(RecordedOutcome { after, failures, is_failure, is_read_back, outcome });
            }
            thread.apply(event)?;
        }
        Ok(Self { asked })
    }

    fn find_request(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Option<&Asked> {
        let position = Position::of(thread, ask.node).ok()?;
        let same = || self.asked.iter().filter(|entry| entry.position == position);
        // A crash only adds events: the recorded number is at most the live one.
        same().rfind(|entry| entry.seq <= ask.due.asked_seq).or_else(|| same().next())
    }
}

impl Asked {
    fn find(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Option<&Outcome> {
        let recorded = self.outcomes.get(&ask.due.slot)?;
        let of_this = |outcome: &&RecordedOutcome| {
            outcome.failures == ask.due.failures && outcome.is_read_back == ask.due.is_read_back
        };
        let now = || recorded.iter().filter(of_this);
        // Several outcomes exist where the answer was in doubt and a person confirmed that the call had not happened.
        let elapsed = thread.seq().saturating_sub(ask.due.asked_seq);
        now()
            .find(|outcome| elapsed <= outcome.after)
            .or_else(|| now().next_back())
            .map(|outcome| &outcome.outcome)
    }
}

#[async_trait]
impl World for RecordedWorld {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Some(request) = self.find_request(thread, ask) else {
            let (asked, slot) = (ask.due.asked_seq, ask.due.slot);
            return Err(Fault::permanent(format!(
                "the recording has no answer to the request {} [{slot}] of {}, asked as event {asked}",
                ask.due.request, ask.node
            )));
        };
        let Some(outcome) = request.find(thread, ask) else {
            // The request was still in flight when the recording continued: its turn was cancelled, or the recording
            // ends.
            return std::future::pending().await;
        };
        match outcome {
            Ok((Response::Reply(reply), _)) => stream_words(&reply.content, ask.deltas).await,
            Ok((Response::Echo { text }, _)) => stream_words(text, ask.deltas).await,
            Ok(_) | Err(_) => (),
        }
        outcome.clone()
    }
}

impl Position {
    fn of(thread: &dyn DynThread, node: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { node: node.to_owned(), messages: thread.messages().len(), state: thread.state()? })
    }
}

/// Returns the slot and outcome of a read-back if the event records one.
fn read_back_outcome(event: &Event) -> Option<(usize, Outcome)> {
    let (slot, output) = if let Event::Reconciled(Reconciled { slot, verdict, read_back, .. }) = event {
        let output = read_back.as_ref()?.output.clone();
        let result = if let Verdict::Happened { result } = verdict { result.as_str() } else { "" };
        (*slot, output.unwrap_or_else(|| ToolOutput::Ok(result.to_owned())))
    } else if let Event::InDoubt(InDoubt { slot, read_back: Some(reading), .. }) = event {
        (*slot, reading.output.clone()?)
    } else {
        let is_read_back = matches!(event, Event::AttemptFailed(failed) if failed.read_back);
        return is_read_back.then(|| outcome(event)).flatten();
    };
    Some((slot, Ok((Response::Output(output), None))))
}

/// Returns the slot and outcome of a request if the event records one.
fn outcome(event: &Event) -> Option<(usize, Outcome)> {
    match event {
        Event::Answered(answered) => Some((answered.slot, Ok(answered.clone().outcome()))),
        Event::AttemptFailed(AttemptFailed {
            slot,
            error,
            retry_after_ms,
            in_doubt,
            usage: meter,
            waiting,
            attempts_max: _,
            pin_changed,
            context_tokens,
            attachments_max,
            is_trial,
            read_back: _,
        }) => {
            let remedy = match retry_after_ms {
                _ if *is_trial => FaultKind::Oversized(Oversize::Status),
                _ if context_tokens.is_some() => {
                    FaultKind::ContextExceeded { context_tokens: *context_tokens }
                }
                _ if attachments_max.is_some() => {
                    FaultKind::Oversized(Oversize::Attachments { max: *attachments_max })
                }
                None => FaultKind::Permanent,
                Some(_) if *waiting => FaultKind::Unavailable {
                    retry_after_ms: *retry_after_ms,
                    sent: *in_doubt,
                    by: BlockedBy::Provider,
                },
                Some(_) if *in_doubt => FaultKind::InDoubt { retry_after_ms: *retry_after_ms },
                Some(_) => FaultKind::Transient { retry_after_ms: *retry_after_ms },
            };
            Some((
                *slot,
                Err(Fault {
                    error: error.clone(),
                    kind: remedy,
                    usage: meter.clone().map(Box::new),
                    pin_changed: *pin_changed,
                }),
            ))
        }
        Event::InDoubt(InDoubt { slot, reason, .. }) => Some((*slot, Err(Fault::in_doubt(reason.as_str())))),
        Event::InputRequired(InputRequired { slot, input_requests: forms, request_state: state }) => Some((
            *slot,
            Ok((
                Response::InputRequired { input_requests: forms.clone(), request_state: state.clone() },
                None,
            )),
        )),
        Event::TaskStarted(started) => Some((
            started.slot,
            Ok((Response::Working { task: started.task.clone(), poll_after_ms: 0 }, None)),
        )),
        Event::Opened(_)
        | Event::TurnStarted(_)
        | Event::Asked(_)
        | Event::Attempted(_)
        | Event::Abandoned(_)
        | Event::Reconciled(_)
        | Event::InputProvided(_)
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
