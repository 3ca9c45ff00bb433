//! The fold: the effect of each event on a thread.

use serde_json::Value;

use super::{
    InvalidLog, Phase, Progress, SESSION_LOST, name, read,
    slot::{Slot, SlotState},
};
use crate::{
    event::{Asked, AttemptFailed, Decided, Event, Failed, Forked, Goto, TurnKind, TurnStarted},
    message::{Message, Role, ToolCall},
    request::{Request, Response},
    strategy::{Strategy, TurnSoFar},
    usage::{Usage, UsageTotal},
};

impl<S: Strategy> Progress<S> {
    /// Folds one event. Returns `false` and changes nothing if the event cannot occur at this point.
    pub(super) fn fold(&mut self, event: &Event) -> Result<bool, InvalidLog> {
        match event {
            Event::Opened(opened) if self.seq == 0 => {
                if !opened.config.is_null() {
                    self.thread.config = read(&opened.config)?;
                }
                self.tenant.clone_from(&opened.tenant);
                self.thread.servers.clone_from(&opened.servers);
                self.thread.budget.clone_from(&opened.budget);
            }
            Event::TurnStarted(started) => return Ok(self.fold_turn_started(started)),
            Event::Asked(Asked { node, requests }) => {
                let Phase::Ready(place) = self.at else { return Ok(false) };
                if *node != name(&place) {
                    return Ok(false);
                }
                self.fold_asked(place, requests);
            }
            Event::Decided(decided) => return self.fold_decided(decided),
            Event::Failed(Failed { node, reason }) => {
                let Phase::AwaitingResponses(place, asked, slots) = &mut self.at else { return Ok(false) };
                if *node != name(place) {
                    return Ok(false);
                }
                self.at = Phase::Failed(*place, *asked, std::mem::take(slots), reason.clone());
            }
            Event::Retried(_) => {
                let Phase::Failed(place, asked, slots, _) = &mut self.at else { return Ok(false) };
                slots.iter_mut().for_each(Slot::retry);
                self.at = Phase::AwaitingResponses(*place, *asked, std::mem::take(slots));
            }
            Event::Cancelled(_) => match &self.at {
                Phase::Idle => return Ok(false),
                Phase::AwaitingAnswer(..)
                | Phase::Ready(_)
                | Phase::AwaitingResponses(..)
                | Phase::Failed(..) => {
                    self.settle("the turn was cancelled");
                    self.at = Phase::Idle;
                }
            },
            Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::InputRequired(_) => return Ok(self.fold_slot(event)),
            Event::InputProvided(provided) => {
                if !self.fold_slot(event) {
                    return Ok(false);
                }
                self.turn = Some(provided.turn);
                self.thread.turn.from = self.thread.messages.len();
            }
            Event::Forked(forked) if 0 < self.seq => self.fold_forked(forked)?,
            Event::Opened(_) | Event::Forked(_) => return Ok(false),
        }
        Ok(true)
    }

    /// A request without any history is issued again, because its content may have changed.
    fn fold_forked(&mut self, forked: &Forked) -> Result<(), InvalidLog> {
        let state = self.state_after(&forked.facts)?;
        if !forked.config.is_null() {
            self.thread.config = read(&forked.config)?;
        }
        if let Some(budget) = &forked.budget {
            self.thread.budget.clone_from(budget);
        }
        self.thread.state = state;
        self.prompts.clone_from(&forked.prompts);
        self.at = match std::mem::replace(&mut self.at, Phase::Idle) {
            Phase::AwaitingResponses(place, _, slots) | Phase::Failed(place, _, slots, _)
                if !slots.iter().any(Slot::is_begun) =>
            {
                Phase::Ready(place)
            }
            Phase::AwaitingResponses(place, asked, mut slots) | Phase::Failed(place, asked, mut slots, _) => {
                slots.iter_mut().for_each(Slot::retry);
                Phase::AwaitingResponses(place, asked, slots)
            }
            other @ (Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Ready(_)) => other,
        };
        Ok(())
    }

    fn fold_turn_started(&mut self, started: &TurnStarted) -> bool {
        let resume = match (&self.at, started.kind) {
            (Phase::AwaitingResponses(..), TurnKind::New) if self.is_awaiting_input() => None,
            (Phase::Ready(_) | Phase::AwaitingResponses(..), _) => return false,
            (Phase::Idle | Phase::Failed(..), TurnKind::Answer) => return false,
            (Phase::AwaitingAnswer(_, place), TurnKind::Answer) => Some(*place),
            (Phase::Idle | Phase::Failed(..) | Phase::AwaitingAnswer(..), TurnKind::New) => None,
        };
        self.settle(if self.is_awaiting_input() {
            "what was wanted for it was not supplied"
        } else {
            "the turn failed before it came to this"
        });
        let from = self.thread.messages.len();
        self.thread.turn = TurnSoFar { time: started.time.clone(), from, ..TurnSoFar::default() };
        self.thread.messages.extend(started.messages.iter().cloned());
        self.turn = Some(started.turn);
        if resume.is_none() {
            S::begin_turn(&mut self.thread.state);
        }
        self.at = Phase::Ready(resume.unwrap_or_else(|| S::enter(&self.thread)));
        true
    }

