//! The fold: the effect of each event on a thread.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    InvalidLog, Progress,
    accept::results,
    phase::{Phase, Place, SUMMARISE_NODE, is_node, read},
    slot::{ATTEMPTS_MAX, ReadAttempts, Slot, SlotState},
    unoffered::was_not_offered,
};
use crate::{
    budget::BudgetExceeded,
    context::read_more,
    event::{
        Answered, Asked, AttemptFailed, Decided, Event, Failed, Forked, Goto, InterruptKind, Reconciled,
        Summarised, TurnKind, TurnStarted, Verdict,
    },
    message::{Message, Role, ToolCall, ToolOutput},
    node_config::EngineConfig,
    outcome::Cause,
    request::{Request, Response},
    strategy::{Strategy, TurnSoFar},
    usage::{Usage, UsageTotal},
};

/// Notice in front of a server's output after the server has lost its session.
const SESSION_LOST: &str = "[the server started a new session and may have forgotten earlier calls]";

impl<S: Strategy> Progress<S> {
    /// Folds one event. Returns `false` and changes nothing if the event cannot occur at this point.
    pub(super) fn fold(&mut self, event: &Event) -> Result<bool, InvalidLog> {
        match event {
            Event::Opened(opened) if self.seq == 0 => {
                self.thread.servers.clone_from(&opened.servers);
                self.configure(&opened.config)?;
                self.tenant.clone_from(&opened.tenant);
                self.thread.budget.clone_from(&opened.budget);
                self.window.open(&opened.context);
            }
            Event::TurnStarted(started) => return Ok(self.fold_turn_started(started)),
            Event::Asked(Asked { node, requests }) => {
                let Phase::Ready(place) = self.at else { return Ok(false) };
                let place = match requests.as_slice() {
                    _ if is_node(&place, node) => Place::Node(place),
                    [Request::Chat { .. }] if node == SUMMARISE_NODE => Place::Summarise(place),
                    _ => return Ok(false),
                };
                self.fold_asked(place, requests);
            }
            Event::Decided(decided) => return self.fold_decided(decided),
            Event::Summarised(Summarised { upto }) => return Ok(self.fold_summarised(*upto)),
            Event::Failed(failed) => return Ok(self.fold_failed(failed)),
            Event::Retried(retried) => {
                let Phase::Failed(place, asked, slots, _) = &mut self.at else { return Ok(false) };
                self.window.retry();
                self.window.limits.forget(&retried.forgotten_models);
                slots.iter_mut().for_each(Slot::retry);
                self.at = match slots.is_empty() {
                    true => Phase::Ready(place.node()),
                    false => Phase::AwaitingResponses(*place, *asked, std::mem::take(slots)),
                };
            }
            Event::Cancelled(cancelled) => match &self.at {
                Phase::Idle => return Ok(false),
                Phase::AwaitingAnswer(..)
                | Phase::Ready(_)
                | Phase::AwaitingResponses(..)
                | Phase::Failed(..) => {
                    self.abandon_tasks();
                    self.leave_writes();
                    if cancelled.rolled_back {
                        self.rewind();
                    }
                    self.settle("the turn was cancelled");
                    if cancelled.rolled_back {
                        self.name_writes();
                    }
                    self.window.end_node();
                    self.is_cancelled = true;
                    self.at = Phase::Idle;
                }
            },
            Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_) => return Ok(self.fold_slot(event)),
            Event::InputProvided(provided) => {
                if !self.fold_slot(event) {
                    return Ok(false);
                }
                self.turn = Some(provided.turn);
                self.thread.turn.from = self.thread.messages.len();
                self.mark_turn_start();
            }
            Event::WriteEnded(ended) => return Ok(self.fold_write_ended(ended)),
            // It changes nothing: the same step is next.
            Event::TakenOver(_) => {
                return Ok(matches!(self.at, Phase::Ready(_) | Phase::AwaitingResponses(..)));
            }
            Event::Forked(forked) if 0 < self.seq => self.fold_forked(forked)?,
            // A judgement changes nothing: the same step is next.
            Event::Rated(_) if 0 < self.seq => {}
            Event::Opened(_) | Event::Forked(_) | Event::Rated(_) => return Ok(false),
        }
        Ok(true)
    }

    /// A request without any history is issued again, because its content may have changed.
    fn fold_forked(&mut self, forked: &Forked) -> Result<(), InvalidLog> {
        let state = self.state_after(&forked.facts)?;
        // Calls of cancelled turns end in the source thread.
        self.unended.clear();
        self.is_cancelled = false;
        // The tasks belong to the source thread.
        if let Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _) = &mut self.at {
            slots.iter_mut().for_each(|slot| slot.task = None);
        }
        self.configure(&forked.config)?;
        if let Some(budget) = &forked.budget {
            self.thread.budget.clone_from(budget);
        }
        self.thread.state = state;
        for (node, prompt) in &forked.prompts {
            self.engine.nodes.entry(node.clone()).or_default().prompt = Some(prompt.clone());
        }
        self.at = match std::mem::replace(&mut self.at, Phase::Idle) {
            Phase::AwaitingResponses(place, _, slots) | Phase::Failed(place, _, slots, _)
                if !slots.iter().any(Slot::is_begun) =>
            {
                Phase::Ready(place.node())
            }
            Phase::AwaitingResponses(place, asked, mut slots) | Phase::Failed(place, asked, mut slots, _) => {
                slots.iter_mut().for_each(Slot::retry);
                Phase::AwaitingResponses(place, asked, slots)
            }
            other @ (Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Ready(_)) => other,
        };
        Ok(())
    }

    /// Replaces the configuration. Null leaves it as it is.
    fn configure(&mut self, config: &Value) -> Result<(), InvalidLog> {
        if config.is_null() {
            return Ok(());
        }
        let (engine, own) = EngineConfig::split(config)?;
        self.thread.config = read(&own)?;
        if let Some(servers) = &engine.servers {
            self.thread.servers.retain(|name, _| servers.contains(name));
        }
        self.engine = engine;
        Ok(())
    }

    fn fold_turn_started(&mut self, started: &TurnStarted) -> bool {
        if self.toolboxes.lacks(started) {
            return false;
        }
        let resume = match (&self.at, started.kind) {
            (Phase::Idle, TurnKind::Stop) => None,
            (_, TurnKind::Stop) => return false,
            (Phase::AwaitingResponses(..), TurnKind::New) if self.is_awaiting_input() => None,
            (Phase::Ready(_) | Phase::AwaitingResponses(..), _) => return false,
            (Phase::Idle | Phase::Failed(..), TurnKind::Answer) => return false,
            (Phase::AwaitingAnswer(_, place), TurnKind::Answer) => Some(*place),
            (Phase::Idle | Phase::Failed(..) | Phase::AwaitingAnswer(..), TurnKind::New) => None,
        };
        let is_approval =
            matches!(&self.at, Phase::AwaitingAnswer(asked, _) if asked.kind == InterruptKind::Approval);
        self.written_since_approval = (resume.is_some() && is_approval).then(BTreeSet::new);
        self.is_cancelled = false;
        self.abandon_tasks();
        let reason = if matches!(self.at, Phase::Idle) {
            "the client sent no result"
        } else if self.is_awaiting_input() {
            "the input that it required was not provided"
        } else {
            "the turn failed before this call"
        };
        let answered: Vec<&str> = results(&started.messages).collect();
        for missing in self.open_calls(reason) {
            if missing.tool_call_id.as_deref().is_none_or(|id| !answered.contains(&id)) {
                self.say(missing);
            }
        }
        let from = self.thread.messages.len();
        self.mark_turn_start();
        // An answer continues the request, so what it lacked so far is still missing, and what it did is done.
        let TurnSoFar { outcome, mut causes, tool_ran, mut reply_options, .. } = match resume {
            Some(_) => std::mem::take(&mut self.thread.turn),
            None => TurnSoFar::default(),
        };
        if let Some(options) = self.toolboxes.options_of(started) {
            reply_options = Arc::new(options);
        }
        // The turn of the answer has a budget of its own.
        causes.retain(|cause| !cause.is_budget());
        let time = started.time.clone();
        self.thread.turn =
            TurnSoFar { time, from, outcome, causes, tool_ran, reply_options, ..TurnSoFar::default() };
        self.window.begin_turn(from, &started.messages);
        self.offers.begin_turn();
        self.window.limits.forget(&started.forgotten_models);
        started.messages.iter().cloned().for_each(|message| self.say(message));
        self.turn = Some(started.turn);
        if resume.is_none() {
            S::begin_turn(&mut self.thread.state);
            self.writes.clear();
        }
        self.at = match started.kind {
            TurnKind::Stop => Phase::Idle,
            TurnKind::New | TurnKind::Answer => {
                Phase::Ready(resume.unwrap_or_else(|| S::enter(&self.thread)))
            }
        };
        true
    }

    fn fold_asked(&mut self, place: Place<S::NodeName>, requests: &[Request]) {
        self.abandoned_tasks.clear();
        for request in requests {
            match request {
                // The limits of a strategy are for its own calls. Those of the engine count against budgets.
                Request::Chat { tool_result_tokens, .. } if matches!(place, Place::Node(_)) => {
                    self.thread.turn.model_calls += 1;
                    self.window.shown_tokens = tool_result_tokens.or(self.window.shown_tokens);
                }
                Request::Chat { .. } => (),
                Request::CallTool { .. } | Request::ReadMore { .. } => self.thread.turn.tool_calls += 1,
                Request::ListTools { .. }
                | Request::ListPrompts { .. }
                | Request::GetPrompt { .. }
                | Request::Describe { .. }
                | Request::Search { .. }
                | Request::Index { .. }
                | Request::Simulate(_) => (),
            }
        }
        let slot = |(nth, request): (usize, &Request)| Slot {
            request: request.clone(),
            failures: 0,
            attempts: 0,
            attempts_max: ATTEMPTS_MAX,
            error: None,
            rounds: 0,
            input_responses: None,
            in_doubt: false,
            pin_changed: false,
            reading: ReadAttempts::default(),
            was_unmade: false,
            attempted_seq: None,
            task: None,
            images: Vec::new(),
            state: match (request, self.window.kept(nth)) {
                (_, Some(answer)) if matches!(place, Place::Node(_)) => SlotState::Answered(answer.clone()),
                (Request::ReadMore { call, tokens }, _) => {
                    let output = read_more(&self.thread.messages, call, *tokens);
                    SlotState::Answered(Response::Output(output))
                }
                _ => SlotState::Open,
            },
        };
        let slots = requests.iter().enumerate().map(slot).collect();
        self.at = Phase::AwaitingResponses(place, self.seq, slots);
    }

    /// A node fails while its requests are carried out, or before they are issued: because they are too large, or because a
    /// worker stops it.
    fn fold_failed(&mut self, Failed { node, reason, worker: _ }: &Failed) -> bool {
        self.at = match &mut self.at {
            Phase::AwaitingResponses(place, asked, slots) if place.is_named(node) => {
                Phase::Failed(*place, *asked, std::mem::take(slots), reason.clone())
            }
            Phase::Ready(place) if is_node(place, node) => {
                Phase::Failed(Place::Node(*place), self.seq, Vec::new(), reason.clone())
            }
            Phase::Idle
            | Phase::AwaitingAnswer(..)
            | Phase::Ready(_)
            | Phase::AwaitingResponses(..)
            | Phase::Failed(..) => return false,
        };
        true
    }

    fn fold_summarised(&mut self, upto: usize) -> bool {
        let Phase::AwaitingResponses(Place::Summarise(place), _, slots) = &self.at else { return false };
        let [Slot { request: Request::Chat { context, .. }, state: SlotState::Answered(response), .. }] =
            slots.as_slice()
        else {
            return false;
        };
        let Response::Reply(reply) = response else { return false };
        if context.end != upto || self.thread.messages.len() < upto {
            return false;
        }
        self.window.summarise(upto, &reply.content);
        self.at = Phase::Ready(*place);
        true
    }

    /// Returns to the node once nothing else of it is under way, if a model refused a request of it as too large. The
    /// node issues its requests again, and keeps the answers that it has.
    fn return_after_refusal(&mut self) {
        let Phase::AwaitingResponses(place, _, slots) = &self.at else { return };
        let waits = |slot: &Slot| {
            slot.can_move() || matches!(slot.state, SlotState::InDoubt(_) | SlotState::AwaitingInput(_))
        };
        if slots.iter().any(waits) || !slots.iter().any(|slot| slot.state == SlotState::TooLarge) {
            return;
        }
        let place = *place;
        if let Place::Node(_) = place {
            let answers = slots.iter().map(Slot::answer).collect();
            self.window.keep(answers);
        }
        self.at = Phase::Ready(place.node());
    }

    fn fold_slot(&mut self, event: &Event) -> bool {
        self.note_write(event);
        let exceeded = if let Event::Abandoned(_) = event { self.budget_exceeded() } else { None };
        let Phase::AwaitingResponses(_, asked, slots) = &mut self.at else { return false };
        let Some(slot) = event.slot().and_then(|slot| slots.get_mut(slot)) else { return false };
        let cause = lacking(slot, event, exceeded);
        let Some(mut state) = slot.after(event) else { return false };
        if let Event::Abandoned(_) = event {
            self.abandoned_tasks.extend(slot.open_task());
        }
        self.thread.turn.causes.extend(cause);
        if let (Event::Answered(answered), Some(server)) = (event, slot.request.server())
            && !matches!(answered.response, Response::Output(ToolOutput::Refused(_)))
        {
            let is_of = |cause: &Cause| matches!(cause, Cause::McpUnreachable(of) | Cause::PinChanged(of) if of == server);
            self.thread.turn.causes.retain(|cause| !is_of(cause));
        }
        if let (Event::Answered(answered), Request::CallTool { server, .. }) = (event, &slot.request)
            && let Some(session) = answered.extras.as_ref().and_then(|extras| extras.session.as_ref())
            && let Some(before) = self.sessions.insert(server.clone(), session.clone())
            && before != *session
            && let SlotState::Answered(Response::Output(output)) = &state
        {
            state = SlotState::Answered(Response::Output(output.clone().after(SESSION_LOST)));
        }
        if let (
            SlotState::Answered(Response::Tools { tools }),
            Request::ListTools { server } | Request::CallTool { server, .. },
        ) = (&state, &slot.request)
        {
            self.window.list_tools(server, tools);
            self.offers.list_tools(server);
            self.thread.server_tools.insert(server.clone(), tools.clone());
        }
        if let (Event::AttemptFailed(failed), Request::Chat { model, .. }) = (event, &slot.request)
            && failed.is_too_large()
        {
            self.window.refuse(&failed.error);
            self.window.limits.refuse(model, failed, *asked, &self.thread.turn.time);
        }
        if let (Request::CallTool { .. }, SlotState::Answered(Response::Output(output))) =
            (&slot.request, &state)
        {
            self.thread.turn.tool_ran |= !matches!(output, ToolOutput::Refused(_));
        }
        if let (Event::Answered(_), Request::CallTool { server, .. }) = (event, &slot.request)
            && slot.attempted_seq.is_some()
            && let Some(written) = &mut self.written_since_approval
            && !matches!(state, SlotState::Answered(Response::Tools { .. }))
        {
            written.insert(server.clone());
        }
        if let Event::Attempted(_) = event {
            slot.attempted_seq = Some(self.seq);
        }
        if let Event::Answered(answered) = event {
            slot.images = answered.extras.iter().flat_map(|extras| extras.attachments().cloned()).collect();
        }
        slot.state = state;
        let add = match slot.request {
            Request::Chat { .. } => UsageTotal::add_of_model,
            Request::ListTools { .. }
            | Request::CallTool { .. }
            | Request::ReadMore { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => UsageTotal::add,
        };
        if let Event::Answered(answered) = event {
            self.count(add, answered.usage.as_ref().unwrap_or(&Usage::default()));
            self.record_taken(answered.slot);
        }
        if let Event::AttemptFailed(AttemptFailed { usage: Some(usage), .. }) = event {
            // An attempt without a response contributes nothing but its time.
            self.count(if usage.model.is_empty() { UsageTotal::add } else { add }, usage);
        }
        self.return_after_refusal();
        true
    }

    fn count(&mut self, add: fn(&mut UsageTotal, &Usage), usage: &Usage) {
        add(&mut self.thread.turn.usage, usage);
        add(&mut self.thread.usage, usage);
    }

    fn fold_decided(&mut self, decided: &Decided) -> Result<bool, InvalidLog> {
        if !self.at.may_decide(decided) {
            return Ok(false);
        }
        self.abandon_tasks();
        let at = match &decided.to {
            Goto::Node(node) => Phase::Ready(read(&Value::from(node.as_str()))?),
            Goto::End => Phase::Idle,
            Goto::Interrupt(interrupt) => {
                Phase::AwaitingAnswer(interrupt.clone(), read(&Value::from(interrupt.resume.as_str()))?)
            }
        };
        let facts: Vec<S::Fact> = decided.facts.iter().map(read).collect::<Result<_, _>>()?;
        decided.messages.iter().cloned().for_each(|message| self.say(message));
        self.window.end_node();
        if decided.to == Goto::End {
            self.thread.turn.outcome = decided.outcome.clone().unwrap_or_default();
        } else if let Some(outcome) = &decided.outcome {
            self.thread.turn.outcome = std::mem::take(&mut self.thread.turn.outcome).and(outcome);
        }
        facts.iter().for_each(|fact| S::evolve(&mut self.thread.state, fact));
        self.at = at;
        Ok(true)
    }

    /// Returns the state after the given facts, without changing the thread.
    pub(crate) fn state_after(&self, facts: &[Value]) -> Result<S::State, serde_json::Error> {
        let facts: Vec<S::Fact> = facts.iter().map(read).collect::<Result<_, _>>()?;
        let mut state = self.thread.state.clone();
        facts.iter().for_each(|fact| S::evolve(&mut state, fact));
        Ok(state)
    }

    /// Notes the tasks whose results are not needed any more.
    fn abandon_tasks(&mut self) {
        let (Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _)) = &self.at else {
            return;
        };
        self.abandoned_tasks.extend(slots.iter().filter_map(Slot::open_task));
    }

    /// Adds a result for every open tool call, because no model accepts a call without a result.
    fn settle(&mut self, reason: &str) {
        self.open_calls(reason).into_iter().for_each(|message| self.say(message));
    }

    /// Returns the results for the open tool calls.
    pub(super) fn open_calls(&self, reason: &str) -> Vec<Message> {
        let slots: &[Slot] = match &self.at {
            Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _) => slots,
            Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Ready(_) => &[],
        };
        let fate = |call: &ToolCall| {
            let same = |slot: &&Slot| matches!(&slot.request, Request::CallTool { call: asked, .. } | Request::ReadMore { call: asked, .. } if asked.id == call.id);
            let slot = slots.iter().find(same);
            match slot.map(|slot| &slot.state) {
                Some(SlotState::Answered(Response::Output(output))) => output.model_text(),
                Some(SlotState::Answered(Response::Unavailable { reason })) => reason.clone(),
                _ if slot.is_some_and(Slot::may_have_happened) => {
                    format!("it is unknown whether this call took effect: {reason}")
                }
                _ => format!("not carried out: {reason}"),
            }
        };
        let last = self.thread.messages.iter().rposition(|message| message.role == Role::Assistant);
        let Some(last) = last else { return Vec::new() };
        let answered: Vec<&str> =
            self.thread.messages[last..].iter().filter_map(|it| it.tool_call_id.as_deref()).collect();
        let open =
            self.thread.messages[last].tool_calls.iter().filter(|call| !answered.contains(&call.id.as_str()));
        open.map(|call| Message::tool(call, fate(call))).collect()
    }
}

/// Returns the cause that makes a turn partial after `event`: a reply that was cut off, a server or an index that did not answer, a
/// skipped write, or a budget.
fn lacking(slot: &Slot, event: &Event, exceeded: Option<BudgetExceeded>) -> Option<Cause> {
    if let Event::Reconciled(Reconciled { verdict: Verdict::Skip, .. }) = event
        && let Request::CallTool { server, call } = &slot.request
    {
        return Some(Cause::WriteSkipped(format!("{server}.{}", call.name)));
    }
    if let Event::Answered(Answered { response: Response::Reply(reply), .. }) = event {
        return reply.cut_off.then(|| "reply cut off".into());
    }
    let Event::Abandoned(_) = event else { return None };
    if let Some(exceeded) = exceeded.filter(|_| !slot.is_exhausted()) {
        return Some(Cause::budget(exceeded));
    }
    if was_not_offered(slot) && !slot.is_exhausted() {
        return None;
    }
    if let Request::Search { .. } = slot.request {
        return Some("index unreachable".into());
    }
    let server = slot.request.server()?.to_owned();
    Some(if slot.pin_changed { Cause::PinChanged(server) } else { Cause::McpUnreachable(server) })
}
