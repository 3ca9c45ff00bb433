//! Facts that the probe concludes and the state it folds from them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::script::Word;

/// State of the probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Instructions still to execute. Belongs to the turn.
    pub todo: VecDeque<Word>,
    /// Instruction being executed. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<Word>,
    /// Results of finished instructions. Belongs to the turn.
    pub done: Vec<String>,
    /// Answers of people, over all turns.
    pub answers: Vec<String>,
}

/// Facts that the probe concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The input was parsed into these instructions.
    Read(Vec<Word>),
    /// The next instruction began.
    Began,
    /// The current instruction finished with this result.
    Done(String),
    /// One of several steps finished.
    Stepped {
        /// Padding of the log, for measurements.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        padding: String,
    },
    /// A person answered with this text.
    #[serde(alias = "heard")]
    Answered(String),
}

impl State {
    pub(super) fn begin_turn(&mut self) {
        self.todo.clear();
        self.doing = None;
        self.done.clear();
    }

    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Read(words) => self.todo = words.iter().cloned().collect(),
            Fact::Began => self.doing = self.todo.pop_front(),
            Fact::Done(what) => {
                self.doing = None;
                self.done.push(what.clone());
            }
            Fact::Stepped { .. } => match self.todo.front_mut() {
                Some(Word::Steps(left)) if 1 < *left => *left -= 1,
                Some(_) | None => drop(self.todo.pop_front()),
            },
            Fact::Answered(answer) => self.answers.push(answer.clone()),
        }
    }
}
