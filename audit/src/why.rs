//! Why control went where it went, and what a thread waits for now.

use serde::Serialize;
use serde_json::Value;
use shared::{Corrupt, Decided, Edge, Event, Goto, Graph, Next, Replay, Standing};

/// Why a thread stands where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// The last event that was looked at.
    pub seq: usize,
    /// The last decision of the turn up to there, if there is one.
    pub decision: Option<Decision>,
    /// Where that leaves the thread, in words.
    pub stands: String,
}

/// A decision and what it stood on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The number of its event.
    pub seq: usize,
    /// The node that decided.
    pub node: String,
    /// Where control went: a node, `end`, or `a person`.
    pub to: String,
    /// The reason that the node gave: the threshold and what was held against it, the limit, the budget.
    pub because: Option<String>,
    /// What the node had asked of the world.
    pub asked: Vec<Line>,
    /// What had come back.
    pub heard: Vec<Line>,
    /// What it concluded.
    pub learned: Vec<Value>,
    /// Where else control may go from the node.
    pub instead: Vec<String>,
}

/// An event, as it reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its number.
    pub seq: usize,
    /// The event.
    pub text: String,
}

/// Somebody who goes along a log and remembers why.
pub struct Explainer {
    graph: &'static dyn Graph,
    thread: Box<dyn Replay>,
    asked: Vec<Line>,
    heard: Vec<Line>,
    /// Whether anything has become of what was asked, but that it faltered.
    begun: bool,
    decision: Option<Decision>,
}

impl Explainer {
    /// Before the first event of a log of this strategy.
    pub fn new(graph: &'static dyn Graph) -> Self {
        let (asked, heard) = (Vec::new(), Vec::new());
        Self { graph, thread: graph.begin(), asked, heard, begun: false, decision: None }
    }

    /// Goes on by one event.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no thread of this strategy could have written the log.
    pub fn see(&mut self, event: &Event) -> Result<(), Corrupt> {
        let seq = self.thread.seq();
        let line = || Line { seq, text: event.to_string() };
        match event {
            // What was asked in the turn before, and never decided on, is nobody's ground any more.
            Event::Heard(_) => {
                self.drop_question();
                self.decision = None;
            }
            // Where nothing has become of a question, the node is asked anew, and may have none.
            Event::Forked(_) if !self.begun => self.drop_question(),
            Event::Cancelled(_) => self.drop_question(),
            Event::Asked(_) => {
                self.drop_question();
                self.asked.push(line());
            }
            Event::Faltered(it) => {
                self.begun |= it.in_doubt;
                self.heard.push(line());
            }
            Event::Answered(_)
            | Event::GaveUp(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Supplied(_) => {
                self.begun = true;
                self.heard.push(line());
            }
            Event::Attempted(_) => self.begun = true,
            Event::Decided(it) => self.decision = Some(self.decided(it)),
            Event::Opened(_) | Event::Failed(_) | Event::Retried(_) | Event::Forked(_) => (),
        }
        self.thread.apply(event)
    }

    /// Why it stands where it stands.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the log holds what no version of this strategy could have written.
    pub fn finish(self) -> Result<Why, Corrupt> {
        let stands = stands(&*self.thread)?;
        Ok(Why { seq: self.thread.seq().saturating_sub(1), decision: self.decision, stands })
    }

    /// What was asked and heard so far is not what comes next stands on.
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
            because: it.why.clone(),
            asked: std::mem::take(&mut self.asked),
            heard: std::mem::take(&mut self.heard),
            learned: it.learned.clone(),
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

/// What a thread waits for, as far as its log tells.
fn stands(thread: &dyn Replay) -> Result<String, Corrupt> {
    let node = thread.node().unwrap_or_default();
    Ok(match thread.standing() {
        Standing::Idle => "idle: a person speaks next".to_owned(),
        Standing::Waiting(it) => format!("asks a person for {}: {}", it.kind.name(), it.question),
        Standing::Failed { node, reason } => {
            format!("failed at {node}: {reason}; retry the turn, or say something new")
        }
        Standing::Busy => match thread.next()? {
            Next::Append(event) => format!("under way at {node}; next comes: {event}"),
            Next::Perform(due) => {
                let open = due.iter().map(|it| match it.falters {
                    0 => it.request.to_string(),
                    n => format!("{} (faltered {n} times)", it.request),
                });
                format!("under way at {node}, which waits for: {}", open.collect::<Vec<_>>().join(", "))
            }
            Next::Rest => format!("under way at {node}"),
        },
    })
}
