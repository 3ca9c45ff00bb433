//! The interface of a strategy: the two traits that a new graph implements.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    ops::Range,
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    budget::Budget,
    effect::{Effect, UnexpectedResponse},
    event::InterruptKind,
    message::{Message, Role, Tool, ToolCall},
    named_option::{NamedOption, named_option},
    node_config::NodeConfig,
    outcome::{Cause, Outcome, OutcomeKind},
    reply_options::{ReplyOption, ReplyOptions},
    request::{Request, Response},
    tool_names::{OfferedTool, offered_tools},
    usage::UsageTotal,
    visible::visible,
};

/// Edge from a node to the next place of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge<P> {
    /// To this node.
    To(P),
    /// To a person. This node receives the answer.
    Ask(P),
    /// To the end of the turn.
    End,
}

/// Every node with its outgoing edges.
pub type Edges<P> = &'static [(P, &'static [Edge<P>])];

/// MCP servers that the threads of a strategy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerScope {
    /// All that are available to the tenant, or those of them that the configuration names.
    Available,
    /// Those that the configuration names, and none if it names none.
    Named,
    /// Every one, for a thread that works for all tenants, such as one that builds the index. Only operators, and tenants
    /// that they name, may run the strategy, with the operator's configuration.
    AllTenants,
}

impl ServerScope {
    /// Returns the servers of a thread whose configuration names none, in a word. `None` if it cannot name any.
    pub(crate) fn default_servers(self) -> Option<&'static str> {
        match self {
            Self::Available => Some("all"),
            Self::Named => Some("none"),
            Self::AllTenants => None,
        }
    }
}

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

/// Everything that the log says about a thread, typed by its strategy. Nodes decide from this alone.
pub struct Thread<S: Strategy> {
    /// Configuration from the opening of the thread.
    pub config: S::Config,
    /// Available MCP servers, each with a description of its purpose.
    pub servers: BTreeMap<String, String>,
    /// Conversation so far.
    pub messages: Vec<Message>,
    /// Tools of each MCP server, as last listed.
    pub server_tools: BTreeMap<String, Vec<Tool>>,
    /// Turn that is under way.
    pub turn: TurnSoFar,
    /// Limits on the usage of the thread and of each of its turns.
    pub budget: Budget,
    /// Usage of all turns.
    pub usage: UsageTotal,
    /// State of the strategy.
    pub state: S::State,
}

/// A thread with an empty log.
impl<S: Strategy> Default for Thread<S> {
    fn default() -> Self {
        Self {
            config: S::Config::default(),
            servers: BTreeMap::new(),
            messages: Vec::new(),
            server_tools: BTreeMap::new(),
            turn: TurnSoFar::default(),
            budget: Budget::default(),
            usage: UsageTotal::default(),
            state: S::State::default(),
        }
    }
}

impl<S: Strategy> Clone for Thread<S> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            servers: self.servers.clone(),
            messages: self.messages.clone(),
            server_tools: self.server_tools.clone(),
            turn: self.turn.clone(),
            budget: self.budget.clone(),
            usage: self.usage,
            state: self.state.clone(),
        }
    }
}

/// Record of the current turn, reset whenever a message from a person starts one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSoFar {
    /// Start of the turn, RFC 3339 in UTC.
    pub time: String,
    /// Index of the turn's first message.
    pub from: usize,
    /// Number of model calls.
    pub model_calls: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// True once a tool of an MCP server has run: in this turn, or in one that this turn continues with an answer. A call
    /// that the server refused did not run.
    pub tool_ran: bool,
    /// Usage of models and tools.
    pub usage: UsageTotal,
    /// Outcome that the strategy's decisions add up to. After the end of the turn, its recorded outcome.
    pub outcome: Outcome,
    /// Causes of a partial outcome that no strategy has to report: servers that did not answer, budgets, writes that
    /// were skipped. A server that answers later is no longer among them.
    pub causes: BTreeSet<Cause>,
    /// Demands of the client on the reply.
    pub reply_options: Arc<ReplyOptions>,
}

impl TurnSoFar {
    /// Returns true if the reply of the turn is not text, but an object in the form that the client asks for.
    ///
    /// The node that writes the answer asks for it with [`Chat::as_client_asks`](crate::Chat::as_client_asks), and adds nothing
    /// to the text that it gets.
    pub fn is_formatted(&self) -> bool {
        self.reply_options.response_format.name().is_some()
    }
}

/// Maximum number of tool results in a partial answer (the last ones are kept), and the maximum length of each, in
/// characters.
const RESULTS_MAX: usize = 20;
const RESULT_MAX: usize = 500;

impl<S: Strategy> Thread<S> {
    /// Returns the range of the whole conversation, as the context of a model.
    pub fn all(&self) -> Range<usize> {
        0..self.messages.len()
    }

