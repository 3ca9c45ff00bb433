//! The shape of every statement over a distributed table: it names threads by value, and changes no local table besides.

use std::{
    io::{self, Write},
    sync::{Arc, LazyLock, Mutex, OnceLock},
};

use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

/// Tables that Citus distributes.
const DISTRIBUTED: [&str; 2] = ["events", "attachments"];

/// Statements over all threads, which all nodes execute: a page of threads for a scan, and the number of all events.
const OF_ALL_THREADS: [&str; 2] =
    ["SELECT DISTINCT thread_id AS id FROM events WHERE thread_id >", "SELECT COUNT(\"events\".\"seq\")"];

/// Statements of the test itself, which tampers with a log.
const TAMPERING: &str = "UPDATE events SET";

/// All statements of this process.
static STATEMENTS: LazyLock<Arc<Mutex<Vec<u8>>>> = LazyLock::new(Arc::default);

/// Writer to [`STATEMENTS`].
struct Recorder;

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        STATEMENTS.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Recorder {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

/// Records all statements from now on.
pub(super) fn record() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        tracing_subscriber::fmt().json().with_env_filter("sqlx::query=debug").with_writer(|| Recorder).init();
    });
}

/// Returns the recorded statements in the order of their ends, each in one line.
pub(super) fn recorded() -> Vec<String> {
    let lines = STATEMENTS.lock().unwrap().clone();
    let lines = String::from_utf8(lines).unwrap();
    let statement = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let fields = &line["fields"];
        let text = fields["db.statement"].as_str().filter(|text| !text.is_empty());
        let text = text.or(fields["summary"].as_str()).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    lines.lines().map(statement).collect()
}

/// Returns the rule that a statement breaks.
pub(super) fn broken_rule(sql: &str) -> Option<&'static str> {
    let tables: Vec<&str> = DISTRIBUTED.into_iter().filter(|table| reads_or_changes(sql, table)).collect();
    let is_exempt = OF_ALL_THREADS.iter().any(|part| sql.contains(part)) || sql.starts_with(TAMPERING);
    if tables.is_empty() || is_exempt {
        return None;
    }
    let inserts = |table: &str| {
        sql.contains(&format!("INSERT INTO {table} (thread_id,"))
            || sql.contains(&format!("INSERT INTO \"{table}\" (\"thread_id\","))
    };
    let names_threads = ["thread_id = $", "\"thread_id\" = $", "thread_id = ANY ($", "thread_id IN ("]
        .iter()
        .any(|key| sql.contains(key));
    if sql.contains("LATERAL") {
        return Some("it has no LATERAL");
    }
    if !names_threads && !tables.iter().any(|table| inserts(table)) {
        return Some("it names its threads by value");
    }
    let changes =
        ["INSERT INTO", "UPDATE ", "DELETE FROM"].iter().map(|verb| sql.matches(verb).count()).sum::<usize>();
    let is_upsert = sql.contains("DO UPDATE SET");
    (changes > 1 && !is_upsert).then_some("it changes one table")
}

fn reads_or_changes(sql: &str, table: &str) -> bool {
    let word = |part: &str| part.trim_matches(|char: char| !char.is_alphanumeric() && char != '_') == table;
    let words: Vec<&str> = sql.split_whitespace().collect();
    words.windows(2).any(|pair| {
        ["FROM", "JOIN", "INTO", "UPDATE"].contains(&pair[0].trim_start_matches('(')) && word(pair[1])
    })
}

#[test]
fn rules_are_those_of_a_distributed_planner() {
    for (sql, broken) in [
        ("SELECT thread_id FROM events WHERE thread_id = $1 AND seq BETWEEN $2 AND $3", None),
        ("SELECT * FROM threads WHERE status = $1", None),
        ("DELETE FROM attachments WHERE thread_id = ANY ($1::uuid[])", None),
        ("SELECT * FROM events WHERE seq = 0", Some("it names its threads by value")),
        (
            "SELECT log.* FROM unnest($1::uuid[]) AS it (id) CROSS JOIN LATERAL (SELECT * FROM events WHERE thread_id = it.id) AS log",
            Some("it has no LATERAL"),
        ),
        (
            "WITH begun AS (INSERT INTO events (thread_id, seq) SELECT $1, 0) UPDATE threads SET status = $2",
            Some("it changes one table"),
        ),
    ] {
        assert_eq!(broken_rule(sql), broken, "{sql}");
    }
}
