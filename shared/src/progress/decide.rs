//! Decision of a node, as an event with everything that follows from it.

use super::{
    InvalidLog, Progress,
    empty_reply::NO_REPLY,
    phase::{Phase, name},
};
use crate::{
    event::{Decided, Event, Goto, Interrupt},
    message::{Message, Role},
    outcome::{Outcome, OutcomeKind},
    request::{Request, Response},
    strategy::{Edge, Strategy, Transition, TurnSoFar},
};

/// Cause of the outcome of a turn whose answer is not in the form that the client asked for.
const NO_TYPED_ANSWER: &str = "no typed answer";

impl<S: Strategy> Progress<S> {
    /// Returns the event of the decision that a node makes from the responses to its requests.
    pub(super) fn decide(&self, place: S::NodeName, responses: &[Response]) -> Result<Event, InvalidLog> {
        let Transition { mut messages, facts, reason, to, question, outcome } =
            S::node(place).transition(&self.thread, responses)?;
        self.attach_images(&mut messages);
        let facts = facts.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let to = match (to, question) {
            (Edge::To(node), _) => Goto::Node(name(&node)),
            (Edge::Ask(resume), Some(question)) => Goto::Interrupt(Interrupt {
                kind: question.kind,
                question: question.question,
                open_ended: question.open_ended && !question.options.is_empty(),
                options: question.options,
                elicitation: None,
                resume: name(&resume),
            }),
            (Edge::End | Edge::Ask(_), _) => Goto::End,
        };
        let outcome = match to {
            Goto::End => {
                let mut outcome = outcome.unwrap_or_default();
                if self.misses_format(&messages) {
                    outcome.add(OutcomeKind::Partial, NO_TYPED_ANSWER.into());
                }
                self.outcome_with(outcome)
            }
            Goto::Node(_) | Goto::Interrupt(_) => outcome.map(|outcome| self.judged(outcome)),
        };
        Ok(Decided { node: name(&place), messages, facts, reason, to, budget_exceeded: None, outcome }.into())
    }

    /// Returns the outcome of the turn if it ends with a decision that adds `last`, or `None` if the turn was answered.
    pub(super) fn outcome_with(&self, last: Outcome) -> Option<Outcome> {
        let TurnSoFar { outcome, causes, .. } = &self.thread.turn;
        let mut all = self.judged(last.and(outcome));
        causes.iter().for_each(|cause| all.add(OutcomeKind::Partial, cause.clone()));
        if self.has_empty_reply() {
            all.add(OutcomeKind::Partial, NO_REPLY.into());
        }
        (!all.is_answered()).then_some(all)
    }

    /// Returns true if a turn that ends with these messages has no answer in the form that the client asked for.
    fn misses_format(&self, messages: &[Message]) -> bool {
        let answer = messages.iter().rfind(|message| message.role == Role::Assistant);
        let text = answer.map_or("", |answer| answer.content.as_str());
        self.thread.turn.reply_options.response_format.check_reply(text).is_err()
    }

    /// **Invariant:** a turn is declined only if no tool has run for its request, whatever its strategy decides.
    fn judged(&self, outcome: Outcome) -> Outcome {
        if self.thread.turn.tool_ran { outcome.after_a_tool_ran() } else { outcome }
    }

    /// Attaches the images of tool results to the messages that hold the results.
    fn attach_images(&self, messages: &mut [Message]) {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return };
        let with_images = slots.iter().filter(|slot| !slot.images.is_empty());
        for slot in with_images {
            let Request::CallTool { call, .. } = &slot.request else { continue };
            let is_result = |message: &&mut Message| {
                message.role == Role::Tool && message.tool_call_id.as_ref() == Some(&call.id)
            };
            if let Some(result) = messages.iter_mut().find(is_result) {
                result.attachments.extend(slot.images.iter().cloned());
            }
        }
    }
}
