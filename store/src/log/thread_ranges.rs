//! A scan over the threads of a store, range by range of their ids, several ranges concurrently.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Bound,
    sync::Arc,
};

use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect, Value,
    sea_query::Expr,
};
use tokio::{sync::Mutex, task::JoinSet};

use crate::{
    Conditions, Error,
    filter::sql,
    log::{
        Store,
        database::{Database, statement},
        event_row::EventRow,
        ids::{ThreadId, signed},
        tables::turns,
        types,
    },
};

/// Maximum threads per range.
const THREADS_PER_RANGE: u64 = 64;

/// Limits of a page: at most this many events, and no further event once the size limit in bytes is reached.
const PAGE_EVENTS: u64 = 500;
const PAGE_BYTES: u64 = 4 << 20;

/// Number before every number of an event.
const BEFORE_FIRST: i64 = i64::MIN;

/// Threads of which only the beginnings are scanned, each with the number of its events.
pub type Heads = Arc<BTreeMap<ThreadId, u64>>;

/// Threads to scan.
#[derive(Clone)]
pub enum Selected {
    /// All threads, also those without turns.
    All,
    /// Only this thread.
    One(ThreadId),
    /// Threads with a turn that matches.
    With(Conditions),
    /// Exactly these threads, each up to its head.
    UpTo(Heads),
}

impl fmt::Debug for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::One(thread) => write!(f, "One({thread})"),
            Self::With(turns) => write!(f, "With({turns:?})"),
            Self::UpTo(heads) => write!(f, "UpTo({} heads)", heads.len()),
        }
    }
}

impl From<Conditions> for Selected {
    fn from(turns: Conditions) -> Self {
        if turns == Conditions::default() { Self::All } else { Self::With(turns) }
    }
}

impl From<ThreadId> for Selected {
    fn from(thread: ThreadId) -> Self {
        Self::One(thread)
    }
}

/// Selection of threads to scan, and the concurrency.
#[derive(Clone)]
pub struct ThreadScan {
    /// Threads to scan.
    pub threads: Selected,
    /// Ranges in progress; capped at the number of connections.
    pub jobs: usize,
    /// Called with the number of threads scanned since the last call.
    pub progress: Arc<dyn Fn(u64) + Send + Sync>,
}

impl fmt::Debug for ThreadScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadScan")
            .field("threads", &self.threads)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

/// A range of consecutive threads.
#[derive(Clone, Debug)]
pub struct Range {
    /// Threads that have a row, an event or a turn.
    pub threads: Vec<ThreadId>,
    /// Last event before the range; [`BEFORE_FIRST`] as its number if the range begins with the thread itself.
    after: (ThreadId, i64),
    /// Last thread of the range.
    last: ThreadId,
    /// True if each thread is read by itself: the range may contain unselected threads, or its threads are on several servers.
    sparse: bool,
}

impl Range {
    /// Creates a range of one thread, from event `from`; from 0, also events whose numbers turnfold never writes.
    pub(crate) fn of(thread: ThreadId, from: u64) -> Self {
        let before = if from == 0 { BEFORE_FIRST } else { signed(from) - 1 };
        Self { threads: vec![thread], after: (thread, before), last: thread, sparse: false }
    }
}

impl ThreadScan {
    /// Creates a scan, `jobs` ranges at a time, without progress reports.
    pub fn of(threads: impl Into<Selected>, jobs: usize) -> Self {
        Self { threads: threads.into(), jobs, progress: Arc::new(|_| ()) }
    }

    /// Creates a scan of all threads.
    pub fn of_all(jobs: usize) -> Self {
        Self::of(Selected::All, jobs)
    }

    /// Returns true if the scan covers all threads.
    pub fn is_of_all(&self) -> bool {
        matches!(self.threads, Selected::All)
    }

    /// Returns the thread of a scan of one thread.
    pub fn only(&self) -> Option<ThreadId> {
        match self.threads {
            Selected::One(thread) => Some(thread),
            Selected::All | Selected::With(_) | Selected::UpTo(_) => None,
        }
    }

