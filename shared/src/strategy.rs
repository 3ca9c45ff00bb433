//! What follows from what happened: the two traits that a new graph implements.

use std::{collections::BTreeMap, fmt::Debug, ops::Range};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    budget::Budget,
    effect::{Effect, Refused},
    event::InterruptKind,
    form,
    message::{Message, Role, Tool, ToolCall},
    meter::Tally,
    request::{Request, Response},
};

/// Where control may go from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge<P> {
    /// To this node.
    To(P),
    /// To a person, whose answer is heard at this node.
    Ask(P),
    /// Nowhere: the turn is over.
    End,
}

/// Every node, with where control may go from it.
pub type Edges<P> = &'static [(P, &'static [Edge<P>])];

/// A graph: its nodes, what it concludes, and how conclusions become state.
pub trait Strategy: Sized + Send + Sync + 'static {
    /// Its name in the log, in the api and under `fixtures/`.
    const NAME: &'static str;
    /// Raised when old logs would be continued differently.
    const VERSION: u32;
    /// What it is for, in one line.
    const ABOUT: &'static str;
    /// The texts of its prompts: whoever keeps answers for later must not take one for that of another prompt.
    const PROMPTS: &'static [&'static str] = &[];
    /// What may be tuned; pinned in the log when a thread opens.
    type Config: Default + Serialize + DeserializeOwned + JsonSchema + Send + Sync;
    /// What it remembers; always the fold of its facts.
    type State: Clone + Default + Serialize + Send + Sync;
    /// What it can conclude.
    type Fact: Debug + PartialEq + Serialize + DeserializeOwned;
    /// Its nodes.
    type NodeName: Copy + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Every node, with where control may go from it.
    const EDGES: Edges<Self::NodeName>;
    /// The nodes at which a new turn may start.
    const ENTRANCES: &'static [Self::NodeName];

    /// Where a new turn starts: one of [`Self::ENTRANCES`].
    fn enter(thread: &Thread<Self>) -> Self::NodeName;
    /// The node of that name.
    fn node(name: Self::NodeName) -> &'static dyn Step<Self>;
    /// Folds a fact into the state. No decisions here: they are already made.
    fn evolve(state: &mut Self::State, fact: &Self::Fact);
    /// Resets what belongs to a turn and not to the thread; called when a new matter is heard.
    fn begin_turn(_state: &mut Self::State) {}
    /// What there is of a turn that a budget ends before the strategy does; no model can be asked for it any more.
    fn partial(thread: &Thread<Self>) -> Partial<Self::Fact> {
        Partial { so_far: thread.results(), learned: Vec::new() }
    }
}

/// What there is of a turn that ends before its strategy is done.
pub struct Partial<F> {
    /// What came of it, for the person; empty if nothing did.
    pub so_far: String,
    /// What is concluded from its end.
    pub learned: Vec<F>,
}

/// All that a log says about a thread, typed by its strategy: what a node may look at.
pub struct Thread<S: Strategy> {
    /// What was tuned when the thread opened.
    pub config: S::Config,
    /// The MCP servers at hand, each with what it is good for.
    pub experts: BTreeMap<String, String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// What each MCP server last said it can do.
    pub toolboxes: BTreeMap<String, Vec<Tool>>,
    /// The turn that is under way.
    pub turn: TurnSoFar,
    /// What it and each of its turns may take of the world.
    pub budget: Budget,
    /// What all its turns took.
    pub took: Tally,
    /// What the strategy remembers.
    pub state: S::State,
}

/// What is known of the turn under way; begun anew whenever a person speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSoFar {
    /// When it was heard, RFC 3339 in UTC.
    pub time: String,
    /// The first of its messages.
    pub from: usize,
    /// How often a model was asked.
    pub model_calls: u32,
    /// How often a tool was called.
    pub tool_calls: u32,
    /// What the world took.
    pub took: Tally,
}

/// How many results of tools a partial answer tells, the last ones, and how much of each, in characters.
const RESULTS_MAX: usize = 20;
const RESULT_MAX: usize = 500;

impl<S: Strategy> Thread<S> {
    /// The whole conversation, to be heard by a model.
    pub fn all(&self) -> Range<usize> {
        0..self.messages.len()
    }

    /// What tools gave back in this turn, a line each: what a partial answer can tell of any strategy.
    pub fn results(&self) -> String {
        let said = &self.messages[self.turn.from.min(self.messages.len())..];
        let calls = |id: &str| said.iter().flat_map(|it| &it.tool_calls).find(|it: &&ToolCall| it.id == id);
        let told = |it: &Message| {
            let call = calls(it.answers.as_deref()?)?;
            let words = it.content.split_whitespace().collect::<Vec<_>>().join(" ");
            let more = if words.chars().nth(RESULT_MAX).is_some() { " …" } else { "" };
            Some(format!("- {}: {}{more}", call.name, words.chars().take(RESULT_MAX).collect::<String>()))
        };
        let all: Vec<String> = said.iter().filter_map(told).collect();
        all[all.len().saturating_sub(RESULTS_MAX)..].join("\n")
    }

    /// What a person said last since the turn was heard; empty if nobody did.
    ///
    /// ## Why not before that
    ///
    /// An answer may hold no words of a person. What was said to an earlier question is no answer to this one.
    pub fn heard(&self) -> &str {
        said_last(&self.messages[self.turn.from.min(self.messages.len())..])
    }

