//! Turns whose clients did not receive the answer: a repetition of the request joins them.

use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, FromQueryResult,
    QueryFilter as _,
};
use uuid::Uuid;

use super::{
    awaited_answers::{KILLED_AFTER, RUNS_FOR},
    statement,
};
use crate::{
    Error, Store,
    log::{ids::TurnId, tables::turns, turns::Turn},
};

/// Lost answers to a request (`$1`) since `$2`, and those that processes without a beat since `$3` send. Oldest first.
const LOST: &str = "SELECT id AS turn, CAST(NULL AS UUID) AS waiter, position AS nth, 0 AS seen_at \
    FROM turns WHERE lost_key = $1 AND lost_at >= $2 \
    UNION ALL SELECT awaited.turn_id, awaited.waiter, awaited.since, waiters.seen_at \
    FROM awaited_answers AS awaited JOIN answer_waiters AS waiters ON waiters.id = awaited.waiter \
    WHERE awaited.request_key = $1 AND waiters.seen_at >= $2 AND waiters.seen_at < $3 ORDER BY 3 LIMIT 64";

/// Result of the search for a turn whose answer was lost.
#[derive(Clone, Debug, PartialEq)]
pub enum LostAnswer {
    /// No answer to this request was lost.
    None,
    /// The turn of a lost answer, which no other request receives.
    Taken(Box<Turn>),
    /// A process that sends an answer to this request has missed a beat. In two seconds, it is clear whether it was killed.
    Unclear,
}

#[derive(FromQueryResult)]
struct Found {
    turn: TurnId,
    waiter: Option<Uuid>,
    seen_at: i64,
}

impl Store {
    /// Keeps that the answer of a turn did not reach its client. `key` identifies the request. Once for each lost answer, the next
    /// request with this key takes the turn.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn lose_answer(&self, turn: TurnId, key: &str) -> Result<(), Error> {
        let row = turns::ActiveModel {
            lost_key: Set(Some(key.to_owned())),
            lost_at: Set(Some(clock::now())),
            ..Default::default()
        };
        let update = turns::Entity::update_many().set(row).filter(turns::Column::Id.eq(turn));
        update.exec(&self.database.writer).await?;
        Ok(())
    }

    /// Takes the oldest turn whose answer to this request was lost after `since`, in microseconds since the Unix epoch, also because
    /// its process was killed. Of concurrent calls, one takes it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn take_lost_answer(&self, key: &str, since: i64) -> Result<LostAnswer, Error> {
        let (pool, now) = (&self.database.pool, clock::now());
        let lost = statement(pool, LOST, [key.into(), since.into(), (now - RUNS_FOR).into()]);
        let mut outcome = LostAnswer::None;
        for found in Found::find_by_statement(lost).all(pool).await? {
            let is_taken = match found.waiter {
                None => self.take_lost(found.turn, key).await?,
                Some(waiter) if found.seen_at < now - KILLED_AFTER => {
                    self.take_awaited(found.turn, waiter).await?
                }
                Some(_) => {
                    outcome = LostAnswer::Unclear;
                    false
                }
            };
            // The thread may have been deleted since then.
            if is_taken && let Some(turn) = self.turn(found.turn).await? {
                return Ok(LostAnswer::Taken(Box::new(turn)));
            }
        }
        Ok(outcome)
    }

    async fn take_lost(&self, turn: TurnId, key: &str) -> Result<bool, Error> {
        let row = turns::ActiveModel { lost_key: Set(None), lost_at: Set(None), ..Default::default() };
        let taken = turns::Entity::update_many()
            .set(row)
            .filter(turns::Column::Id.eq(turn))
            .filter(turns::Column::LostKey.eq(key))
            .exec(&self.database.writer)
            .await?;
        Ok(taken.rows_affected == 1)
    }

    async fn take_awaited(&self, turn: TurnId, waiter: Uuid) -> Result<bool, Error> {
        let sql = "DELETE FROM awaited_answers WHERE waiter = $1 AND turn_id = $2";
        let writer = &self.database.writer;
        let taken = writer.execute_raw(statement(writer, sql, [waiter.into(), turn.into()])).await?;
        Ok(taken.rows_affected() == 1)
    }
}
