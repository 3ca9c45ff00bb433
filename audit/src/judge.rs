//! A judge of answers: a strategy with one request, by which a model rules on answers by a rubric.
//!
//! Each question to the judge is a thread in the database of a what-if run, so its request is recorded, retried, limited and paid for
//! like every other, and one whose answer is stored is not sent again. No tenant can run the strategy.
//!
//! ## Why the answers are one JSON object
//!
//! They are texts of models, and may hold anything: instructions to the judge, or marks at which they seem to end. A JSON string
//! cannot be closed from within. A program gets the same object.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use shared::{
    Edge, Edges, Extract, Message, Node, ServerScope, Step, Strategy, SystemPrompt, Thread, Transition,
};

/// Maximum length of a reason, in bytes. A longer one is cut.
const REASON_MAX: usize = 300;

const COMPARE: &str = include_str!("judge/compare.md");
const GRADE: &str = include_str!("judge/grade.md");

/// A pair of answers to the same request, as the judge gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Messages of people to the thread.
    pub input: String,
    /// One of the answers; empty if there is none.
    pub first: String,
    /// The other one.
    pub second: String,
}

/// One answer, as the judge gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Single {
    /// Messages of people to the thread.
    pub input: String,
    /// The answer; empty if there is none.
    pub answer: String,
}

/// The better answer of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The first answer is better by the rubric.
    First,
    /// The second answer is better by the rubric.
    Second,
    /// Neither is better.
    Tie,
}

/// Grade of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// The answer meets the rubric.
    Pass,
    /// The answer does not meet the rubric.
    Fail,
    /// The rubric does not decide it.
    Unsure,
}

/// Verdict of a judge, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Opinion<T> {
    /// Verdict of the judge by its rubric.
    pub verdict: T,
    /// Reason, in one sentence.
    pub reason: String,
}

impl<T: DeserializeOwned> Opinion<T> {
    /// Reads the reply of a judge. A long reason is cut.
    ///
    /// # Errors
    ///
    /// The reason why the text is no verdict.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map(Self::bounded).map_err(|error| error.to_string())
    }

    fn bounded(mut self) -> Self {
        let end = self.reason.floor_char_boundary(REASON_MAX);
        if end < self.reason.len() {
            self.reason.truncate(end);
            self.reason.push('…');
        }
        self
    }
}

/// The strategy of a judge.
pub struct Judge;

/// Configuration of a judge.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Model, as `provider/model`.
    pub model: String,
    /// Text by which the judge rules.
    pub rubric: String,
    /// Kind of the verdict.
    pub task: Task,
}

/// Kind of the verdict of a judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// The better answer of two.
    #[default]
    Compare,
    /// A grade of one answer.
    Grade,
}

impl Strategy for Judge {
    // A strategy of yours may have the name `judge`.
    const NAME: &'static str = "turnfold_judge";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "rules on answers by a rubric";
    const PROMPTS: &'static [&'static str] = &[COMPARE, GRADE];
    const SERVERS: ServerScope = ServerScope::Named;
    type Config = Config;
    type State = ();
    type Fact = ();
    type NodeName = Task;

    const EDGES: Edges<Task> = &[(Task::Compare, &[Edge::End]), (Task::Grade, &[Edge::End])];
    const ENTRANCES: &'static [Task] = &[Task::Compare, Task::Grade];

    fn enter(thread: &Thread<Self>) -> Task {
        thread.config.task
    }

    fn node(name: Task) -> &'static dyn Step<Self> {
        match name {
            Task::Compare => &Ask::<Choice>(PhantomData),
            Task::Grade => &Ask::<Grade>(PhantomData),
        }
    }

    fn evolve((): &mut (), (): &()) {}
}

/// Asks the model for a verdict of one kind. Its reply is the answer of the turn.
struct Ask<T>(PhantomData<fn() -> T>);

/// A kind of verdicts.
trait Ruled: JsonSchema + Serialize + DeserializeOwned + 'static {
    /// Template of the system prompt.
    const PROMPT: &'static str;
}

impl Ruled for Choice {
    const PROMPT: &'static str = COMPARE;
}

impl Ruled for Grade {
    const PROMPT: &'static str = GRADE;
}

impl<T: Ruled> Node<Judge> for Ask<T> {
    type Effect = Extract<Opinion<T>>;

    fn ask(&self, thread: &Thread<Judge>) -> Self::Effect {
        let Config { model, rubric, task: _ } = &thread.config;
        Extract::new(model, SystemPrompt::fill(T::PROMPT, &[("rubric", rubric.as_str())]), thread.all())
    }

    fn learn(&self, _: &Thread<Judge>, opinion: Opinion<T>) -> Transition<Judge> {
        let text = serde_json::to_string(&opinion.bounded()).unwrap_or_default();
        Transition::end().say(Message::assistant(text))
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(T::PROMPT)
    }
}
