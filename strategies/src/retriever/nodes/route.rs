//! Chooses the server that fits the request.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use shared::{Extract, InterruptKind, Node, Question, Thread, Transition};

use crate::{
    prompt::fill,
    retriever::{Candidate, Ending, Fact, NodeName, Retriever, listing},
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/route.md");

pub(in crate::retriever) struct Route;

/// What the model makes of it.
#[derive(JsonSchema)]
pub(in crate::retriever) struct Routing {
    /// Whether one server fits, none, or several equally.
    outcome: Outcome,
    /// The name of the server, if one fits.
    server: Option<String>,
    /// A question to the person, if several fit equally.
    question: Option<String>,
    /// The names of the servers that fit equally.
    between: Vec<String>,
    /// Other words to search the index for, if none of these servers fits and another one may.
    query: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// One server fits.
    Server,
    /// None does.
    NothingRelevant,
    /// Several do, and only the person can say which.
    Ambiguous,
}

/// A model may leave out fields that do not apply, or answer with the bare name of a server.
impl<'de> Deserialize<'de> for Routing {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected {outcome, server, question, between, query}")]
        enum Said {
            Fields {
                outcome: Outcome,
                #[serde(default)]
                server: Option<String>,
                #[serde(default)]
                question: Option<String>,
                #[serde(default)]
                between: Option<Vec<String>>,
                #[serde(default)]
                query: Option<String>,
            },
            Name(String),
        }
        Ok(match Said::deserialize(from)? {
            Said::Fields { outcome, server, question, between, query } => {
                Self { outcome, server, question, between: between.unwrap_or_default(), query }
            }
            Said::Name(name) => Self {
                outcome: Outcome::Server,
                server: Some(name),
                question: None,
                between: Vec::new(),
                query: None,
            },
        })
    }
}

/// Interpretation of the model's choice, checked against the candidates.
enum Choice {
    One(String),
    Several(String, Vec<String>),
    Nothing,
    Impossible(String),
}

impl Node<Retriever> for Route {
    type Effect = Extract<Routing>;

    fn ask(&self, thread: &Thread<Retriever>) -> Self::Effect {
        let state = &thread.state;
        let candidates: Vec<String> =
            state.candidates.iter().map(|it| format!("## {}\n\n{}", it.server, it.text)).collect();
        let problem = state
            .problem
            .as_ref()
            .map_or(String::new(), |problem| format!("Your last choice was refused: {problem}"));
        let refused = listing::refusals(state);
        let blanks = [
            ("candidates", &*candidates.join("\n\n")),
            ("refused", &refused),
            ("problem", &problem),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.model, system, thread.all())
    }

    fn learn(&self, thread: &Thread<Retriever>, reply: Routing) -> Transition<Retriever> {
        let nothing = || {
            let ended = Fact::Ended(Ending::NothingRelevant);
            Transition::to(NodeName::Respond).learn(ended).declined("no server fits")
        };
        let query = reply.query.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        match judge(reply, &thread.state.candidates) {
            Choice::One(server) => Transition::to(NodeName::Equip).learn(Fact::Routed { server }),
            Choice::Several(question, between) => {
                let question = Question {
                    kind: InterruptKind::Ambiguity,
                    question,
                    options: between.clone(),
                    open_ended: true,
                };
                Transition::ask(question, NodeName::Choose).learn(Fact::Undecided { between })
            }
            Choice::Nothing => match query.filter(|_| !thread.state.searched_again) {
                Some(query) => {
                    Transition::to(NodeName::Retrieve).learn(Fact::Missed).learn(Fact::Queried { query })
                }
                None => nothing(),
            },
            Choice::Impossible(problem) if thread.state.problem.is_none() => {
                Transition::to(NodeName::Route).learn(Fact::Misrouted { problem })
            }
            Choice::Impossible(problem) => nothing().because(format!("{problem}, so no server is chosen")),
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

fn judge(reply: Routing, candidates: &[Candidate]) -> Choice {
    let question = reply.question.filter(|question| !question.trim().is_empty());
    let named = reply.server.filter(|server| !server.trim().is_empty());
    match (reply.outcome, named, question) {
        (Outcome::NothingRelevant, ..) => Choice::Nothing,
        (Outcome::Server, Some(name), _) => match find(&name, candidates) {
            Some(server) => Choice::One(server.to_owned()),
            None => Choice::Impossible(format!(
                "there is no server called {name:?} to choose: {}",
                names(candidates)
            )),
        },
        (Outcome::Server, None, None) => {
            Choice::Impossible(format!("no server was named; there are: {}", names(candidates)))
        }
        (Outcome::Server, None, question) | (Outcome::Ambiguous, _, question) => {
            let mut between: Vec<String> = Vec::new();
            for server in reply.between.iter().filter_map(|name| find(name, candidates)) {
                if !between.iter().any(|other| other == server) {
                    between.push(server.to_owned());
                }
            }
            if between.len() < 2 {
                between = candidates.iter().map(|candidate| candidate.server.clone()).collect();
            }
            match between.as_slice() {
                [] => Choice::Nothing,
                [only] => Choice::One(only.clone()),
                [_, _, ..] => Choice::Several(
                    question.unwrap_or_else(|| "Which server should do it?".to_owned()),
                    between,
                ),
            }
        }
    }
}

/// Returns the candidate that `said` names: exactly, or ignoring case, quotes and any words before a colon.
fn find<'a>(said: &str, candidates: &'a [Candidate]) -> Option<&'a str> {
    let bare = |text: &str| {
        text.trim_matches(|char: char| char.is_whitespace() || "\"'`.".contains(char)).to_owned()
    };
    let after_colon = said.rsplit(':').next().unwrap_or_default();
    let same = |name: &str| candidates.iter().find(|candidate| candidate.server == name);
    let alike = |name: &str| candidates.iter().find(|candidate| candidate.server.eq_ignore_ascii_case(name));
    let found = same(said).or_else(|| alike(&bare(said))).or_else(|| alike(&bare(after_colon)));
    found.map(|candidate| candidate.server.as_str())
}

fn names(candidates: &[Candidate]) -> String {
    let names: Vec<&str> = candidates.iter().map(|candidate| candidate.server.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
