//! Turns the lines of a file into items, one chunk at a time.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use queue::Priority;
use sea_orm::{ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, QueryFilter as _};
use shared::BatchResult;

use super::{
    Batch, BatchStatus, ItemState, PAGE_BYTES,
    common_model::CommonModel,
    files::place,
    reuse::{Earlier, Wanted},
    tables::batches,
    transitions::{Results, json_of, lock_batch},
};
use crate::{
    Error, Store,
    log::{Transaction, plain, signed, unsigned},
    sql_batch::{StatementText, id, number, text},
};

/// Error code of a line whose `custom_id` an earlier line already has.
const DUPLICATE: &str = "duplicate_custom_id";

/// Maximum number of items in one statement.
pub(crate) const ROWS: usize = 1000;

/// Location of a line in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinePlace {
    /// Index of the chunk.
    pub chunk: u32,
    /// Byte offset within the chunk.
    pub start: u32,
    /// Length in bytes.
    pub length: u32,
}

/// A validated line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number in the file, from 1.
    pub nth: u64,
    /// Client's name for the line.
    pub custom_id: Option<String>,
    /// Location of the line in its file.
    pub place: LinePlace,
    /// Content of a valid line, or the code and the message of its error.
    pub checked: Result<CacheKey, (String, String)>,
}

impl Line {
    fn state(&self) -> ItemState {
        if self.checked.is_ok() { ItemState::Waiting } else { ItemState::Invalid }
    }

    fn cache_key(&self) -> Option<&CacheKey> {
        self.checked.as_ref().ok()
    }

    fn fault(&self) -> Option<&(String, String)> {
        self.checked.as_ref().err()
    }
}

/// Content of a line, as used to find an earlier result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey {
    /// Hash of the content.
    pub hash: String,
    /// Strategy that runs the line.
    pub strategy: String,
    /// Priority of the line.
    pub priority: Priority,
}

impl Store {
    /// Inserts the items of one chunk and advances the batch to the next chunk, in one transaction. Of several lines
    /// with the same name the first is valid and the others are invalid. An invalid line gets its result immediately.
    ///
    /// ## Why an accepted line can run immediately
    ///
    /// Lines are accepted in file order, so a later line cannot make an earlier one invalid. Of two lines with the same
    /// name the later one is invalid, even if the earlier one has already ended.
    ///
    /// ## Why a line with an earlier result is inserted as reused
    ///
    /// An item that waits first is written twice, and its line is read and parsed twice. Lines of a stopped batch wait: the
    /// configuration may change until it is resumed, and the line is another one then.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if the batch has already advanced, or if `owner` no longer holds it, and
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_lines(
        &self,
        batch: &Batch,
        owner: &str,
        lines: Vec<Line>,
        last: u64,
    ) -> Result<(), Error> {
        let earlier = if batch.reuse && batch.stopped.is_none() {
            self.earlier_of(batch, &lines).await?
        } else {
            BTreeMap::new()
        };
        let (batch, owner) = (batch.clone(), owner.to_owned());
        self.database.transact_hot(move |tx| add_lines(tx, batch, owner, lines, earlier, last).boxed()).await
    }

    /// Returns the earlier results of these lines, by number, as far as they fit into memory together.
    async fn earlier_of(&self, batch: &Batch, lines: &[Line]) -> Result<BTreeMap<u64, Earlier>, Error> {
        let wanted = lines.iter().filter_map(|line| {
            let (custom_id, cache_key) = (line.custom_id.clone()?, line.cache_key()?.hash.clone());
            Some(Wanted { nth: line.nth, custom_id: Some(custom_id), cache_key: Some(cache_key) })
        });
        let wanted: Vec<Wanted> = wanted.collect();
        match wanted.is_empty() {
            true => Ok(BTreeMap::new()),
            false => self.earlier(&batch.tenant, &wanted, signed(PAGE_BYTES)).await,
        }
    }
}

