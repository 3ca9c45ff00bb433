//! How the lines of a file become items, a chunk of them at a time.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, DatabaseTransaction, EntityTrait as _,
    QueryFilter as _,
};

use super::{
    Batch, BatchStatus, ItemState,
    files::place,
    record::{Results, hold, line_of},
    tables::batches,
};
use crate::{
    Error, Priority, Store,
    log::{plain, signed, unsigned},
    words::{Words, number, text},
};

/// What is wrong with a line whose name an earlier line has.
const DUPLICATE: &str = "duplicate_custom_id";

/// How many items one statement writes at most.
pub(super) const ROWS: usize = 1000;

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

impl Line {
    fn state(&self) -> ItemState {
        if self.checked.is_ok() { ItemState::Waiting } else { ItemState::Bad }
    }

    fn memo(&self) -> Option<&Memo> {
        self.checked.as_ref().ok()
    }

    fn fault(&self) -> Option<&(String, String)> {
        self.checked.as_ref().err()
    }
}

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memo {
    /// Names it by its content.
    pub hash: String,
    /// The strategy that does it.
    pub strategy: String,
    /// How urgent it is.
    pub priority: Priority,
}

impl Store {
    /// Makes items of the lines of one chunk, and moves their batch on to the next chunk, all of it or nothing. Of lines
    /// with one name the first counts, and the others are bad. What is bad has its result at once.
    ///
    /// ## Why a line that was taken may be run at once
    ///
    /// Lines are taken in their order, so nothing that stands further down can make a line bad that was good: it is the
    /// later line of one name that is bad, also if the earlier one has ended by then.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if the batch has been moved on already, or is no longer `keeper`'s, and [`Error::Unavailable`] if
    /// the database does not answer.
    pub async fn take_lines(
        &self,
        batch: &Batch,
        keeper: &str,
        lines: Vec<Line>,
        last: u64,
    ) -> Result<(), Error> {
        let (batch, keeper) = (batch.clone(), keeper.to_owned());
        self.database.transact_hot(move |tx| take_lines(tx, batch, keeper, lines, last).boxed()).await
    }
}

async fn take_lines(
    tx: &DatabaseTransaction,
    batch: Batch,
    keeper: String,
    lines: Vec<Line>,
    last: u64,
) -> Result<(), Error> {
    let mut refused = Vec::new();
    for lines in lines.chunks(ROWS) {
        let taken = insert(tx, &batch, lines).await?;
        let again: Vec<Line> = lines.iter().filter(|it| !taken.contains(&it.nth)).map(renamed).collect();
        insert(tx, &batch, &again).await?;
        let of_again = again.iter().map(|it| (it.nth, it)).collect::<BTreeMap<_, _>>();
        for line in lines {
            let nameless = of_again.get(&line.nth);
            if let Err(error) = &nameless.map_or(line, |it| *it).checked {
                refused.push((line, error.clone()));
            }
        }
    }
    let row = hold(tx, batch.id, &keeper).await?;
    if row.status != BatchStatus::Validating.as_str() || row.validated != place(batch.validated) {
        return Err(Error::BatchLost(batch.id));
    }
    let mut counts = Batch::try_from(row.clone())?.counts;
    let (mut bad, mut results) = (Vec::new(), Results::after(row.done));
    for (line, (code, message)) in refused {
        let error = Some((code.as_str(), message.as_str()));
        let told = line_of(batch.id, line.nth, line.custom_id.as_deref(), None, error)?;
        bad.push((results.add(line.nth, told), line.nth));
    }
    let faulty = bad.len() as u64;
    counts.add(ItemState::Bad, faulty);
    counts.add(ItemState::Waiting, lines.len() as u64 - faulty);
    point(tx, &batch, bad).await?;
    let sums = batches::ActiveModel {
        validated: Set(row.validated + 1),
        lines: Set(signed(last)),
        total: Set(row.total + signed(lines.len() as u64)),
        counts: Set(counts.to_string()),
        done: Set(results.write(tx, batch.id).await?),
        ..Default::default()
    };
    batches::Entity::update_many().set(sums).filter(batches::Column::Id.eq(batch.id)).exec(tx).await?;
    Ok(())
}

