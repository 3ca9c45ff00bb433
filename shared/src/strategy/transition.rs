//! Decisions of nodes.

use super::{Edge, Question, Strategy};
use crate::{
    message::Message,
    outcome::{Cause, Outcome, OutcomeKind},
    visible::visible,
};

/// Decision of a node: messages, facts, and the next place of control.
pub struct Transition<S: Strategy> {
    pub(crate) messages: Vec<Message>,
    pub(crate) facts: Vec<S::Fact>,
    pub(crate) reason: Option<String>,
    pub(crate) to: Edge<S::NodeName>,
    pub(crate) question: Option<Question>,
    pub(crate) outcome: Option<Outcome>,
}

impl<S: Strategy> Transition<S> {
    /// Moves control along the edge to `node`.
    pub fn to(node: impl Into<S::NodeName>) -> Self {
        Self::along(Edge::To(node.into()), None)
    }

    /// Ends the turn. A person speaks next.
    pub fn end() -> Self {
        Self::along(Edge::End, None)
    }

    /// Asks a person, with the question as a message of the assistant. The node `resume` receives the answer.
    ///
    /// Characters that a person cannot see are escaped, because a question may hold text of a model or of a server.
    pub fn ask(question: Question, resume: impl Into<S::NodeName>) -> Self {
        let question = Question { question: visible(&question.question), ..question };
        let words = Message::assistant(&question.question);
        Self::along(Edge::Ask(resume.into()), Some(question)).say(words)
    }

    fn along(to: Edge<S::NodeName>, question: Option<Question>) -> Self {
        Self { messages: Vec::new(), facts: Vec::new(), reason: None, to, question, outcome: None }
    }

    /// Adds `fact` to the conclusions.
    pub fn learn(mut self, fact: impl Into<S::Fact>) -> Self {
        self.facts.push(fact.into());
        self
    }

    /// Adds `message` to the conversation.
    pub fn say(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Puts messages and facts in front of those that the transition has.
    pub fn preceded_by(
        mut self,
        messages: impl IntoIterator<Item = Message>,
        facts: impl IntoIterator<Item = S::Fact>,
    ) -> Self {
        self.messages.splice(0..0, messages);
        self.facts.splice(0..0, facts);
        self
    }

    /// Records the reason for a decision by a threshold or a limit.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Records that the turn ends, now or later, before its work is done. Turns are counted by the cause, so it is a short
    /// fixed text: for a limit, the name of its key, such as `rounds`.
    pub fn partial(self, cause: impl Into<Cause>) -> Self {
        self.outcome(OutcomeKind::Partial, cause.into())
    }

    /// Records that the request is not carried out. The cause is a short fixed text, as in [`Self::partial`]. If a tool has
    /// run, the outcome is partial instead, see [`TurnSoFar::tool_ran`](super::TurnSoFar::tool_ran).
    pub fn declined(self, cause: impl Into<Cause>) -> Self {
        self.outcome(OutcomeKind::Declined, cause.into())
    }

    fn outcome(mut self, kind: OutcomeKind, cause: Cause) -> Self {
        self.outcome.get_or_insert_default().add(kind, cause);
        self
    }
}
