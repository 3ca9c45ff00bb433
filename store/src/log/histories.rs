//! Turns by the conversations that their clients sent.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};

use crate::{
    Error, Store,
    log::{at_most, ids::TurnId, tables::turns},
};

impl Store {
    /// Returns the newest turns that were submitted with this hash of their conversation, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn turns_of_history(&self, hash: &str, limit: u64) -> Result<Vec<TurnId>, Error> {
        let rows = turns::Entity::find()
            .select_only()
            .column(turns::Column::Id)
            .filter(turns::Column::HistoryHash.eq(hash))
            .order_by_desc(turns::Column::Position)
            .limit(at_most(limit));
        Ok(rows.into_tuple().all(&self.database.pool).await?)
    }
}
