//! Facts and state that the planner with prompts adds to those of the planner.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shared::{Message, Prompt, PromptArgument};

use crate::planner;

/// State of the planner with prompts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// State of the planner.
    #[serde(flatten)]
    pub planned: planner::State,
    /// Prompts of each expert that has been asked for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offers: BTreeMap<String, Vec<Prompt>>,
    /// Guidance for the current task. Reset with every task and every turn.
    pub guide: Guide,
}

/// Prompt that guides a task, and the steps that led to its choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Guide {
    /// Prompts of the expert with their ratings, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Answer of the person that named none of the options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_choice: Option<String>,
    /// Prompt chosen for the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// Argument of the prompt that the person is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_for: Option<String>,
    /// Messages of the filled prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Reason for working without a prompt although one might have fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Prompt with its rating for the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of the prompt.
    pub prompt: String,
    /// Confidence that the prompt fits the task, 0 to 1.
    pub confidence: f64,
    /// Reason that the model gives for the rating.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Arguments that the model could fill in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

/// Chosen prompt with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chosen {
    /// Name of the prompt.
    pub prompt: String,
    /// Values of its arguments.
    pub arguments: BTreeMap<String, String>,
}

/// Facts that the planner with prompts concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// An expert listed its prompts. The list may be empty.
    Listed {
        /// Name of the expert's server.
        server: String,
        /// All prompts, in the server's order.
        prompts: Vec<Prompt>,
    },
    /// The prompts were rated for the task, best first.
    Rated(Vec<Candidate>),
    /// The person's answer names none of the options.
    UnknownChoice {
        /// Answer as the person gave it.
        answer: String,
    },
    /// A prompt was chosen.
    Chosen {
        /// Name of the prompt.
        prompt: String,
    },
    /// The person was asked for an argument of the prompt.
    AskedFor {
        /// Name of the argument.
        argument: String,
    },
    /// The person gave the argument.
    Filled {
        /// Name of the argument.
        argument: String,
        /// Value from the person.
        value: String,
    },
    /// The messages of the prompt were fetched.
    Guided {
        /// Messages in the prompt's order.
        messages: Vec<Message>,
    },
    /// The task is worked on without a prompt, although one might have fitted.
    Unguided {
        /// Reason for working without one.
        reason: String,
    },
    /// A fact of the planner.
    #[serde(untagged)]
    Planner(planner::Fact),
}

impl From<planner::Fact> for Fact {
    fn from(fact: planner::Fact) -> Self {
        Fact::Planner(fact)
    }
}

impl State {
    /// Returns the prompts of the current task's expert, or `None` if the expert has not been asked.
    pub fn offered(&self) -> Option<&[Prompt]> {
        self.offers.get(&self.planned.task().expert).map(Vec::as_slice)
    }

    /// Returns the arguments of the prompt named `prompt`.
    pub fn takes(&self, prompt: &str) -> &[PromptArgument] {
        let offered = self.offered().unwrap_or_default();
        offered.iter().find(|info| info.name == prompt).map_or(&[], |info| &info.arguments)
    }

    pub(super) fn begin_turn(&mut self) {
        self.planned.begin_turn();
        self.guide = Guide::default();
    }

    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Listed { server, prompts } => drop(self.offers.insert(server.clone(), prompts.clone())),
            Fact::Planner(fact) => {
                match fact {
                    planner::Fact::Planned(_) | planner::Fact::Advanced { .. } => {
                        self.guide = Guide::default()
                    }
                    planner::Fact::Misplanned { .. }
                    | planner::Fact::Unfinished
                    | planner::Fact::Settled { .. }
                    | planner::Fact::Called { .. }
                    | planner::Fact::Ended(_) => (),
                }
                self.planned.evolve(fact);
            }
            Fact::Rated(_)
            | Fact::UnknownChoice { .. }
            | Fact::Chosen { .. }
            | Fact::AskedFor { .. }
            | Fact::Filled { .. }
            | Fact::Guided { .. }
            | Fact::Unguided { .. } => self.guide.evolve(fact),
        }
    }
}

impl Guide {
    /// Returns the chosen prompt.
    ///
    /// # Panics
    ///
    /// Panics if no prompt was chosen. Only a choice leads to the nodes that call this.
    pub fn chosen(&self) -> &Chosen {
        self.chosen.as_ref().expect("only a choice leads here")
    }

    fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Rated(candidates) => self.candidates.clone_from(candidates),
            Fact::UnknownChoice { answer } => self.unknown_choice = Some(answer.clone()),
            Fact::Chosen { prompt } => {
                let rated = self.candidates.iter().find(|candidate| candidate.prompt == *prompt);
                let arguments = rated.map(|candidate| candidate.arguments.clone()).unwrap_or_default();
                self.chosen = Some(Chosen { prompt: prompt.clone(), arguments });
            }
            Fact::AskedFor { argument } => self.asked_for = Some(argument.clone()),
            Fact::Filled { argument, value } => {
                self.asked_for = None;
                if let Some(chosen) = &mut self.chosen {
                    chosen.arguments.insert(argument.clone(), value.clone());
                }
            }
            Fact::Guided { messages } => self.messages.clone_from(messages),
            Fact::Unguided { reason } => {
                self.asked_for = None;
                self.chosen = None;
                self.trouble = Some(reason.clone());
            }
            Fact::Listed { .. } | Fact::Planner(_) => (),
        }
    }
}
