//! Instructions of the probe's script language.

use serde::{Deserialize, Serialize};

/// Reply to input that contains no valid instruction.
pub const USAGE: &str = "Say what to do, with semicolons between: wait SECONDS; ask QUESTION | OPTION | OPTION; \
flaky TIMES; fail REASON; call TIMES; nested; stream WORDS; steps TIMES; \
partial CAUSE; decline CAUSE; echo WORDS.";

/// Upper limit for the number in one instruction: calls, steps or failures. The fact of a fork may state a higher one.
pub(super) const TIMES_MAX: u32 = 10_000;

/// Upper limit of one wait: a day in milliseconds.
pub(super) const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Upper limits of a script: its instructions, and the sum of their numbers.
const INSTRUCTIONS_MAX: usize = 10_000;
const TIMES_IN_ALL_MAX: u64 = 100_000;

/// One instruction of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Waits this many milliseconds in the middle of a node.
    Wait(u64),
    /// Asks the person a question.
    Ask {
        /// Text of the question.
        question: String,
        /// Options to choose from. Empty means that any answer is accepted.
        options: Vec<String>,
    },
    /// Fails this many attempts, then succeeds.
    #[serde(alias = "falter")]
    Flaky(u32),
    /// Fails with this reason until an operator retries.
    Fail(String),
    /// Makes this many calls concurrently.
    Call(u32),
    /// Runs the nested group of nodes.
    Nested,
    /// Streams this text in chunks.
    Stream(String),
    /// Does nothing, this many times.
    Steps(u32),
    /// Ends the turn as partial, with this cause.
    Partial(String),
    /// Ends the turn as declined, with this cause.
    Decline(String),
    /// Adds this text to the final report.
    Echo(String),
}

/// Parses the instructions of an input. An invalid instruction is returned as an error.
pub(super) fn parse(input: &str) -> Result<Vec<Word>, String> {
    let parts = input.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let words: Vec<Word> = parts.take(INSTRUCTIONS_MAX + 1).map(word).collect::<Result<_, _>>()?;
    if words.is_empty() {
        return Err("The input is empty.".to_owned());
    }
    if words.len() > INSTRUCTIONS_MAX {
        return Err(format!("The input has more than {INSTRUCTIONS_MAX} instructions."));
    }
    let all: u64 = words.iter().map(|word| u64::from(word.times())).sum();
    if all > TIMES_IN_ALL_MAX {
        return Err(format!(
            "The input asks for {all} steps, calls and failures, and may for {TIMES_IN_ALL_MAX}."
        ));
    }
    Ok(words)
}

impl Word {
    /// Number of steps, calls or failures.
    fn times(&self) -> u32 {
        match self {
            Self::Flaky(times) | Self::Call(times) | Self::Steps(times) => *times,
            Self::Wait(_)
            | Self::Ask { .. }
            | Self::Fail(_)
            | Self::Nested
            | Self::Stream(_)
            | Self::Partial(_)
            | Self::Decline(_)
            | Self::Echo(_) => 0,
        }
    }
}

#[test]
fn a_script_is_bounded() {
    assert!(parse(&"steps 10000;".repeat(10)).is_ok());
    let refused = parse(&"steps 10000;".repeat(70_000)).unwrap_err();
    assert_eq!(refused, "The input has more than 10000 instructions.");
    let refused = parse(&"call 10000;".repeat(11)).unwrap_err();
    assert_eq!(refused, "The input asks for 110000 steps, calls and failures, and may for 100000.");
    assert!(parse("steps 10001").unwrap_err().contains("between 1 and 10000"));
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
            // The range check above keeps the product within a u64.
            Ok(Word::Wait((seconds * 1000.0) as u64))
        }
        "ask" => {
            let mut pieces = rest.split('|').map(|piece| piece.trim().to_owned());
            let question = pieces.next().filter(|text| !text.is_empty()).unwrap_or("Well?".to_owned());
            Ok(Word::Ask { question, options: pieces.filter(|option| !option.is_empty()).collect() })
        }
        "flaky" => times(part, rest).map(Word::Flaky),
        "fail" => Ok(Word::Fail(if rest.is_empty() { "told to fail".to_owned() } else { rest.to_owned() })),
        "call" => times(part, rest).map(Word::Call),
        "nested" => Ok(Word::Nested),
        "stream" => Ok(Word::Stream(rest.to_owned())),
        "steps" => times(part, rest).map(Word::Steps),
        "partial" => Ok(Word::Partial(cause(rest))),
        "decline" => Ok(Word::Decline(cause(rest))),
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

/// Returns the cause of an outcome.
fn cause(rest: &str) -> String {
    if rest.is_empty() { "told to".to_owned() } else { rest.to_owned() }
}

fn number(part: &str) -> String {
    format!("{part:?} needs a number.")
}
