//! Folds a log into the spans of its turns.

use std::collections::BTreeMap;

use shared::{Event, Goto, Message, Request, Response, Role, Usage};
use store::{Recorded, ThreadId, TurnId};

use super::{
    attributes::{self, Attribute, AttributeValue},
    content,
    ids::{Part, SpanId, TraceId, TraceParent, span_id, trace_id},
    peers::Peers,
    times::add_times,
};

/// Choice to export or leave out the texts of people, models and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// It is.
    Include,
    /// It is not.
    Omit,
}

/// Relation of a span to its parent, with its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside of turnfold.
    Internal = 1,
    /// Work for a client.
    Server = 2,
    /// A request to another service.
    Client = 3,
}

/// One span of a trace, as it is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Turn that it belongs to.
    pub turn: TurnId,
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    /// Name of the span.
    pub name: String,
    /// Relation to its parent.
    pub kind: SpanKind,
    /// Start in microseconds since the Unix epoch.
    pub start: i64,
    /// End in microseconds since the Unix epoch.
    pub end: i64,
    /// Attributes by name.
    pub attributes: Vec<Attribute>,
    /// Error of a part that failed; empty if content is omitted.
    pub error: Option<String>,
}

/// Returns the spans of all turns of a thread that have ended, in the order in which they ended. `log` is the whole log, and
/// `parents` the spans of clients by turn.
pub fn turn_spans(
    thread: ThreadId,
    log: &[Recorded],
    parents: &BTreeMap<TurnId, TraceParent>,
    content: Content,
    peers: &Peers,
) -> Vec<Span> {
    let mut tracer = Tracer::new(thread, parents, content, peers);
    log.iter().for_each(|recorded| tracer.see(recorded));
    let mut spans = tracer.spans;
    add_times(thread, log, &mut spans);
    spans
}

/// State of the fold.
struct Tracer<'a> {
    thread: ThreadId,
    parents: &'a BTreeMap<TurnId, TraceParent>,
    content: Content,
    strategy: String,
    tenant: String,
    peers: &'a Peers,
    conversation: Vec<Message>,
    /// Messages that began the turn.
    input: Vec<Message>,
    /// Length of the conversation when the turn began, with its messages.
    turn_from: usize,
    /// The turn under way.
    turn: Option<OpenTurn>,
    /// The last turn that ended, which a retry continues.
    last: Option<OpenTurn>,
    node: Option<OpenNode>,
    /// Time of the previous event.
    before: i64,
    spans: Vec<Span>,
}

/// A turn under way, or a part of it after a retry.
#[derive(Clone, Copy)]
struct OpenTurn {
    turn: TurnId,
    trace: TraceId,
    id: SpanId,
    parent: Option<SpanId>,
    start: i64,
}

/// A node whose requests are under way.
struct OpenNode {
    name: String,
    start: i64,
    requests: Vec<Request>,
    /// Start of the current attempt, by slot.
    starts: BTreeMap<usize, i64>,
    /// Spans of its attempts. Their parent is known when the node ends.
    attempts: Vec<Span>,
}

impl<'a> Tracer<'a> {
    fn new(
        thread: ThreadId,
        parents: &'a BTreeMap<TurnId, TraceParent>,
        content: Content,
        peers: &'a Peers,
    ) -> Self {
        Self {
            thread,
            parents,
            content,
            strategy: String::new(),
            tenant: String::new(),
            peers,
            conversation: Vec::new(),
            input: Vec::new(),
            turn_from: 0,
            turn: None,
            last: None,
            node: None,
            before: 0,
            spans: Vec::new(),
        }
    }