    /// Returns the tools of these servers with the names under which a model is offered them: their own, or
    /// `server__tool` if there are several servers. Names that would be equal, or equal to that of a tool of the
    /// strategy, get distinct names.
    pub fn offered_tools<'a>(&'a self, servers: &[&'a str]) -> Vec<OfferedTool<'a>> {
        let tools = |server: &'a str| self.server_tools.get(server).map_or(&[][..], Vec::as_slice);
        let servers: Vec<(&str, &[Tool])> = servers.iter().map(|server| (*server, tools(server))).collect();
        let of_client = self.turn.reply_options.tools.iter().map(|tool| tool.function().name.clone());
        offered_tools(&servers, &own_tools::<S>().into_iter().chain(of_client).collect())
    }

    /// Returns the tool of `server` that a model called `name`, if there is one.
    pub fn tool_called<'a>(&'a self, server: &'a str, name: &str) -> Option<&'a Tool> {
        let tools = self.server_tools.get(server)?;
        let exact = tools.iter().find(|tool| tool.name == name);
        // Naming all tools takes time, and few have another name.
        exact.or_else(|| {
            self.offered_tools(&[server]).into_iter().find(|tool| tool.name == name).map(|tool| tool.tool)
        })
    }

    /// Returns the tool results of this turn, one per line, for a partial answer.
    pub fn results(&self) -> String {
        let said = &self.messages[self.turn.from.min(self.messages.len())..];
        let calls = |id: &str| {
            said.iter().flat_map(|message| &message.tool_calls).find(|call: &&ToolCall| call.id == id)
        };
        let told = |message: &Message| {
            let call = calls(message.tool_call_id.as_deref()?)?;
            let words = message.content.split_whitespace().collect::<Vec<_>>().join(" ");
            let more = if words.chars().nth(RESULT_MAX).is_some() { " …" } else { "" };
            Some(format!("- {}: {}{more}", call.name, words.chars().take(RESULT_MAX).collect::<String>()))
        };
        let all: Vec<String> = said.iter().filter_map(told).collect();
        all[all.len().saturating_sub(RESULTS_MAX)..].join("\n")
    }

    /// Returns the range of a person's answer and of the question before it.
    pub fn question_and_answer(&self) -> Range<usize> {
        self.turn.from.saturating_sub(1)..self.messages.len()
    }

    /// Returns the last message of a person in this turn, or an empty text if there is none.
    ///
    /// ## Why messages before the turn do not count
    ///
    /// An answer may hold no words of a person. A reply to an earlier question does not answer this one.
    pub fn user_message(&self) -> &str {
        said_last(&self.messages[self.turn.from.min(self.messages.len())..])
    }

    /// Returns the last message of a person in any turn. It gives context and is never an answer.
    pub fn last_user_message(&self) -> &str {
        said_last(&self.messages)
    }
}

/// Returns the names of all tools by which models steer a strategy.
pub(crate) fn own_tools<S: Strategy>() -> BTreeSet<String> {
    S::EDGES.iter().flat_map(|(node, _)| S::node(*node).tools()).map(|tool| tool.name).collect()
}

fn said_last(messages: &[Message]) -> &str {
    messages.iter().rfind(|message| message.role == Role::User).map_or("", |message| &message.content)
}

/// A node: one request to the outside world, and the interpretation of its answer.
pub trait Node<S: Strategy>: Send + Sync {
    /// Type of the request.
    type Effect: Effect;
    /// Returns the request, given the thread so far.
    fn ask(&self, thread: &Thread<S>) -> Self::Effect;
    /// Turns the answer into conclusions and the next step.
    fn learn(&self, thread: &Thread<S>, answer: <Self::Effect as Effect>::Answer) -> Transition<S>;
    /// Returns the node's own tools, by which a model steers it.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }
    /// Returns the template of the node's system prompt. A configured prompt may use its placeholders.
    fn prompt(&self) -> Option<&'static str> {
        None
    }
    /// Returns the key of the strategy's configuration that names the node's model.
    fn model_key(&self) -> &'static str {
        "model"
    }
    /// Returns the part of an incomplete reply that the person may read while the model writes it. `None`, the default,
    /// if nothing may be read before [`Self::learn`].
    ///
    /// **Invariant:** each preview is the beginning of the message with which `learn` ends the turn. A client that
    /// received another beginning has to discard it.
    ///
    /// ## Why a node whose model may call tools needs a mark
    ///
    /// The calls follow the text. Until the reply is complete, the text may be the answer or a remark before a call. A text
    /// that begins with a mark is the answer unless calls follow, as in `orchestrate` of the retriever. Then it is discarded.
    fn preview<'a>(&self, _thread: &Thread<S>, _partial: &'a str) -> Option<Cow<'a, str>> {
        None
    }
}

