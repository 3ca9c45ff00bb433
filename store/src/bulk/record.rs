//! The one write by which items move: their states, their batch's sums and the results, in one transaction.

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, DatabaseTransaction, EntityTrait as _,
    QueryFilter as _, QuerySelect as _,
};
use serde::Serialize;
use serde_json::Value;
use shared::Tally;

use super::{
    Batch, BatchId, Item, ItemState,
    tables::{batches, batches::Column},
};
use crate::{
    Error, Store, ThreadId, TurnId,
    log::{plain, signed},
    time,
    words::{Words, id, number, text},
};

/// What an item is told whose turn failed, for programs.
pub const TURN_FAILED: &str = "turn_failed";

/// What becomes of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Of which, as it was read.
    pub item: Item,
    /// How far it has come now.
    pub state: ItemState,
    /// Its thread, and the turn that counts; as before, if there is none.
    pub run: Option<(ThreadId, TurnId)>,
    /// What its thread took, as far as is known.
    pub took: Tally,
    /// What it is answered, where there is an answer.
    pub response: Option<Value>,
    /// Why it did not end well: for programs, and for people.
    pub error: Option<(String, String)>,
}

impl Move {
    /// It stands so now, and nothing else is known that was not before.
    pub fn new(item: Item, state: ItemState) -> Self {
        Self { took: item.took, item, state, run: None, response: None, error: None }
    }
}

impl Store {
    /// Moves items of one batch, and numbers the results of those that have ended: all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if the batch is no longer `keeper`'s, or one of the items was moved since it was read, and
    /// [`Error::Unavailable`] if the database does not answer.
    #[tracing::instrument(level = "debug", skip_all, fields(%batch, moves = moves.len()))]
    pub async fn record(&self, batch: BatchId, keeper: &str, moves: Vec<Move>) -> Result<(), Error> {
        let keeper = keeper.to_owned();
        self.database.transact_hot(move |tx| record(tx, batch, keeper, moves).boxed()).await
    }

    /// Writes down what waiting items of one batch ask for by now, each by its number: all of it or nothing.
    ///
    /// **Invariant:** it is written before a turn is queued under the new name, so an item is never called otherwise than its
    /// turn.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if the batch is no longer `keeper`'s, or one of the items waits no more, and
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn rename_items(
        &self,
        batch: BatchId,
        keeper: &str,
        memos: Vec<(u64, String)>,
    ) -> Result<(), Error> {
        if memos.is_empty() {
            return Ok(());
        }
        let keeper = keeper.to_owned();
        self.database.transact_hot(move |tx| rename(tx, batch, keeper, memos).boxed()).await
    }
}

/// The batch's row, locked, which must be this keeper's.
///
/// ## Why it comes late
///
/// Lines become items, items are begun, and what came of them is written down, all at the same time; each of them changes the
/// sums of the row. So each does first whatever it can do without, and then holds the row only for as long as its sums and
/// the numbers of its results need it. Who finds here that the batch is lost has what it did undone with the transaction.
///
/// ## Why it does not look at the clock
///
/// A keeper that overslept its lease keeps the batch until somebody else has taken it; only who keeps it counts.
pub(super) async fn hold(
    tx: &DatabaseTransaction,
    batch: BatchId,
    keeper: &str,
) -> Result<batches::Model, Error> {
    let row = batches::Entity::find_by_id(batch).filter(Column::KeptBy.eq(keeper)).lock_exclusive();
    row.one(tx).await?.ok_or(Error::BatchLost(batch))
}

