//! A million generated rows, in the proportions of a deployment that has run for long.
//!
//! Ids are ordered by creation, as UUIDv7 are.

use shared::{Decided, Event, Goto};
use test_servers::Postgres;
use uuid::Uuid;

/// Number of threads. Each has three events and one turn; every thousandth waits for a person, and as many failed.
pub(super) const THREADS: u64 = 200_000;

/// Thread with a long conversation, and the number of its turns.
pub(super) const LONG: u64 = 1;
const LONG_TURNS: u64 = 30_000;

/// Number of lines of each of three batches.
pub(super) const LINES: u64 = 60_000;

/// Builds the id of a generated row. `kind` is its place below.
pub(super) fn id_of(kind: u16, nth: u64) -> Uuid {
    format!("01900000-0000-7000-{kind:04x}-{nth:012x}").parse().unwrap()
}

/// SHA-256 of `content`, which is the attachment of the first threads.
pub(super) const CONTENT: &str = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73";

pub(super) const THREAD: u16 = 0x8000;
pub(super) const TURN: u16 = 0x8001;
/// 1: every line completed. 2: the first half completed, a hundred lines run, the others wait. 3: every sixtieth line failed,
/// and as many wait for a person.
pub(super) const BATCH: u16 = 0x8002;
pub(super) const FILE: u16 = 0x8003;
pub(super) const WEBHOOK: u16 = 0x8004;
pub(super) const DELIVERY: u16 = 0x8005;