/// Has items point at their results, each by the number of its line: which are bad shows only once they are inserted.
async fn point(tx: &DatabaseTransaction, batch: &Batch, bad: Vec<(i64, u64)>) -> Result<(), Error> {
    const WORDS: Words = Words {
        postgres: "UPDATE batch_items SET done_no = it.n \
                   FROM (SELECT $1::uuid AS batch_id, it.* FROM unnest($2::bigint[], $3::bigint[]) AS it \
                   (n, nth) OFFSET 0) AS it \
                   WHERE batch_items.batch_id = ANY (ARRAY[it.batch_id]) AND batch_items.nth = it.nth",
        sqlite: "UPDATE batch_items SET done_no = it.value ->> 'n' FROM json_each(?2) AS it \
                 WHERE batch_items.batch_id = iif(it.key >= 0, ?1, NULL) AND batch_items.nth = it.value ->> 'nth'",
    };
    if !bad.is_empty() {
        let columns = [number("n", &bad, |(n, _)| *n), number("nth", &bad, |(_, nth)| signed(*nth))];
        tx.execute_raw(WORDS.with(tx, [batch.id.into()], columns)).await?;
    }
    Ok(())
}

/// The same line, bad because an earlier one has its name.
fn renamed(line: &Line) -> Line {
    let id = line.custom_id.as_deref().unwrap_or_default();
    let words = format!("custom_id: an earlier line is called {id:?} too; that one counts");
    Line { custom_id: None, checked: Err((DUPLICATE.to_owned(), words)), ..line.clone() }
}

/// Inserts those that are new, and whose names are; returns their numbers.
async fn insert(tx: &DatabaseTransaction, batch: &Batch, lines: &[Line]) -> Result<BTreeSet<u64>, Error> {
    const WORDS: Words = Words {
        postgres: "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, \
                   priority, attempt, memo, strategy, input_tokens, output_tokens, micro_usd, code, message) \
                   SELECT $1, nth, $2, nullif(custom_id, ''), chunk, start, length, state, priority, 1, \
                   nullif(memo, ''), nullif(strategy, ''), 0, 0, 0, nullif(code, ''), nullif(message, '') \
                   FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], \
                   $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[]) AS it (nth, custom_id, chunk, start, \
                   length, state, priority, memo, strategy, code, message) \
                   ORDER BY nth ON CONFLICT DO NOTHING RETURNING nth",
        sqlite: "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, \
                 priority, attempt, memo, strategy, input_tokens, output_tokens, micro_usd, code, message) \
                 SELECT ?1, value ->> 'nth', ?2, value ->> 'custom_id', value ->> 'chunk', value ->> 'start', \
                 value ->> 'length', value ->> 'state', value ->> 'priority', 1, value ->> 'memo', value ->> 'strategy', 0, 0, 0, \
                 value ->> 'code', value ->> 'message' FROM json_each(?3) WHERE true ORDER BY key \
                 ON CONFLICT DO NOTHING RETURNING nth",
    };
    if lines.is_empty() {
        return Ok(BTreeSet::new());
    }
    let columns = [
        number("nth", lines, |it| signed(it.nth)),
        text("custom_id", lines, |it| it.custom_id.as_deref().map(plain)),
        number("chunk", lines, |it| i64::from(it.place.chunk)),
        number("start", lines, |it| i64::from(it.place.start)),
        number("length", lines, |it| i64::from(it.place.length)),
        text("state", lines, |it| it.state().to_string()),
        number("priority", lines, |it| i64::from(it.memo().map_or(batch.priority, |it| it.priority).rank())),
        text("memo", lines, |it| it.memo().map(|it| it.hash.clone())),
        text("strategy", lines, |it| it.memo().map(|it| it.strategy.clone())),
        text("code", lines, |it| it.fault().map(|(code, _)| plain(code))),
        text("message", lines, |it| it.fault().map(|(_, message)| plain(message))),
    ];
    let values = [batch.id.into(), batch.tenant.as_str().into()];
    let rows = tx.query_all_raw(WORDS.with(tx, values, columns)).await?;
    rows.into_iter().map(|row| unsigned(row.try_get("", "nth")?)).collect()
}
