//! Items as rows: which are next, under way, ended, or due.

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, FromQueryResult as _, IdenStatic as _,
    Iterable as _, QueryFilter as _, QueryOrder as _, QueryResult, Value,
};
use shared::Tally;

use super::{BatchId, ItemState, LinePlace, tables::items};
use crate::{
    Error, Idempotency, Priority, Store, ThreadId, Turn, TurnId,
    log::{BETWEEN, at_most, looked_up, signed, statement, tables::turns, unsigned},
};

/// How many bytes of lines are taken up together: of lines that are long, that many and not a page full.
pub const PAGE_BYTES: u64 = 8 << 20;

/// A line of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Of which batch.
    pub batch: BatchId,
    /// The number of its line.
    pub nth: u64,
    /// Its owner's name for it.
    pub custom_id: Option<String>,
    /// Where its line stands.
    pub place: LinePlace,
    /// How far it has come.
    pub state: ItemState,
    /// How urgent it is.
    pub priority: Priority,
    /// How often it was begun anew.
    pub attempt: u32,
    /// Names what it asks for by its content.
    pub memo: Option<String>,
    /// The thread that it opened.
    pub thread: Option<ThreadId>,
    /// The turn that counts: the last of its thread.
    pub turn: Option<TurnId>,
    /// When its turn was queued, in microseconds since the Unix epoch.
    pub fed_at: Option<i64>,
    /// What its thread took, as far as was written down: tokens and money.
    pub took: Tally,
}

impl Item {
    /// What makes beginning it again the same, each time that it is begun anew.
    pub fn key(&self) -> Idempotency {
        let attempt = if self.attempt == 1 { String::new() } else { format!(":{}", self.attempt) };
        let name = format!("batch:{}:{}{attempt}", self.batch, self.nth);
        Idempotency::ours(&name, self.memo.clone().unwrap_or_default())
    }
}

/// The batch, the line and the attempt at it that began a turn with this key, if [`Item::key`] made it.
fn line_of_key(key: &str) -> Option<(BatchId, i64, i32)> {
    let own = key.trim_end_matches(BETWEEN).rsplit(BETWEEN).next()?;
    let mut parts = own.strip_prefix("batch:")?.split(':');
    let (batch, nth) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((batch, nth, parts.next().map_or(Some(1), |it| it.parse().ok())?))
}