    fn see(&mut self, row: &Recorded) {
        let (seq, at) = (row.seq, row.at);
        match &row.event {
            Event::Opened(opened) => {
                (self.strategy, self.tenant) = (opened.strategy.clone(), opened.tenant.clone());
            }
            Event::TurnStarted(started) => {
                self.conversation.extend(started.messages.iter().cloned());
                self.begin(started.turn, started.messages.clone(), seq, at);
            }
            Event::InputProvided(provided) => {
                let text = serde_json::to_string(&provided.response).unwrap_or_default();
                self.begin(provided.turn, vec![Message::user(text)], seq, at);
            }
            Event::Asked(asked) => {
                let starts = (0..asked.requests.len()).map(|slot| (slot, at)).collect();
                let node = self.node.take();
                let start = node.as_ref().map_or(self.before, |node| node.start);
                let attempts = node.map(|node| node.attempts).unwrap_or_default();
                let (name, requests) = (asked.node.clone(), asked.requests.clone());
                self.node = Some(OpenNode { name, start, requests, starts, attempts });
            }
            Event::Attempted(attempted) => self.start_attempt(attempted.slot, at),
            // The attempt lasts until the task has ended.
            Event::TaskStarted(_) => {}
            // The turn and its spans have ended.
            Event::WriteEnded(_) => {}
            Event::Answered(answered) => {
                self.attempt(answered.slot, seq, at, answered.usage.as_ref(), Some(&answered.response), None);
            }
            Event::AttemptFailed(failed) => {
                self.attempt(failed.slot, seq, at, failed.usage.as_ref(), None, Some(&failed.error));
                self.start_attempt(failed.slot, at);
            }
            Event::Abandoned(abandoned) => {
                self.attempt(abandoned.slot, seq, at, None, None, Some(&abandoned.reason))
            }
            Event::InDoubt(in_doubt) => {
                self.attempt(in_doubt.slot, seq, at, None, None, Some(&in_doubt.reason))
            }
            Event::InputRequired(required) => self.attempt(required.slot, seq, at, None, None, None),
            Event::Reconciled(reconciled) => self.start_attempt(reconciled.slot, at),
            Event::Summarised(_) => self.end_node("summarise", seq, at, None, None),
            Event::Decided(decided) => {
                self.conversation.extend(decided.messages.iter().cloned());
                self.end_node(&decided.node, seq, at, decided.reason.as_deref(), None);
                let outcome = decided.outcome.as_ref().map_or("answered", |outcome| outcome.kind.name());
                match &decided.to {
                    Goto::Node(_) => {}
                    Goto::End => {
                        let output = self.answer();
                        self.end(at, outcome, output, None);
                    }
                    Goto::Interrupt(interrupt) => {
                        let question = Message::assistant(interrupt.question.as_str());
                        self.end(at, "interrupted", Some(question), None);
                    }
                }
            }
            Event::Failed(failed) => {
                self.end_node(&failed.node, seq, at, None, Some(&failed.reason));
                self.end(at, "failed", None, Some(&failed.reason));
            }
            Event::Retried(_) => self.retry(seq, at),
            Event::Cancelled(_) => {
                if let Some(node) = &self.node {
                    let name = node.name.clone();
                    self.end_node(&name, seq, at, None, Some("cancelled"));
                }
                self.end(at, "cancelled", None, None);
            }
            Event::Rated(_) => {}
            // What was under way is sent again.
            Event::TakenOver(_) => {
                if let Some(node) = &mut self.node {
                    node.starts.values_mut().for_each(|start| *start = at);
                }
            }
            // The turns before belong to the other thread.
            Event::Forked(_) => self.spans.clear(),
        }
        self.before = at;
    }

    fn begin(&mut self, turn: TurnId, input: Vec<Message>, seq: u64, at: i64) {
        (self.input, self.turn_from) = (input, self.conversation.len());
        let parent = self.parents.get(&turn);
        let trace = parent.map_or_else(|| trace_id(self.thread, turn), |parent| parent.trace);
        let id = span_id(self.thread, seq, Part::Turn);
        self.turn = Some(OpenTurn { turn, trace, id, parent: parent.map(|parent| parent.span), start: at });
        if let Some(node) = &mut self.node {
            // A node that waited for a person continues in this turn.
            node.start = at;
            node.starts.values_mut().for_each(|start| *start = at);
        }
    }

    /// Begins the part of a failed turn that follows a retry, as a child of the turn.
    fn retry(&mut self, seq: u64, at: i64) {
        if let Some(failed) = self.last.take() {
            let id = span_id(self.thread, seq, Part::Turn);
            self.turn = Some(OpenTurn { id, parent: Some(failed.id), start: at, ..failed });
        }
    }

    fn start_attempt(&mut self, slot: usize, at: i64) {
        if let Some(node) = &mut self.node {
            node.starts.insert(slot, at);
        }
    }

