//! Explains the last decision of a thread, and what the thread waits for.

use serde::Serialize;
use serde_json::Value;
use shared::{Decided, DynThread, Edge, Event, Goto, Graph, InvalidLog, Next, RunStatus};

/// Explanation of a thread's current status.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Sequence number of the last event read.
    pub seq: usize,
    /// The last decision of the current turn, if there is one.
    pub decision: Option<Decision>,
    /// Current status as text.
    pub stands: String,
}

/// A decision and its basis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// Sequence number of the event `decided`.
    pub seq: usize,
    /// Node that decided.
    pub node: String,
    /// The next step: a node, `end`, or `a person`.
    pub to: String,
    /// The node's reason: a threshold and the compared value, a limit, or a budget.
    pub because: Option<String>,
    /// Requests of the node.
    pub asked: Vec<Line>,
    /// Answers to the requests.
    pub heard: Vec<Line>,
    /// Facts that the node concluded.
    pub learned: Vec<Value>,
    /// Other edges that leave the node.
    pub instead: Vec<String>,
}

/// An event as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Sequence number of the event.
    pub seq: usize,
    /// Text of the event.
    pub text: String,
}

/// Reads a log event by event and remembers the basis of the last decision.
pub struct Explainer {
    graph: &'static dyn Graph,
    thread: Box<dyn DynThread>,
    asked: Vec<Line>,
    heard: Vec<Line>,
    /// True once a request has an outcome other than a failed attempt.
    begun: bool,
    decision: Option<Decision>,
}

impl Explainer {
    /// Starts before the first event of a log of this strategy.
    pub fn new(graph: &'static dyn Graph) -> Self {
        let (asked, heard) = (Vec::new(), Vec::new());
        Self { graph, thread: graph.begin(), asked, heard, begun: false, decision: None }
    }

    /// Reads the next event.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<(), InvalidLog> {
        let seq = self.thread.seq();
        let line = || Line { seq, text: event.to_string() };
        match event {
            // Requests of an earlier turn that were never decided on are no basis for later decisions.
            Event::TurnStarted(_) => {
                self.drop_question();
                self.decision = None;
            }
            // Without an outcome the node makes its requests again, and may make none.
            Event::Forked(_) if !self.begun => self.drop_question(),
            Event::Cancelled(_) => self.drop_question(),
            Event::Asked(_) => {
                self.drop_question();
                self.asked.push(line());
            }
            Event::AttemptFailed(it) => {
                self.begun |= it.in_doubt;
                self.heard.push(line());
            }
            Event::Answered(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_) => {
                self.begun = true;
                self.heard.push(line());
            }
            Event::Attempted(_) => self.begun = true,
            Event::Decided(it) => self.decision = Some(self.decided(it)),
            Event::Opened(_) | Event::Failed(_) | Event::Retried(_) | Event::Forked(_) => (),
        }
        self.thread.apply(event)
    }

    /// Returns the explanation.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no version of this strategy could have written the log.
    pub fn finish(self) -> Result<Explanation, InvalidLog> {
        let stands = stands(&*self.thread)?;
        Ok(Explanation { seq: self.thread.seq().saturating_sub(1), decision: self.decision, stands })
    }

    /// Forgets requests and answers that the next decision is not based on.
    fn drop_question(&mut self) {
        self.asked.clear();
        self.heard.clear();
        self.begun = false;
    }

    fn decided(&mut self, it: &Decided) -> Decision {
        let taken = Edge::taken(&it.to);
        let edges = self.graph.topology().edges.into_iter().find(|(node, _)| *node == it.node);
        let others = edges.into_iter().flat_map(|(_, edges)| edges).filter(|edge| *edge != taken);
        Decision {
            seq: self.thread.seq(),
            node: it.node.clone(),
            to: match &it.to {
                Goto::Node(node) => node.clone(),
                Goto::End => "end".to_owned(),
                Goto::Interrupt(_) => "a person".to_owned(),
            },
            because: it.reason.clone(),
            asked: std::mem::take(&mut self.asked),
            heard: std::mem::take(&mut self.heard),
            learned: it.facts.clone(),
            instead: others
                .map(|edge| match edge {
                    Edge::To(node) => node,
                    Edge::Ask(node) => format!("a person, heard at {node}"),
                    Edge::End => "end".to_owned(),
                })
                .collect(),
        }
    }
}

/// Describes what a thread waits for, as far as its log shows.
fn stands(thread: &dyn DynThread) -> Result<String, InvalidLog> {
    let node = thread.node().unwrap_or_default();
    Ok(match thread.status() {
        RunStatus::Idle => "idle: a person speaks next".to_owned(),
        RunStatus::Waiting(it) => format!("asks a person for {}: {}", it.kind.name(), it.question),
        RunStatus::Failed { node, reason } => {
            format!("failed at {node}: {reason}; hint: retry the turn, or send a new message")
        }
        RunStatus::Busy => match thread.next()? {
            Next::Append(event) => format!("under way at {node}; next comes: {event}"),
            Next::Perform(due) => {
                let open = due.iter().map(|it| match it.failures {
                    0 => it.request.to_string(),
                    n => format!("{} ({n} attempts failed)", it.request),
                });
                format!("under way at {node}, which waits for: {}", open.collect::<Vec<_>>().join(", "))
            }
            Next::Wait => format!("under way at {node}"),
        },
    })
}
