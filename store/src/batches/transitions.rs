//! State transitions of items. One transaction writes item states, batch totals and results.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, QueryFilter as _,
    QuerySelect as _,
};
use shared::{BatchResult, ResultResponse, ResultRun, UsageTotal, one_line};

use super::{
    Batch, BatchId, Item, ItemState,
    common_model::CommonModel,
    tables::{batches, batches::Column},
};
use crate::{
    Error, Store, ThreadId, TurnId,
    log::{Transaction, plain, signed},
    sql_batch::{StatementText, id, number, text},
};

/// Error code of an item whose turn failed.
pub const TURN_FAILED: &str = "turn_failed";

/// A state transition of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemTransition {
    /// The item as it was read.
    pub item: Item,
    /// New state of the item.
    pub state: ItemState,
    /// Thread of the item and the turn that decides its outcome; unchanged if `None`.
    pub run: Option<(ThreadId, TurnId)>,
    /// Usage of the thread, as far as known.
    pub usage: UsageTotal,
    /// Response to the line, if there is one.
    pub response: Option<ResultResponse>,
    /// Run that the result leads back to, if a turn has ended.
    pub result_run: Option<ResultRun>,
    /// Error code and message of an item that did not succeed. For a partial or declined item: its outcome and causes, which
    /// its row holds and its line does not show as an error.
    pub error: Option<(String, String)>,
}

impl ItemTransition {
    /// Creates a transition to this state that changes nothing else.
    pub fn new(item: Item, state: ItemState) -> Self {
        Self { usage: item.usage, item, state, run: None, response: None, result_run: None, error: None }
    }
}

impl Store {
    /// Applies transitions to items of one batch and numbers the results of those that ended, in one transaction.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if `owner` no longer holds the batch, or if an item has changed since it was read, and
    /// [`Error::Unavailable`] if the database does not answer.
    #[tracing::instrument(level = "debug", skip_all, fields(%batch, moves = moves.len()))]
    pub async fn apply_transitions(
        &self,
        batch: BatchId,
        owner: &str,
        moves: Vec<ItemTransition>,
    ) -> Result<(), Error> {
        let owner = owner.to_owned();
        self.database.transact_hot(move |tx| record(tx, batch, owner, moves).boxed()).await
    }

    /// Updates the content hashes of a batch's waiting items, each by line number, in one transaction.
    ///
    /// **Invariant:** the hash is written before a turn is submitted under it, so an item and its turn always agree.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if `owner` no longer holds the batch, or if one of the items no longer waits, and
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn rename_items(
        &self,
        batch: BatchId,
        owner: &str,
        cache_keys: Vec<(u64, String)>,
    ) -> Result<(), Error> {
        if cache_keys.is_empty() {
            return Ok(());
        }
        let owner = owner.to_owned();
        self.database.transact_hot(move |tx| rename(tx, batch, owner, cache_keys).boxed()).await
    }
}

/// Locks and returns the batch's row, which this coordinator must hold.
///
/// ## Why the row is locked late
///
/// Items are inserted, started and completed concurrently, and each of these operations changes the totals in the
/// batch's row. Each therefore does all other work first and holds the row only while it updates the totals and assigns
/// result numbers. If the batch turns out to be lost, the transaction is rolled back.
///
/// ## Why the lease's expiry is ignored
///
/// A coordinator with an expired lease keeps the batch until another one has taken it. Only the recorded holder counts.
pub(crate) async fn lock_batch(
    tx: &Transaction,
    batch: BatchId,
    owner: &str,
) -> Result<batches::Model, Error> {
    let row = batches::Entity::find_by_id(batch).filter(Column::LeaseOwner.eq(owner)).lock_exclusive();
    row.one(tx).await?.ok_or(Error::BatchLost(batch))
}

