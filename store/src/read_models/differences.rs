//! Compares the rows of a thread with its log, and repairs them.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use queue::Priority;
use sea_orm::{
    ActiveModelTrait as _,
    ActiveValue::{NotSet, Set, Unchanged},
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, FromQueryResult as _, QueryFilter,
    QueryTrait as _,
};
use shared::{Message, ThreadStatus, TurnStatus};

use crate::{
    Error,
    log::{
        Store, Transaction,
        caller_column::{caller_of, caller_text},
        database::statement,
        ids::{DryRun, ThreadId, TurnId, corrupt, signed},
        read_model_update::cause,
        reply_options_column::{options_of, options_text},
        tables::{threads, turns},
        types::is_of_another_type,
        write_step::lock_thread,
    },
    read_models::{Difference, Differs, ExpectedThread, ExpectedTurn},
};

/// Read model rows of one thread.
#[derive(Default)]
struct Rows {
    thread: Option<threads::Model>,
    turns: BTreeMap<TurnId, turns::Model>,
    /// Turns whose entry in `open_turns` contradicts their row, with the status from the row.
    untold: Vec<(TurnId, String)>,
    /// Rows that cannot be read, because a value has another type than its column. `None` stands for the thread's row, and for
    /// that of a turn whose id cannot be read either.
    mistyped: Vec<(Option<TurnId>, String)>,
    /// True if the thread has a row that cannot be read.
    has_mistyped_thread: bool,
}

impl Store {
    /// Returns the threads whose rows are as expected. Reads the rows of all together.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn agreeing<'a>(
        &self,
        expected: impl IntoIterator<Item = &'a ExpectedThread>,
    ) -> Result<BTreeSet<ThreadId>, Error> {
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|thread| (thread.head.thread, thread)).collect();
        let ids: Vec<ThreadId> = expected.keys().copied().collect();
        let rows = rows(&self.database.pool, &ids).await?;
        let agrees = |(id, rows): (ThreadId, Rows)| {
            expected.get(&id).is_some_and(|expected| compare(expected, &rows).is_empty()).then_some(id)
        };
        Ok(rows.into_iter().filter_map(agrees).collect())
    }

    /// Compares the rows with the log while the thread is locked at the expected head, and repairs them unless this is a
    /// dry run.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if the thread changed meanwhile; [`Error::Unavailable`].
    pub async fn put_right(
        &self,
        expected: ExpectedThread,
        dry_run: DryRun,
    ) -> Result<Vec<Difference>, Error> {
        self.database.transact(move |tx| put_right(tx, expected, dry_run).boxed()).await
    }
}

async fn put_right(
    tx: &Transaction,
    expected: ExpectedThread,
    dry_run: DryRun,
) -> Result<Vec<Difference>, Error> {
    lock_thread(tx, &expected.head).await?;
    let rows = rows(tx, &[expected.head.thread]).await?;
    let rows = rows.into_values().next().unwrap_or_default();
    let differences = compare(&expected, &rows);
    if dry_run == DryRun::Yes {
        return Ok(differences);
    }
    let mendable = || differences.iter().filter(|difference| difference.differs.is_mendable());
    if mendable().any(|difference| difference.turn.is_none()) {
        write_thread(tx, &expected, rows.thread.is_none()).await?;
    }
    let wrong: BTreeSet<TurnId> = mendable().filter_map(|difference| difference.turn).collect();
    for id in wrong {
        match expected.turns.get(&id) {
            Some(turn) => write_turn(tx, &expected, id, turn, rows.turns.get(&id)).await?,
            // Of a turn that never started, the log has only the tenant.
            None => {
                let sql = "UPDATE turns SET tenant = $1 WHERE id = $2 AND thread_id = $3 AND tenant <> $1";
                let values = [expected.tenant.clone().into(), id.into(), expected.head.thread.into()];
                tx.execute_raw(statement(tx, sql, values)).await?;
            }
        }
    }
    // An entry of `open_turns` may agree with a tenant that was wrong.
    let concerns_entries = |differs: Differs| matches!(differs, Differs::TurnOpen | Differs::TurnTenant);
    if differences.iter().any(|difference| concerns_entries(difference.differs)) {
        tell_open_turns(tx, expected.head.thread).await?;
    }
    Ok(differences)
}

