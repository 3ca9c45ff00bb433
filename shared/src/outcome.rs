//! Outcome of a completed turn: answered, partial or declined, and the causes if it was not answered.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetExceeded, Measure, Scope};

/// Maximum number of causes of one turn. Further causes are left out.
const CAUSES_MAX: usize = 16;

/// Maximum length of a cause, in characters. Names of tools come from servers and have no limit of their own.
const CAUSE_MAX: usize = 120;

/// Outcome of a completed turn. The default is a turn that was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Kind of ending.
    pub kind: OutcomeKind,
    /// Causes, at most 16. Empty for a turn that was answered.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub causes: BTreeSet<Cause>,
}

/// Kinds of endings of a completed turn, ordered from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The work came to its end.
    #[default]
    Answered,
    /// The work stopped before its end, or was done without some of its tools.
    Partial,
    /// The request was not carried out, and no tool has run: nothing fits it, the agent gave up, or a person said no.
    Declined,
}

/// Cause of an outcome. In JSON it is its text, so that a cause of a later version can be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Cause {
    /// Reason in a few fixed words, by which turns are counted. A limit has the name of its key, such as `rounds`.
    Reason(String),
    /// MCP server of this name did not answer.
    McpUnreachable(String),
    /// MCP server of this name offers other tools than its pin.
    PinChanged(String),
    /// Write whose effect is unknown, as `server.tool`. A person decided not to repeat it.
    WriteSkipped(String),
}

impl OutcomeKind {
    /// All kinds, from best to worst.
    pub const ALL: [Self; 3] = [OutcomeKind::Answered, OutcomeKind::Partial, OutcomeKind::Declined];

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            OutcomeKind::Answered => "answered",
            OutcomeKind::Partial => "partial",
            OutcomeKind::Declined => "declined",
        }
    }
}

impl Outcome {
    /// Returns true for a turn that was answered.
    pub fn is_answered(&self) -> bool {
        self.kind == OutcomeKind::Answered
    }

    /// Returns true if a server that did not answer, or changed its tools, is among the causes.
    pub fn lacked_server(&self) -> bool {
        let is_server = |cause: &Cause| matches!(cause, Cause::McpUnreachable(_) | Cause::PinChanged(_));
        self.causes.iter().any(is_server)
    }

    /// Returns the causes as one text, joined by `; `. Empty for a turn that was answered.
    pub fn cause(&self) -> String {
        self.causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Adds a cause. The outcome becomes at least as bad as `kind`.
    pub(crate) fn add(&mut self, kind: OutcomeKind, cause: Cause) {
        self.kind = self.kind.max(kind);
        if self.causes.len() < CAUSES_MAX {
            self.causes.insert(cause);
        }
    }

    /// Returns the outcome of a request for which a tool has run: it is partly carried out, also if a person ended it.
    pub(crate) fn after_a_tool_ran(mut self) -> Self {
        self.kind = self.kind.min(OutcomeKind::Partial);
        self
    }

    /// Combines two outcomes of the same turn.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.kind = self.kind.max(other.kind);
        other.causes.iter().for_each(|cause| self.add(other.kind, cause.clone()));
        self
    }
}

impl Cause {
    /// Returns the cause of a turn that a budget ended.
    pub(crate) fn budget(BudgetExceeded { scope, measure }: BudgetExceeded) -> Self {
        let measure = match measure {
            Measure::Tokens => "tokens",
            Measure::Usd => "usd",
            Measure::Seconds => "seconds",
        };
        let of = match scope {
            Scope::Turn => "budget",
            Scope::Thread => "budget of the thread",
        };
        Self::Reason(format!("{of}: {measure}"))
    }
}

impl Cause {
    /// Returns true if a budget is the cause.
    pub(crate) fn is_budget(&self) -> bool {
        matches!(self, Cause::Reason(text) if text.starts_with("budget"))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, of) = match self {
            Cause::Reason(reason) => return write!(f, "{reason}"),
            Cause::McpUnreachable(server) => (UNREACHABLE, server),
            Cause::PinChanged(server) => (PIN_CHANGED, server),
            Cause::WriteSkipped(tool) => (WRITE_SKIPPED, tool),
        };
        write!(f, "{kind}{of}")
    }
}

const UNREACHABLE: &str = "mcp unreachable: ";
const PIN_CHANGED: &str = "pin changed: ";
const WRITE_SKIPPED: &str = "write skipped: ";

impl From<String> for Cause {
    /// Reads a cause from its text, cut to 120 characters.
    fn from(text: String) -> Self {
        let text = match text.char_indices().nth(CAUSE_MAX) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        };
        let of = |kind: &str| text.strip_prefix(kind).map(str::to_owned);
        None.or_else(|| of(UNREACHABLE).map(Cause::McpUnreachable))
            .or_else(|| of(PIN_CHANGED).map(Cause::PinChanged))
            .or_else(|| of(WRITE_SKIPPED).map(Cause::WriteSkipped))
            .unwrap_or(Cause::Reason(text))
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.to_string().chars().take(CAUSE_MAX).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.causes.is_empty() { Ok(()) } else { write!(f, ": {}", self.cause()) }
    }
}

#[test]
fn a_cause_is_its_text() {
    let causes = [
        Cause::McpUnreachable("files".to_owned()),
        Cause::PinChanged("files".to_owned()),
        Cause::WriteSkipped("files.write".to_owned()),
        Cause::Reason("rounds".to_owned()),
    ];
    for cause in causes {
        assert_eq!(Cause::from(cause.to_string()), cause);
    }
    let long = Cause::from("ä".repeat(1_000));
    assert_eq!(String::from(long.clone()).chars().count(), CAUSE_MAX);
    assert_eq!(Cause::from(String::from(long.clone())), long, "a cut text stays as it is");
}

#[test]
fn outcomes_add_up_to_the_worst_within_a_bound() {
    let mut outcome = Outcome::default();
    assert_eq!((outcome.to_string().as_str(), outcome.lacked_server()), ("answered", false));
    outcome.add(OutcomeKind::Declined, "no expert fits".into());
    let other =
        Outcome { kind: OutcomeKind::Partial, causes: [Cause::McpUnreachable("b".to_owned())].into() };
    let mut both = outcome.and(&other);
    assert_eq!(both.to_string(), "declined: no expert fits; mcp unreachable: b");
    assert!(both.lacked_server());
    (0..100).for_each(|n| both.add(OutcomeKind::Partial, format!("server {n}").into()));
    assert_eq!((both.kind, both.causes.len()), (OutcomeKind::Declined, CAUSES_MAX));
}