    /// Returns the heads up to which threads are scanned, if not whole.
    pub fn heads(&self) -> Option<&Heads> {
        match &self.threads {
            Selected::UpTo(heads) => Some(heads),
            Selected::All | Selected::One(_) | Selected::With(_) => None,
        }
    }

    /// Runs `work` on every range, and returns the results in no particular order.
    ///
    /// # Errors
    ///
    /// The first error of `work`; [`Error::Unavailable`] if the database does not answer.
    pub async fn for_each<T, F, W>(&self, store: &Store, work: W) -> Result<Vec<T>, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
        W: Fn(Range) -> F + Clone + Send + 'static,
    {
        let (database, threads) = (store.database.clone(), self.threads.clone());
        let ranges = Arc::new(Mutex::new(Ranges { database, threads, after: None, over: false }));
        let connections = usize::try_from(store.database.connections).unwrap_or(1);
        let mut jobs = JoinSet::new();
        for _ in 0..self.jobs.clamp(1, connections.max(1)) {
            let (ranges, work, progress) = (Arc::clone(&ranges), work.clone(), Arc::clone(&self.progress));
            jobs.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let next = ranges.lock().await.next().await?;
                    let Some(range) = next else { return Ok(done) };
                    let threads = range.threads.len() as u64;
                    done.push(work(range).await?);
                    progress(threads);
                }
            });
        }
        let mut all = Vec::new();
        while let Some(done) = jobs.join_next().await {
            // Dropping the set aborts the other tasks.
            let done: Result<Vec<T>, Error> =
                done.map_err(|error| Error::Database(format!("the scan was interrupted: {error}")))?;
            all.extend(done?);
        }
        Ok(all)
    }
}

struct Ranges {
    database: Database,
    threads: Selected,
    after: Option<ThreadId>,
    over: bool,
}

impl Ranges {
    async fn next(&mut self) -> Result<Option<Range>, Error> {
        if self.over {
            return Ok(None);
        }
        let (after, db) = (self.after, &self.database.pool);
        let threads = match &self.threads {
            Selected::One(thread) => {
                self.over = true;
                return Ok(Some(Range::of(*thread, 0)));
            }
            Selected::All => threads(db, after).await?,
            Selected::With(turns) => threads_with(db, turns, after).await?,
            Selected::UpTo(heads) => next_of(heads, after),
        };
        // The first range contains a thread of the nil id.
        let after = after.map_or((ThreadId::nil(), BEFORE_FIRST), |thread| (thread, i64::MAX));
        let sparse = !matches!(self.threads, Selected::All) || self.database.is_distributed;
        let Some(last) = threads.last().copied() else {
            self.over = true;
            return Ok(None);
        };
        self.after = Some(last);
        Ok(Some(Range { threads, after, last, sparse }))
    }
}

/// Returns the next of these threads after `after`, or the first ones.
fn next_of(heads: &Heads, after: Option<ThreadId>) -> Vec<ThreadId> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let most = usize::try_from(THREADS_PER_RANGE).unwrap_or(usize::MAX);
    heads.range((from, Bound::Unbounded)).map(|(thread, _)| *thread).take(most).collect()
}

/// Returns the next threads after `after` with a matching turn, or the first ones.
async fn threads_with(
    db: &impl ConnectionTrait,
    conditions: &Conditions,
    after: Option<ThreadId>,
) -> Result<Vec<ThreadId>, Error> {
    let id = turns::Column::ThreadId;
    let of_type = Expr::cust(types::is_uuid(db.get_database_backend(), "turns.thread_id"));
    let rows = turns::Entity::find()
        .select_only()
        .column(id)
        .distinct()
        .filter(after.map_or_else(|| id.gte(ThreadId::nil()), |thread| id.gt(thread)))
        .filter(of_type)
        .filter(sql::all_of(db.get_database_backend(), conditions, None))
        .order_by_asc(id)
        .limit(THREADS_PER_RANGE)
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows)
}

