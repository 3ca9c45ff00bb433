//! Translation of conditions to SQL with bound values; both engines select the same rows.

use sea_orm::{
    ColumnTrait, Condition as All, DbBackend, ExprTrait,
    sea_query::{Alias, CaseStatement, Expr, Func, Query},
};

use shared::{OutcomeKind, ThreadStatus, TurnStatus};
use uuid::Uuid;

use super::indexed_sql;
use crate::{
    filter::{
        condition::{Condition, How, Is, Side, TextField, TimeField},
        conditions::Conditions,
    },
    log::{
        ids::plain,
        short_ids::{PartOfId, end_of_id},
        tables::{threads, turns},
    },
};

/// Returns the smallest id of a thread that is made at this time or later: ids begin with their milliseconds.
fn first_id_at(at: i64) -> Uuid {
    let millis = u128::try_from(at / 1_000).unwrap_or_default() & ((1 << 48) - 1);
    Uuid::from_u128(millis << 80)
}

/// Builds the SQL condition for rows of `turns`. Words are searched for in the events of this tenant, if it is given: those of others
/// would take the place of the newest.
pub(crate) fn all_of(backend: DbBackend, conditions: &Conditions, tenant: Option<&str>) -> All {
    let tenant = tenant.or_else(|| conditions.tenant());
    conditions.0.iter().fold(All::all(), |all, condition| all.add(one(backend, condition, tenant)))
}

fn one(backend: DbBackend, condition: &Condition, tenant: Option<&str>) -> Expr {
    match condition {
        Condition::Text { field, how, value } => text(backend, field, *how, &plain(value)),
        Condition::Status { is: Is::Is, value } => in_status(*value),
        Condition::Status { is, value } => equal(turns::Column::Status, *is, value.as_str()),
        Condition::Outcome { is, value } => outcome(*is, *value),
        Condition::Priority { is, value } => equal(turns::Column::Priority, *is, i32::from(value.rank())),
        Condition::Thread { is, value } => equal(turns::Column::ThreadId, *is, *value),
        Condition::ThreadPart { is, part } => has_part(backend, *is, part),
        Condition::Time { field, side, at } => {
            let column = match field {
                TimeField::Created => turns::Column::CreatedAt,
                TimeField::Updated => turns::Column::UpdatedAt,
            };
            match side {
                Side::Before => column.lt(*at),
                Side::After => column.gt(*at),
            }
        }
        Condition::Since(at) => {
            let is_made_later = turns::Column::ThreadId.gte(first_id_at(*at));
            turns::Column::CreatedAt.gt(*at).or(is_made_later)
        }
        Condition::Words(words) => indexed_sql::words(backend, words, tenant),
        Condition::Indexed { field, is, value } => indexed_sql::term(backend, *field, *is, value),
        Condition::Rated { is, value } => indexed_sql::rated(backend, *is, *value),
        Condition::Amount { field, side, value } => indexed_sql::amount(backend, *field, *side, *value),
        Condition::Batch { is, part } => indexed_sql::batch(backend, *is, part),
        Condition::CustomId { is, value } => indexed_sql::custom_id(*is, &plain(value), tenant),
    }
}

/// Builds the condition for turns in this status, in a form that can use an index (see the migration that made
/// `open_turns`).
pub(crate) fn in_status(status: TurnStatus) -> Expr {
    let held = turns::Column::Status.eq(status.as_str());
    match status {
        TurnStatus::Queued | TurnStatus::Running => {
            let position = turns::Column::Position;
            let open = Query::select().column(position).from(Alias::new("open_turns")).take();
            position.in_subquery(open).and(held)
        }
        TurnStatus::Interrupted | TurnStatus::Failed | TurnStatus::Cancelled => {
            Expr::col((turns::Entity, Alias::new("stuck"))).eq(status.as_str()).and(held)
        }
        // Most turns have this status, so no index is used.
        TurnStatus::Completed => held,
    }
}

/// Builds the condition for turns with this outcome. A turn without an outcome has another one.
fn outcome(is: Is, kind: OutcomeKind) -> Expr {
    let column = || Expr::col((turns::Entity, turns::Column::Outcome));
    match (is, kind) {
        (Is::Is, OutcomeKind::Answered) => column().eq(kind.name()),
        (Is::Is, OutcomeKind::Partial | OutcomeKind::Declined) => {
            Expr::col((turns::Entity, Alias::new("stuck"))).eq(kind.name())
        }
        (Is::IsNot, _) => Expr::from(Func::coalesce([column(), Expr::val("")])).ne(kind.name()),
    }
}

