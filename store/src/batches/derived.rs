//! Compares the items and results of batches with the logs of their threads.
//!
//! The key of a turn says which line it was submitted for, so items are found from the threads that are read anyway.

use std::collections::BTreeMap;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, FromQueryResult, QueryFilter as _,
    QueryTrait as _,
};
use shared::{BatchResult, OutcomeKind, TurnStatus};

use super::{
    BatchId, ItemState, TURN_FAILED,
    items::line_of_key,
    tables::items::{self, Column},
};
use crate::{
    Error, ExpectedThread, ExpectedTurn, RowFinding, Store, ThreadId, TurnId,
    integrity::row_finding::readable,
    log::{BETWEEN, signed, statement, tables::turns},
};

/// A turn that was submitted for a line.
struct Submission<'a> {
    expected: &'a ExpectedThread,
    turn: TurnId,
    attempt: i32,
    request_hash: Option<String>,
}

/// The result of an item.
#[derive(FromQueryResult)]
struct ResultRow {
    n: i64,
    nth: i64,
    line: String,
}

/// Collects the findings of one line.
struct Findings<'a> {
    item: &'a items::Model,
    thread: ThreadId,
    all: &'a mut Vec<(ThreadId, RowFinding)>,
}

impl Findings<'_> {
    fn of_item(&mut self, columns: &'static [&'static str], what: &str) {
        self.find("batch_items", columns, what);
    }

    fn find(&mut self, table: &'static str, columns: &'static [&'static str], what: &str) {
        let (batch, nth) = (self.item.batch_id, self.item.nth);
        let what = format!("line {nth} of batch {batch}: {what} than the log of thread {}", self.thread);
        self.all.push((self.thread, RowFinding { table, columns, what }));
    }
}

impl Store {
    /// Returns true if there is any batch.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn has_batches(&self) -> Result<bool, Error> {
        let pool = &self.database.pool;
        let row = pool.query_one_raw(statement(pool, "SELECT 1 FROM batches LIMIT 1", [])).await?;
        Ok(row.is_some())
    }

    /// Compares the items of batches whose lines opened these threads, and their results, with the logs. Returns the findings, each
    /// with its thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn item_findings(
        &self,
        expected: &[ExpectedThread],
    ) -> Result<Vec<(ThreadId, RowFinding)>, Error> {
        let mut submissions = BTreeMap::<BatchId, BTreeMap<i64, Vec<Submission<'_>>>>::new();
        for (batch, nth, submission) in self.submissions(expected).await? {
            submissions.entry(batch).or_default().entry(nth).or_default().push(submission);
        }
        let mut findings = Vec::new();
        for (batch, lines) in submissions {
            let items = self.item_rows(batch, lines.keys().copied().collect()).await?;
            let numbers = items.iter().filter_map(|item| item.result_no).collect();
            let results = self.result_rows(batch, numbers).await?;
            for item in &items {
                let result = item.result_no.and_then(|n| results.get(&n));
                for submission in lines.get(&item.nth).into_iter().flatten() {
                    let thread = submission.expected.head.thread;
                    compare(submission, item, result, &mut Findings { item, thread, all: &mut findings });
                }
            }
        }
        Ok(findings)
    }

    /// Returns the turns of these threads that were submitted for lines of batches.
    async fn submissions<'a>(
        &self,
        expected: &'a [ExpectedThread],
    ) -> Result<Vec<(BatchId, i64, Submission<'a>)>, Error> {
        let threads: BTreeMap<ThreadId, &ExpectedThread> =
            expected.iter().map(|thread| (thread.head.thread, thread)).collect();
        let pool = &self.database.pool;
        let select = turns::Entity::find()
            .filter(turns::Column::ThreadId.is_in(threads.keys().copied()))
            .filter(turns::Column::IdempotencyKey.contains("batch:"))
            .build(pool.get_database_backend());
        let rows = readable(&pool.query_all_raw(select).await?, turns::Model::from_query_result)?;
        let submission = |row: turns::Model| {
            let key = row.idempotency_key.filter(|key| key.ends_with(BETWEEN))?;
            let (batch, nth, attempt) = line_of_key(&key)?;
            let expected = threads.get(&row.thread_id)?;
            Some((batch, nth, Submission { expected, turn: row.id, attempt, request_hash: row.request_hash }))
        };
        Ok(rows.into_iter().filter_map(submission).collect())
    }

    async fn item_rows(&self, batch: BatchId, lines: Vec<i64>) -> Result<Vec<items::Model>, Error> {
        let pool = &self.database.pool;
        let select = items::Entity::find().filter(Column::BatchId.eq(batch)).filter(Column::Nth.is_in(lines));
        let rows = pool.query_all_raw(select.build(pool.get_database_backend())).await?;
        readable(&rows, items::Model::from_query_result)
    }

    async fn result_rows(
        &self,
        batch: BatchId,
        numbers: Vec<i64>,
    ) -> Result<BTreeMap<i64, ResultRow>, Error> {
        if numbers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let pool = &self.database.pool;
        let listed = numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT n, nth, line FROM batch_results WHERE batch_id = $1 AND n IN ({listed})");
        let rows = pool.query_all_raw(statement(pool, &sql, [batch.into()])).await?;
        Ok(readable(&rows, ResultRow::from_query_result)?.into_iter().map(|row| (row.n, row)).collect())
    }
}

