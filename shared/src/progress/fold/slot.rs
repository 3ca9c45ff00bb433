//! Events of one request: from its attempt to its answer.

use crate::{
    budget::BudgetExceeded,
    event::{Answered, AttemptFailed, Event, Reconciled, Verdict},
    message::ToolOutput,
    outcome::Cause,
    progress::{
        Progress,
        phase::{Phase, Place},
        slot::{Slot, SlotState},
        unoffered::was_not_offered,
    },
    request::{Request, Response},
    strategy::Strategy,
    usage::{Usage, UsageTotal},
};

/// Notice in front of a server's output after the server has lost its session.
const SESSION_LOST: &str = "[the server started a new session and may have forgotten earlier calls]";

impl<S: Strategy> Progress<S> {
    pub(super) fn fold_slot(&mut self, event: &Event) -> bool {
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

    fn count(&mut self, add: fn(&mut UsageTotal, &Usage), usage: &Usage) {
        add(&mut self.thread.turn.usage, usage);
        add(&mut self.thread.usage, usage);
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
