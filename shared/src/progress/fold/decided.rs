//! Decision of a node: where control goes, and the state that its facts lead to.

use serde_json::Value;

use crate::{
    event::{Decided, Goto},
    progress::{
        InvalidLog, Progress,
        phase::{Phase, read},
    },
    strategy::Strategy,
};

impl<S: Strategy> Progress<S> {
    pub(super) fn fold_decided(&mut self, decided: &Decided) -> Result<bool, InvalidLog> {
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
}