    fn fold_asked(&mut self, place: S::NodeName, requests: &[Request]) {
        for request in requests {
            match request {
                Request::Chat { .. } => self.thread.turn.model_calls += 1,
                Request::CallTool { .. } => self.thread.turn.tool_calls += 1,
                Request::ListTools { .. }
                | Request::ListPrompts { .. }
                | Request::GetPrompt { .. }
                | Request::Describe { .. }
                | Request::Search { .. }
                | Request::Index { .. }
                | Request::Simulate(_) => (),
            }
        }
        let slot = |request: &Request| Slot {
            request: request.clone(),
            failures: 0,
            attempts: 0,
            error: None,
            rounds: 0,
            input_responses: None,
            in_doubt: false,
            state: SlotState::Open,
        };
        self.at = Phase::AwaitingResponses(place, self.seq, requests.iter().map(slot).collect());
    }

    fn fold_slot(&mut self, event: &Event) -> bool {
        let Phase::AwaitingResponses(_, _, slots) = &mut self.at else { return false };
        let Some(slot) = event.slot().and_then(|it| slots.get_mut(it)) else { return false };
        let Some(mut state) = slot.after(event) else { return false };
        if let (Event::Answered(answered), Request::CallTool { server, .. }) = (event, &slot.request)
            && let Some(session) = answered.extras.as_ref().and_then(|it| it.session.as_ref())
            && let Some(before) = self.sessions.insert(server.clone(), session.clone())
            && before != *session
            && let SlotState::Answered(Response::Output(output)) = &state
        {
            state = SlotState::Answered(Response::Output(output.clone().after(SESSION_LOST)));
        }
        if let (SlotState::Answered(Response::Tools { tools }), Request::ListTools { server }) =
            (&state, &slot.request)
        {
            self.thread.server_tools.insert(server.clone(), tools.clone());
        }
        slot.state = state;
        let add = match slot.request {
            Request::Chat { .. } => UsageTotal::add_of_model,
            Request::ListTools { .. }
            | Request::CallTool { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => UsageTotal::add,
        };
        if let Event::Answered(it) = event {
            self.count(add, it.usage.as_ref().unwrap_or(&Usage::default()));
        }
        if let Event::AttemptFailed(AttemptFailed { usage: Some(usage), .. }) = event {
            // An attempt without a response contributes nothing but its time.
            self.count(if usage.model.is_empty() { UsageTotal::add } else { add }, usage);
        }
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
        let at = match &decided.to {
            Goto::Node(node) => Phase::Ready(read(&Value::from(node.as_str()))?),
            Goto::End => Phase::Idle,
            Goto::Interrupt(it) => Phase::AwaitingAnswer(it.clone(), read(&Value::from(it.resume.as_str()))?),
        };
        let facts: Vec<S::Fact> = decided.facts.iter().map(read).collect::<Result<_, _>>()?;
        self.thread.messages.extend(decided.messages.iter().cloned());
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

    /// Adds a result for every open tool call, because no model accepts a call without a result.
    fn settle(&mut self, because: &str) {
        let results = self.open_calls(because);
        self.thread.messages.extend(results);
    }

    /// Returns the results for the open tool calls.
    pub(super) fn open_calls(&self, because: &str) -> Vec<Message> {
        let slots: &[Slot] = match &self.at {
            Phase::AwaitingResponses(_, _, slots) | Phase::Failed(_, _, slots, _) => slots,
            Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Ready(_) => &[],
        };
        let fate = |call: &ToolCall| {
            let same = |it: &&Slot| matches!(&it.request, Request::CallTool { call: asked, .. } if asked.id == call.id);
            let slot = slots.iter().find(same);
            match slot.map(|it| &it.state) {
                Some(SlotState::Answered(Response::Output(output))) => output.model_text(),
                Some(SlotState::Answered(Response::Unavailable { reason })) => reason.clone(),
                _ if slot.is_some_and(Slot::may_have_happened) => {
                    format!("nobody knows whether this happened: {because}")
                }
                _ => format!("not carried out: {because}"),
            }
        };
        let last = self.thread.messages.iter().rposition(|it| it.role == Role::Assistant);
        let Some(last) = last else { return Vec::new() };
        let answered: Vec<&str> =
            self.thread.messages[last..].iter().filter_map(|it| it.tool_call_id.as_deref()).collect();
        let open =
            self.thread.messages[last].tool_calls.iter().filter(|it| !answered.contains(&it.id.as_str()));
        open.map(|call| Message::tool(call, fate(call))).collect()
    }
}