async fn record(
    tx: &Transaction,
    batch: BatchId,
    owner: String,
    moves: Vec<ItemTransition>,
) -> Result<(), Error> {
    let (mut over, on): (Vec<_>, Vec<_>) =
        moves.into_iter().partition(|transition| transition.state.is_over());
    // An item without a result needs no number.
    change(tx, batch, on.iter().map(|transition| (transition, None)).collect()).await?;
    let row = lock_batch(tx, batch, &owner).await?;
    let mut results = Results::after(row.done);
    let mut numbers = Vec::new();
    let mut model = CommonModel::of_column(row.model.clone());
    for ended in &mut over {
        let error = ended.error.clone().filter(|_| !ended.state.is_good());
        let (nth, name) = (ended.item.nth, ended.item.custom_id.clone());
        let result =
            BatchResult::new(batch, nth, name, ended.response.take(), error, ended.result_run.take());
        model = model.with(result.turnfold.as_ref().and_then(|run| run.model.as_deref()));
        numbers.push(Some(results.add(nth, json_of(&result)?)));
    }
    change(tx, batch, over.iter().zip(numbers).collect()).await?;
    let (mut counts, mut added) = (Batch::try_from(row.clone())?.counts, [0; 3]);
    for transition in on.iter().chain(&over) {
        counts.shift(transition.item.state, transition.state, 1);
        for (sum, (after, before)) in
            added.iter_mut().zip(taken(&transition.usage).into_iter().zip(taken(&transition.item.usage)))
        {
            *sum += after - before;
        }
    }
    let sums = batches::ActiveModel {
        counts: Set(counts.to_string()),
        done: Set(results.write(tx, batch).await?),
        input_tokens: Set(row.input_tokens + added[0]),
        output_tokens: Set(row.output_tokens + added[1]),
        micro_usd: Set(row.micro_usd + added[2]),
        model: Set(model.into_column()),
        ..Default::default()
    };
    batches::Entity::update_many().set(sums).filter(Column::Id.eq(batch)).exec(tx).await?;
    Ok(())
}

/// Returns the usage of an item as stored in its row.
fn taken(usage: &UsageTotal) -> [i64; 3] {
    [usage.input_tokens, usage.output_tokens, usage.micro_usd].map(signed)
}

/// Updates items that are unchanged since they were read, each with the number of its result, if any.
///
/// ## Why the items are neither read again nor locked
///
/// Only the holder of the batch moves its items, and never the same item from two tasks. A new holder first updates the
/// batch's row: either that update waits for this transaction, or this one finds the batch lost. An item that has
/// changed nonetheless was changed by our own earlier write whose acknowledgement was lost.
async fn change(
    tx: &Transaction,
    batch: BatchId,
    changes: Vec<(&ItemTransition, Option<i64>)>,
) -> Result<(), Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "UPDATE batch_items SET state = it.state, \
                   thread_id = nullif(it.thread_id, '00000000-0000-0000-0000-000000000000'), \
                   turn_id = nullif(it.turn_id, '00000000-0000-0000-0000-000000000000'), submitted_at = nullif(it.submitted_at, -1), \
                   input_tokens = it.input_tokens, output_tokens = it.output_tokens, micro_usd = it.micro_usd, \
                   code = nullif(it.code, ''), message = nullif(it.message, ''), result_no = nullif(it.result_no, -1) \
                   FROM (SELECT $1::uuid AS batch_id, it.* FROM unnest($2::bigint[], $3::text[], $4::text[], \
                   $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], \
                   $12::text[], $13::bigint[]) AS it (nth, was, state, thread_id, turn_id, submitted_at, input_tokens, \
                   output_tokens, micro_usd, code, message, result_no) OFFSET 0) AS it \
                   WHERE batch_items.batch_id = ANY (ARRAY[it.batch_id]) AND batch_items.nth = it.nth \
                   AND batch_items.state = it.was",
        sqlite: "UPDATE batch_items SET state = it.value ->> 'state', \
                 thread_id = unhex(it.value ->> 'thread_id'), turn_id = unhex(it.value ->> 'turn_id'), \
                 submitted_at = it.value ->> 'submitted_at', input_tokens = it.value ->> 'input_tokens', \
                 output_tokens = it.value ->> 'output_tokens', micro_usd = it.value ->> 'micro_usd', \
                 code = it.value ->> 'code', message = it.value ->> 'message', \
                 result_no = it.value ->> 'result_no' \
                 FROM json_each(?2) AS it \
                 WHERE batch_items.batch_id = iif(it.key >= 0, ?1, NULL) AND batch_items.nth = it.value ->> 'nth' \
                 AND batch_items.state = it.value ->> 'was'",
    };
    let wanted = changes.len() as u64;
    if wanted == 0 {
        return Ok(());
    }
    let now = clock::now();
    let begun = |transition: &ItemTransition| {
        transition.item.submitted_at.or((transition.state == ItemState::Submitted).then_some(now))
    };
    let columns = [
        number("nth", &changes, |(transition, _)| signed(transition.item.nth)),
        text("was", &changes, |(transition, _)| transition.item.state.to_string()),
        text("state", &changes, |(transition, _)| transition.state.to_string()),
        id("thread_id", &changes, |(transition, _)| {
            transition.run.map(|(thread, _)| thread).or(transition.item.thread)
        }),
        id("turn_id", &changes, |(transition, _)| {
            transition.run.map(|(_, turn)| turn).or(transition.item.turn)
        }),
        number("submitted_at", &changes, |(transition, _)| begun(transition)),
        number("input_tokens", &changes, |(transition, _)| signed(transition.usage.input_tokens)),
        number("output_tokens", &changes, |(transition, _)| signed(transition.usage.output_tokens)),
        number("micro_usd", &changes, |(transition, _)| signed(transition.usage.micro_usd)),
        text("code", &changes, |(transition, _)| transition.error.as_ref().map(|(code, _)| plain(code))),
        text("message", &changes, |(transition, _)| {
            transition.error.as_ref().map(|(_, message)| plain(message))
        }),
        number("result_no", &changes, |(_, result_no)| *result_no),
    ];
    let changed = tx.execute_raw(STATEMENT.with(tx, [batch.into()], columns)).await?;
    if changed.rows_affected() == wanted { Ok(()) } else { Err(Error::BatchLost(batch)) }
}

