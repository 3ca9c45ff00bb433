//! Explains the last decision of a thread, and what the thread waits for.

use api_types::{Decision, EventText, Explanation, LogStatus};
use shared::{Decided, DynThread, Edge, Event, Goto, Graph, InvalidLog, Next, RunStatus};

/// Reads a log event by event and remembers the basis of the last decision.
pub struct Explainer {
    graph: &'static dyn Graph,
    thread: Box<dyn DynThread>,
    requests: Vec<EventText>,
    answers: Vec<EventText>,
    /// True once a request has an outcome other than a failed attempt.
    begun: bool,
    decision: Option<Decision>,
}

impl Explainer {
    /// Starts before the first event of a log of this strategy.
    pub fn new(graph: &'static dyn Graph) -> Self {
        let (requests, answers) = (Vec::new(), Vec::new());
        Self { graph, thread: graph.begin(), requests, answers, begun: false, decision: None }
    }

    /// Reads the next event.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<(), InvalidLog> {
        let seq = self.thread.seq();
        let line = || EventText { seq: seq as u64, text: event.to_string() };
        match event {
            // Requests of an earlier turn that were never decided on are no basis for later decisions.
            Event::TurnStarted(_) => {
                self.drop_question();
                self.decision = None;
            }
            // Without an outcome the node makes its requests again, and may make none.
            Event::Forked(_) if !self.begun => self.drop_question(),
            Event::Cancelled(_) | Event::Summarised(_) => self.drop_question(),
            Event::Asked(_) => {
                self.drop_question();
                self.requests.push(line());
            }
            Event::AttemptFailed(failed) => {
                self.begun |= failed.in_doubt;
                self.answers.push(line());
            }
            Event::Answered(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_) => {
                self.begun = true;
                self.answers.push(line());
            }
            Event::Attempted(_) => self.begun = true,
            Event::Decided(decided) => self.decision = Some(self.decided(decided)),
            Event::Opened(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => (),
        }
        self.thread.apply(event)
    }

    /// Returns the explanation, without the reasons that are not in the log.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no version of this strategy could have written the log.
    pub fn finish(self) -> Result<Explanation, InvalidLog> {
        let status = self.thread.status();
        let (node, cause, question) = match &status {
            RunStatus::Idle => (None, None, None),
            RunStatus::Busy => (self.thread.node(), None, None),
            RunStatus::Waiting(interrupt) => (self.thread.node(), None, Some(interrupt.question.clone())),
            RunStatus::Failed { node, reason } => (Some(node.to_string()), Some(reason.clone()), None),
        };
        Ok(Explanation {
            seq: self.thread.seq().saturating_sub(1) as u64,
            decision: self.decision,
            status: LogStatus::from(&status),
            node,
            cause,
            question,
            pending: pending(&*self.thread)?,
            waits: Vec::new(),
            time: Vec::new(),
            takeovers: Vec::new(),
        })
    }

    /// Forgets requests and answers that the next decision is not based on.
    fn drop_question(&mut self) {
        self.requests.clear();
        self.answers.clear();
        self.begun = false;
    }

    fn decided(&mut self, decided: &Decided) -> Decision {
        let taken = Edge::taken(&decided.to);
        let edges = self.graph.topology().edges.into_iter().find(|(node, _)| *node == decided.node);
        let others = edges.into_iter().flat_map(|(_, edges)| edges).filter(|edge| *edge != taken);
        Decision {
            seq: self.thread.seq() as u64,
            node: decided.node.clone(),
            to: match &decided.to {
                Goto::Node(node) => node.clone(),
                Goto::End => "end".to_owned(),
                Goto::Interrupt(_) => "a person".to_owned(),
            },
            reason: decided.reason.clone(),
            requests: std::mem::take(&mut self.requests),
            answers: std::mem::take(&mut self.answers),
            facts: decided.facts.clone(),
            alternatives: others
                .map(|edge| match edge {
                    Edge::To(node) => node,
                    Edge::Ask(node) => format!("a person, then {node}"),
                    Edge::End => "end".to_owned(),
                })
                .collect(),
        }
    }
}

/// Returns the requests that a thread waits for, one line each.
fn pending(thread: &dyn DynThread) -> Result<Vec<String>, InvalidLog> {
    let Next::Perform(due) = thread.next()? else { return Ok(Vec::new()) };
    let line = |pending: shared::PendingRequest| match pending.failures {
        0 => pending.request.to_string(),
        n => format!("{} ({n} attempts failed)", pending.request),
    };
    Ok(due.into_iter().map(line).collect())
}
