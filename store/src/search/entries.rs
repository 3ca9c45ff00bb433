//! Rows of the index, written together for the logs of a round.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Value};
use shared::Rating;

use super::{
    content::{TermKind, rating_number},
    matching::tenant_word,
};
use crate::{
    Error, Store, ThreadId, TurnId,
    log::{Transaction, ids::plain, signed, statement},
    retention::{list, listed},
    sql_batch::{StatementText, id, number, text},
};

/// Bits of an id beside the time of its event.
const ID_BITS: u32 = 10;

/// Latest time that an id can have: the year 2255.
const TIME_MAX: i64 = (1 << (63 - ID_BITS)) - 2;

/// Words of an event.
pub(super) struct Entry {
    pub(super) seq: i64,
    pub(super) turn_seq: i64,
    pub(super) at: i64,
    pub(super) words: BTreeSet<String>,
}

/// A name in a turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) kind: TermKind,
    pub(super) value: String,
    pub(super) turn_seq: i64,
}

/// Usage of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) tokens: u64,
    pub(super) micro_usd: u64,
}

/// Rows of consecutive events of one log.
pub(super) struct LogPart {
    thread: ThreadId,
    /// First event of the part, and the first one after it.
    from_seq: i64,
    pub(super) next_seq: i64,
    pub(super) turn_seq: i64,
    pub(super) entries: Vec<Entry>,
    pub(super) terms: BTreeSet<Term>,
    pub(super) used: BTreeMap<i64, Used>,
    /// Last rating of each turn that was rated.
    pub(super) ratings: BTreeMap<TurnId, Rating>,
}

impl LogPart {
    pub(super) fn new(thread: ThreadId, from_seq: i64) -> Self {
        Self {
            thread,
            from_seq,
            next_seq: from_seq,
            turn_seq: 0,
            entries: Vec::new(),
            terms: BTreeSet::new(),
            used: BTreeMap::new(),
            ratings: BTreeMap::new(),
        }
    }
}

const MOVE_ON: StatementText = StatementText {
    postgres: "UPDATE search_threads AS held SET next_seq = it.next_seq, turn_seq = it.turn_seq \
               FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) AS it (thread_id, from_seq, next_seq, turn_seq) \
               WHERE held.thread_id = it.thread_id AND held.next_seq = it.from_seq RETURNING held.thread_id AS id",
    sqlite: "UPDATE search_threads SET next_seq = it.value ->> 'next_seq', turn_seq = it.value ->> 'turn_seq' \
             FROM json_each(?1) AS it WHERE thread_id = unhex(it.value ->> 'thread_id') \
             AND next_seq = it.value ->> 'from_seq' RETURNING thread_id AS id",
};

const BEGIN: StatementText = StatementText {
    postgres: "INSERT INTO search_threads (thread_id, next_seq, turn_seq) \
               SELECT it.thread_id, it.next_seq, it.turn_seq \
               FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) AS it (thread_id, from_seq, next_seq, turn_seq) \
               WHERE it.from_seq = 0 ON CONFLICT DO NOTHING RETURNING thread_id AS id",
    sqlite: "INSERT INTO search_threads (thread_id, next_seq, turn_seq) \
             SELECT unhex(value ->> 'thread_id'), value ->> 'next_seq', value ->> 'turn_seq' FROM json_each(?1) \
             WHERE value ->> 'from_seq' = 0 ON CONFLICT DO NOTHING RETURNING thread_id AS id",
};

const ADD_ENTRIES: StatementText = StatementText {
    postgres: "INSERT INTO search_entries (id, thread_id, seq, turn_seq, words) \
               SELECT id, thread_id, seq, turn_seq, array_to_tsvector(string_to_array(words, ' ')) \
               FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) \
               AS it (id, thread_id, seq, turn_seq, words)",
    sqlite: "INSERT INTO search_entries (id, thread_id, seq, turn_seq) \
             SELECT value ->> 'id', unhex(value ->> 'thread_id'), value ->> 'seq', value ->> 'turn_seq' \
             FROM json_each(?1)",
};

const ADD_WORDS: &str = "INSERT INTO search_words (rowid, words) \
    SELECT value ->> 'id', value ->> 'words' FROM json_each(?1)";

const ADD_TERMS: StatementText = StatementText {
    postgres: "INSERT INTO search_terms (kind, value, thread_id, turn_seq) \
               SELECT kind, value, thread_id, turn_seq \
               FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::bigint[]) AS it (kind, value, thread_id, turn_seq) \
               ON CONFLICT DO NOTHING",
    sqlite: "INSERT INTO search_terms (kind, value, thread_id, turn_seq) \
             SELECT value ->> 'kind', value ->> 'value', unhex(value ->> 'thread_id'), value ->> 'turn_seq' \
             FROM json_each(?1) WHERE TRUE ON CONFLICT DO NOTHING",
};

