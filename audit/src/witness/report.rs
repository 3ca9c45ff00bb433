//! What a verification answers: intact, tampered or not checked, and of which.

use serde::Serialize;
use store::{Finding, ThreadId};

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All that is attested is as it was attested, and nothing else was found.
    Intact,
    /// Something is not as it was appended or attested.
    Tampered,
    /// Nothing was found, and something that was to be checked could not be.
    NotChecked,
}

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// In whose log, if in one.
    pub thread: Option<ThreadId>,
    /// At which event, if at one.
    pub seq: Option<u64>,
    /// What happened, as a name: `edited`, `missing`, `reordered`, `inserted`, `truncated`, `rewritten`, `exchanged`,
    /// `removed`, `reappeared`; `read_model`; `forged`, `forked`, `rolled_back` of checkpoints.
    pub wrong: &'static str,
    /// The same in words.
    pub what: String,
}

/// Something that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A checkpoint that was held against the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Its file.
    pub file: String,
    /// Whose log it says it is of.
    pub origin: String,
    /// How many heads it attests.
    pub size: u64,
    /// Whether the signature holds; nothing, if it was not checked.
    pub signed: Option<bool>,
}

/// What was checked, what was found, and what was not checked.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// In one word.
    pub verdict: Verdict,
    /// How many threads the store has.
    pub threads: u64,
    /// How many events.
    pub events: u64,
    /// How many of these are as they were attested.
    pub attested: u64,
    /// How many threads have others: of those only the chain was held.
    pub beyond: u64,
    /// The checkpoints.
    pub checkpoints: Vec<Seen>,
    /// How much was found.
    pub found: u64,
    /// The first of it: at most a hundred in logs, and a hundred in rows.
    pub findings: Vec<Found>,
    /// What was not checked.
    pub not_checked: Vec<Unchecked>,
}

impl Report {
    pub(super) fn empty() -> Self {
        Self {
            verdict: Verdict::NotChecked,
            threads: 0,
            events: 0,
            attested: 0,
            beyond: 0,
            checkpoints: Vec::new(),
            found: 0,
            findings: Vec::new(),
            not_checked: Vec::new(),
        }
    }

    pub(super) fn find(&mut self, wrong: &'static str, what: String) {
        self.found += 1;
        self.findings.push(Found { thread: None, seq: None, wrong, what });
    }

    pub(super) fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.not_checked.push(Unchecked { what: what.into(), why: why.into() });
    }

    pub(super) fn take(&mut self, finding: Finding) {
        let Finding { thread, seq, wrong, what } = finding;
        self.findings.push(Found { thread: Some(thread), seq: Some(seq), wrong: wrong.name(), what });
    }

    pub(super) fn judge(&mut self) {
        self.verdict = match (self.found, self.not_checked.is_empty()) {
            (0, true) => Verdict::Intact,
            (0, false) => Verdict::NotChecked,
            (1.., _) => Verdict::Tampered,
        };
    }
}
