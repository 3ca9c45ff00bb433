//! What the probe concludes and remembers.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::script::Word;

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// What is left to do. Belongs to the turn.
    pub todo: VecDeque<Word>,
    /// What is being done. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<Word>,
    /// What was done. Belongs to the turn.
    pub done: Vec<String>,
    /// What people answered, over all turns.
    pub answers: Vec<String>,
}

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The input said this.
    Read(Vec<Word>),
    /// The next word is being done.
    Began,
    /// It is done, with this to tell.
    Done(String),
    /// One of several steps is done.
    Stepped {
        /// Ballast, for measurements.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        padding: String,
    },
    /// A person answered.
    Heard(String),
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
            Fact::Heard(answer) => self.answers.push(answer.clone()),
        }
    }
}