async fn add_lines(
    tx: &Transaction,
    batch: Batch,
    owner: String,
    lines: Vec<Line>,
    mut earlier: BTreeMap<u64, Earlier>,
    last: u64,
) -> Result<(), Error> {
    // Items that are inserted with the number of their result need the row, which has the last number. All others lock it late.
    let mut row = match earlier.is_empty() {
        true => None,
        false => Some(lock_batch(tx, batch.id, &owner).await?),
    };
    let mut numbers = Numbers { last: row.as_ref().map_or(0, |row| row.done), of: BTreeMap::new() };
    let (mut refused, mut reused) = (Vec::new(), Vec::new());
    for lines in lines.chunks(ROWS) {
        lines
            .iter()
            .filter(|line| earlier.contains_key(&line.nth))
            .for_each(|line| numbers.reserve(line.nth));
        let taken = insert(tx, &batch, lines, &earlier, &numbers).await?;
        let again = lines.iter().filter(|line| !taken.contains(&line.nth)).collect::<Vec<_>>();
        let again = renamed(tx, &batch, &again).await?;
        // A duplicate has the number of its error.
        insert(tx, &batch, &again, &BTreeMap::new(), &numbers).await?;
        let of_again = again.iter().map(|line| (line.nth, line)).collect::<BTreeMap<_, _>>();
        for line in lines {
            let nameless = of_again.get(&line.nth);
            match &nameless.map_or(line, |renamed| *renamed).checked {
                Err(error) => refused.push((line, error.clone())),
                Ok(_) => reused.extend(earlier.remove(&line.nth).map(|earlier| (line, earlier))),
            }
        }
    }
    let row = match row.take() {
        Some(row) => row,
        None => lock_batch(tx, batch.id, &owner).await?,
    };
    if row.status != BatchStatus::Validating.as_str() || row.validated != place(batch.validated) {
        return Err(Error::BatchLost(batch.id));
    }
    let mut counts = Batch::try_from(row.clone())?.counts;
    let (mut bad, mut results) = (Vec::new(), Results::after(row.done.max(numbers.last)));
    let mut model = CommonModel::of_column(row.model.clone());
    let (faulty, known) = (refused.len() as u64, reused.len() as u64);
    for (line, error) in refused {
        let result = BatchResult::new(batch.id, line.nth, line.custom_id.clone(), None, Some(error), None);
        let json = json_of(&result)?;
        match numbers.of.get(&line.nth) {
            Some(n) => results.add_numbered(*n, line.nth, json),
            None => bad.push((results.add(line.nth, json), line.nth)),
        }
    }
    for (line, Earlier { response, run, .. }) in reused {
        let name = line.custom_id.clone();
        let result = BatchResult::new(batch.id, line.nth, name, Some(response), None, run);
        model = model.with(result.turnfold.as_ref().and_then(|run| run.model.as_deref()));
        if let Some(n) = numbers.of.get(&line.nth) {
            results.add_numbered(*n, line.nth, json_of(&result)?);
        }
    }
    counts.add(ItemState::Invalid, faulty);
    counts.add(ItemState::Reused, known);
    counts.add(ItemState::Waiting, lines.len() as u64 - faulty - known);
    point(tx, &batch, bad).await?;
    let sums = batches::ActiveModel {
        validated: Set(row.validated + 1),
        lines: Set(signed(last)),
        total: Set(row.total + signed(lines.len() as u64)),
        counts: Set(counts.to_string()),
        done: Set(results.write(tx, batch.id).await?),
        model: Set(model.into_column()),
        ..Default::default()
    };
    batches::Entity::update_many().set(sums).filter(batches::Column::Id.eq(batch.id)).exec(tx).await?;
    Ok(())
}

/// Numbers of results that are known before their items are inserted, by line.
struct Numbers {
    last: i64,
    of: BTreeMap<u64, i64>,
}

impl Numbers {
    fn reserve(&mut self, nth: u64) {
        self.last += 1;
        self.of.insert(nth, self.last);
    }
}

/// Links items to their results by line number. The invalid lines are known only after the insert.
async fn point(tx: &Transaction, batch: &Batch, bad: Vec<(i64, u64)>) -> Result<(), Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "UPDATE batch_items SET result_no = it.n \
                   FROM (SELECT $1::uuid AS batch_id, it.* FROM unnest($2::bigint[], $3::bigint[]) AS it \
                   (n, nth) OFFSET 0) AS it \
                   WHERE batch_items.batch_id = ANY (ARRAY[it.batch_id]) AND batch_items.nth = it.nth",
        sqlite: "UPDATE batch_items SET result_no = it.value ->> 'n' FROM json_each(?2) AS it \
                 WHERE batch_items.batch_id = iif(it.key >= 0, ?1, NULL) AND batch_items.nth = it.value ->> 'nth'",
    };
    if !bad.is_empty() {
        let columns = [number("n", &bad, |(n, _)| *n), number("nth", &bad, |(_, nth)| signed(*nth))];
        tx.execute_raw(STATEMENT.with(tx, [batch.id.into()], columns)).await?;
    }
    Ok(())
}

/// Returns the code and the message of the error of a line whose name the line `first` has.
pub fn duplicate_custom_id(custom_id: &str, first: u64) -> (String, String) {
    (DUPLICATE.to_owned(), format!("custom_id {custom_id:?} is also on line {first}"))
}