/// Builds the condition for threads in this status, in the same form. A thread is busy while one of its turns runs.
pub(crate) fn thread_in_status(status: ThreadStatus) -> Expr {
    let found = match status {
        ThreadStatus::Interrupted | ThreadStatus::Error => {
            Expr::col((threads::Entity, Alias::new("stuck"))).eq(status.as_str())
        }
        ThreadStatus::Busy => {
            let running = Query::select()
                .column(turns::Column::ThreadId)
                .from(turns::Entity)
                .and_where(in_status(TurnStatus::Running))
                .take();
            threads::Column::Id.in_subquery(running)
        }
        ThreadStatus::Idle => return threads::Column::Status.eq(status.as_str()),
    };
    found.and(threads::Column::Status.eq(status.as_str()))
}

/// Builds the condition for threads with a turn that matches.
pub(crate) fn has_turn(backend: DbBackend, conditions: &Conditions, tenant: Option<&str>) -> Expr {
    let of_thread = Expr::col((turns::Entity, turns::Column::ThreadId))
        .eq(Expr::col((threads::Entity, threads::Column::Id)));
    let matching = Query::select()
        .expr(Expr::val(1))
        .from(turns::Entity)
        .and_where(of_thread)
        .cond_where(all_of(backend, conditions, tenant))
        .take();
    Expr::exists(matching)
}

/// Builds the condition for turns of the threads whose ids begin with a part, or end with its last eight characters.
fn has_part(backend: DbBackend, is: Is, part: &PartOfId) -> Expr {
    let [first, last] = part.range();
    let end = part.end(backend).map(|end| Expr::cust(end_of_id(backend)).eq(end));
    let named = All::any().add(threads::Column::Id.between(first, last)).add_option(end);
    let ids = Query::select().column(threads::Column::Id).from(threads::Entity).cond_where(named).take();
    match is {
        Is::Is => turns::Column::ThreadId.in_subquery(ids),
        Is::IsNot => turns::Column::ThreadId.not_in_subquery(ids),
    }
}

fn equal(column: turns::Column, is: Is, value: impl Into<sea_orm::Value>) -> Expr {
    match is {
        Is::Is => column.eq(value),
        Is::IsNot => column.ne(value),
    }
}

fn text(backend: DbBackend, field: &TextField, how: How, value: &str) -> Expr {
    let column = |column: turns::Column| Expr::col((turns::Entity, column));
    let held = match field {
        TextField::Strategy => {
            let named = compare(backend, Expr::col(threads::Column::Strategy), how, value);
            let of =
                Query::select().column(threads::Column::Id).from(threads::Entity).and_where(named).take();
            return turns::Column::ThreadId.in_subquery(of);
        }
        TextField::Tenant => column(turns::Column::Tenant),
        TextField::Author => column(turns::Column::Author),
        TextField::Error => column(turns::Column::Error),
        TextField::Cause => column(turns::Column::Cause),
        TextField::Metadata(key) => metadata(backend, column(turns::Column::Metadata), key),
    };
    // A missing value counts as an empty text, so that `!=` is true for it instead of unknown.
    compare(backend, Func::coalesce([held, Expr::val("")]).into(), how, value)
}

fn compare(backend: DbBackend, held: Expr, how: How, value: &str) -> Expr {
    match how {
        How::Is => held.eq(value),
        How::IsNot => held.ne(value),
        // Not LIKE, whose case sensitivity differs between the engines.
        How::Holds => place(backend, held, value).gt(0),
    }
}

/// Builds the text value of a metadata key. It is null if the metadata contains a NUL character, on which PostgreSQL
/// would fail: one client's row must not make a list fail.
fn metadata(backend: DbBackend, column: Expr, key: &str) -> Expr {
    let value: Expr = if backend == DbBackend::Postgres {
        Func::cust("json_extract_path_text").arg(column.clone().cast_as("json")).arg(Expr::val(key)).into()
    } else {
        let path = format!("$.\"{key}\"");
        let of = |what: &'static str| Func::cust(what).arg(column.clone()).arg(Expr::val(path.clone()));
        // SQLite makes 1 and 0 of these.
        let named = |kind: &'static str| Expr::from(of("json_type")).eq(kind);
        let text = Expr::from(of("json_extract")).cast_as("text");
        CaseStatement::new().case(named("true"), "true").case(named("false"), "false").finally(text).into()
    };
    CaseStatement::new().case(place(backend, column, "\\u0000").eq(0), value).into()
}

/// Builds the position of a text in another, from 1; 0 if it is absent.
fn place(backend: DbBackend, within: Expr, what: &str) -> Expr {
    let name = if backend == DbBackend::Postgres { "strpos" } else { "instr" };
    Func::cust(name).arg(within).arg(Expr::val(what)).into()
}
