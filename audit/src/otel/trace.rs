//! Folds a log into the spans of its turns.

use std::collections::BTreeMap;

use shared::{Event, Goto, Message, Request, Response, Usage};
use store::{Recorded, ThreadId, TurnId};

use super::{
    attributes::{self, Attribute},
    content,
    ids::{Part, SpanId, TraceId, TraceParent, span_id, trace_id},
};

/// Whether what persons, models and tools wrote is exported.
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

/// A span.
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
) -> Vec<Span> {
    let mut tracer = Tracer::new(thread, parents, content);
    log.iter().for_each(|it| tracer.see(it));
    tracer.spans
}

/// State of the fold.
struct Tracer<'a> {
    thread: ThreadId,
    parents: &'a BTreeMap<TurnId, TraceParent>,
    content: Content,
    strategy: String,
    tenant: String,
    conversation: Vec<Message>,
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
    fn new(thread: ThreadId, parents: &'a BTreeMap<TurnId, TraceParent>, content: Content) -> Self {
        Self {
            thread,
            parents,
            content,
            strategy: String::new(),
            tenant: String::new(),
            conversation: Vec::new(),
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
            Event::Opened(it) => {
                (self.strategy, self.tenant) = (it.strategy.clone(), it.tenant.clone());
            }
            Event::TurnStarted(it) => {
                self.conversation.extend(it.messages.iter().cloned());
                self.begin(it.turn, seq, at);
            }
            Event::InputProvided(it) => self.begin(it.turn, seq, at),
            Event::Asked(it) => {
                let starts = (0..it.requests.len()).map(|slot| (slot, at)).collect();
                let node = self.node.take();
                let start = node.as_ref().map_or(self.before, |it| it.start);
                let attempts = node.map(|it| it.attempts).unwrap_or_default();
                let (name, requests) = (it.node.clone(), it.requests.clone());
                self.node = Some(OpenNode { name, start, requests, starts, attempts });
            }
            Event::Attempted(it) => self.start_attempt(it.slot, at),
            Event::Answered(it) => {
                self.attempt(it.slot, seq, at, it.usage.as_ref(), Some(&it.response), None);
            }
            Event::AttemptFailed(it) => {
                self.attempt(it.slot, seq, at, it.usage.as_ref(), None, Some(&it.error));
                self.start_attempt(it.slot, at);
            }
            Event::Abandoned(it) => self.attempt(it.slot, seq, at, None, None, Some(&it.reason)),
            Event::InDoubt(it) => self.attempt(it.slot, seq, at, None, None, Some(&it.reason)),
            Event::InputRequired(it) => self.attempt(it.slot, seq, at, None, None, None),
            Event::Reconciled(it) => self.start_attempt(it.slot, at),
            Event::Summarised(_) => self.end_node("summarise", seq, at, None, None),
            Event::Decided(it) => {
                self.conversation.extend(it.messages.iter().cloned());
                self.end_node(&it.node, seq, at, it.reason.as_deref(), None);
                let outcome = it.outcome.as_ref().map_or("answered", |it| it.kind.name());
                match &it.to {
                    Goto::Node(_) => {}
                    Goto::End => self.end(at, outcome, None),
                    Goto::Interrupt(_) => self.end(at, "interrupted", None),
                }
            }
            Event::Failed(it) => {
                self.end_node(&it.node, seq, at, None, Some(&it.reason));
                self.end(at, "failed", Some(&it.reason));
            }
            Event::Retried(_) => self.retry(seq, at),
            Event::Cancelled(_) => {
                if let Some(node) = &self.node {
                    let name = node.name.clone();
                    self.end_node(&name, seq, at, None, Some("cancelled"));
                }
                self.end(at, "cancelled", None);
            }
            // The turns before belong to the other thread.
            Event::Forked(_) => self.spans.clear(),
        }
        self.before = at;
    }

    fn begin(&mut self, turn: TurnId, seq: u64, at: i64) {
        let parent = self.parents.get(&turn);
        let trace = parent.map_or_else(|| trace_id(self.thread, turn), |it| it.trace);
        let id = span_id(self.thread, seq, Part::Turn);
        self.turn = Some(OpenTurn { turn, trace, id, parent: parent.map(|it| it.span), start: at });
        if let Some(node) = &mut self.node {
            // A node that waited for a person continues in this turn.
            node.start = at;
            node.starts.values_mut().for_each(|it| *it = at);
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
        attributes.extend(usage.map(attributes::of_usage).unwrap_or_default());
        if error.is_some() {
            attributes.push(("error.type", "attempt_failed".into()));
        }
        if self.content == Content::Include {
            attributes.extend(content::of_request(request, &self.conversation));
            attributes.extend(response.and_then(content::of_response));
        }
        let started = node.starts.get(&slot).copied().unwrap_or(at);
        // Requests of a node run concurrently and are recorded together: the duration is exact, the time of the event is not.
        let start = usage.map_or(started, |it| {
            let duration = i64::try_from(it.duration_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
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
        let start = node.as_ref().map_or(self.before, |it| it.start).max(turn.start);
        let mut attributes: Vec<Attribute> =
            vec![("turnfold.node", name.into()), ("turnfold.seq", seq.into())];
        if self.content == Content::Include {
            attributes.extend(reason.map(|it| ("turnfold.reason", it.into())));
        }
        let attempts = node.map(|it| it.attempts).unwrap_or_default();
        self.spans.extend(attempts.into_iter().map(|it| Span { parent: Some(id), ..it }));
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

    fn end(&mut self, at: i64, outcome: &'static str, error: Option<&str>) {
        let Some(turn) = self.turn.take() else { return };
        self.last = Some(turn);
        let attributes = vec![
            ("gen_ai.operation.name", "invoke_agent".into()),
            ("gen_ai.agent.name", self.strategy.as_str().into()),
            ("gen_ai.conversation.id", self.thread.to_string().into()),
            ("turnfold.turn", turn.turn.to_string().into()),
            ("turnfold.tenant", self.tenant.as_str().into()),
            ("turnfold.outcome", outcome.into()),
        ];
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
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::{super::export_request, *};

    const THREAD: Uuid = Uuid::from_u128(7);
    const TURN: Uuid = Uuid::from_u128(8);

    /// Builds a log whose events are a second apart.
    fn log(events: &[serde_json::Value]) -> Vec<Recorded> {
        let row = |(seq, event): (u64, &serde_json::Value)| Recorded {
            seq,
            at: i64::try_from(seq).unwrap() * 1_000_000,
            event: serde_json::from_value(event.clone()).unwrap(),
        };
        (0..).zip(events).map(row).collect()
    }

    fn one_turn() -> Vec<Recorded> {
        let chat = json!({"chat": {"model": "openai/gpt", "system": "be secretive", "context": {"start": 0, "end": 1}}});
        let call = json!({"call_tool": {"server": "notes", "call": {"id": "c1", "name": "find", "arguments": {"q": "secret words"}}}});
        log(&[
            json!({"event": "opened", "strategy": "planner", "tenant": "acme"}),
            json!({"event": "turn_started", "turn": TURN, "messages": [{"role": "user", "content": "my secret"}]}),
            json!({"event": "asked", "node": "plan", "requests": [chat]}),
            json!({"event": "attempt_failed", "slot": 0, "error": "it wrote a secret", "retry_after_ms": 10}),
            json!({"event": "answered", "slot": 0, "response": {"reply": {"content": "a secret reply"}},
                   "usage": {"model": "gpt-7", "input_tokens": 10, "output_tokens": 3, "micro_usd": 1500, "duration_ms": 250}}),
            json!({"event": "decided", "node": "plan", "to": {"node": "act"}}),
            json!({"event": "asked", "node": "act", "requests": [call]}),
            json!({"event": "attempted", "slot": 0}),
            json!({"event": "answered", "slot": 0, "response": {"output": {"text": "secret result"}}}),
            json!({"event": "decided", "node": "act", "messages": [{"role": "assistant", "content": "done"}], "to": "end"}),
        ])
    }

    fn spans(log: &[Recorded], content: Content) -> Vec<Span> {
        turn_spans(THREAD, log, &BTreeMap::new(), content)
    }

    #[test]
    fn a_turn_is_a_trace_of_nodes_and_requests() {
        let spans = spans(&one_turn(), Content::Omit);
        let shape: Vec<(&str, i64, i64)> =
            spans.iter().map(|it| (it.name.as_str(), it.start / 1_000, it.end / 1_000)).collect();
        let expected = [
            ("chat gpt", 2_000, 3_000),
            ("chat gpt", 3_750, 4_000),
            ("plan", 1_000, 5_000),
            ("execute_tool find", 7_000, 8_000),
            ("act", 5_000, 9_000),
            ("invoke_agent planner", 1_000, 9_000),
        ];
        assert_eq!(shape, expected);
        let [failed, replied, plan, call, act, turn] = &spans[..] else { panic!("{spans:#?}") };
        assert_eq!(
            (failed.parent, replied.parent, call.parent),
            (Some(plan.id), Some(plan.id), Some(act.id))
        );
        assert_eq!((plan.parent, act.parent, turn.parent), (Some(turn.id), Some(turn.id), None));
        assert!(failed.error.is_some() && replied.error.is_none() && turn.error.is_none());
        let has = |span: &Span, key: &str, value: crate::otel::AttributeValue| {
            assert!(
                span.attributes.contains(&(span.attributes.iter().find(|it| it.0 == key).unwrap().0, value)),
                "{span:?}"
            );
        };
        has(replied, "gen_ai.usage.input_tokens", 10.into());
        has(replied, "gen_ai.response.model", "gpt-7".into());
        has(call, "gen_ai.tool.name", "find".into());
        has(turn, "gen_ai.conversation.id", THREAD.to_string().into());
        has(turn, "turnfold.outcome", "answered".into());
        has(turn, "turnfold.tenant", "acme".into());
        let ids: std::collections::BTreeSet<SpanId> = spans.iter().map(|it| it.id).collect();
        assert_eq!(ids.len(), spans.len(), "every span has an id of its own");
    }

    #[test]
    fn content_is_exported_only_on_request() {
        let text = |content| export_request(&spans(&one_turn(), content), "1").to_string();
        assert!(!text(Content::Omit).contains("secret"), "{}", text(Content::Omit));
        let with = text(Content::Include);
        for part in [
            "my secret",
            "be secretive",
            "a secret reply",
            "secret words",
            "secret result",
            "it wrote a secret",
        ] {
            assert!(with.contains(part), "{part}: {with}");
        }
    }

    #[test]
    fn a_repeated_export_is_the_same_and_a_growing_log_keeps_its_ids() {
        let log = one_turn();
        assert_eq!(spans(&log, Content::Omit), spans(&log, Content::Omit));
        assert_eq!(
            spans(&log[..9], Content::Omit).iter().filter(|it| it.name.starts_with("invoke")).count(),
            0
        );
        let first = spans(&log[..6], Content::Omit);
        assert_eq!(first[..], spans(&log, Content::Omit)[..first.len()]);
    }

    #[test]
    fn a_clients_span_becomes_the_parent_of_its_turn() {
        let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
        let parents = BTreeMap::from([(TURN, parent)]);
        let spans = turn_spans(THREAD, &one_turn(), &parents, Content::Omit);
        assert!(spans.iter().all(|it| it.trace == parent.trace));
        assert_eq!(spans.last().unwrap().parent, Some(parent.span));
    }

    #[test]
    fn a_retry_continues_the_trace_of_a_failed_turn() {
        let log = log(&[
            json!({"event": "opened", "strategy": "probe"}),
            json!({"event": "turn_started", "turn": TURN, "messages": [{"role": "user", "content": "x"}]}),
            json!({"event": "failed", "node": "work", "reason": "no"}),
            json!({"event": "retried"}),
            json!({"event": "decided", "node": "work", "to": "end"}),
        ]);
        let spans = spans(&log, Content::Omit);
        let turns: Vec<&Span> = spans.iter().filter(|it| it.name == "invoke_agent probe").collect();
        assert_eq!(turns[1].parent, Some(turns[0].id), "{spans:#?}");
        assert!(turns[0].error.is_some() && turns[1].error.is_none() && turns[0].trace == turns[1].trace);
    }

    #[test]
    fn the_protocol_writes_ids_in_hexadecimal_and_numbers_as_strings() {
        let request = export_request(&spans(&one_turn(), Content::Omit), "0.1.0");
        let resource = &request["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "turnfold"}})
        );
        let span = &resource["scopeSpans"][0]["spans"][1];
        assert_eq!(
            (span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()),
            (32, 16)
        );
        assert_eq!((&span["kind"], &span["startTimeUnixNano"]), (&json!(3), &json!("3750000000")));
        let tokens = json!({"key": "gen_ai.usage.input_tokens", "value": {"intValue": "10"}});
        assert!(span["attributes"].as_array().unwrap().contains(&tokens), "{span}");
    }
}
