//! Items as rows: how lines become items, and which are next, ended, due, or were there before.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, DatabaseTransaction, EntityTrait as _,
    FromQueryResult, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use serde_json::{Value, json};

use super::{
    Batch, BatchId, BatchStatus, ItemState,
    files::place,
    record::{add_results, hold, line_of},
    statement::{Words, name},
    tables::{batches, items, items::Column},
};
use crate::{
    Error, Store, ThreadId, Turn, TurnId,
    log::{at_most, plain, signed, statement, tables::turns, unsigned},
};

/// What is wrong with a line whose name an earlier line has.
const DUPLICATE: &str = "duplicate_custom_id";

/// How many items one statement writes at most.
const ROWS: usize = 1000;

/// Where a line stands in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinePlace {
    /// In which chunk.
    pub chunk: u32,
    /// From which byte of it.
    pub start: u32,
    /// How long it is.
    pub length: u32,
}

/// A line that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub nth: u64,
    /// Its owner's name for it.
    pub custom_id: Option<String>,
    /// Where it stands.
    pub place: LinePlace,
    /// What it asks for; or what is wrong with it, for programs and for people.
    pub checked: Result<Memo, (String, String)>,
}

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memo {
    /// Names it by its content.
    pub hash: String,
    /// The strategy that does it.
    pub strategy: String,
}

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
}

/// What came of an earlier line that asked for the same under the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    /// Its turn.
    pub turn: Option<TurnId>,
    /// Its thread.
    pub thread: Option<ThreadId>,
    /// What it was answered.
    pub response: Value,
}