fn compare(
    submission: &Submission<'_>,
    item: &items::Model,
    result: Option<&ResultRow>,
    findings: &mut Findings<'_>,
) {
    let Submission { expected, turn, attempt, request_hash } = submission;
    let thread = expected.head.thread;
    if item.attempt != *attempt {
        if item.thread_id == Some(thread) {
            findings.of_item(&["attempt"], "its row has another number of attempts");
        }
        return;
    }
    let Ok(state) = item.state.parse::<ItemState>() else {
        return findings.of_item(&["state"], "its row has an unknown state, other");
    };
    match item.thread_id {
        // Its coordinator has not yet recorded the submission.
        None if state == ItemState::Waiting => return,
        Some(id) if id == thread => {}
        Some(_) | None => findings.of_item(&["thread_id"], "its row has another thread"),
    }
    if item.tenant != expected.tenant {
        findings.of_item(&["tenant"], "its row has another tenant");
    }
    if item.strategy.as_ref().is_some_and(|strategy| *strategy != expected.strategy) {
        findings.of_item(&["strategy"], "its row has another strategy");
    }
    if item.cache_key.as_deref().unwrap_or_default() != request_hash.as_deref().unwrap_or_default() {
        findings.of_item(&["cache_key"], "its row has another hash of the request");
    }
    let of_item = item.turn_id.and_then(|id| expected.turns.get(&id));
    match of_item {
        Some(turn) => compare_end(item, state, turn, result, findings),
        // A turn that never started is in no log.
        None if item.turn_id == Some(*turn) && !state.is_good() => {}
        None => findings.of_item(&["turn_id"], "its row has another turn"),
    }
}

/// Compares how an item ended with the turn that decides its outcome.
fn compare_end(
    item: &items::Model,
    state: ItemState,
    turn: &ExpectedTurn,
    result: Option<&ResultRow>,
    findings: &mut Findings<'_>,
) {
    let outcome = turn.outcome.as_ref().map_or(OutcomeKind::Answered, |outcome| outcome.kind);
    let is_completed = |kind| turn.status == TurnStatus::Completed && outcome == kind;
    let fits = match state {
        ItemState::Completed => is_completed(OutcomeKind::Answered),
        ItemState::Partial => is_completed(OutcomeKind::Partial),
        ItemState::Declined => is_completed(OutcomeKind::Declined),
        // A person may retry the turn, a worker may have parked it, and an item may end before its turn.
        ItemState::Failed | ItemState::Cancelled | ItemState::Expired => {
            turn.status != TurnStatus::Completed || turn.was_retried
        }
        ItemState::Submitted | ItemState::AwaitingInput => true,
        ItemState::Waiting | ItemState::Invalid | ItemState::Reused => false,
    };
    if !fits {
        findings.of_item(&["state"], "its row has another state");
    }
    if state.is_good() && fits {
        let used = [turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.micro_usd].map(signed);
        for (column, (row, log)) in [&["input_tokens"], &["output_tokens"], &["micro_usd"]]
            .into_iter()
            .zip([item.input_tokens, item.output_tokens, item.micro_usd].into_iter().zip(used))
        {
            if row != log {
                findings.of_item(column, "its row has another usage");
            }
        }
    }
    if !has_its_message(item, state, turn) {
        findings.of_item(&["code", "message"], "its row has another error or outcome");
    }
    if state.is_over() {
        compare_result(item, state, turn, result, findings);
    }
}