impl Store {
    /// The items of a batch that are to be begun next: the most urgent, and of these the first lines.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn waiting_items(&self, batch: BatchId, limit: u64) -> Result<Vec<Item>, Error> {
        let sql = "SELECT * FROM batch_items WHERE batch_id = $1 AND state = 'waiting' \
                   ORDER BY priority, nth LIMIT $2";
        self.items(sql, [batch.into(), signed(at_most(limit)).into()]).await
    }

    async fn items<const N: usize>(&self, sql: &str, values: [Value; N]) -> Result<Vec<Item>, Error> {
        let pool = &self.database.hot;
        let rows = items::Entity::find().from_raw_sql(statement(pool, sql, values)).all(pool).await?;
        rows.into_iter().map(Item::try_from).collect()
    }

    /// The batch that opened this thread, if one did: also if its line was run again since, on another.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batch_of(&self, thread: ThreadId) -> Result<Option<BatchId>, Error> {
        Ok(self.opened_for(thread).await?.map(|(item, _)| item.batch_id))
    }

    /// The batch that opened this thread, and the number of its line, if that was begun anew since, on another thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begun_anew(&self, thread: ThreadId) -> Result<Option<(BatchId, u64)>, Error> {
        let opened = self.opened_for(thread).await?.filter(|(item, attempt)| *attempt < item.attempt);
        opened.map(|(item, _)| Ok((item.batch_id, unsigned(item.nth)?))).transpose()
    }

    /// The line for which this thread was opened, if it was for one, and at which attempt.
    async fn opened_for(&self, thread: ThreadId) -> Result<Option<(items::Model, i32)>, Error> {
        let pool = &self.database.pool;
        let first = turns::Entity::find().filter(turns::Column::ThreadId.eq(thread));
        let first = first.order_by_asc(turns::Column::Position).one(pool).await?;
        let Some(turns::Model { idempotency_key: Some(key), request_hash, .. }) = first else {
            return Ok(None);
        };
        let Some((batch, nth, attempt)) = line_of_key(&key) else { return Ok(None) };
        let item = items::Entity::find_by_id((batch, nth)).one(pool).await?;
        // What does not end as only our keys do, anybody may have called so, but does not ask for the same.
        let is_ours = key.ends_with(BETWEEN);
        Ok(item.filter(|it| is_ours || it.memo == request_hash).map(|it| (it, attempt)))
    }

    /// Items of a batch that are under way, and whose turn has come to an end or waits for a person; at most `limit`, and no
    /// further one once their lines have [`PAGE_BYTES`], each with that turn.
    ///
    /// ## Which turn counts
    ///
    /// The one that the item began, and while that waits for a person, those that its thread heard after it: of these the
    /// first that asks nothing more, or else the last. What else is submitted to the thread, is not heard, or is heard once
    /// the item has its answer, is no matter of the batch.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn moved_items(&self, batch: BatchId, limit: u64) -> Result<Vec<(Item, Turn)>, Error> {
        let moved = "items.state = 'fed' AND turns.status NOT IN ('queued', 'running')";
        self.items_with_turns(batch, moved, limit).await
    }

    /// The same of those that waited for a person, and do so no more, or for the answer to another turn by now.
    ///
    /// All that wait are looked at, and they may be all of the batch.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn answered_items(&self, batch: BatchId, limit: u64) -> Result<Vec<(Item, Turn)>, Error> {
        let answered =
            "items.state = 'asked' AND (turns.status <> 'interrupted' OR turns.id <> items.turn_id)";
        self.items_with_turns(batch, answered, limit).await
    }

    async fn items_with_turns(
        &self,
        batch: BatchId,
        which: &str,
        limit: u64,
    ) -> Result<Vec<(Item, Turn)>, Error> {
        const TURN: &str = "last_";
        let turn = |it: turns::Column| format!("turns.{name} AS {TURN}{name}", name = it.as_str());
        let turn: Vec<String> = turns::Column::iter().map(turn).collect();
        let pool = &self.database.hot;
        let own = looked_up(pool, "own.id", "items.turn_id");
        let last = looked_up(
            pool,
            "turns.position",
            "CASE WHEN own.status <> 'interrupted' THEN own.position \
             ELSE coalesce((SELECT later.position FROM turns AS later WHERE later.thread_id = items.thread_id \
             AND later.heard_seq > own.heard_seq ORDER BY later.status = 'interrupted', \
             CASE WHEN later.status = 'interrupted' THEN -later.heard_seq ELSE later.heard_seq END LIMIT 1), \
             own.position) END",
        );
        let sql = format!(
            "SELECT * FROM (SELECT moved.*, sum(length) OVER (ROWS UNBOUNDED PRECEDING) AS so_far FROM \
             (SELECT items.*, {} FROM batch_items AS items JOIN turns AS own ON {own} JOIN turns ON {last} \
             WHERE items.batch_id = $1 AND {which} LIMIT $2) AS moved) AS moved \
             WHERE so_far - length < $3",
            turn.join(", ")
        );
        let bytes = signed(PAGE_BYTES);
        let statement = statement(pool, &sql, [batch.into(), signed(at_most(limit)).into(), bytes.into()]);
        let both = |row: QueryResult| {
            let item = items::Model::from_query_result(&row, "")?.try_into()?;
            Ok((item, turns::Model::from_query_result(&row, TURN)?.try_into()?))
        };
        pool.query_all_raw(statement).await?.into_iter().map(both).collect()
    }

    /// Items of a batch whose turns were queued before `fed_before`, in microseconds since the Unix epoch, and are being
    /// run, after line `after`, in the order of their lines; at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn running_items(
        &self,
        batch: BatchId,
        fed_before: i64,
        after: u64,
        limit: u64,
    ) -> Result<Vec<Item>, Error> {
        let its_turn = looked_up(&self.database.hot, "turns.id", "items.turn_id");
        let sql = format!(
            "SELECT items.* FROM batch_items AS items JOIN turns ON {its_turn} \
             WHERE items.batch_id = $1 AND items.fed_at < $2 \
             AND items.state = 'fed' AND turns.status = 'running' AND items.nth > $3 ORDER BY items.nth LIMIT $4"
        );
        let values = [batch.into(), fed_before.into(), signed(after).into(), signed(at_most(limit)).into()];
        self.items(&sql, values).await
    }

    /// Items of a batch that are under way, and then those that wait for a person, whose turn was queued before `fed_before`,
    /// in microseconds since the Unix epoch; at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn items_fed_before(
        &self,
        batch: BatchId,
        fed_before: i64,
        limit: u64,
    ) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for state in [ItemState::Fed, ItemState::Asked] {
            // The state stands word for word in the statement: an index is known by it.
            let sql = format!(
                "SELECT * FROM batch_items WHERE batch_id = $1 AND state = '{}' AND fed_at <= $2 \
                 ORDER BY fed_at, nth LIMIT $3",
                state.as_str()
            );
            let left = at_most(limit).saturating_sub(items.len() as u64);
            if left > 0 {
                items.extend(self.items(&sql, [batch.into(), fed_before.into(), signed(left).into()]).await?);
            }
        }
        Ok(items)
    }
}

impl TryFrom<items::Model> for Item {
    type Error = Error;

    fn try_from(row: items::Model) -> Result<Self, Error> {
        let wrong = |_| Error::Database(format!("item {} of batch {} is no item", row.nth, row.batch_id));
        let number = |it: i32| u32::try_from(it).map_err(wrong);
        let place =
            LinePlace { chunk: number(row.chunk)?, start: number(row.start)?, length: number(row.length)? };
        let state = row.state.parse().map_err(|error| Error::Database(format!("an item's {error}")))?;
        let unknown = || Error::Database(format!("an item's priority {} is unknown", row.priority));
        Ok(Self {
            priority: Priority::ranked(row.priority.into()).ok_or_else(unknown)?,
            batch: row.batch_id,
            nth: unsigned(row.nth)?,
            place,
            state,
            attempt: number(row.attempt)?,
            custom_id: row.custom_id,
            memo: row.memo,
            thread: row.thread_id,
            turn: row.turn_id,
            fed_at: row.fed_at,
            took: Tally {
                input_tokens: unsigned(row.input_tokens)?,
                output_tokens: unsigned(row.output_tokens)?,
                micro_usd: unsigned(row.micro_usd)?,
                ..Tally::default()
            },
        })
    }
}
