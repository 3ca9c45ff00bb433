//! Lookup of items: next to start, in progress, ended or overdue.

use queue::Priority;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, FromQueryResult as _, IdenStatic as _,
    Iterable as _, QueryFilter as _, QueryOrder as _, QueryResult, Value,
};
use shared::UsageTotal;

use super::{BatchId, ItemState, LinePlace, tables::items};
use crate::{
    Error, Idempotency, Store, ThreadId, Turn, TurnId,
    log::{BETWEEN, at_most, looked_up, signed, statement, tables::turns, unsigned},
};

/// Maximum total size of the lines in one page, in bytes. Long lines therefore make a page shorter.
pub const PAGE_BYTES: u64 = 8 << 20;

/// One line of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Id of the batch.
    pub batch: BatchId,
    /// Line number of the item.
    pub nth: u64,
    /// Client's name for the line.
    pub custom_id: Option<String>,
    /// Location of the line in its file.
    pub place: LinePlace,
    /// Current state of the item.
    pub state: ItemState,
    /// Priority of the item.
    pub priority: Priority,
    /// Number of restarts so far.
    pub attempt: u32,
    /// Hash of the line's content.
    pub cache_key: Option<String>,
    /// Thread that the item opened.
    pub thread: Option<ThreadId>,
    /// Turn that decides the outcome: the last one of the thread.
    pub turn: Option<TurnId>,
    /// Submission time of the turn, in microseconds since the Unix epoch.
    pub submitted_at: Option<i64>,
    /// Usage of the thread as recorded so far: tokens and cost.
    pub usage: UsageTotal,
}

impl Item {
    /// Returns the idempotency key of the item's turn, which makes a repeated submission of the same attempt harmless.
    pub fn key(&self) -> Idempotency {
        let attempt = if self.attempt == 1 { String::new() } else { format!(":{}", self.attempt) };
        let name = format!("batch:{}:{}{attempt}", self.batch, self.nth);
        Idempotency::ours(&name, self.cache_key.clone().unwrap_or_default())
    }
}

/// Parses a key made by [`Item::key`] into the batch, the line and the attempt.
pub(super) fn line_of_key(key: &str) -> Option<(BatchId, i64, i32)> {
    let own = key.trim_end_matches(BETWEEN).rsplit(BETWEEN).next()?;
    let mut parts = own.strip_prefix("batch:")?.split(':');
    let (batch, nth) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((batch, nth, parts.next().map_or(Some(1), |text| text.parse().ok())?))
}

impl Store {
    /// Returns the items of a batch to start next: by priority, then by line number.
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