async fn record(
    tx: &DatabaseTransaction,
    batch: BatchId,
    keeper: String,
    moves: Vec<Move>,
) -> Result<(), Error> {
    let (over, on): (Vec<_>, Vec<_>) = moves.into_iter().partition(|it| it.state.is_over());
    // What has no result needs no number.
    change(tx, batch, on.iter().map(|it| (it, None)).collect()).await?;
    let row = hold(tx, batch, &keeper).await?;
    let mut results = Results::after(row.done);
    let mut changes = Vec::new();
    for it in &over {
        let error = it.error.as_ref().map(|(code, message)| (code.as_str(), message.as_str()));
        let (nth, name) = (it.item.nth, it.item.custom_id.as_deref());
        let line = line_of(batch, nth, name, it.response.as_ref(), error)?;
        changes.push((it, Some(results.add(nth, line))));
    }
    change(tx, batch, changes).await?;
    let (mut counts, mut added) = (Batch::try_from(row.clone())?.counts, [0; 3]);
    for it in on.iter().chain(&over) {
        counts.shift(it.item.state, it.state, 1);
        for (sum, (after, before)) in
            added.iter_mut().zip(taken(&it.took).into_iter().zip(taken(&it.item.took)))
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
        ..Default::default()
    };
    batches::Entity::update_many().set(sums).filter(Column::Id.eq(batch)).exec(tx).await?;
    Ok(())
}

/// What an item took, as its row has it.
fn taken(it: &Tally) -> [i64; 3] {
    [it.input_tokens, it.output_tokens, it.micro_usd].map(signed)
}

/// Changes items that stand as they were read, each of which has the result of this number, if it has one.
///
/// ## Why they need not be read again, or locked
///
/// Only its keeper moves items of a batch, and none of them in two places at once. Whoever takes the batch over changes its
/// row first: either that waits for this transaction, or this one finds the batch lost. What stands otherwise all the same
/// was moved by a write whose answer was lost.
async fn change(
    tx: &DatabaseTransaction,
    batch: BatchId,
    changes: Vec<(&Move, Option<i64>)>,
) -> Result<(), Error> {
    const WORDS: Words = Words {
        postgres: "UPDATE batch_items SET state = it.state, \
                   thread_id = nullif(it.thread_id, '00000000-0000-0000-0000-000000000000'), \
                   turn_id = nullif(it.turn_id, '00000000-0000-0000-0000-000000000000'), fed_at = nullif(it.fed_at, -1), \
                   input_tokens = it.input_tokens, output_tokens = it.output_tokens, micro_usd = it.micro_usd, \
                   code = nullif(it.code, ''), message = nullif(it.message, ''), done_no = nullif(it.done_no, -1) \
                   FROM (SELECT $1::uuid AS batch_id, it.* FROM unnest($2::bigint[], $3::text[], $4::text[], \
                   $5::uuid[], $6::uuid[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], \
                   $12::text[], $13::bigint[]) AS it (nth, was, state, thread_id, turn_id, fed_at, input_tokens, \
                   output_tokens, micro_usd, code, message, done_no) OFFSET 0) AS it \
                   WHERE batch_items.batch_id = ANY (ARRAY[it.batch_id]) AND batch_items.nth = it.nth \
                   AND batch_items.state = it.was",
        sqlite: "UPDATE batch_items SET state = it.value ->> 'state', \
                 thread_id = unhex(it.value ->> 'thread_id'), turn_id = unhex(it.value ->> 'turn_id'), \
                 fed_at = it.value ->> 'fed_at', input_tokens = it.value ->> 'input_tokens', \
                 output_tokens = it.value ->> 'output_tokens', micro_usd = it.value ->> 'micro_usd', \
                 code = it.value ->> 'code', message = it.value ->> 'message', \
                 done_no = it.value ->> 'done_no' \
                 FROM json_each(?2) AS it \
                 WHERE batch_items.batch_id = iif(it.key >= 0, ?1, NULL) AND batch_items.nth = it.value ->> 'nth' \
                 AND batch_items.state = it.value ->> 'was'",
    };
    let wanted = changes.len() as u64;
    if wanted == 0 {
        return Ok(());
    }
    let now = time::now();
    let begun = |it: &Move| it.item.fed_at.or((it.state == ItemState::Fed).then_some(now));
    let columns = [
        number("nth", &changes, |(it, _)| signed(it.item.nth)),
        text("was", &changes, |(it, _)| it.item.state.to_string()),
        text("state", &changes, |(it, _)| it.state.to_string()),
        id("thread_id", &changes, |(it, _)| it.run.map(|(thread, _)| thread).or(it.item.thread)),
        id("turn_id", &changes, |(it, _)| it.run.map(|(_, turn)| turn).or(it.item.turn)),
        number("fed_at", &changes, |(it, _)| begun(it)),
        number("input_tokens", &changes, |(it, _)| signed(it.took.input_tokens)),
        number("output_tokens", &changes, |(it, _)| signed(it.took.output_tokens)),
        number("micro_usd", &changes, |(it, _)| signed(it.took.micro_usd)),
        text("code", &changes, |(it, _)| it.error.as_ref().map(|(code, _)| plain(code))),
        text("message", &changes, |(it, _)| it.error.as_ref().map(|(_, message)| plain(message))),
        number("done_no", &changes, |(_, done_no)| *done_no),
    ];
    let changed = tx.execute_raw(WORDS.with(tx, [batch.into()], columns)).await?;
    if changed.rows_affected() == wanted { Ok(()) } else { Err(Error::BatchLost(batch)) }
}