/// Inserts the rows. Takes some ten seconds.
pub(super) fn insert(postgres: &Postgres) {
    let to = Goto::Node("probe".to_owned());
    let decided = Event::from(Decided {
        node: "probe".to_owned(),
        messages: vec![],
        facts: vec![],
        reason: None,
        to,
        budget_exceeded: None,
        outcome: None,
    });
    let mut payload = serde_json::to_value(&decided).unwrap();
    // The column `kind` has it.
    payload.as_object_mut().unwrap().remove("event");
    let id = |kind: u16, nth: &str| {
        format!("('01900000-0000-7000-{kind:04x}-' || lpad(to_hex({nth}), 12, '0'))::uuid")
    };
    let (thread, turn, batch) = (id(THREAD, "n"), id(TURN, "n"), id(BATCH, "b"));
    let (file, delivery) = (id(FILE, "n"), id(DELIVERY, "n"));
    let tenant = "CASE WHEN n % 10 = 0 THEN 'small' ELSE 'default' END";
    let columns = "id, thread_id, tenant, status, outcome, cause, error, policy, input, metadata, author, created_at, updated_at, \
                   priority, started_seq, ended_seq, idempotency_key, request_hash, history_hash";
    let nth_thread = id(THREAD, "(b - 1) * 60000 + nth");
    let nth_turn = id(TURN, "(b - 1) * 60000 + nth");
    let state = "CASE WHEN b = 2 AND nth > 30000 THEN 'waiting' WHEN b = 2 AND nth > 29900 THEN 'submitted' \
                 WHEN b = 3 AND nth % 60 = 0 THEN 'awaiting_input' WHEN b = 3 AND nth % 60 = 1 THEN 'failed' ELSE 'completed' END";
    let lines = format!("generate_series(1, 3) AS b, generate_series(1, {LINES}) AS nth");
    let rows = format!("generate_series(1, {THREADS}) AS n");
    for insert in [
        format!(
            "INSERT INTO threads (id, tenant, strategy, status, created_at, updated_at) SELECT {thread}, {tenant}, \
             CASE WHEN n % 5 = 0 THEN 'planner' ELSE 'probe' END, CASE n % 1000 WHEN 1 THEN 'interrupted' WHEN 2 THEN 'error' \
             ELSE 'idle' END, 1700000000000000 + n, 1700000000000000 + n FROM {rows}"
        ),
        format!(
            "INSERT INTO turns ({columns}) SELECT {turn}, {thread}, {tenant}, CASE n % 1000 WHEN 1 THEN 'interrupted' \
             WHEN 2 THEN 'failed' WHEN 3 THEN 'cancelled' WHEN 5 THEN 'queued' WHEN 6 THEN 'running' ELSE 'completed' END, \
             CASE WHEN n % 1000 = 4 THEN 'partial' WHEN n % 1000 > 6 THEN 'answered' END, CASE WHEN n % 1000 IN (2, 4) THEN 'cause' END, \
             CASE WHEN n % 1000 = 2 THEN 'error' END, 'auto', '[]', '{{\"order\": 1}}', 'test', 1700000000000000 + n, \
             1700000000000000 + n, 1, 0, 2, 'key-' || n, 'hash', CASE WHEN n % 10 = 7 THEN 'history-' || n END FROM {rows}"
        ),
        format!(
            "INSERT INTO turns ({columns}) SELECT {}, {}, 'default', CASE WHEN n % 100 = 0 THEN 'interrupted' ELSE 'completed' END, \
             CASE WHEN n % 100 > 0 THEN 'answered' END, NULL, NULL, 'auto', '[]', '{{}}', 'test', 1700000000000000, \
             1700000000000000, 1, n, n, NULL, NULL, NULL FROM generate_series(1, {LONG_TURNS}) AS n",
            id(TURN, "n + 1000000"),
            id(THREAD, "1")
        ),
        format!(
            "INSERT INTO events (thread_id, seq, at, codec, kind, payload, hash) SELECT {thread}, seq, 1700000000000000 + n, 'json', \
             'decided', '{payload}', decode(repeat('ab', 32), 'hex') FROM {rows}, generate_series(0, 2) AS seq"
        ),
        format!(
            "INSERT INTO files (id, tenant, filename, purpose, bytes, status, created_at) SELECT {file}, {tenant}, 'lines.jsonl', \
             CASE WHEN n % 2 = 0 THEN 'batch' ELSE 'batch_output' END, 3, 'processed', 1700000000000000 + n FROM generate_series(1, 50000) AS n"
        ),
        format!(
            "INSERT INTO file_chunks (file_id, nth, starts_line, ends_line, data) SELECT {file}, 0, true, true, 'x' \
             FROM generate_series(1, 50000) AS n"
        ),
        format!(
            "INSERT INTO batches (id, tenant, author, endpoint, input_file, completion_window, metadata, reuse, \"window\", priority, \
             status, validated, lines, total, counts, done, input_tokens, output_tokens, micro_usd, lease_owner, lease_expires_at, \
             created_at, in_progress_at, expires_at, completed_at) SELECT {}, {tenant}, 'test', '/v1/turns', {file}, '24h', '{{}}', \
             true, 100, 1, CASE WHEN n = 2 THEN 'in_progress' ELSE 'completed' END, 1, 60000, 60000, CASE n \
             WHEN 2 THEN '{{\"waiting\": 30000, \"submitted\": 100, \"completed\": 29900}}' \
             WHEN 3 THEN '{{\"completed\": 58000, \"failed\": 1000, \"awaiting_input\": 1000}}' ELSE '{{\"completed\": 60000}}' END, \
             60000, 0, 0, 0, 'generated', 1700000000000000, 1700000000000000 + n, 1700000000000000 + n, 3700000000000000, \
             CASE WHEN n <> 2 THEN 1700000000000000 + n END FROM generate_series(1, 20000) AS n",
            id(BATCH, "n")
        ),
        format!(
            "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, attempt, cache_key, strategy, \
             priority, thread_id, turn_id, submitted_at, input_tokens, output_tokens, micro_usd, code, message, result_no) \
             SELECT {batch}, nth, 'default', 'line-' || nth, 0, 0, 10, {state}, 1, 'key-' || b || '-' || nth, 'probe', 1, \
             {nth_thread}, {nth_turn}, 1700000000000000 + nth, 0, 0, 0, CASE WHEN {state} = 'failed' THEN 'turn_failed' END, \
             CASE WHEN {state} = 'failed' THEN 'error ' || nth END, CASE WHEN {state} IN ('completed', 'failed') THEN nth END FROM {lines}"
        ),
        "INSERT INTO batch_results (batch_id, n, nth, at, line) SELECT batch_id, nth, nth, submitted_at, \
         '{\"id\": \"line\", \"custom_id\": \"line\", \"response\": null, \"error\": null}' FROM batch_items WHERE result_no IS NOT NULL"
            .to_owned(),
        format!(
            "INSERT INTO webhooks (id, url, types, secret, created_at) VALUES ({}, 'http://localhost', '[\"batch.completed\"]', 'whsec_', 1)",
            id(WEBHOOK, "1")
        ),
        format!(
            "INSERT INTO webhook_deliveries (id, webhook_id, type, payload, created_at, state, attempts, due_at) SELECT {delivery}, {}, \
             'batch.completed', '{{}}', 1, CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'delivered' END, 1, \
             (extract(epoch FROM now()) * 1000000)::bigint FROM generate_series(1, 100000) AS n",
            id(WEBHOOK, "1")
        ),
        format!(
            "INSERT INTO conversations (thread_id, tenant, metadata, items, created_at, begun) SELECT {thread}, 'default', '{{}}', '[]', 1, true \
             FROM generate_series(1, 50000) AS n"
        ),
        format!(
            "INSERT INTO forks (idempotency_key, request_hash, thread_id) SELECT 'fork-' || n, 'hash', {thread} \
             FROM generate_series(1, 20000) AS n"
        ),
        format!(
            "INSERT INTO attachments (thread_id, sha256, content) SELECT {thread}, '{CONTENT}', 'content' FROM generate_series(1, 20000) AS n"
        ),
        format!(
            "INSERT INTO trace_parents (turn_id, thread_id, header) SELECT {turn}, {thread}, 'header' FROM generate_series(1, 20000) AS n"
        ),
        format!(
            "INSERT INTO holds (thread_id, reason, placed_by, placed_at) SELECT {thread}, 'test', 'test', n \
             FROM generate_series(1, 100) AS n"
        ),
        "INSERT INTO ended_turn_counts SELECT 3600, n * 3600000000::bigint, 'default', 'probe', 'failed', 'cause ' || cause, 1 \
         FROM generate_series(1, 200) AS n, generate_series(1, 100) AS cause"
            .to_owned(),
    ] {
        postgres.query(&insert);
    }
}