    /// Adds the span of an attempt at a request.
    fn attempt(
        &mut self,
        slot: usize,
        seq: u64,
        at: i64,
        usage: Option<&Usage>,
        response: Option<&Response>,
        error: Option<&str>,
    ) {
        let shown = self.shown(error);
        let (Some(turn), Some(node)) = (self.turn, &mut self.node) else { return };
        let Some(request) = node.requests.get(slot) else { return };
        let (name, mut attributes) = attributes::of_request(request);
        attributes.extend(self.peers.of_request(request));
        attributes.extend(usage.map(attributes::of_usage).unwrap_or_default());
        if let Some(Response::Reply(reply)) = response {
            let reason = AttributeValue::Texts(vec![content::finish_reason(reply).to_owned()]);
            attributes.push(("gen_ai.response.finish_reasons", reason));
        }
        if error.is_some() {
            attributes.push(("error.type", "attempt_failed".into()));
        }
        if self.content == Content::Include {
            attributes.extend(content::of_request(request, &self.conversation));
            attributes.extend(response.and_then(content::of_response));
        }
        let started = node.starts.get(&slot).copied().unwrap_or(at);
        // Requests of a node run concurrently and are recorded together: the duration is exact, the time of the event is not.
        let start = usage.map_or(started, |usage| {
            let duration = i64::try_from(usage.duration_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
            at.saturating_sub(duration).max(started)
        });
        node.attempts.push(Span {
            turn: turn.turn,
            trace: turn.trace,
            id: span_id(self.thread, seq, Part::Request(slot)),
            parent: None,
            name,
            kind: SpanKind::Client,
            start,
            end: at,
            attributes,
            error: shown,
        });
    }

    /// Returns the error as far as it may be exported: it may quote a model or a tool.
    fn shown(&self, error: Option<&str>) -> Option<String> {
        let text = |error: &str| match self.content {
            Content::Include => error.to_owned(),
            Content::Omit => String::new(),
        };
        error.map(text)
    }

    fn end_node(&mut self, name: &str, seq: u64, at: i64, reason: Option<&str>, error: Option<&str>) {
        let node = self.node.take();
        let Some(turn) = self.turn else { return };
        let id = span_id(self.thread, seq, Part::Node);
        let start = node.as_ref().map_or(self.before, |node| node.start).max(turn.start);
        let mut attributes: Vec<Attribute> =
            vec![("turnfold.node", name.into()), ("turnfold.seq", seq.into())];
        if self.content == Content::Include {
            attributes.extend(reason.map(|reason| ("turnfold.reason", reason.into())));
        }
        let attempts = node.map(|node| node.attempts).unwrap_or_default();
        self.spans.extend(attempts.into_iter().map(|attempt| Span { parent: Some(id), ..attempt }));
        self.spans.push(Span {
            turn: turn.turn,
            trace: turn.trace,
            id,
            parent: Some(turn.id),
            name: name.to_owned(),
            kind: SpanKind::Internal,
            start,
            end: at,
            attributes,
            error: self.shown(error),
        });
    }

    /// Returns the last message of the assistant in the turn.
    fn answer(&self) -> Option<Message> {
        let messages = self.conversation.get(self.turn_from..)?;
        messages.iter().rev().find(|message| message.role == Role::Assistant).cloned()
    }

    fn end(&mut self, at: i64, outcome: &'static str, output: Option<Message>, error: Option<&str>) {
        let Some(turn) = self.turn.take() else { return };
        self.last = Some(turn);
        let mut attributes: Vec<Attribute> = vec![
            ("gen_ai.operation.name", "invoke_agent".into()),
            ("gen_ai.agent.name", self.strategy.as_str().into()),
            ("gen_ai.conversation.id", self.thread.to_string().into()),
            ("turnfold.turn", turn.turn.to_string().into()),
            ("turnfold.tenant", self.tenant.as_str().into()),
            ("turnfold.outcome", outcome.into()),
        ];
        if error.is_some() {
            attributes.push(("error.type", "turn_failed".into()));
        }
        if self.content == Content::Include {
            attributes.push(("gen_ai.input.messages", content::input(&self.input)));
            // OpenInference's names, which lists of traces show.
            let last = self.input.last().map(|message| ("input.value", content::plain(&message.content)));
            let answer = output.as_ref().map(|output| ("output.value", content::plain(&output.content)));
            attributes.extend(last.into_iter().chain(answer));
            attributes.extend(output.map(|output| {
                let reason = if output.tool_calls.is_empty() { "stop" } else { "tool_call" };
                ("gen_ai.output.messages", content::output(&output, reason))
            }));
        }
        self.spans.push(Span {
            turn: turn.turn,
            trace: turn.trace,
            id: turn.id,
            parent: turn.parent,
            name: format!("invoke_agent {}", self.strategy),
            kind: SpanKind::Server,
            start: turn.start,
            end: at,
            attributes,
            error: self.shown(error),
        });
    }
}

#[cfg(test)]
mod tests;