/// Returns the same lines without a name and marked as invalid, because earlier lines have their names.
async fn renamed(tx: &Transaction, batch: &Batch, lines: &[&Line]) -> Result<Vec<Line>, Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "SELECT it.nth AS nth, items.nth AS first FROM unnest($2::bigint[], $3::text[]) AS it (nth, custom_id) \
                   CROSS JOIN LATERAL (SELECT nth FROM batch_items \
                   WHERE (batch_id::text || custom_id) COLLATE \"C\" = $1::uuid::text || it.custom_id LIMIT 1) AS items",
        sqlite: "SELECT it.value ->> 'nth' AS nth, items.nth AS first FROM json_each(?2) AS it \
                 CROSS JOIN batch_items AS items \
                 ON hex(items.batch_id) || items.custom_id = hex(?1) || (it.value ->> 'custom_id')",
    };
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let columns = [
        number("nth", lines, |line| signed(line.nth)),
        text("custom_id", lines, |line| line.custom_id.as_deref().map(plain)),
    ];
    let mut firsts = BTreeMap::new();
    for row in tx.query_all_raw(STATEMENT.with(tx, [batch.id.into()], columns)).await? {
        firsts.insert(unsigned(row.try_get("", "nth")?)?, unsigned(row.try_get("", "first")?)?);
    }
    let renamed = |line: &&Line| {
        let first = firsts.get(&line.nth).copied().unwrap_or(line.nth);
        let error = duplicate_custom_id(line.custom_id.as_deref().unwrap_or_default(), first);
        Line { custom_id: None, checked: Err(error), ..(*line).clone() }
    };
    Ok(lines.iter().map(renamed).collect())
}

/// Inserts the lines whose number and name are new, and returns their numbers.
async fn insert(
    tx: &Transaction,
    batch: &Batch,
    lines: &[Line],
    earlier: &BTreeMap<u64, Earlier>,
    numbers: &Numbers,
) -> Result<BTreeSet<u64>, Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, \
                   priority, attempt, cache_key, strategy, input_tokens, output_tokens, micro_usd, code, message, \
                   thread_id, turn_id, result_no) \
                   SELECT $1, nth, $2, nullif(custom_id, ''), chunk, start, length, state, priority, 1, \
                   nullif(cache_key, ''), nullif(strategy, ''), 0, 0, 0, nullif(code, ''), nullif(message, ''), \
                   nullif(thread_id, '00000000-0000-0000-0000-000000000000'), nullif(turn_id, '00000000-0000-0000-0000-000000000000'), \
                   nullif(result_no, -1) FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], \
                   $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::uuid[], $15::uuid[], $16::bigint[]) AS it (nth, custom_id, chunk, start, \
                   length, state, priority, cache_key, strategy, code, message, thread_id, turn_id, result_no) \
                   ORDER BY nth ON CONFLICT DO NOTHING RETURNING nth",
        sqlite: "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, \
                 priority, attempt, cache_key, strategy, input_tokens, output_tokens, micro_usd, code, message, \
                 thread_id, turn_id, result_no) SELECT ?1, value ->> 'nth', ?2, value ->> 'custom_id', value ->> 'chunk', value ->> 'start', \
                 value ->> 'length', value ->> 'state', value ->> 'priority', 1, value ->> 'cache_key', value ->> 'strategy', 0, 0, 0, \
                 value ->> 'code', value ->> 'message', unhex(value ->> 'thread_id'), unhex(value ->> 'turn_id'), \
                 value ->> 'result_no' FROM json_each(?3) WHERE true ORDER BY key \
                 ON CONFLICT DO NOTHING RETURNING nth",
    };
    if lines.is_empty() {
        return Ok(BTreeSet::new());
    }
    let columns = [
        number("nth", lines, |line| signed(line.nth)),
        text("custom_id", lines, |line| line.custom_id.as_deref().map(plain)),
        number("chunk", lines, |line| i64::from(line.place.chunk)),
        number("start", lines, |line| i64::from(line.place.start)),
        number("length", lines, |line| i64::from(line.place.length)),
        text("state", lines, |line| match earlier.get(&line.nth) {
            Some(_) => ItemState::Reused.to_string(),
            None => line.state().to_string(),
        }),
        number("priority", lines, |line| {
            i64::from(line.cache_key().map_or(batch.priority, |key| key.priority).rank())
        }),
        text("cache_key", lines, |line| line.cache_key().map(|key| key.hash.clone())),
        text("strategy", lines, |line| line.cache_key().map(|key| key.strategy.clone())),
        text("code", lines, |line| line.fault().map(|(code, _)| plain(code))),
        text("message", lines, |line| line.fault().map(|(_, message)| plain(message))),
        id("thread_id", lines, |line| earlier.get(&line.nth).and_then(|earlier| earlier.thread)),
        id("turn_id", lines, |line| earlier.get(&line.nth).and_then(|earlier| earlier.turn)),
        number("result_no", lines, |line| numbers.of.get(&line.nth).copied()),
    ];
    let values = [batch.id.into(), batch.tenant.as_str().into()];
    let rows = tx.query_all_raw(STATEMENT.with(tx, values, columns)).await?;
    rows.into_iter().map(|row| unsigned(row.try_get("", "nth")?)).collect()
}