/// Preview of a reply whose text is the answer as it is, unless the model writes nothing but white space.
pub fn verbatim(partial: &str) -> Option<Cow<'_, str>> {
    Some(if partial.trim().is_empty() { "" } else { partial }.into())
}

/// Decision of a node: messages, facts, and the next place of control.
pub struct Transition<S: Strategy> {
    pub(crate) messages: Vec<Message>,
    pub(crate) facts: Vec<S::Fact>,
    pub(crate) reason: Option<String>,
    pub(crate) to: Edge<S::NodeName>,
    pub(crate) question: Option<Question>,
    pub(crate) outcome: Option<Outcome>,
}

/// Question to a person, before the node that asks is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Kind of the question.
    pub kind: InterruptKind,
    /// Text of the question.
    pub question: String,
    /// Options to choose from. Empty means that any answer is accepted.
    pub options: Vec<String>,
    /// True if answers other than the options are accepted too.
    pub open_ended: bool,
}

impl Question {
    /// Creates a question that accepts any text.
    pub fn open(kind: InterruptKind, question: impl Into<String>) -> Self {
        Self { kind, question: question.into(), options: Vec::new(), open_ended: true }
    }

    /// Creates a question that accepts one of `options`, by name or by number.
    pub fn choice(question: impl Into<String>, options: Vec<String>) -> Self {
        Self { kind: InterruptKind::Choice, question: question.into(), options, open_ended: false }
    }

    /// Accepts other answers than the options. The node that receives the answer reads it.
    pub fn open_ended(self) -> Self {
        Self { open_ended: true, ..self }
    }

    /// Returns the option that `answer` [names](named_option): by its text, or by its number, counted from 1. `None` if it
    /// names none, or may mean several.
    pub fn chosen<'a>(options: &'a [String], answer: &str) -> Option<&'a str> {
        match named_option(options, answer) {
            NamedOption::One(nth) => options.get(nth).map(String::as_str),
            NamedOption::Several | NamedOption::Nothing => None,
        }
    }
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
    /// run, the outcome is partial instead, see [`TurnSoFar::tool_ran`].
    pub fn declined(self, cause: impl Into<Cause>) -> Self {
        self.outcome(OutcomeKind::Declined, cause.into())
    }

    fn outcome(mut self, kind: OutcomeKind, cause: Cause) -> Self {
        self.outcome.get_or_insert_default().add(kind, cause);
        self
    }
}

/// A [`Node`] with its effect type erased, so that a graph can hold nodes of different types.
pub trait Step<S: Strategy>: Send + Sync {
    #[doc(hidden)]
    fn requests(&self, thread: &Thread<S>, node: &NodeConfig) -> Vec<Request>;
    #[doc(hidden)]
    fn check(&self, response: &Response) -> Result<(), UnexpectedResponse>;
    #[doc(hidden)]
    fn transition(
        &self,
        thread: &Thread<S>,
        responses: &[Response],
    ) -> Result<Transition<S>, UnexpectedResponse>;
    #[doc(hidden)]
    fn schema(&self) -> Option<Value>;
    #[doc(hidden)]
    fn tools(&self) -> Vec<Tool>;
    #[doc(hidden)]
    fn preview<'a>(&self, thread: &Thread<S>, partial: &'a str) -> Option<Cow<'a, str>>;
    #[doc(hidden)]
    fn asks_model(&self) -> bool;
    #[doc(hidden)]
    fn prompt(&self) -> Option<&'static str>;
    #[doc(hidden)]
    fn model_key(&self) -> &'static str;
}

impl<S: Strategy, N: Node<S>> Step<S> for N {
    fn requests(&self, thread: &Thread<S>, node: &NodeConfig) -> Vec<Request> {
        self.ask(thread).requests(node)
    }

    fn check(&self, response: &Response) -> Result<(), UnexpectedResponse> {
        N::Effect::answer(std::slice::from_ref(response)).map(drop)
    }

    fn transition(
        &self,
        thread: &Thread<S>,
        responses: &[Response],
    ) -> Result<Transition<S>, UnexpectedResponse> {
        Ok(self.learn(thread, N::Effect::answer(responses)?))
    }

    fn schema(&self) -> Option<Value> {
        N::Effect::schema()
    }

    fn tools(&self) -> Vec<Tool> {
        Node::tools(self)
    }

    fn preview<'a>(&self, thread: &Thread<S>, partial: &'a str) -> Option<Cow<'a, str>> {
        Node::preview(self, thread, partial)
    }

    fn asks_model(&self) -> bool {
        N::Effect::ASKS_MODEL
    }

    fn prompt(&self) -> Option<&'static str> {
        Node::prompt(self)
    }

    fn model_key(&self) -> &'static str {
        Node::model_key(self)
    }
}