/// Updates `open_turns` from the rows of a thread's turns while other turns may be submitted. In SQLite it is a view.
async fn tell_open_turns(tx: &Transaction, thread: ThreadId) -> Result<(), Error> {
    if tx.get_database_backend() != DbBackend::Postgres {
        return Ok(());
    }
    let statements = [
        "DELETE FROM open_turns WHERE thread_id = $1 AND NOT EXISTS (SELECT 1 FROM turns \
         WHERE turns.thread_id = open_turns.thread_id AND turns.priority = open_turns.priority \
         AND turns.position = open_turns.position AND turns.tenant = open_turns.tenant \
         AND turns.status IN ('queued', 'running'))",
        "INSERT INTO open_turns (thread_id, priority, position, tenant) SELECT thread_id, priority, position, tenant \
         FROM turns WHERE thread_id = $1 AND status IN ('queued', 'running') ON CONFLICT DO NOTHING",
    ];
    for sql in statements {
        tx.execute_raw(statement(tx, sql, [thread.into()])).await?;
    }
    Ok(())
}

/// Returns the turns of these threads whose entry in `open_turns` contradicts their row, with their thread and status. A waiting
/// turn without an entry would never start. This is a single statement, because turns are submitted concurrently. In SQLite
/// `open_turns` is a view, and therefore always correct.
async fn untold(
    db: &impl ConnectionTrait,
    threads: &[ThreadId],
) -> Result<Vec<(ThreadId, TurnId, String)>, Error> {
    if db.get_database_backend() != DbBackend::Postgres {
        return Ok(Vec::new());
    }
    let sql = "SELECT thread_id, id, status FROM turns WHERE thread_id = ANY ($1::uuid[]) \
               AND (status IN ('queued', 'running')) <> EXISTS \
               (SELECT 1 FROM open_turns AS open WHERE open.thread_id = turns.thread_id \
               AND open.priority = turns.priority AND open.position = turns.position AND open.tenant = turns.tenant)";
    let found = db.query_all_raw(statement(db, sql, [threads.to_vec().into()])).await?;
    let columns = ["thread_id", "id", "status"].map(str::to_owned);
    Ok(found.iter().map(|row| row.try_get_many("", &columns)).collect::<Result<_, _>>()?)
}

async fn rows(db: &impl ConnectionTrait, ids: &[ThreadId]) -> Result<BTreeMap<ThreadId, Rows>, Error> {
    let mut all: BTreeMap<ThreadId, Rows> = ids.iter().map(|id| (*id, Rows::default())).collect();
    let backend = db.get_database_backend();
    let found = threads::Entity::find().filter(threads::Column::Id.is_in(ids.to_vec())).build(backend);
    for row in db.query_all_raw(found).await? {
        let rows = all.entry(row.try_get("", "id")?).or_default();
        match threads::Model::from_query_result(&row, "") {
            Ok(row) => rows.thread = Some(row),
            Err(error) => {
                rows.has_mistyped_thread = true;
                rows.mistyped.push((None, unless_unavailable(error)?));
            }
        }
    }
    let found = turns::Entity::find().filter(turns::Column::ThreadId.is_in(ids.to_vec())).build(backend);
    for row in db.query_all_raw(found).await? {
        let rows = all.entry(row.try_get("", "thread_id")?).or_default();
        match turns::Model::from_query_result(&row, "") {
            Ok(row) => drop(rows.turns.insert(row.id, row)),
            Err(error) => rows.mistyped.push((row.try_get("", "id").ok(), unless_unavailable(error)?)),
        }
    }
    for (thread, turn, status) in untold(db, ids).await? {
        all.entry(thread).or_default().untold.push((turn, status));
    }
    Ok(all)
}

/// Returns the description of a row that cannot be read, or the error if the database did not answer.
fn unless_unavailable(error: DbErr) -> Result<String, Error> {
    match is_of_another_type(&error) {
        true => Ok(format!("its row cannot be read: {error}")),
        false => Err(error.into()),
    }
}

