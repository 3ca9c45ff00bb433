//! Questions of nodes to people.

use crate::{
    event::InterruptKind,
    named_option::{NamedOption, named_option},
};

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
