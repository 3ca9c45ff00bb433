//! Turns whose clients did not receive the answer: a repetition of the request joins them.

use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};

use crate::{
    Error, Store,
    log::{ids::TurnId, tables::turns, turns::Turn},
};

/// Maximum number of turns that are tried while other processes take them.
const TRIES: usize = 16;

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

    /// Takes the oldest turn whose answer to this request was lost after `since`, in microseconds since the Unix epoch. Of
    /// concurrent calls, one takes it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn take_lost_answer(&self, key: &str, since: i64) -> Result<Option<Turn>, Error> {
        for _ in 0..TRIES {
            let oldest = turns::Entity::find()
                .filter(turns::Column::LostKey.eq(key))
                .filter(turns::Column::LostAt.gte(since))
                .order_by_asc(turns::Column::Position)
                .limit(1);
            let Some(found) = oldest.one(&self.database.pool).await? else { return Ok(None) };
            let row = turns::ActiveModel { lost_key: Set(None), lost_at: Set(None), ..Default::default() };
            let taken = turns::Entity::update_many()
                .set(row)
                .filter(turns::Column::Id.eq(found.id))
                .filter(turns::Column::LostKey.eq(key))
                .exec(&self.database.writer)
                .await?;
            if taken.rows_affected == 1 {
                return found.try_into().map(Some);
            }
        }
        Ok(None)
    }
}