impl Store {
    /// Makes items of the lines of one chunk, and moves their batch on to the next chunk, all of it or nothing. Of lines
    /// with one name the first counts, and the others are bad. What is bad has its result at once.
    ///
    /// False, if the batch has been moved on already, or is no longer `keeper`'s.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn take_lines(
        &self,
        batch: &Batch,
        keeper: &str,
        lines: Vec<Line>,
        last: u64,
    ) -> Result<bool, Error> {
        let (batch, keeper) = (batch.clone(), keeper.to_owned());
        self.database.transact(move |tx| take_lines(tx, batch, keeper, lines, last).boxed()).await
    }

    /// The first items of a batch in this state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn items(&self, batch: BatchId, state: ItemState, limit: u64) -> Result<Vec<Item>, Error> {
        let rows = items::Entity::find()
            .filter(Column::BatchId.eq(batch))
            .filter(Column::State.eq(state.as_str()))
            .order_by_asc(Column::Nth)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Item::try_from).collect()
    }

    /// Items of a batch whose last turn has come to an end, waits for a person, or does so no more; at most `limit`, each
    /// with that turn.
    ///
    /// ## Why the last turn of the thread
    ///
    /// An answer to a question is a turn of its own. An item's thread is nobody else's, so its last turn is what the item
    /// has come to.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn moved_items(&self, batch: BatchId, limit: u64) -> Result<Vec<(Item, Turn)>, Error> {
        let pool = &self.database.pool;
        let sql = "SELECT items.batch_id, items.nth, items.tenant, items.custom_id, items.chunk, items.start, \
                   items.length, items.state, items.attempt, items.memo, items.strategy, items.thread_id, \
                   turns.id AS turn_id, items.fed_at, items.input_tokens, items.output_tokens, \
                   items.micro_usd, items.code, items.message, items.done_no \
                   FROM batch_items AS items JOIN turns ON turns.position = \
                   (SELECT MAX(last.position) FROM turns AS last WHERE last.thread_id = items.thread_id) \
                   WHERE items.batch_id = $1 AND items.state IN ('fed', 'asked') AND ((items.state = 'fed' AND turns.status NOT IN ('queued', 'running')) \
                   OR (items.state = 'asked' AND turns.status <> 'interrupted')) LIMIT $2";
        let values = [batch.into(), signed(at_most(limit)).into()];
        let rows = items::Entity::find().from_raw_sql(statement(pool, sql, values)).all(pool).await?;
        let items = rows.into_iter().map(Item::try_from).collect::<Result<Vec<_>, _>>()?;
        let mut turns = self.turns_by_id(items.iter().filter_map(|it| it.turn)).await?;
        let with_turn = |item: Item| Some((turns.remove(&item.turn?)?, item));
        Ok(items.into_iter().filter_map(with_turn).map(|(turn, item)| (item, turn)).collect())
    }

    /// Items of a batch that are under way or wait for a person, and whose turn was queued before `fed_before`, in
    /// microseconds since the Unix epoch; at most `limit`.
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
        let under_way = [ItemState::Fed, ItemState::Asked].map(ItemState::as_str);
        let rows = items::Entity::find()
            .filter(Column::BatchId.eq(batch))
            .filter(Column::State.is_in(under_way))
            .filter(Column::FedAt.lte(fed_before))
            .order_by_asc(Column::Nth)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Item::try_from).collect()
    }

    /// What came of earlier lines of this tenant that were called the same, asked for the same and ended well, by the
    /// number of the item.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn earlier_results(
        &self,
        tenant: &str,
        wanted: &[Item],
    ) -> Result<BTreeMap<u64, Earlier>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            wanted: i64,
            thread_id: Option<ThreadId>,
            turn_id: Option<TurnId>,
            line: String,
        }
        const WORDS: Words = Words {
            postgres: "SELECT it.nth AS wanted, items.thread_id, items.turn_id, results.line \
                       FROM json_to_recordset($2::json) AS it (nth bigint, custom_id text, memo text) \
                       JOIN batch_items AS items ON items.tenant = $1 AND items.custom_id = it.custom_id \
                       AND items.memo = it.memo AND items.state IN ('completed', 'reused') \
                       JOIN batch_results AS results ON results.batch_id = items.batch_id \
                       AND results.n = items.done_no",
            sqlite: "SELECT it.value ->> 'nth' AS wanted, items.thread_id, items.turn_id, results.line \
                     FROM json_each(?2) AS it CROSS JOIN batch_items AS items ON items.tenant = ?1 \
                     AND items.custom_id = it.value ->> 'custom_id' AND items.memo = it.value ->> 'memo' \
                     AND items.state IN ('completed', 'reused') \
                     JOIN batch_results AS results ON results.batch_id = items.batch_id \
                     AND results.n = items.done_no",
        };
        let pool = &self.database.pool;
        let rows: Value = wanted
            .iter()
            .map(|it| json!({"nth": it.nth, "custom_id": it.custom_id, "memo": it.memo}))
            .collect();
        let statement = WORDS.with(pool, [tenant.into(), rows.to_string().into()]);
        let mut found = BTreeMap::new();
        for row in Row::find_by_statement(statement).all(pool).await? {
            let unread = |error| Error::Database(format!("a result cannot be read: {error}"));
            let mut line: Value = serde_json::from_str(&row.line).map_err(unread)?;
            let response = line["response"].take();
            found.insert(
                unsigned(row.wanted)?,
                Earlier { turn: row.turn_id, thread: row.thread_id, response },
            );
        }
        Ok(found)
    }

    async fn turns_by_id(&self, ids: impl Iterator<Item = TurnId>) -> Result<BTreeMap<TurnId, Turn>, Error> {
        const WORDS: Words = Words {
            postgres: "SELECT turns.* FROM json_array_elements_text($1::json) AS it (id) \
                       JOIN turns ON turns.id = it.id::uuid",
            sqlite: "SELECT turns.* FROM json_each(?1) AS it CROSS JOIN turns ON turns.id = unhex(it.value)",
        };
        let pool = &self.database.pool;
        let ids: Value = ids.map(|it| name(pool, it)).collect();
        let statement = WORDS.with(pool, [ids.to_string().into()]);
        let rows = turns::Entity::find().from_raw_sql(statement).all(pool).await?;
        rows.into_iter().map(|row| Ok((row.id, Turn::try_from(row)?))).collect()
    }
}

