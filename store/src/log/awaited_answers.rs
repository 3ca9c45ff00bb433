//! Answers that clients of a process wait for: if the process is killed, a repetition of the request joins the turn.
//!
//! ## Why only long waits are written
//!
//! A process writes what its clients have waited for longer than a second, for all of them in one transaction. A short request
//! therefore costs no statement, and a long one a share of two.
//!
//! ## Why a missed beat is no death
//!
//! A busy process is late sometimes. Between its first missed beat and the third one, it is unclear whether it was killed, and the
//! repetition waits.

use std::time::Duration;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::ConnectionTrait as _;
use uuid::Uuid;

use super::{Transaction, ids::TurnId, statement};
use crate::{
    Error, Store,
    sql_batch::{StatementText, id, number, text},
};

/// Interval of the beats of a process whose clients wait.
pub const ANSWER_BEAT: Duration = Duration::from_millis(500);

/// Time since the last beat up to which a process runs, in microseconds.
pub(super) const RUNS_FOR: i64 = 800_000;

/// Time since the last beat after which a process was killed, in microseconds.
pub(super) const KILLED_AFTER: i64 = 2_500_000;

/// Age of a row that no repetition asks for any more, in microseconds.
const KEPT_FOR: i64 = 900 * 1_000_000;

const ADD: StatementText = StatementText {
    postgres: "INSERT INTO awaited_answers (waiter, turn_id, request_key, since) \
               SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::bigint[]) ON CONFLICT (waiter, turn_id) DO NOTHING",
    sqlite: "INSERT INTO awaited_answers (waiter, turn_id, request_key, since) \
             SELECT ?1, unhex(value ->> 'turn'), value ->> 'key', value ->> 'since' FROM json_each(?2) WHERE TRUE \
             ON CONFLICT (waiter, turn_id) DO NOTHING",
};

const REMOVE: StatementText = StatementText {
    postgres: "DELETE FROM awaited_answers WHERE waiter = $1 AND turn_id IN (SELECT unnest($2::uuid[]))",
    sqlite: "DELETE FROM awaited_answers WHERE waiter = ?1 \
             AND turn_id IN (SELECT unhex(value ->> 'turn') FROM json_each(?2))",
};

/// An answer that a client waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedAnswer {
    /// Turn of the answer.
    pub turn: TurnId,
    /// Request of the client.
    pub key: String,
    /// Start of the wait, in microseconds since the Unix epoch.
    pub since: i64,
}

impl Store {
    /// Writes that the process `waiter` runs, which answers its clients wait for in addition, and which turns they no longer wait for.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer; nothing is then written.
    pub async fn write_awaited_answers(
        &self,
        waiter: Uuid,
        added: Vec<AwaitedAnswer>,
        removed: Vec<TurnId>,
    ) -> Result<(), Error> {
        let written = self
            .database
            .transact(move |tx| async move { write(tx, waiter, &added, &removed).await }.boxed());
        written.await
    }

    /// Forgets what clients of this process wait for. It ends, and keeps each answer that is lost.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn end_awaiting(&self, waiter: Uuid) -> Result<(), Error> {
        let writer = &self.database.writer;
        for sql in
            ["DELETE FROM awaited_answers WHERE waiter = $1", "DELETE FROM answer_waiters WHERE id = $1"]
        {
            writer.execute_raw(statement(writer, sql, [waiter.into()])).await?;
        }
        Ok(())
    }
}

async fn write(
    tx: &Transaction,
    waiter: Uuid,
    added: &[AwaitedAnswer],
    removed: &[TurnId],
) -> Result<(), Error> {
    let now = clock::now();
    let beat = "INSERT INTO answer_waiters (id, seen_at) VALUES ($1, $2) \
                ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
    tx.execute_raw(statement(tx, beat, [waiter.into(), now.into()])).await?;
    if !removed.is_empty() {
        tx.execute_raw(REMOVE.with(tx, [waiter.into()], [id("turn", removed, |turn| *turn)])).await?;
    }
    if !added.is_empty() {
        let columns = [
            id("turn", added, |answer| answer.turn),
            text("key", added, |answer| answer.key.clone()),
            number("since", added, |answer| answer.since),
        ];
        tx.execute_raw(ADD.with(tx, [waiter.into()], columns)).await?;
        forget(tx, now - KEPT_FOR).await?;
    }
    Ok(())
}

/// Deletes what processes left that were killed before `since`.
async fn forget(tx: &Transaction, since: i64) -> Result<(), Error> {
    let old = "DELETE FROM answer_waiters WHERE seen_at < $1";
    if tx.execute_raw(statement(tx, old, [since.into()])).await?.rows_affected() == 0 {
        return Ok(());
    }
    let left = "DELETE FROM awaited_answers WHERE NOT EXISTS \
                (SELECT 1 FROM answer_waiters AS waiters WHERE waiters.id = awaited_answers.waiter)";
    tx.execute_raw(statement(tx, left, [])).await?;
    Ok(())
}