async fn rename(
    tx: &Transaction,
    batch: BatchId,
    owner: String,
    cache_keys: Vec<(u64, String)>,
) -> Result<(), Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "UPDATE batch_items SET cache_key = it.cache_key FROM (SELECT $1::uuid AS batch_id, it.* \
                   FROM unnest($2::bigint[], $3::text[]) AS it (nth, cache_key) OFFSET 0) AS it \
                   WHERE batch_items.batch_id = ANY (ARRAY[it.batch_id]) AND batch_items.nth = it.nth \
                   AND batch_items.state = 'waiting'",
        sqlite: "UPDATE batch_items SET cache_key = it.value ->> 'cache_key' FROM json_each(?2) AS it \
                 WHERE batch_items.batch_id = iif(it.key >= 0, ?1, NULL) \
                 AND batch_items.nth = it.value ->> 'nth' AND batch_items.state = 'waiting'",
    };
    let wanted = cache_keys.len() as u64;
    let columns = [
        number("nth", &cache_keys, |(nth, _)| signed(*nth)),
        text("cache_key", &cache_keys, |(_, cache_key)| cache_key.clone()),
    ];
    let renamed = tx.execute_raw(STATEMENT.with(tx, [batch.into()], columns)).await?;
    lock_batch(tx, batch, &owner).await?;
    if renamed.rows_affected() == wanted { Ok(()) } else { Err(Error::BatchLost(batch)) }
}

/// Results to insert, each with its number.
pub(crate) struct Results {
    last: i64,
    /// Number of the result, number of the line, and content.
    rows: Vec<(i64, u64, String)>,
}

impl Results {
    /// Creates an empty list of results that follow number `last`.
    pub(crate) fn after(last: i64) -> Self {
        Self { last, rows: Vec::new() }
    }

    /// Adds a result and returns its number, which the item then refers to.
    pub(crate) fn add(&mut self, nth: u64, line: String) -> i64 {
        self.last += 1;
        self.rows.push((self.last, nth, line));
        self.last
    }

    /// Adds a result whose number is known.
    pub(crate) fn add_numbered(&mut self, n: i64, nth: u64, line: String) {
        self.rows.push((n, nth, line));
    }

    /// Inserts the results and returns the last number.
    pub(crate) async fn write(self, tx: &Transaction, batch: BatchId) -> Result<i64, Error> {
        const STATEMENT: StatementText = StatementText {
            postgres: "INSERT INTO batch_results (batch_id, n, nth, at, line) SELECT $1, n, nth, $2, line \
                       FROM unnest($3::bigint[], $4::bigint[], $5::text[]) AS it (n, nth, line)",
            sqlite: "INSERT INTO batch_results (batch_id, n, nth, at, line) \
                     SELECT ?1, value ->> 'n', value ->> 'nth', ?2, value ->> 'line' FROM json_each(?3)",
        };
        if !self.rows.is_empty() {
            let columns = [
                number("n", &self.rows, |(n, ..)| *n),
                number("nth", &self.rows, |(_, nth, _)| signed(*nth)),
                text("line", &self.rows, |(.., line)| line.clone()),
            ];
            tx.execute_raw(STATEMENT.with(tx, [batch.into(), clock::now().into()], columns)).await?;
        }
        Ok(self.last)
    }
}

/// Serializes a result as JSON on one line.
pub(crate) fn json_of(result: &BatchResult) -> Result<String, Error> {
    let unwritable =
        |error| Error::Database(format!("result {} cannot be encoded as JSON: {error}", result.id));
    serde_json::to_string(result).map(one_line).map_err(unwritable)
}