const ADD_USAGE: StatementText = StatementText {
    postgres: "INSERT INTO search_usage AS held (thread_id, turn_seq, tokens, micro_usd) \
               SELECT thread_id, turn_seq, tokens, micro_usd \
               FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) AS it (thread_id, turn_seq, tokens, micro_usd) \
               ON CONFLICT (thread_id, turn_seq) DO UPDATE SET tokens = held.tokens + excluded.tokens, \
               micro_usd = held.micro_usd + excluded.micro_usd",
    sqlite: "INSERT INTO search_usage AS held (thread_id, turn_seq, tokens, micro_usd) \
             SELECT unhex(value ->> 'thread_id'), value ->> 'turn_seq', value ->> 'tokens', value ->> 'micro_usd' \
             FROM json_each(?1) WHERE TRUE ON CONFLICT (thread_id, turn_seq) DO UPDATE SET \
             tokens = held.tokens + excluded.tokens, micro_usd = held.micro_usd + excluded.micro_usd",
};

const ADD_RATINGS: StatementText = StatementText {
    postgres: "INSERT INTO search_ratings (thread_id, turn_id, rating) SELECT thread_id, turn_id, rating \
               FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS it (thread_id, turn_id, rating) \
               ON CONFLICT (thread_id, turn_id) DO UPDATE SET rating = excluded.rating",
    sqlite: "INSERT INTO search_ratings (thread_id, turn_id, rating) \
             SELECT unhex(value ->> 'thread_id'), unhex(value ->> 'turn_id'), value ->> 'rating' FROM json_each(?1) \
             WHERE TRUE ON CONFLICT (thread_id, turn_id) DO UPDATE SET rating = excluded.rating",
};

#[derive(FromQueryResult)]
struct ThreadRow {
    id: ThreadId,
    tenant: String,
}

#[derive(FromQueryResult)]
struct IdRow {
    id: ThreadId,
}

#[derive(FromQueryResult)]
struct EntryId {
    id: i64,
}

impl Store {
    /// Writes these parts in one transaction. Parts that another process has indexed meanwhile are left out, and their threads
    /// returned.
    pub(super) async fn write_parts(&self, parts: Vec<LogPart>) -> Result<Vec<ThreadId>, Error> {
        self.database.transact(move |tx| write(tx, parts).boxed()).await
    }
}

async fn write(tx: &Transaction, mut parts: Vec<LogPart>) -> Result<Vec<ThreadId>, Error> {
    parts.sort_by_key(|part| part.thread);
    let tenants = lock_threads(tx, &parts).await?;
    // A deleted thread has nothing to index.
    parts.retain(|part| tenants.contains_key(&part.thread));
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let moved = move_on(tx, &parts).await?;
    let (parts, raced): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| moved.contains(&part.thread));
    add_entries(tx, &parts, &tenants).await?;
    let terms: Vec<_> =
        parts.iter().flat_map(|part| part.terms.iter().map(|term| (part.thread, term))).collect();
    if !terms.is_empty() {
        let columns = [
            number("kind", &terms, |(_, term)| i64::from(term.kind.number())),
            text("value", &terms, |(_, term)| plain(&term.value)),
            id("thread_id", &terms, |(thread, _)| *thread),
            number("turn_seq", &terms, |(_, term)| term.turn_seq),
        ];
        tx.execute_raw(ADD_TERMS.with(tx, [], columns)).await?;
    }
    let used: Vec<_> =
        parts.iter().flat_map(|part| part.used.iter().map(|used| (part.thread, used))).collect();
    if !used.is_empty() {
        let columns = [
            id("thread_id", &used, |(thread, _)| *thread),
            number("turn_seq", &used, |(_, (turn_seq, _))| **turn_seq),
            number("tokens", &used, |(_, (_, used))| signed(used.tokens)),
            number("micro_usd", &used, |(_, (_, used))| signed(used.micro_usd)),
        ];
        tx.execute_raw(ADD_USAGE.with(tx, [], columns)).await?;
    }
    add_ratings(tx, &parts).await?;
    Ok(raced.into_iter().map(|part| part.thread).collect())
}

async fn add_ratings(tx: &Transaction, parts: &[LogPart]) -> Result<(), Error> {
    let rated = |part: &LogPart| -> Vec<(ThreadId, TurnId, Rating)> {
        part.ratings.iter().map(|(turn, rating)| (part.thread, *turn, *rating)).collect()
    };
    let ratings: Vec<_> = parts.iter().flat_map(rated).collect();
    if ratings.is_empty() {
        return Ok(());
    }
    let columns = [
        id("thread_id", &ratings, |(thread, ..)| *thread),
        id("turn_id", &ratings, |(_, turn, _)| *turn),
        number("rating", &ratings, |(.., rating)| i64::from(rating_number(*rating))),
    ];
    tx.execute_raw(ADD_RATINGS.with(tx, [], columns)).await?;
    Ok(())
}

