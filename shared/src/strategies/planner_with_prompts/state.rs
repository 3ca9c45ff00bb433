//! What the planner with prompts concludes and remembers, beyond the planner.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Message, Prompt, PromptArgument, strategies::planner};

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// What the planner remembers.
    #[serde(flatten)]
    pub planned: planner::State,
    /// What prompts each expert offers, once it was asked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offers: BTreeMap<String, Vec<Prompt>>,
    /// What guides the current task. Begun anew with every task and every turn.
    pub guide: Guide,
}

/// What guides a task, and how it came to that.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Guide {
    /// The expert's prompts as they fit the task, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// What the person answered that was no choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misheard: Option<String>,
    /// The prompt that is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// The argument of it that the person is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_for: Option<String>,
    /// What it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Why there is no prompt, where one might have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A prompt, and how it fits the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub prompt: String,
    /// How well it fits, 0 to 1.
    pub confidence: f64,
    /// Why, in the model's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the model could fill of its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

/// The prompt that is taken, and what fills it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chosen {
    /// Its name.
    pub prompt: String,
    /// What fills it.
    pub arguments: BTreeMap<String, String>,
}

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// An expert offers these prompts, perhaps none.
    Listed {
        /// Which expert.
        server: String,
        /// All of them, in its order.
        prompts: Vec<Prompt>,
    },
    /// This is how the prompts fit the task, the best first.
    Rated(Vec<Candidate>),
    /// What the person answered is no choice.
    Misheard {
        /// The answer.
        answer: String,
    },
    /// This prompt is taken.
    Chosen {
        /// Its name.
        prompt: String,
    },
    /// The person is asked for an argument of it.
    AskedFor {
        /// Its name.
        argument: String,
    },
    /// The person gave it.
    Filled {
        /// Its name.
        argument: String,
        /// What it is.
        value: String,
    },
    /// This is what the prompt says.
    Guided {
        /// In its order.
        messages: Vec<Message>,
    },
    /// The task is worked on without a prompt, though there might have been one.
    Unguided {
        /// Why.
        reason: String,
    },
    /// What the planner concludes.
    #[serde(untagged)]
    Planner(planner::Fact),
}

impl From<planner::Fact> for Fact {
    fn from(fact: planner::Fact) -> Self {
        Fact::Planner(fact)
    }
}

impl State {
    /// What prompts the current task's expert offers, if it was asked.
    pub fn offered(&self) -> Option<&[Prompt]> {
        self.offers.get(&self.planned.task().expert).map(Vec::as_slice)
    }

    /// What the prompt of that name takes.
    pub fn takes(&self, prompt: &str) -> &[PromptArgument] {
        let offered = self.offered().unwrap_or_default();
        offered.iter().find(|it| it.name == prompt).map_or(&[], |it| &it.arguments)
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
                    | planner::Fact::Ended(_) => (),
                }
                self.planned.evolve(fact);
            }
            Fact::Rated(_)
            | Fact::Misheard { .. }
            | Fact::Chosen { .. }
            | Fact::AskedFor { .. }
            | Fact::Filled { .. }
            | Fact::Guided { .. }
            | Fact::Unguided { .. } => self.guide.evolve(fact),
        }
    }
}

impl Guide {
    /// The prompt that is taken.
    ///
    /// # Panics
    ///
    /// Where none is: only a choice leads to the nodes that ask.
    pub fn chosen(&self) -> &Chosen {
        self.chosen.as_ref().expect("only a choice leads here")
    }

    fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Rated(candidates) => self.candidates.clone_from(candidates),
            Fact::Misheard { answer } => self.misheard = Some(answer.clone()),
            Fact::Chosen { prompt } => {
                let rated = self.candidates.iter().find(|it| it.prompt == *prompt);
                let arguments = rated.map(|it| it.arguments.clone()).unwrap_or_default();
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
