//! The columns that a verification compares, and those that it does not.
//!
//! **Invariant:** this is the only list of them. Reports are made from it, and a test changes one value in each column of a real
//! database: the finding names the column, or the column stands here as not compared. A new column fails that test.

use serde::Serialize;

/// The other side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The hash chain of the log, and the checkpoints that were given.
    Chain,
    /// The hashes and the events of the log.
    Log,
    /// Other rows, which are compared with the log in turn.
    Rows,
    /// The administrative logs.
    AdminLog,
}

/// Reason why columns are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// No log contains the value.
    RowAlone,
    /// The rows are built again from other data, and may be dropped.
    Cache,
    /// The rows belong to processes that run now.
    Process,
    /// The value need not be that of the log.
    MayDiffer(&'static str),
    /// Only some changes are found.
    InPart(&'static str),
}

impl Why {
    /// Returns the reason for people.
    pub fn text(self) -> &'static str {
        match self {
            Why::RowAlone => "only the row has it, no log does",
            Why::Cache => "a cache, which is built again",
            Why::Process => "the state of running processes",
            Why::MayDiffer(what) | Why::InPart(what) => what,
        }
    }
}

/// Columns of one table with the same treatment.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Name of the table.
    pub table: &'static str,
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// The other side of the comparison, or the reason why there is none.
    pub treatment: Result<Against, Why>,
}