/// Returns true if code and message of an item are those of its turn. The message may be cut off.
fn has_its_message(item: &items::Model, state: ItemState, turn: &ExpectedTurn) -> bool {
    let (code, message) = (item.code.as_deref(), item.message.as_deref());
    let says = |text: &str| {
        let message = message.unwrap_or_default();
        message.strip_suffix('…').map_or(message == text, |start| text.starts_with(start))
    };
    match state {
        ItemState::Completed | ItemState::Submitted | ItemState::AwaitingInput => {
            (code, message) == (None, None)
        }
        ItemState::Partial | ItemState::Declined => {
            let cause = turn.outcome.as_ref().map(shared::Outcome::cause).unwrap_or_default();
            code == Some(state.as_str()) && says(&cause)
        }
        ItemState::Failed if code == Some(TURN_FAILED) && turn.status == TurnStatus::Failed => {
            turn.error.as_deref().is_none_or(says)
        }
        ItemState::Failed
        | ItemState::Cancelled
        | ItemState::Expired
        | ItemState::Waiting
        | ItemState::Invalid
        | ItemState::Reused => true,
    }
}

/// Compares the result of an item with its row and with the turn: its name, its run and the reply.
fn compare_result(
    item: &items::Model,
    state: ItemState,
    turn: &ExpectedTurn,
    result: Option<&ResultRow>,
    findings: &mut Findings<'_>,
) {
    let Some(row) = result else {
        findings.of_item(&["result_no"], "its row names another result");
        return findings.find("batch_results", &["n"], "its result is missing, or has another number");
    };
    if row.nth != item.nth {
        return findings.find("batch_results", &["nth", "n"], "its result belongs to another line");
    }
    let Ok(result) = serde_json::from_str::<BatchResult>(&row.line) else {
        return findings.find("batch_results", &["line"], "its result cannot be parsed, and is other");
    };
    if result.custom_id != item.custom_id {
        findings.find("batch_items", &["custom_id"], "its row has another custom_id");
    }
    let run = result.turnfold.as_ref();
    let of_run = run.map(|run| (Some(run.thread_id), Some(run.turn_id), i64::from(run.attempts)));
    let used = run.map(|run| [run.input_tokens, run.output_tokens].map(signed));
    let of_item = (item.thread_id, item.turn_id, i64::from(item.attempt));
    let is_run =
        run.is_none() || of_run == Some(of_item) && used == Some([item.input_tokens, item.output_tokens]);
    let reply = turn.reply.as_deref().filter(|reply| state.is_good() && !reply.is_empty());
    let body = result.response.as_ref().map(|response| &response.body);
    let has_reply = reply.is_none_or(|reply| body.is_some_and(|body| contains(body, reply)));
    let has_status = !state.is_good() || result.response.as_ref().is_some_and(|it| it.status_code == 200);
    if !is_run || !has_reply || !has_status || state.is_good() && result.error.is_some() {
        findings.find("batch_results", &["line"], "its result has another run or reply");
    }
}

/// Returns true if a text of this value contains the reply.
fn contains(value: &serde_json::Value, reply: &str) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains(reply),
        Value::Array(items) => items.iter().any(|item| contains(item, reply)),
        Value::Object(fields) => fields.values().any(|field| contains(field, reply)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
