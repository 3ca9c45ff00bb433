//! Definition of a strategy: its nodes, its facts, and the fold from facts to state.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{Edges, ServerScope, Step, Thread};
use crate::reply_options::ReplyOption;

/// A graph: its nodes, its facts, and the fold from facts to state.
pub trait Strategy: Sized + Send + Sync + 'static {
    /// Name in the log, in the API and under `fixtures/`.
    const NAME: &'static str;
    /// Version, raised when a change would continue old logs differently.
    const VERSION: u32;
    /// Purpose of the strategy, in one line.
    const ABOUT: &'static str;
    /// Texts of the prompts. A cache of model replies includes them in its key, so that a changed prompt never gets an
    /// old reply.
    const PROMPTS: &'static [&'static str] = &[];
    /// Configuration, pinned in the log when a thread opens.
    type Config: Clone + Default + Serialize + DeserializeOwned + JsonSchema + Send + Sync;
    /// State, always the fold of the strategy's facts.
    type State: Clone + Default + Serialize + Send + Sync;
    /// Conclusions of the strategy, as recorded in the log.
    type Fact: Debug + PartialEq + Serialize + DeserializeOwned;
    /// Names of the nodes.
    type NodeName: Copy + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// MCP servers that a thread of this strategy may use.
    const SERVERS: ServerScope = ServerScope::Available;

    /// Demands of clients on replies that the strategy meets. Turns with other demands are refused when they are submitted.
    const REPLY_OPTIONS: &'static [ReplyOption] = &[];

    /// Every node with its outgoing edges.
    const EDGES: Edges<Self::NodeName>;
    /// Nodes at which a new turn may start.
    const ENTRANCES: &'static [Self::NodeName];

    /// Returns the node at which a new turn starts: one of [`Self::ENTRANCES`].
    fn enter(thread: &Thread<Self>) -> Self::NodeName;
    /// Returns the node named `name`.
    fn node(name: Self::NodeName) -> &'static dyn Step<Self>;
    /// Folds a fact into the state. Decides nothing: the fact records a decision already made.
    fn evolve(state: &mut Self::State, fact: &Self::Fact);
    /// Resets the part of the state that belongs to a turn. Called when a new request starts a turn.
    fn begin_turn(_state: &mut Self::State) {}
    /// Returns the calls that the open question asks a person to approve, with their payloads. Empty if it asks for
    /// something else.
    fn proposed_calls(_: &Thread<Self>) -> Vec<ProposedCall> {
        Vec::new()
    }
    /// Returns the partial result of a turn that a budget ends early. No model can be called for it any more.
    fn partial(thread: &Thread<Self>) -> PartialResult<Self::Fact> {
        PartialResult { text: thread.results(), facts: Vec::new() }
    }
}

/// Call that a person is asked to approve.
#[derive(Clone, Debug, PartialEq)]
pub struct ProposedCall {
    /// Server of the tool.
    pub server: String,
    /// Name of the tool.
    pub tool: String,
    /// Purpose of the call, in words that a person understands.
    pub description: String,
    /// Arguments, exactly as they will be sent. `None` if they are not known yet.
    pub arguments: Option<Map<String, Value>>,
}

/// Partial result of a turn that ends before its strategy is done.
pub struct PartialResult<F> {
    /// Text for the person. Empty if the turn has no result.
    pub text: String,
    /// Facts to record with the end of the turn.
    pub facts: Vec<F>,
}