const fn compared(table: &'static str, against: Against, columns: &'static [&'static str]) -> Columns {
    Columns { table, columns, treatment: Ok(against) }
}

const fn not_compared(table: &'static str, why: Why, columns: &'static [&'static str]) -> Columns {
    Columns { table, columns, treatment: Err(why) }
}

use Against::{AdminLog, Chain, Log, Rows};
use Why::{Cache, InPart, MayDiffer, Process, RowAlone};

const CODEC: Why = InPart("found in events that a checkpoint attests; the hash does not cover it");
const UPDATED: Why = MayDiffer("imports, forks and rebuilds write it too");
const HISTORY: Why = InPart("found unless the log has no such hash: older versions kept it in the row alone");
const CHOICES: Why = InPart(
    "found unless the log has none: older versions kept them in the row alone, and defaults are left out",
);
const PROMPTS: Why = MayDiffer("counts of deleted threads remain, and a killed process loses a second");
const COUNTS: Why = InPart("counts below those of the logs are found; those above may be of deleted threads");

const FIRED: Why = MayDiffer("each firing changes it");
const USED: Why = MayDiffer("each use of a key changes it");
const IDENTITY: Why = InPart("only with the checkpoints that are given");
const LINES: Why =
    InPart("found for lines that ran in a thread that exists, not for reused and invalid lines");
const RESULTS: Why = InPart(
    "found in the run, the status and the reply, and in any byte while the file of the results exists",
);
const FILES: Why = InPart("found in files of results, not in uploaded files");

/// All columns of the schema.
pub const COLUMNS: &[Columns] = &[
    compared("events", Chain, &["thread_id", "seq", "at", "kind", "payload", "hash"]),
    not_compared("events", CODEC, &["codec"]),
    compared("admin_events", Chain, &["log_id", "seq", "at", "kind", "payload", "hash"]),
    not_compared("admin_events", CODEC, &["codec"]),
    compared("attachments", Log, &["thread_id", "sha256", "content"]),
    compared("threads", Log, &["id", "tenant", "strategy", "status", "created_at"]),
    not_compared("threads", UPDATED, &["updated_at"]),
    compared(
        "turns",
        Log,
        &[
            "id",
            "thread_id",
            "tenant",
            "status",
            "input",
            "author",
            "caller",
            "reply_options",
            "started_seq",
            "ended_seq",
            "error",
            "outcome",
            "cause",
            "created_at",
            "updated_at",
        ],
    ),
    not_compared("turns", HISTORY, &["history_hash"]),
    not_compared("turns", CHOICES, &["priority", "metadata"]),
    not_compared(
        "turns",
        RowAlone,
        &[
            "position",
            "policy",
            "idempotency_key",
            "request_hash",
            "due_at",
            "answers_seq",
            "lost_key",
            "lost_at",
        ],
    ),
    compared("open_turns", Rows, &["thread_id", "priority", "position", "tenant"]),
    compared("forks", Log, &["thread_id"]),
    not_compared("forks", RowAlone, &["idempotency_key", "request_hash"]),
    compared("mcp_pins", AdminLog, &["server", "definitions", "hash", "approved_by", "updated_at"]),
    not_compared(
        "ended_turn_counts",
        COUNTS,
        &["seconds", "start", "tenant", "strategy", "ended", "cause", "turns"],
    ),
    not_compared(
        "model_response_counts",
        COUNTS,
        &[
            "seconds",
            "start",
            "tenant",
            "strategy",
            "model",
            "responses",
            "input_tokens",
            "output_tokens",
            "micro_usd",
            "without_usage",
            "without_price",
        ],
    ),
    not_compared("prompt_templates", Cache, &["name", "content"]),
    not_compared(
        "prompt_counts",
        PROMPTS,
        &[
            "tenant",
            "strategy",
            "node",
            "prompt",
            "model",
            "first_used",
            "last_used",
            "last_thread",
            "responses",
            "input_tokens",
            "output_tokens",
            "micro_usd",
            "without_price",
            "answered",
            "partial",
            "declined",
            "failed",
            "good",
            "bad",
        ],
    ),
    compared("batches", Rows, &["counts", "total", "done"]),
    not_compared(
        "batches",
        RowAlone,
        &[
            "id",
            "tenant",
            "author",
            "endpoint",
            "input_file",
            "completion_window",
            "metadata",
            "output_seconds",
            "reuse",
            "max_micro_usd",
            "window",
            "item_seconds",
            "priority",
            "status",
            "stopped",
            "fault",
            "validated",
            "lines",
            "input_tokens",
            "output_tokens",
            "micro_usd",
            "output_file",
            "error_file",
            "idempotency_key",
            "request_hash",
            "lease_owner",
            "lease_expires_at",
            "created_at",
            "in_progress_at",
            "expires_at",
            "finalizing_at",
            "completed_at",
            "failed_at",
            "expired_at",
            "cancelling_at",
            "cancelled_at",
            "by_operator",
            "caller",
            "model",
            "trace_parent",
        ],
    ),
    not_compared(
        "batch_items",
        LINES,
        &[
            "tenant",
            "custom_id",
            "state",
            "attempt",
            "cache_key",
            "strategy",
            "thread_id",
            "turn_id",
            "input_tokens",
            "output_tokens",
            "micro_usd",
            "code",
            "message",
            "result_no",
        ],
    ),
    not_compared(
        "batch_items",
        RowAlone,
        &["batch_id", "nth", "chunk", "start", "length", "priority", "submitted_at"],
    ),
    not_compared("batch_results", RESULTS, &["n", "nth", "line"]),
    not_compared("batch_results", RowAlone, &["batch_id", "at"]),
    compared("files", Rows, &["bytes"]),
    not_compared(
        "files",
        RowAlone,
        &["id", "tenant", "filename", "purpose", "status", "created_at", "expires_at"],
    ),
    not_compared("file_chunks", FILES, &["file_id", "nth", "starts_line", "ends_line", "data"]),
    not_compared(
        "conversations",
        RowAlone,
        &["thread_id", "tenant", "metadata", "items", "created_at", "begun"],
    ),
    compared("holds", AdminLog, &["thread_id", "reason", "placed_by", "placed_at"]),
    not_compared("cancel_requests", RowAlone, &["thread_id", "turn_id", "actor", "caller", "rolled_back"]),
    not_compared("trace_parents", RowAlone, &["turn_id", "thread_id", "header"]),
    compared("pauses", AdminLog, &["kind", "name", "reason", "by", "at"]),
    compared("forgotten_models", AdminLog, &["model", "by", "at"]),
    not_compared("api_keys", USED, &["last_used_at"]),
    compared(
        "api_keys",
        AdminLog,
        &[
            "id",
            "hash",
            "tenant",
            "name",
            "scopes",
            "created_by",
            "created_at",
            "expires_at",
            "revoked_at",
            "multitask_strategy",
        ],
    ),
    not_compared("schedules", FIRED, &["next_at", "due_at", "last_at", "last_id", "last_error"]),
    compared(
        "schedules",
        AdminLog,
        &[
            "id",
            "tenant",
            "by_operator",
            "key_id",
            "author",
            "name",
            "cron",
            "zone",
            "missed",
            "target",
            "body",
            "created_at",
            "stopped_at",
            "stopped_reason",
        ],
    ),
    compared(
        "webhooks",
        AdminLog,
        &[
            "id",
            "tenant",
            "url",
            "types",
            "secret",
            "created_at",
            "disabled_at",
            "disabled_reason",
            "strategy",
            "metadata",
        ],
    ),
    not_compared(
        "webhook_deliveries",
        RowAlone,
        &[
            "id",
            "webhook_id",
            "type",
            "payload",
            "created_at",
            "state",
            "attempts",
            "due_at",
            "tried_at",
            "status",
            "error",
        ],
    ),
    not_compared("store_identity", IDENTITY, &["id"]),
    not_compared(
        "audit_checkpoints",
        RowAlone,
        &["origin", "file", "heads", "threads", "findings", "made_at"],
    ),
    not_compared("seaql_migrations", RowAlone, &["version", "applied_at"]),
    not_compared("search_threads", Cache, &["thread_id", "next_seq", "turn_seq"]),
    // SQLite has the words in a table of its own, which its module for full text keeps.
    not_compared("search_entries", Cache, &["id", "thread_id", "seq", "turn_seq", "words"]),
    not_compared("search_terms", Cache, &["kind", "value", "thread_id", "turn_seq"]),
    not_compared("search_ratings", Cache, &["thread_id", "turn_id", "rating"]),
    not_compared("search_usage", Cache, &["thread_id", "turn_seq", "tokens", "micro_usd"]),
    not_compared("search_writers", Process, &["id", "seen_at", "indexed_until", "after_thread"]),
    not_compared("index_entries", Cache, &["server", "hash", "text", "vector", "model", "updated_at"]),
    not_compared("mcp_servers", Cache, &["server", "offer", "definitions", "error", "worker", "seen_at"]),
    not_compared("deaths", Process, &["thread_id", "count", "worker"]),
    not_compared("readiness", Process, &["id", "at"]),
    not_compared(
        "workers",
        Process,
        &[
            "id",
            "name",
            "host",
            "pid",
            "version",
            "strategies",
            "slots",
            "in_flight",
            "started_at",
            "seen_at",
            "steps_per_second",
            "learned_models",
            "alive_at",
        ],
    ),
    not_compared("count_writers", Process, &["id", "written_at", "claimed_until"]),
    not_compared("answer_waiters", Process, &["id", "seen_at"]),
    not_compared("awaited_answers", Process, &["waiter", "turn_id", "request_key", "since"]),
];

/// Extent of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The logs of all threads, with their images and files.
    Logs,
    /// One thread and its rows.
    Thread,
    /// All threads and rows.
    All,
}

/// Tables whose rows each belong to one thread.
const OF_THREADS: [&str; 5] = ["events", "attachments", "threads", "turns", "open_turns"];

/// Tables that a verification of the logs compares.
const OF_LOGS: [&str; 2] = ["events", "attachments"];

/// Table of PostgreSQL that is a view in SQLite.
pub(crate) const OPEN_TURNS: &str = "open_turns";

/// The columns that a verification compared, and those that it did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Columns that were compared.
    pub compared: Vec<Compared>,
    /// Columns that were not compared.
    pub not_compared: Vec<NotCompared>,
}

