//! The fold: what each event makes of a thread.

use serde_json::Value;

use super::{
    At, Corrupt, Progress, SESSION_LOST, name, read,
    slot::{Slot, Stand},
};
use crate::{
    event::{Asked, Decided, Event, Failed, Faltered, Forked, Goto, Heard, Hearing},
    message::{Message, Role, ToolCall},
    meter::{Meter, Tally},
    request::{Request, Response},
    strategy::{Strategy, TurnSoFar},
};

impl<S: Strategy> Progress<S> {
    /// Folds one event in; `false`, and nothing changed, if it cannot happen here.
    pub(super) fn fold(&mut self, event: &Event) -> Result<bool, Corrupt> {
        match event {
            Event::Opened(opened) if self.seq == 0 => {
                if !opened.config.is_null() {
                    self.thread.config = read(&opened.config)?;
                }
                self.tenant.clone_from(&opened.tenant);
                self.thread.experts.clone_from(&opened.experts);
                self.thread.budget.clone_from(&opened.budget);
            }
            Event::Heard(heard) => return Ok(self.fold_heard(heard)),
            Event::Asked(Asked { node, requests }) => {
                let At::Before(place) = self.at else { return Ok(false) };
                if *node != name(&place) {
                    return Ok(false);
                }
                self.fold_asked(place, requests);
            }
            Event::Decided(decided) => return self.fold_decided(decided),
            Event::Failed(Failed { node, reason }) => {
                let At::Within(place, asked, slots) = &mut self.at else { return Ok(false) };
                if *node != name(place) {
                    return Ok(false);
                }
                self.at = At::Failed(*place, *asked, std::mem::take(slots), reason.clone());
            }
            Event::Retried(_) => {
                let At::Failed(place, asked, slots, _) = &mut self.at else { return Ok(false) };
                slots.iter_mut().for_each(Slot::retry);
                self.at = At::Within(*place, *asked, std::mem::take(slots));
            }
            Event::Cancelled(_) => match &self.at {
                At::Rest => return Ok(false),
                At::Asking(..) | At::Before(_) | At::Within(..) | At::Failed(..) => {
                    self.settle("the turn was cancelled");
                    self.at = At::Rest;
                }
            },
            Event::Attempted(_)
            | Event::Answered(_)
            | Event::Faltered(_)
            | Event::GaveUp(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_) => return Ok(self.fold_slot(event)),
            Event::Supplied(supplied) => {
                if !self.fold_slot(event) {
                    return Ok(false);
                }
                self.turn = Some(supplied.turn);
                self.thread.turn.from = self.thread.messages.len();
            }
            Event::Forked(forked) if 0 < self.seq => self.fold_forked(forked)?,
            Event::Opened(_) | Event::Forked(_) => return Ok(false),
        }
        Ok(true)
    }

    /// A question that nothing has become of is asked anew, as what is asked may be changed.
    fn fold_forked(&mut self, forked: &Forked) -> Result<(), Corrupt> {
        let state = self.state_after(&forked.learned)?;
        if !forked.config.is_null() {
            self.thread.config = read(&forked.config)?;
        }
        if let Some(budget) = &forked.budget {
            self.thread.budget.clone_from(budget);
        }
        self.thread.state = state;
        self.prompts.clone_from(&forked.prompts);
        self.at = match std::mem::replace(&mut self.at, At::Rest) {
            At::Within(place, _, slots) | At::Failed(place, _, slots, _)
                if !slots.iter().any(Slot::is_begun) =>
            {
                At::Before(place)
            }
            At::Within(place, asked, mut slots) | At::Failed(place, asked, mut slots, _) => {
                slots.iter_mut().for_each(Slot::retry);
                At::Within(place, asked, slots)
            }
            other @ (At::Rest | At::Asking(..) | At::Before(_)) => other,
        };
        Ok(())
    }