fn compare(expected: &ExpectedThread, rows: &Rows) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut find = |turn, differs, what: String| {
        found.push(Difference { thread: expected.head.thread, turn, differs, what });
    };
    for (turn, what) in &rows.mistyped {
        find(*turn, Differs::Mistyped, what.clone());
    }
    match &rows.thread {
        None if rows.has_mistyped_thread => {}
        None => find(
            None,
            Differs::ThreadMissing,
            format!("there is no row; by its log, the thread is {}", expected.status),
        ),
        Some(row) => {
            if row.strategy != expected.strategy {
                let what = format!("its row says {:?}, its log {:?}", row.strategy, expected.strategy);
                find(None, Differs::ThreadStrategy, what);
            }
            if row.tenant != expected.tenant {
                let what = format!("its row says {:?}, its log {:?}", row.tenant, expected.tenant);
                find(None, Differs::ThreadTenant, what);
            }
            if row.status != expected.status.as_str() {
                let what = format!("its row says {}, its log {}", row.status, expected.status);
                // A worker that cannot continue a thread records that only in the thread's row.
                let parked = row.status == ThreadStatus::Error.as_str();
                find(None, if parked { Differs::Parked } else { Differs::ThreadStatus }, what);
            }
            if row.created_at != expected.created_at {
                let what = format!("its row says {}, its log {}", row.created_at, expected.created_at);
                find(None, Differs::ThreadCreated, what);
            }
        }
    }
    for (id, turn) in &expected.turns {
        match rows.turns.get(id) {
            None if rows.mistyped.iter().any(|(turn, _)| *turn == Some(*id)) => {}
            None => {
                let what = "there is no row; its idempotency key is lost".to_owned();
                find(Some(*id), Differs::TurnMissing, what);
            }
            Some(row) => compare_turn(turn, row, &mut |differs, what| find(Some(*id), differs, what)),
        }
    }
    for (id, row) in rows.turns.iter().filter(|(_, row)| row.tenant != expected.tenant) {
        let what = format!("its row says {:?}, its log {:?}", row.tenant, expected.tenant);
        find(Some(*id), Differs::TurnTenant, what);
    }
    for (id, row) in rows.turns.iter().filter(|(id, _)| !expected.turns.contains_key(id)) {
        // A turn that never started can only be queued, failed or cancelled.
        let never_started = [TurnStatus::Queued, TurnStatus::Failed, TurnStatus::Cancelled];
        if row.started_seq.is_some() || !never_started.iter().any(|status| status.as_str() == row.status) {
            let what = format!("its row says {}, but the log does not contain its start", row.status);
            find(Some(*id), Differs::NeverStarted, what);
        }
    }
    for (id, status) in &rows.untold {
        let is_over = status.parse().is_ok_and(TurnStatus::is_over);
        let stands = if is_over { "stands" } else { "does not stand" };
        find(Some(*id), Differs::TurnOpen, format!("its row says {status}, and it {stands} in open_turns"));
    }
    found
}

fn compare_turn(turn: &ExpectedTurn, row: &turns::Model, find: &mut impl FnMut(Differs, String)) {
    let parked = row.status == TurnStatus::Failed.as_str() && turn.status == TurnStatus::Running;
    if parked {
        let why = row.error.as_deref().unwrap_or_default();
        find(Differs::Parked, format!("its row says failed ({why}), its log {}", turn.status));
    } else if row.status != turn.status.as_str() {
        find(Differs::TurnStatus, format!("its row says {}, its log {}", row.status, turn.status));
    }
    compare_submission(turn, row, find);
    compare_choices(turn, row, find);
    if row.updated_at != turn.updated_at && !parked {
        let what = format!("its row was changed at {}, by its log at {}", row.updated_at, turn.updated_at);
        find(Differs::TurnUpdated, what);
    }
    let number = |seq: Option<i64>| seq.map_or_else(|| "none".to_owned(), |seq| format!("event {seq}"));
    let (heard, ended) = (Some(signed(turn.started_seq)), turn.ended_seq.map(signed));
    if row.started_seq != heard {
        let what = format!("its row says {}, its log {}", number(row.started_seq), number(heard));
        find(Differs::TurnStarted, what);
    }
    if row.ended_seq != ended && !parked {
        let what = format!("its row says {}, its log {}", number(row.ended_seq), number(ended));
        find(Differs::TurnEnded, what);
    }
    if row.error != turn.error && !parked {
        find(Differs::TurnError, format!("its row says {:?}, its log {:?}", row.error, turn.error));
    }
    let (outcome, cause) = outcome(turn);
    if (row.outcome.as_deref(), &row.cause) != (outcome, &cause) && !parked {
        let told = |outcome: Option<&str>, cause: &Option<String>| {
            format!("{} ({})", outcome.unwrap_or("no outcome"), cause.as_deref().unwrap_or("no cause"))
        };
        let (row, log) = (told(row.outcome.as_deref(), &row.cause), told(outcome, &cause));
        find(Differs::TurnOutcome, format!("its row says {row}, its log {log}"));
    }
    // Older versions kept the hash in the row alone.
    if turn.history_hash.is_some() && row.history_hash != turn.history_hash {
        let hash = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".to_owned());
        let (row, log) = (hash(&row.history_hash), hash(&turn.history_hash));
        find(Differs::TurnHistory, format!("its row says {row}, its log {log}"));
    }
}

/// Compares the priority and the metadata, which older versions kept in the row alone.
fn compare_choices(turn: &ExpectedTurn, row: &turns::Model, find: &mut impl FnMut(Differs, String)) {
    if let Some(priority) = turn.priority.filter(|it| i32::from(it.rank()) != row.priority) {
        find(
            Differs::TurnPriority,
            format!("its row has the rank {}, its log says {priority}", row.priority),
        );
    }
    let in_row = serde_json::from_str(&row.metadata).ok();
    if turn.metadata.is_some() && turn.metadata != in_row {
        find(Differs::TurnMetadata, "its row has other metadata than its log".to_owned());
    }
}