/// Returns the tenants of the threads that exist. None of them is deleted until the transaction ends. Their status may change.
async fn lock_threads(tx: &Transaction, parts: &[LogPart]) -> Result<HashMap<ThreadId, String>, Error> {
    let ids: Vec<ThreadId> = parts.iter().map(|part| part.thread).collect();
    let lock =
        if tx.get_database_backend() == DbBackend::Postgres { "ORDER BY id FOR KEY SHARE" } else { "" };
    let sql = format!("SELECT id, tenant FROM threads WHERE id IN ({}) {lock}", list(tx, 1));
    let rows = ThreadRow::find_by_statement(statement(tx, &sql, [listed(tx, &ids)])).all(tx).await?;
    Ok(rows.into_iter().map(|row| (row.id, row.tenant)).collect())
}

/// Moves the rows of these threads from where the process has read to where it has come.
async fn move_on(tx: &Transaction, parts: &[LogPart]) -> Result<BTreeSet<ThreadId>, Error> {
    let mut moved = BTreeSet::new();
    for sql in [&MOVE_ON, &BEGIN] {
        let columns = [
            id("thread_id", parts, |part| part.thread),
            number("from_seq", parts, |part| part.from_seq),
            number("next_seq", parts, |part| part.next_seq),
            number("turn_seq", parts, |part| part.turn_seq),
        ];
        let rows = IdRow::find_by_statement(sql.with(tx, [], columns)).all(tx).await?;
        moved.extend(rows.into_iter().map(|row| row.id));
    }
    Ok(moved)
}

async fn add_entries(
    tx: &Transaction,
    parts: &[LogPart],
    tenants: &HashMap<ThreadId, String>,
) -> Result<(), Error> {
    let entries: Vec<_> =
        parts.iter().flat_map(|part| part.entries.iter().map(|entry| (part.thread, entry))).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let ids = free_ids(tx, &entries).await?;
    let mut rows: Vec<_> = ids.into_iter().zip(entries).collect();
    // SQLite's index of words takes ascending ids in one piece.
    rows.sort_by_key(|(id, _)| *id);
    let words = |(_, (thread, entry)): &(i64, (ThreadId, &Entry))| {
        let tenant = tenants.get(thread).map(|tenant| tenant_word(tenant)).unwrap_or_default();
        let words: Vec<&str> = entry.words.iter().map(String::as_str).chain([tenant.as_str()]).collect();
        words.join(" ")
    };
    let columns = [
        number("id", &rows, |(id, _)| *id),
        id("thread_id", &rows, |(_, (thread, _))| *thread),
        number("seq", &rows, |(_, (_, entry))| entry.seq),
        number("turn_seq", &rows, |(_, (_, entry))| entry.turn_seq),
        text("words", &rows, words),
    ];
    let statement = ADD_ENTRIES.with(tx, [], columns);
    if tx.get_database_backend() == DbBackend::Sqlite {
        let values = statement.values.clone().map(|values| values.0).unwrap_or_default();
        tx.execute_raw(crate::log::statement(tx, ADD_WORDS, values)).await?;
    }
    tx.execute_raw(statement).await?;
    Ok(())
}

/// Returns an id for each entry that no other entry has. Events of the same microsecond differ by the rest of the id.
async fn free_ids(tx: &Transaction, entries: &[(ThreadId, &Entry)]) -> Result<Vec<i64>, Error> {
    let mut ids: Vec<i64> = entries
        .iter()
        .map(|(thread, entry)| {
            let [.., high, low] = *thread.as_bytes();
            let rest = i64::from(u16::from_be_bytes([high, low])).wrapping_add(entry.seq);
            (entry.at.clamp(0, TIME_MAX) << ID_BITS) | rest.rem_euclid(1 << ID_BITS)
        })
        .collect();
    let mut taken = BTreeSet::new();
    loop {
        let mut own = BTreeSet::new();
        for id in &mut ids {
            while taken.contains(id) || !own.insert(*id) {
                *id += 1;
            }
        }
        let before = taken.len();
        taken.extend(taken_ids(tx, &ids).await?);
        if taken.len() == before {
            return Ok(ids);
        }
    }
}

async fn taken_ids(tx: &Transaction, ids: &[i64]) -> Result<Vec<i64>, Error> {
    let (sql, value): (_, Value) = if tx.get_database_backend() == DbBackend::Postgres {
        ("SELECT id FROM search_entries WHERE id = ANY ($1)", ids.to_vec().into())
    } else {
        let json = serde_json::json!(ids).to_string();
        ("SELECT id FROM search_entries WHERE id IN (SELECT value FROM json_each(?1))", json.into())
    };
    let rows = EntryId::find_by_statement(statement(tx, sql, [value])).all(tx).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}