async fn rename(
    tx: &DatabaseTransaction,
    batch: BatchId,
    keeper: String,
    memos: Vec<(u64, String)>,
) -> Result<(), Error> {
    const WORDS: Words = Words {
        postgres: "UPDATE batch_items SET memo = it.memo FROM (SELECT $1::uuid AS batch_id, it.* \
                   FROM unnest($2::bigint[], $3::text[]) AS it (nth, memo) OFFSET 0) AS it \
                   WHERE batch_items.batch_id = ANY (ARRAY[it.batch_id]) AND batch_items.nth = it.nth \
                   AND batch_items.state = 'waiting'",
        sqlite: "UPDATE batch_items SET memo = it.value ->> 'memo' FROM json_each(?2) AS it \
                 WHERE batch_items.batch_id = iif(it.key >= 0, ?1, NULL) \
                 AND batch_items.nth = it.value ->> 'nth' AND batch_items.state = 'waiting'",
    };
    let wanted = memos.len() as u64;
    let columns =
        [number("nth", &memos, |(nth, _)| signed(*nth)), text("memo", &memos, |(_, memo)| memo.clone())];
    let renamed = tx.execute_raw(WORDS.with(tx, [batch.into()], columns)).await?;
    hold(tx, batch, &keeper).await?;
    if renamed.rows_affected() == wanted { Ok(()) } else { Err(Error::BatchLost(batch)) }
}

/// Results on their way into the database, each with its number.
pub(super) struct Results {
    last: i64,
    /// The number of each, that of its line, and what it says.
    rows: Vec<(i64, u64, String)>,
}

impl Results {
    /// None yet, after number `last`.
    pub(super) fn after(last: i64) -> Self {
        Self { last, rows: Vec::new() }
    }

    /// Adds one, and tells its number: its item is to point at it.
    pub(super) fn add(&mut self, nth: u64, line: String) -> i64 {
        self.last += 1;
        self.rows.push((self.last, nth, line));
        self.last
    }

    /// Writes them, and tells the number of the last.
    pub(super) async fn write(self, tx: &DatabaseTransaction, batch: BatchId) -> Result<i64, Error> {
        const WORDS: Words = Words {
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
            tx.execute_raw(WORDS.with(tx, [batch.into(), time::now().into()], columns)).await?;
        }
        Ok(self.last)
    }
}

/// A line of output, as OpenAI has it.
#[derive(Serialize)]
struct OutputLine<'a> {
    id: String,
    custom_id: Option<&'a str>,
    response: Option<&'a Value>,
    error: Option<OutputError<'a>>,
}

/// Why a line did not end well.
#[derive(Serialize)]
struct OutputError<'a> {
    code: &'a str,
    message: &'a str,
}

/// A line of output, as JSON.
pub(super) fn line_of(
    batch: BatchId,
    nth: u64,
    custom_id: Option<&str>,
    response: Option<&Value>,
    error: Option<(&str, &str)>,
) -> Result<String, Error> {
    let error = error.map(|(code, message)| OutputError { code, message });
    let id = format!("batch_req_{}_{nth}", batch.simple());
    let line = OutputLine { id, custom_id, response, error };
    let unwritable = |it| Error::Database(format!("line {nth} of batch {batch} has no JSON: {it}"));
    serde_json::to_string(&line).map_err(unwritable)
}