/// Compares the columns that were written when the turn was submitted.
fn compare_submission(turn: &ExpectedTurn, row: &turns::Model, find: &mut impl FnMut(Differs, String)) {
    if row.author != turn.author {
        find(Differs::TurnAuthor, format!("its row says {:?}, its log {:?}", row.author, turn.author));
    }
    if caller_of(row.caller.as_deref()).ok().as_ref() != Some(&turn.caller) {
        let of_log = turn.caller.as_ref().map(caller_text);
        find(Differs::TurnCaller, format!("its row says {:?}, its log {of_log:?}", row.caller));
    }
    if !turn.is_as_submitted {
        return;
    }
    if serde_json::from_str::<Vec<Message>>(&row.input).ok().as_ref() != Some(&turn.messages) {
        find(Differs::TurnInput, "its row has other messages than its log".to_owned());
    }
    let options = options_of(row.reply_options.as_deref()).ok();
    if options.as_ref().map(Option::as_deref) != Some(turn.reply_options.as_ref()) {
        let what = "its row has other demands on the reply than its log".to_owned();
        find(Differs::TurnReplyOptions, what);
    }
    if row.created_at != turn.created_at {
        let what = format!("its row was submitted at {}, by its log at {}", row.created_at, turn.created_at);
        find(Differs::TurnCreated, what);
    }
}

/// Returns the outcome of a turn and its cause, as in its row.
fn outcome(turn: &ExpectedTurn) -> (Option<&'static str>, Option<String>) {
    let kind = turn.outcome.as_ref().map(|outcome| outcome.kind.name());
    (kind, cause(turn.error.as_deref(), turn.outcome.as_ref()))
}

/// **Invariant:** every new column that is derived from the log must also be written here.
pub(crate) async fn write_thread(
    tx: &Transaction,
    expected: &ExpectedThread,
    anew: bool,
) -> Result<(), Error> {
    let id = expected.head.thread;
    let row = threads::ActiveModel {
        id: if anew { Set(id) } else { Unchanged(id) },
        strategy: Set(expected.strategy.clone()),
        tenant: Set(expected.tenant.clone()),
        status: Set(expected.status.to_string()),
        created_at: Set(expected.created_at),
        updated_at: Set(expected.updated_at),
    };
    if anew {
        threads::Entity::insert(row).exec_without_returning(tx).await?;
    } else {
        row.update(tx).await?;
    }
    Ok(())
}

pub(crate) async fn write_turn(
    tx: &Transaction,
    expected: &ExpectedThread,
    id: TurnId,
    turn: &ExpectedTurn,
    known: Option<&turns::Model>,
) -> Result<(), Error> {
    let (thread, tenant) = (expected.head.thread, &expected.tenant);
    let (outcome, cause) = outcome(turn);
    let told = turns::ActiveModel {
        position: known.map_or(NotSet, |row| Unchanged(row.position)),
        status: Set(turn.status.to_string()),
        started_seq: Set(Some(signed(turn.started_seq))),
        ended_seq: Set(turn.ended_seq.map(signed)),
        error: Set(turn.error.clone()),
        outcome: Set(outcome.map(str::to_owned)),
        cause: Set(cause),
        updated_at: Set(turn.updated_at),
        tenant: Set(tenant.clone()),
        author: Set(turn.author.clone()),
        caller: Set(turn.caller.as_ref().map(caller_text)),
        history_hash: turn.history_hash.clone().map_or(NotSet, |hash| Set(Some(hash))),
        priority: turn.priority.map_or(NotSet, |priority| Set(priority.rank().into())),
        metadata: turn.metadata.as_ref().map_or(NotSet, |metadata| Set(metadata.to_string())),
        ..Default::default()
    };
    let input = serde_json::to_string(&turn.messages).map_err(|error| {
        corrupt(thread, format_args!("the messages of turn {id} cannot be encoded as JSON: {error}"))
    })?;
    let submitted = turns::ActiveModel {
        input: Set(input),
        reply_options: Set(turn.reply_options.as_ref().map(options_text)),
        created_at: Set(turn.created_at),
        ..told.clone()
    };
    if known.is_some() {
        // What a person answered to a tool is in the row alone.
        let row = if turn.is_as_submitted { submitted } else { told };
        row.update(tx).await?;
        return Ok(());
    }
    let row = turns::ActiveModel {
        id: Set(id),
        thread_id: Set(thread),
        policy: Set(turn.policy.as_str().to_owned()),
        metadata: Set(turn.metadata.as_ref().map_or_else(|| "{}".to_owned(), ToString::to_string)),
        idempotency_key: Set(None),
        request_hash: Set(None),
        due_at: Set(None),
        priority: Set(turn.priority.unwrap_or(Priority::Normal).rank().into()),
        ..submitted
    };
    turns::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}