async fn take_lines(
    tx: &DatabaseTransaction,
    batch: Batch,
    keeper: String,
    lines: Vec<Line>,
    last: u64,
) -> Result<bool, Error> {
    let Some(row) = hold(tx, batch.id, &keeper).await? else { return Ok(false) };
    if row.status != BatchStatus::Validating.as_str() || row.validated != place(batch.validated) {
        return Ok(false);
    }
    let total = row.total + signed(lines.len() as u64);
    let mut bad = Vec::new();
    for lines in lines.chunks(ROWS) {
        let taken = insert(tx, &batch, lines).await?;
        let again: Vec<Line> = lines.iter().filter(|it| !taken.contains(&it.nth)).map(renamed).collect();
        insert(tx, &batch, &again).await?;
        let of_again = again.iter().map(|it| (it.nth, it)).collect::<BTreeMap<_, _>>();
        for line in lines {
            let nameless = of_again.get(&line.nth);
            if let Err((code, message)) = &nameless.map_or(line, |it| *it).checked {
                let error = Some((code.as_str(), message.as_str()));
                bad.push((line.nth, line_of(batch.id, line.nth, line.custom_id.as_deref(), None, error)));
            }
        }
    }
    let done = add_results(tx, batch.id, row.done, bad).await?;
    let row = batches::ActiveModel {
        validated: Set(row.validated + 1),
        lines: Set(signed(last)),
        total: Set(total),
        done: Set(done),
        ..Default::default()
    };
    batches::Entity::update_many().set(row).filter(batches::Column::Id.eq(batch.id)).exec(tx).await?;
    Ok(true)
}

/// The same line, bad because an earlier one has its name.
fn renamed(line: &Line) -> Line {
    let id = line.custom_id.as_deref().unwrap_or_default();
    let words = format!("custom_id: an earlier line is called {id:?} too; that one is run");
    Line { custom_id: None, checked: Err((DUPLICATE.to_owned(), words)), ..line.clone() }
}

/// Inserts those whose names are new, and returns their numbers.
async fn insert(tx: &DatabaseTransaction, batch: &Batch, lines: &[Line]) -> Result<BTreeSet<u64>, Error> {
    const WORDS: Words = Words {
        postgres: "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, \
                   attempt, memo, strategy, input_tokens, output_tokens, micro_usd, code, message) \
                   SELECT $1, nth, $2, custom_id, chunk, start, length, state, 1, memo, strategy, 0, 0, 0, code, \
                   message FROM json_to_recordset($3::json) AS it (nth bigint, custom_id text, chunk int, \
                   start int, length int, state text, memo text, strategy text, code text, message text) \
                   ORDER BY nth ON CONFLICT (batch_id, custom_id) DO NOTHING RETURNING nth",
        sqlite: "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, \
                 attempt, memo, strategy, input_tokens, output_tokens, micro_usd, code, message) \
                 SELECT ?1, value ->> 'nth', ?2, value ->> 'custom_id', value ->> 'chunk', value ->> 'start', \
                 value ->> 'length', value ->> 'state', 1, value ->> 'memo', value ->> 'strategy', 0, 0, 0, \
                 value ->> 'code', value ->> 'message' FROM json_each(?3) WHERE true ORDER BY key \
                 ON CONFLICT (batch_id, custom_id) DO NOTHING RETURNING nth",
    };
    if lines.is_empty() {
        return Ok(BTreeSet::new());
    }
    let row = |line: &Line| {
        let (state, memo, strategy, error) = match &line.checked {
            Ok(it) => (ItemState::Waiting, Some(&it.hash), Some(&it.strategy), None),
            Err(error) => (ItemState::Bad, None, None, Some(error)),
        };
        json!({
            "nth": line.nth,
            "custom_id": line.custom_id.as_deref().map(plain),
            "chunk": line.place.chunk,
            "start": line.place.start,
            "length": line.place.length,
            "state": state.as_str(),
            "memo": memo,
            "strategy": strategy,
            "code": error.map(|(code, _)| plain(code)),
            "message": error.map(|(_, message)| plain(message)),
        })
    };
    let rows: Value = lines.iter().map(row).collect();
    let values = [batch.id.into(), batch.tenant.as_str().into(), rows.to_string().into()];
    let rows = tx.query_all_raw(WORDS.with(tx, values)).await?;
    rows.into_iter().map(|row| unsigned(row.try_get("", "nth")?)).collect()
}

impl TryFrom<items::Model> for Item {
    type Error = Error;

    fn try_from(row: items::Model) -> Result<Self, Error> {
        let wrong = |_| Error::Database(format!("item {} of batch {} is no item", row.nth, row.batch_id));
        let number = |it: i32| u32::try_from(it).map_err(wrong);
        let place =
            LinePlace { chunk: number(row.chunk)?, start: number(row.start)?, length: number(row.length)? };
        let state = row.state.parse().map_err(|error| Error::Database(format!("an item's {error}")))?;
        Ok(Self {
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
        })
    }
}
