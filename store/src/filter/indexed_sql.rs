//! Translation of the conditions that the search index and the lines of batches answer.
//!
//! ## Why the words of a text are looked up first
//!
//! The index of words returns the newest entries with the words, and a turn is looked up among them. A word that is in millions of
//! events would otherwise be looked up for each turn, or all its entries kept in memory.

use sea_orm::{
    DbBackend, Value,
    sea_query::{Alias, Expr, ExprTrait as _, Query},
};
use shared::Rating;

use super::condition::{AmountField, IndexedField, Is, Side};
use crate::{
    QueryWords,
    log::{
        ids::plain,
        short_ids::{PartOfId, end_of_id},
        tables::turns,
    },
    search::{TermKind, matching, rating_number},
};

/// Maximum number of events with the words of a text, the newest ones, whose turns are selected.
const MOST_EVENTS: u32 = 10_000;

/// Builds SQL with values. Each `?` stands for one.
fn custom(backend: DbBackend, sql: &str, values: Vec<Value>) -> Expr {
    if backend != DbBackend::Postgres {
        return Expr::cust_with_values(sql.to_owned(), values);
    }
    let mut numbered = String::new();
    for (nth, part) in sql.split('?').enumerate() {
        if 0 < nth {
            numbered += &format!("${nth}");
        }
        numbered += part;
    }
    Expr::cust_with_values(numbered, values)
}

/// Selects turns of which an event has these words.
pub(super) fn words(backend: DbBackend, words: &QueryWords, tenant: Option<&str>) -> Expr {
    let query = matching(backend, words, tenant);
    let entries = if backend == DbBackend::Postgres {
        format!(
            "SELECT thread_id, turn_seq FROM search_entries WHERE words @@ CAST(? AS tsquery) ORDER BY id DESC LIMIT {MOST_EVENTS}"
        )
    } else {
        format!(
            "SELECT thread_id, turn_seq FROM (SELECT rowid AS id FROM search_words WHERE search_words MATCH ? \
             ORDER BY rowid DESC LIMIT {MOST_EVENTS}) AS word JOIN search_entries ON search_entries.id = word.id"
        )
    };
    custom(backend, &format!("(turns.thread_id, turns.started_seq) IN ({entries})"), vec![query.into()])
}

/// Selects turns with this tool, model, prompt or worker.
pub(super) fn term(backend: DbBackend, field: IndexedField, is: Is, value: &str) -> Expr {
    let kind = match field {
        IndexedField::Tool => TermKind::Tool,
        IndexedField::Model => TermKind::Model,
        IndexedField::Prompt => TermKind::Prompt,
        IndexedField::Worker => TermKind::Worker,
    };
    let value = plain(value);
    let (compare, values): (_, Vec<Value>) = match field {
        // All hashes with this beginning: no hexadecimal digit comes after g.
        IndexedField::Prompt => {
            ("value >= ? AND value < ?", vec![value.clone().into(), format!("{value}g").into()])
        }
        IndexedField::Tool | IndexedField::Model | IndexedField::Worker => ("value = ?", vec![value.into()]),
    };
    let of_kind = format!("kind = {} AND {compare}", kind.number());
    let sql = match is {
        Is::Is => format!(
            "(turns.thread_id, turns.started_seq) IN (SELECT thread_id, turn_seq FROM search_terms WHERE {of_kind})"
        ),
        Is::IsNot => format!(
            "NOT EXISTS (SELECT 1 FROM search_terms WHERE {of_kind} AND search_terms.thread_id = turns.thread_id \
             AND search_terms.turn_seq = turns.started_seq)"
        ),
    };
    custom(backend, &sql, values)
}

/// Selects turns by their last rating.
pub(super) fn rated(backend: DbBackend, is: Is, rating: Rating) -> Expr {
    let sql = match is {
        Is::Is => {
            "(turns.thread_id, turns.id) IN (SELECT thread_id, turn_id FROM search_ratings WHERE rating = ?)"
        }
        Is::IsNot => {
            "NOT EXISTS (SELECT 1 FROM search_ratings WHERE search_ratings.thread_id = turns.thread_id \
             AND search_ratings.turn_id = turns.id AND rating = ?)"
        }
    };
    custom(backend, sql, vec![rating_number(rating).into()])
}

/// Selects turns by their cost, their tokens or their time.
pub(super) fn amount(backend: DbBackend, field: AmountField, side: Side, value: i64) -> Expr {
    let column = match field {
        AmountField::MicroUsd => "micro_usd",
        AmountField::Tokens => "tokens",
        AmountField::Took => {
            let sign = if side == Side::Before { "<" } else { ">" };
            let sql = format!(
                "(turns.status NOT IN ('queued', 'running') AND turns.updated_at - turns.created_at {sign} ?)"
            );
            return custom(backend, &sql, vec![value.into()]);
        }
    };
    let sql = match side {
        Side::After => format!(
            "(turns.thread_id, turns.started_seq) IN (SELECT thread_id, turn_seq FROM search_usage WHERE {column} > ?)"
        ),
        // A turn that used nothing has no row.
        Side::Before => format!(
            "NOT EXISTS (SELECT 1 FROM search_usage WHERE search_usage.thread_id = turns.thread_id \
             AND search_usage.turn_seq = turns.started_seq AND {column} >= ?)"
        ),
    };
    custom(backend, &sql, vec![value.into()])
}

/// Selects turns of the lines of a batch.
pub(super) fn batch(backend: DbBackend, is: Is, part: &PartOfId) -> Expr {
    let [first, last] = part.range();
    let id = || Expr::col(Alias::new("id"));
    let end = part.end(backend).map(|end| Expr::cust(end_of_id(backend)).eq(end));
    let named = id().between(first, last);
    let named = end.map_or(named.clone(), |end| named.or(end));
    let ids = Query::select().column(Alias::new("id")).from(Alias::new("batches")).and_where(named).take();
    let items = Query::select()
        .column(Alias::new("turn_id"))
        .from(Alias::new("batch_items"))
        .and_where(Expr::col(Alias::new("batch_id")).in_subquery(ids))
        .and_where(Expr::col(Alias::new("turn_id")).is_not_null())
        .take();
    let turn = Expr::col((turns::Entity, turns::Column::Id));
    match is {
        Is::Is => turn.in_subquery(items),
        Is::IsNot => turn.not_in_subquery(items),
    }
}

/// Selects turns by the custom id of their line, among the lines of this tenant if it is given. A turn that ran for no line has none.
pub(super) fn custom_id(is: Is, value: &str, tenant: Option<&str>) -> Expr {
    let column = |name: &'static str| Expr::col(Alias::new(name));
    let mut lines = Query::select();
    lines
        .column(Alias::new("turn_id"))
        .from(Alias::new("batch_items"))
        .and_where(column("custom_id").eq(value))
        .and_where(column("turn_id").is_not_null());
    if let Some(tenant) = tenant {
        lines.and_where(column("tenant").eq(tenant));
    }
    let turn = Expr::col((turns::Entity, turns::Column::Id));
    match is {
        Is::Is => turn.in_subquery(lines),
        Is::IsNot => turn.not_in_subquery(lines),
    }
}