    /// What a person said last, in whatever turn: something to go by, and never an answer.
    pub(crate) fn heard_so_far(&self) -> &str {
        said_last(&self.messages)
    }
}

fn said_last(messages: &[Message]) -> &str {
    messages.iter().rfind(|it| it.role == Role::User).map_or("", |it| &it.content)
}

/// A node: one question to the world, and what its answer means.
pub trait Node<S: Strategy>: Send + Sync {
    /// What it wants of the world.
    type Effect: Effect;
    /// The question, given all that happened.
    fn ask(&self, thread: &Thread<S>) -> Self::Effect;
    /// What the answer means.
    fn learn(&self, thread: &Thread<S>, answer: <Self::Effect as Effect>::Answer) -> Transition<S>;
    /// Tools of the node's own, by which a model steers it.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }
}

/// What a node concludes and where control goes next.
pub struct Transition<S: Strategy> {
    pub(crate) said: Vec<Message>,
    pub(crate) learned: Vec<S::Fact>,
    pub(crate) why: Option<String>,
    pub(crate) to: Edge<S::NodeName>,
    pub(crate) question: Option<Question>,
}

/// A question to a person, before it is known who asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What kind of decision is wanted.
    pub kind: InterruptKind,
    /// The words.
    pub question: String,
    /// What may be chosen; anything, if empty.
    pub options: Vec<String>,
}

impl Question {
    /// A question that takes any words for an answer.
    pub fn open(kind: InterruptKind, question: impl Into<String>) -> Self {
        Self { kind, question: question.into(), options: Vec::new() }
    }

    /// A question that takes one of `options`, by number or by name.
    pub fn choice(question: impl Into<String>, options: Vec<String>) -> Self {
        Self { kind: InterruptKind::Choice, question: question.into(), options }
    }

    /// The option that `answer` names: by its number from 1, or by its words, whatever their case.
    pub fn chosen<'a>(options: &'a [String], answer: &str) -> Option<&'a str> {
        form::chosen(options, answer)
    }
}

impl<S: Strategy> Transition<S> {
    /// Control follows the edge to `node`.
    pub fn to(node: impl Into<S::NodeName>) -> Self {
        Self::along(Edge::To(node.into()), None)
    }

    /// The turn is over; a person speaks next.
    pub fn end() -> Self {
        Self::along(Edge::End, None)
    }

    /// A person is asked, who hears the words as the assistant's; `resume` hears the answer.
    pub fn ask(question: Question, resume: impl Into<S::NodeName>) -> Self {
        let words = Message::assistant(&question.question);
        Self::along(Edge::Ask(resume.into()), Some(question)).say(words)
    }

    fn along(to: Edge<S::NodeName>, question: Option<Question>) -> Self {
        Self { said: Vec::new(), learned: Vec::new(), why: None, to, question }
    }

    /// Concludes `fact`.
    pub fn learn(mut self, fact: impl Into<S::Fact>) -> Self {
        self.learned.push(fact.into());
        self
    }

    /// Says `message`.
    pub fn say(mut self, message: Message) -> Self {
        self.said.push(message);
        self
    }

    /// Says why, where a threshold or a limit decided.
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }
}

/// A [`Node`] whose effect type is erased, so that a graph can hold many.
pub trait Step<S: Strategy>: Send + Sync {
    #[doc(hidden)]
    fn requests(&self, thread: &Thread<S>) -> Vec<Request>;
    #[doc(hidden)]
    fn check(&self, response: &Response) -> Result<(), Refused>;
    #[doc(hidden)]
    fn transition(&self, thread: &Thread<S>, responses: &[Response]) -> Result<Transition<S>, Refused>;
    #[doc(hidden)]
    fn schema(&self) -> Option<Value>;
    #[doc(hidden)]
    fn tools(&self) -> Vec<Tool>;
}

impl<S: Strategy, N: Node<S>> Step<S> for N {
    fn requests(&self, thread: &Thread<S>) -> Vec<Request> {
        self.ask(thread).requests()
    }

    fn check(&self, response: &Response) -> Result<(), Refused> {
        N::Effect::answer(std::slice::from_ref(response)).map(drop)
    }

    fn transition(&self, thread: &Thread<S>, responses: &[Response]) -> Result<Transition<S>, Refused> {
        Ok(self.learn(thread, N::Effect::answer(responses)?))
    }

    fn schema(&self) -> Option<Value> {
        N::Effect::schema()
    }

    fn tools(&self) -> Vec<Tool> {
        Node::tools(self)
    }
}

#[test]
fn only_words_of_the_turn_are_heard() {
    let mut thread = crate::Progress::<crate::strategies::action_plan::ActionPlan>::new().thread;
    thread.messages = vec![Message::user("yes"), Message::assistant("Shall I?")];
    thread.turn.from = thread.messages.len();
    assert_eq!((thread.heard(), thread.heard_so_far()), ("", "yes"), "nobody has answered yet");
    thread.messages.push(Message { role: Role::System, ..Message::user("yes") });
    thread.messages.push(Message::assistant("yes"));
    assert_eq!(thread.heard(), "", "nobody has answered yet");
    thread.messages.extend([Message::user("no"), Message::assistant("As you like.")]);
    assert_eq!((thread.heard(), thread.heard_so_far()), ("no", "no"));
}
