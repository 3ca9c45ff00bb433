//! Result of a verification: intact, tampered or not checked, with details.

use serde::Serialize;
use store::{Coverage, Finding, ThreadId, is_admin_log};

use super::witness::Cosigned;

/// Table of the administrative logs, and the columns that a finding in one may concern.
const ADMIN_EVENTS: (&str, &[&str]) =
    ("admin_events", &["log_id", "seq", "at", "kind", "payload", "codec", "hash"]);

/// Overall result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything attested is unchanged, and nothing else was found.
    Intact,
    /// Something differs from what was appended or attested.
    Tampered,
    /// Nothing was found, but something could not be checked.
    NotChecked,
}

/// Something that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The affected thread, if there is one.
    pub thread: Option<ThreadId>,
    /// Sequence number of the affected event, if there is one.
    pub seq: Option<u64>,
    /// Kind of the change: `broken`, `missing`, `truncated`, `rewritten`, `exchanged`, `removed`, `reappeared`, `attachment`, `mistyped`; `read_model`, `row`; for checkpoints `forged`, `forked`, `rolled_back`, `other_store`.
    pub wrong: &'static str,
    /// Table with the change, if it is in the store.
    pub table: Option<String>,
    /// Columns of the table that may be the ones that were changed.
    pub columns: Vec<String>,
    /// Description of the change.
    pub what: String,
}

impl Found {
    /// Creates a finding in these columns of a table.
    pub(super) fn at(wrong: &'static str, (table, columns): (&str, &[&str]), what: String) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { thread: None, seq: None, wrong, table: Some(table.to_owned()), columns, what }
    }
}

/// Something that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// Description of it.
    pub what: String,
    /// Reason why it was not checked.
    pub why: String,
}

/// A checkpoint that the store was compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Path of the note.
    pub file: String,
    /// Name of the log in the note.
    pub origin: String,
    /// Number of heads that it attests.
    pub size: u64,
    /// True if the signature is valid; `None` if it was not checked.
    pub signed: Option<bool>,
    /// Valid cosignatures of the given witnesses.
    pub cosigned: Vec<Cosigned>,
}

/// The administrative logs that were verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AdminLogs {
    /// Number of logs.
    pub logs: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of entries that are as attested.
    pub attested: u64,
    /// Number of logs with further entries, of which only the hash chain was checked.
    pub beyond: u64,
}

/// Scope and findings of a verification.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The overall result.
    pub verdict: Verdict,
    /// Number of threads in the store.
    pub threads: u64,
    /// Number of events in the store.
    pub events: u64,
    /// Number of events that are as attested.
    pub attested: u64,
    /// Number of threads with further events, of which only the hash chain was checked.
    pub beyond: u64,
    /// The administrative logs.
    pub admin: AdminLogs,
    /// The checkpoints that were used.
    pub checkpoints: Vec<Seen>,
    /// Number of findings.
    pub found: u64,
    /// The first findings: at most a hundred in logs and a hundred in read models.
    pub findings: Vec<Found>,
    /// Things that were not checked.
    pub not_checked: Vec<Unchecked>,
    /// Tables and columns that were compared, and those that were not.
    #[serde(flatten)]
    pub coverage: Coverage,
}

impl Report {
    pub(super) fn of(coverage: Coverage) -> Self {
        Self {
            coverage,
            verdict: Verdict::NotChecked,
            threads: 0,
            events: 0,
            attested: 0,
            beyond: 0,
            admin: AdminLogs::default(),
            checkpoints: Vec::new(),
            found: 0,
            findings: Vec::new(),
            not_checked: Vec::new(),
        }
    }

    pub(super) fn find(&mut self, wrong: &'static str, what: String) {
        self.found += 1;
        let (table, columns) = (None, Vec::new());
        self.findings.push(Found { thread: None, seq: None, wrong, table, columns, what });
    }

    pub(super) fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.not_checked.push(Unchecked { what: what.into(), why: why.into() });
    }

    pub(super) fn take(&mut self, finding: Finding) {
        let Finding { thread, seq, wrong, what } = finding;
        let (place, thread) = match is_admin_log(thread) {
            true => (ADMIN_EVENTS, None),
            false => (wrong.place(), Some(thread)),
        };
        let found = Found::at(wrong.name(), place, what);
        self.findings.push(Found { thread, seq: Some(seq), ..found });
    }

    pub(super) fn judge(&mut self) {
        self.verdict = match (self.found, self.not_checked.is_empty()) {
            (0, true) => Verdict::Intact,
            (0, false) => Verdict::NotChecked,
            (1.., _) => Verdict::Tampered,
        };
    }
}
