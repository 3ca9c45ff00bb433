//! The words that steer the probe.

use serde::{Deserialize, Serialize};

/// What is said to whoever writes nothing that the probe understands.
pub const USAGE: &str = "Say what to do, with semicolons between: wait SECONDS; ask QUESTION | OPTION | OPTION; \
falter TIMES; fail REASON; call TIMES; nested; stream WORDS; steps TIMES; echo WORDS.";

/// The most that one word may ask for: calls, steps or falters.
const TIMES_MAX: u32 = 10_000;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Take so many milliseconds in the middle of a node.
    Wait(u64),
    /// Ask the person.
    Ask {
        /// The words.
        question: String,
        /// What may be chosen; anything, if empty.
        options: Vec<String>,
    },
    /// Falter so many times, then go on.
    Falter(u32),
    /// Fail with this reason, until an operator retries.
    Fail(String),
    /// Call so many things side by side.
    Call(u32),
    /// Go through a part of its own.
    Nested,
    /// Say this in chunks.
    Stream(String),
    /// Do nothing, so many times.
    Steps(u32),
    /// Say this at the end.
    Echo(String),
}

/// The words of an input; one that is not understood is told back.
pub(super) fn parse(input: &str) -> Result<Vec<Word>, String> {
    let parts = input.split([';', '\n']).map(str::trim).filter(|it| !it.is_empty());
    let words: Vec<Word> = parts.map(word).collect::<Result<_, _>>()?;
    if words.is_empty() { Err("The input is empty.".to_owned()) } else { Ok(words) }
}

fn word(part: &str) -> Result<Word, String> {
    let (verb, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
    let rest = rest.trim();
    match verb.to_ascii_lowercase().as_str() {
        "wait" => {
            let seconds: f64 = rest.trim_end_matches('s').parse().map_err(|_| number(part))?;
            if !(0.0..=86_400.0).contains(&seconds) {
                return Err(format!("{part:?} waits longer than a day."));
            }
            // The range above keeps the product within what a u64 holds.
            Ok(Word::Wait((seconds * 1000.0) as u64))
        }
        "ask" => {
            let mut pieces = rest.split('|').map(|it| it.trim().to_owned());
            let question = pieces.next().filter(|it| !it.is_empty()).unwrap_or("Well?".to_owned());
            Ok(Word::Ask { question, options: pieces.filter(|it| !it.is_empty()).collect() })
        }
        "falter" => times(part, rest).map(Word::Falter),
        "fail" => Ok(Word::Fail(if rest.is_empty() { "told to fail".to_owned() } else { rest.to_owned() })),
        "call" => times(part, rest).map(Word::Call),
        "nested" => Ok(Word::Nested),
        "stream" => Ok(Word::Stream(rest.to_owned())),
        "steps" => times(part, rest).map(Word::Steps),
        "echo" => Ok(Word::Echo(rest.to_owned())),
        _ => Err(format!("I do not understand {part:?}.")),
    }
}

fn times(part: &str, rest: &str) -> Result<u32, String> {
    let times: u32 = rest.parse().map_err(|_| number(part))?;
    if (1..=TIMES_MAX).contains(&times) {
        Ok(times)
    } else {
        Err(format!("{part:?} is not between 1 and {TIMES_MAX}."))
    }
}

fn number(part: &str) -> String {
    format!("{part:?} needs a number.")
}