    /// Returns the batch that opened this thread, if any, even if the line has since been restarted on another thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batch_of(&self, thread: ThreadId) -> Result<Option<BatchId>, Error> {
        Ok(self.opened_for(thread).await?.map(|(item, _)| item.batch_id))
    }

    /// Returns the batch and the line number that opened this thread, if the line has since been restarted on another
    /// thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begun_anew(&self, thread: ThreadId) -> Result<Option<(BatchId, u64)>, Error> {
        let opened = self.opened_for(thread).await?.filter(|(item, attempt)| *attempt < item.attempt);
        opened.map(|(item, _)| Ok((item.batch_id, unsigned(item.nth)?))).transpose()
    }

    /// Returns the line that this thread was opened for, if any, and the number of the attempt.
    async fn opened_for(&self, thread: ThreadId) -> Result<Option<(items::Model, i32)>, Error> {
        let pool = &self.database.pool;
        let first = turns::Entity::find().filter(turns::Column::ThreadId.eq(thread));
        let first = first.order_by_asc(turns::Column::Position).one(pool).await?;
        let Some(turns::Model { idempotency_key: Some(key), request_hash, .. }) = first else {
            return Ok(None);
        };
        let Some((batch, nth, attempt)) = line_of_key(&key) else { return Ok(None) };
        let item = items::Entity::find_by_id((batch, nth)).one(pool).await?;
        // A key without our suffix may come from any client and does not identify a line.
        let is_ours = key.ends_with(BETWEEN);
        Ok(item.filter(|item| is_ours || item.cache_key == request_hash).map(|item| (item, attempt)))
    }

    /// Returns at most `limit` items in progress whose turn has ended or waits for a person, each with that turn. Stops
    /// early once the lines reach [`PAGE_BYTES`].
    ///
    /// ## Which turn decides the outcome
    ///
    /// It is the turn that the item submitted. If that one asked a person, the thread's following turns are considered
    /// too: the first of them that asks nothing more decides, or else the last. All other turns of the thread have no
    /// influence: turns that never start, and turns that start after the item has its answer.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn moved_items(&self, batch: BatchId, limit: u64) -> Result<Vec<(Item, Turn)>, Error> {
        let moved = "items.state = 'submitted' AND turns.status NOT IN ('queued', 'running')";
        self.items_with_turns(batch, moved, limit).await
    }

    /// Returns the same for items that waited for a person and no longer do, or now wait on another turn.
    ///
    /// The query examines all waiting items, which may be the entire batch.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn answered_items(&self, batch: BatchId, limit: u64) -> Result<Vec<(Item, Turn)>, Error> {
        let answered =
            "items.state = 'awaiting_input' AND (turns.status <> 'interrupted' OR turns.id <> items.turn_id)";
        self.items_with_turns(batch, answered, limit).await
    }

    async fn items_with_turns(
        &self,
        batch: BatchId,
        which: &str,
        limit: u64,
    ) -> Result<Vec<(Item, Turn)>, Error> {
        const TURN: &str = "last_";
        let turn = |column: turns::Column| format!("turns.{name} AS {TURN}{name}", name = column.as_str());
        let turn: Vec<String> = turns::Column::iter().map(turn).collect();
        let pool = &self.database.hot;
        let own = looked_up(pool, "own.id", "items.turn_id");
        let last = looked_up(
            pool,
            "turns.position",
            "CASE WHEN own.status <> 'interrupted' THEN own.position \
             ELSE coalesce((SELECT later.position FROM turns AS later WHERE later.thread_id = items.thread_id \
             AND later.started_seq > own.started_seq ORDER BY later.status = 'interrupted', \
             CASE WHEN later.status = 'interrupted' THEN -later.started_seq ELSE later.started_seq END LIMIT 1), \
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

    /// Returns at most `limit` items of a batch with a running turn that was submitted before `fed_before`, in
    /// microseconds since the Unix epoch, after line `after` and in line order.
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
             WHERE items.batch_id = $1 AND items.submitted_at < $2 \
             AND items.state = 'submitted' AND turns.status = 'running' AND items.nth > $3 ORDER BY items.nth LIMIT $4"
        );
        let values = [batch.into(), fed_before.into(), signed(after).into(), signed(at_most(limit)).into()];
        self.items(&sql, values).await
    }

    /// Returns at most `limit` items of a batch whose turn was submitted by `fed_before`, in microseconds since the Unix
    /// epoch: first those in progress, then those that wait for a person.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn items_submitted_before(
        &self,
        batch: BatchId,
        fed_before: i64,
        limit: u64,
    ) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for state in [ItemState::Submitted, ItemState::AwaitingInput] {
            // The state is a literal in the statement, because a partial index is used only then.
            let sql = format!(
                "SELECT * FROM batch_items WHERE batch_id = $1 AND state = '{}' AND submitted_at <= $2 \
                 ORDER BY submitted_at, nth LIMIT $3",
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
        let wrong =
            |_| Error::Database(format!("item {} of batch {} has an invalid number", row.nth, row.batch_id));
        let number = |value: i32| u32::try_from(value).map_err(wrong);
        let place =
            LinePlace { chunk: number(row.chunk)?, start: number(row.start)?, length: number(row.length)? };
        let state = row.state.parse().map_err(|error| Error::Database(format!("an item's {error}")))?;
        let unknown = || Error::Database(format!("an item's priority {} is unknown", row.priority));
        Ok(Self {
            priority: Priority::from_rank(row.priority.into()).ok_or_else(unknown)?,
            batch: row.batch_id,
            nth: unsigned(row.nth)?,
            place,
            state,
            attempt: number(row.attempt)?,
            custom_id: row.custom_id,
            cache_key: row.cache_key,
            thread: row.thread_id,
            turn: row.turn_id,
            submitted_at: row.submitted_at,
            usage: UsageTotal {
                input_tokens: unsigned(row.input_tokens)?,
                output_tokens: unsigned(row.output_tokens)?,
                micro_usd: unsigned(row.micro_usd)?,
                ..UsageTotal::default()
            },
        })
    }
}