    fn fold_heard(&mut self, heard: &Heard) -> bool {
        let resume = match (&self.at, heard.hearing) {
            (At::Within(..), Hearing::Input) if self.is_wanting() => None,
            (At::Before(_) | At::Within(..), _) => return false,
            (At::Rest | At::Failed(..), Hearing::Answer) => return false,
            (At::Asking(_, place), Hearing::Answer) => Some(*place),
            (At::Rest | At::Failed(..) | At::Asking(..), Hearing::Input) => None,
        };
        self.settle(if self.is_wanting() {
            "what was wanted for it was not supplied"
        } else {
            "the turn failed before it came to this"
        });
        let from = self.thread.messages.len();
        self.thread.turn = TurnSoFar { time: heard.time.clone(), from, ..TurnSoFar::default() };
        self.thread.messages.extend(heard.messages.iter().cloned());
        self.turn = Some(heard.turn);
        if resume.is_none() {
            S::begin_turn(&mut self.thread.state);
        }
        self.at = At::Before(resume.unwrap_or_else(|| S::enter(&self.thread)));
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
                | Request::Rehearse(_) => (),
            }
        }
        let slot = |request: &Request| Slot {
            request: request.clone(),
            falters: 0,
            tries: 0,
            error: None,
            rounds: 0,
            supplies: None,
            in_doubt: false,
            stand: Stand::Open,
        };
        self.at = At::Within(place, self.seq, requests.iter().map(slot).collect());
    }

    fn fold_slot(&mut self, event: &Event) -> bool {
        let At::Within(_, _, slots) = &mut self.at else { return false };
        let Some(slot) = event.slot().and_then(|it| slots.get_mut(it)) else { return false };
        let Some(mut stand) = slot.after(event) else { return false };
        if let (Event::Answered(answered), Request::CallTool { server, .. }) = (event, &slot.request)
            && let Some(session) = answered.kept.as_ref().and_then(|it| it.session.as_ref())
            && let Some(before) = self.sessions.insert(server.clone(), session.clone())
            && before != *session
            && let Stand::Answered(Response::Output(output)) = &stand
        {
            stand = Stand::Answered(Response::Output(output.clone().after(SESSION_LOST)));
        }
        if let (Stand::Answered(Response::Tools { tools }), Request::ListTools { server }) =
            (&stand, &slot.request)
        {
            self.thread.toolboxes.insert(server.clone(), tools.clone());
        }
        slot.stand = stand;
        let add = match slot.request {
            Request::Chat { .. } => Tally::add_of_model,
            Request::ListTools { .. }
            | Request::CallTool { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Rehearse(_) => Tally::add,
        };
        if let Event::Answered(it) = event {
            self.count(add, it.meter.as_ref().unwrap_or(&Meter::default()));
        }
        if let Event::Faltered(Faltered { meter: Some(meter), .. }) = event {
            // Where nobody answered there is nothing to tell but the time.
            self.count(if meter.by.is_empty() { Tally::add } else { add }, meter);
        }
        true
    }

    fn count(&mut self, add: fn(&mut Tally, &Meter), meter: &Meter) {
        add(&mut self.thread.turn.took, meter);
        add(&mut self.thread.took, meter);
    }

    fn fold_decided(&mut self, decided: &Decided) -> Result<bool, Corrupt> {
        if !self.at.may_decide(decided) {
            return Ok(false);
        }
        let at = match &decided.to {
            Goto::Node(node) => At::Before(read(&Value::from(node.as_str()))?),
            Goto::End => At::Rest,
            Goto::Interrupt(it) => At::Asking(it.clone(), read(&Value::from(it.resume.as_str()))?),
        };
        let facts: Vec<S::Fact> = decided.learned.iter().map(read).collect::<Result<_, _>>()?;
        self.thread.messages.extend(decided.said.iter().cloned());
        facts.iter().for_each(|fact| S::evolve(&mut self.thread.state, fact));
        self.at = at;
        Ok(true)
    }

    /// What the strategy would remember, had it concluded these facts now.
    pub(crate) fn state_after(&self, facts: &[Value]) -> Result<S::State, serde_json::Error> {
        let facts: Vec<S::Fact> = facts.iter().map(read).collect::<Result<_, _>>()?;
        let mut state = self.thread.state.clone();
        facts.iter().for_each(|fact| S::evolve(&mut state, fact));
        Ok(state)
    }

    /// Gives every tool call that is still open a result: no model may be shown a call without one.
    fn settle(&mut self, because: &str) {
        let results = self.open_calls(because);
        self.thread.messages.extend(results);
    }

    /// The results of the tool calls that are still open.
    pub(super) fn open_calls(&self, because: &str) -> Vec<Message> {
        let slots: &[Slot] = match &self.at {
            At::Within(_, _, slots) | At::Failed(_, _, slots, _) => slots,
            At::Rest | At::Asking(..) | At::Before(_) => &[],
        };
        let fate = |call: &ToolCall| {
            let same = |it: &&Slot| matches!(&it.request, Request::CallTool { call: asked, .. } if asked.id == call.id);
            let slot = slots.iter().find(same);
            match slot.map(|it| &it.stand) {
                Some(Stand::Answered(Response::Output(output))) => output.heard(),
                Some(Stand::Answered(Response::Unavailable { reason })) => reason.clone(),
                _ if slot.is_some_and(Slot::may_have_happened) => {
                    format!("nobody knows whether this happened: {because}")
                }
                _ => format!("not carried out: {because}"),
            }
        };
        let last = self.thread.messages.iter().rposition(|it| it.role == Role::Assistant);
        let Some(last) = last else { return Vec::new() };
        let answered: Vec<&str> =
            self.thread.messages[last..].iter().filter_map(|it| it.answers.as_deref()).collect();
        let open =
            self.thread.messages[last].tool_calls.iter().filter(|it| !answered.contains(&it.id.as_str()));
        open.map(|call| Message::tool(call, fate(call))).collect()
    }
}