/// Columns of one table that were compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Name of the table.
    pub table: &'static str,
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// The other side of the comparison.
    pub against: Against,
}

/// Columns of one table that were not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// Name of the table.
    pub table: &'static str,
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// True if these are all columns of the table.
    pub whole_table: bool,
    /// True if some changes of these columns are found.
    pub in_part: bool,
    /// Reason for leaving them out, or the changes that are found.
    pub why: &'static str,
}

impl Coverage {
    /// Returns the columns of a database that a verification of this extent compares.
    pub(crate) fn of(scope: Scope, has_open_turns: bool) -> Self {
        let mut coverage = Self::default();
        for &Columns { table, columns, treatment } in COLUMNS {
            if table == OPEN_TURNS && !has_open_turns {
                continue;
            }
            let left_out = match scope {
                Scope::Logs if !OF_LOGS.contains(&table) => {
                    Some("this command compares logs; see turnfold audit verify")
                }
                Scope::Thread if !OF_THREADS.contains(&table) => Some("compared with all threads only"),
                Scope::Logs | Scope::Thread | Scope::All => None,
            };
            match (treatment, left_out) {
                (Ok(against), None) => coverage.compared.push(Compared { table, columns, against }),
                (Ok(_) | Err(InPart(_)), Some(why)) => coverage.leave_out(table, columns, why, false),
                (Err(why), _) => {
                    coverage.leave_out(table, columns, why.text(), matches!(why, InPart(_)));
                }
            }
        }
        coverage
    }

    fn leave_out(
        &mut self,
        table: &'static str,
        columns: &'static [&'static str],
        why: &'static str,
        in_part: bool,
    ) {
        let whole_table = COLUMNS.iter().filter(|it| it.table == table).count() == 1;
        self.not_compared.push(NotCompared { table, columns, whole_table, in_part, why });
    }
}