/// Returns the next threads after `after` that have a row, a log or turns, or the first ones.
async fn threads(db: &impl ConnectionTrait, after: Option<ThreadId>) -> Result<Vec<ThreadId>, Error> {
    #[derive(FromQueryResult)]
    struct Row {
        id: ThreadId,
    }
    let is_after = if after.is_some() { ">" } else { ">=" };
    let part = |table: &str, id: &str| {
        let of_type = types::is_uuid(db.get_database_backend(), id);
        format!(
            "SELECT id FROM (SELECT DISTINCT {id} AS id FROM {table} \
             WHERE {id} {is_after} $1 AND {of_type} ORDER BY 1 LIMIT $2) AS of_{table}"
        )
    };
    let sql = format!(
        "{} UNION {} UNION {} ORDER BY 1 LIMIT $2",
        part("events", "thread_id"),
        part("threads", "id"),
        part("turns", "thread_id")
    );
    let values = [after.unwrap_or_default().into(), signed(THREADS_PER_RANGE).into()];
    let rows = Row::find_by_statement(statement(db, &sql, values)).all(db).await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// The events of a range, in pages.
pub(crate) struct Pages {
    /// Remaining parts, none of which contains an unselected thread.
    left: VecDeque<Range>,
}

impl Pages {
    pub(crate) fn of(range: Range) -> Self {
        let left = if range.sparse {
            range.threads.into_iter().map(|thread| Range::of(thread, 0)).collect()
        } else {
            [range].into()
        };
        Self { left }
    }

    /// Returns the next page; empty after the last.
    pub(crate) async fn next(&mut self, db: &impl ConnectionTrait) -> Result<Vec<EventRow>, Error> {
        while let Some(range) = self.left.front_mut() {
            let page = range.page(db).await?;
            if is_last(&page) {
                self.left.pop_front();
            }
            if !page.is_empty() {
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }
}

/// Returns true if neither limit ended the page.
fn is_last(page: &[EventRow]) -> bool {
    let bytes: u64 = page.iter().map(|row| row.columns.payload.len() as u64).sum();
    (page.len() as u64) < PAGE_EVENTS && bytes < PAGE_BYTES
}

impl Range {
    /// Reads the next page.
    ///
    /// ## Why the database measures the page
    ///
    /// An event may have megabytes. Without the limit in the query, five hundred events would be in memory before
    /// their size is known.
    async fn page(&mut self, db: &impl ConnectionTrait) -> Result<Vec<EventRow>, Error> {
        let (thread, seq) = self.after;
        let is_one = thread == self.last;
        // With one thread as an equality, the statement reaches one partition, or one server.
        let selected = if is_one {
            "thread_id = $3 AND seq > $4"
        } else {
            "(thread_id, seq) > ($5, $4) AND thread_id <= $3"
        };
        let backend = db.get_database_backend();
        let sql = format!(
            "SELECT {} FROM \
             (SELECT page.*, sum(octet_length(payload)) OVER (ORDER BY thread_id, seq) AS so_far FROM \
             (SELECT * FROM events WHERE {selected} AND {} ORDER BY thread_id, seq LIMIT $1) AS page) AS measured \
             WHERE so_far - octet_length(payload) < $2 ORDER BY thread_id, seq",
            EventRow::columns(backend),
            EventRow::has_key(backend),
        );
        let mut values: Vec<Value> =
            vec![signed(PAGE_EVENTS).into(), signed(PAGE_BYTES).into(), self.last.into(), seq.into()];
        values.extend((!is_one).then(|| Value::from(thread)));
        let rows = db.query_all_raw(statement(db, &sql, values)).await?;
        let rows = rows.iter().map(EventRow::read).collect::<Result<Vec<_>, _>>()?;
        if let Some(last) = rows.last() {
            self.after = (last.columns.thread_id, last.columns.seq);
        }
        Ok(rows)
    }
}
