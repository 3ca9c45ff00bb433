//! One round over the threads of a store, however many there are: range by range of their ids, some ranges at a time.

use std::{collections::VecDeque, fmt, sync::Arc};

use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect, Value,
};
use tokio::{sync::Mutex, task::JoinSet};

use super::{
    Store, ThreadId,
    database::{Database, statement},
    matching, signed,
    tables::{events, turns},
};
use crate::{Conditions, Error};

/// How many threads a range has at most.
const THREADS: u64 = 64;

/// How much one page of events has at most: so many events, and no further one once there are so many bytes.
const EVENTS: u64 = 500;
const BYTES: u64 = 4 << 20;

/// Which threads to go over, and how.
#[derive(Clone)]
pub struct Round {
    /// This one alone.
    pub thread: Option<ThreadId>,
    /// Those with a turn that fulfils this; where nothing is asked of turns, threads without any as well.
    pub turns: Conditions,
    /// How many ranges of threads at once. More than the store has connections are of no use, and not taken.
    pub jobs: usize,
    /// Who is told how many more threads have been gone over.
    pub told: Arc<dyn Fn(u64) + Send + Sync>,
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round")
            .field("thread", &self.thread)
            .field("turns", &self.turns)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

/// Some threads that follow each other.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// Those that have a row, an event or a turn.
    pub(crate) threads: Vec<ThreadId>,
    /// The event before the first of theirs.
    after: (ThreadId, i64),
    /// The last of them.
    last: ThreadId,
    /// Whether others may stand between them.
    sparse: bool,
}

impl Range {
    /// One thread alone, from event `from` on.
    pub(super) fn of(thread: ThreadId, from: u64) -> Self {
        Self { threads: vec![thread], after: (thread, signed(from) - 1), last: thread, sparse: false }
    }
}

impl Round {
    /// Over all threads with a turn that fulfils these, so many ranges at once; nobody is told how it goes.
    pub fn of(turns: Conditions, jobs: usize) -> Self {
        Self { thread: None, turns, jobs, told: Arc::new(|_| ()) }
    }

    /// Over this thread alone, if one is named.
    #[must_use]
    pub fn only(self, thread: Option<ThreadId>) -> Self {
        Self { thread, ..self }
    }

    /// Does `what` with every range; what it gives back comes in no order.
    pub(crate) async fn go<T, F, W>(&self, store: &Store, what: W) -> Result<Vec<T>, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
        W: Fn(Range) -> F + Clone + Send + 'static,
    {
        let (database, only, turns) = (store.database.clone(), self.thread, self.turns.clone());
        let ranges = Ranges { database, only, turns, after: None, over: false };
        let ranges = Arc::new(Mutex::new(ranges));
        let most = usize::try_from(store.database.connections).unwrap_or(1);
        let mut jobs = JoinSet::new();
        for _ in 0..self.jobs.clamp(1, most.max(1)) {
            let (ranges, what, told) = (Arc::clone(&ranges), what.clone(), Arc::clone(&self.told));
            jobs.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let next = ranges.lock().await.next().await?;
                    let Some(range) = next else { return Ok(done) };
                    let threads = range.threads.len() as u64;
                    done.push(what(range).await?);
                    told(threads);
                }
            });
        }
        let mut all = Vec::new();
        while let Some(done) = jobs.join_next().await {
            // The others end with the set that they are in.
            let done: Result<Vec<T>, Error> =
                done.map_err(|error| Error::Database(format!("a round was broken off: {error}")))?;
            all.extend(done?);
        }
        Ok(all)
    }
}

struct Ranges {
    database: Database,
    only: Option<ThreadId>,
    turns: Conditions,
    after: Option<ThreadId>,
    over: bool,
}

impl Ranges {
    async fn next(&mut self) -> Result<Option<Range>, Error> {
        if self.over {
            return Ok(None);
        }
        if let Some(thread) = self.only {
            self.over = true;
            return Ok(Some(Range::of(thread, 0)));
        }
        let after = self.after.unwrap_or_default();
        let (db, sparse) = (&self.database.pool, self.turns != Conditions::default());
        let threads = if sparse { with(db, &self.turns, after).await? } else { threads(db, after).await? };
        let Some(last) = threads.last().copied() else {
            self.over = true;
            return Ok(None);
        };
        self.after = Some(last);
        Ok(Some(Range { threads, after: (after, i64::MAX), last, sparse }))
    }
}

/// The threads that follow `after` and have such a turn.
async fn with(
    db: &impl ConnectionTrait,
    conditions: &Conditions,
    after: ThreadId,
) -> Result<Vec<ThreadId>, Error> {
    let rows = turns::Entity::find()
        .select_only()
        .column(turns::Column::ThreadId)
        .distinct()
        .filter(turns::Column::ThreadId.gt(after))
        .filter(matching::all_of(db.get_database_backend(), conditions))
        .order_by_asc(turns::Column::ThreadId)
        .limit(THREADS)
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows)
}

/// The threads that follow `after`, whether they have a row, a log, turns or all of that.
async fn threads(db: &impl ConnectionTrait, after: ThreadId) -> Result<Vec<ThreadId>, Error> {
    #[derive(FromQueryResult)]
    struct Row {
        id: ThreadId,
    }
    let sql = "SELECT id FROM (SELECT DISTINCT thread_id AS id FROM events \
               WHERE thread_id > $1 ORDER BY 1 LIMIT $2) AS logs \
               UNION SELECT id FROM (SELECT id FROM threads WHERE id > $1 ORDER BY 1 LIMIT $2) AS known \
               UNION SELECT id FROM (SELECT DISTINCT thread_id AS id FROM turns \
               WHERE thread_id > $1 ORDER BY 1 LIMIT $2) AS said \
               ORDER BY 1 LIMIT $2";
    let statement = statement(db, sql, [after.into(), signed(THREADS).into()]);
    let rows = Row::find_by_statement(statement).all(db).await?;
    Ok(rows.into_iter().map(|it| it.id).collect())
}

/// The events of a range, page by page.
pub(super) struct Pages {
    /// What is left of it, in parts without a thread between that is not meant.
    left: VecDeque<Range>,
}

impl Pages {
    pub(super) fn of(range: Range) -> Self {
        let left = if range.sparse {
            range.threads.into_iter().map(|it| Range::of(it, 0)).collect()
        } else {
            [range].into()
        };
        Self { left }
    }

    /// The next ones; none after the last.
    pub(super) async fn next(&mut self, db: &impl ConnectionTrait) -> Result<Vec<events::Model>, Error> {
        while let Some(range) = self.left.front_mut() {
            let page = range.page(db).await?;
            if !page.is_empty() {
                return Ok(page);
            }
            self.left.pop_front();
        }
        Ok(Vec::new())
    }
}

impl Range {
    /// Its next events.
    ///
    /// ## Why the page is measured in the database
    ///
    /// An event may have megabytes. Whoever asked for five hundred of them would hold them all before knowing.
    async fn page(&mut self, db: &impl ConnectionTrait) -> Result<Vec<events::Model>, Error> {
        let sql = "SELECT thread_id, seq, at, kind, payload, codec, hash FROM \
                   (SELECT page.*, sum(octet_length(payload)) OVER (ORDER BY thread_id, seq) AS so_far FROM \
                   (SELECT * FROM events WHERE (thread_id, seq) > ($1, $2) AND thread_id <= $3 \
                   ORDER BY thread_id, seq LIMIT $4) AS page) AS measured \
                   WHERE so_far - octet_length(payload) < $5 ORDER BY thread_id, seq";
        let (thread, seq) = self.after;
        let values: [Value; 5] =
            [thread.into(), seq.into(), self.last.into(), signed(EVENTS).into(), signed(BYTES).into()];
        let rows = events::Entity::find().from_raw_sql(statement(db, sql, values)).all(db).await?;
        if let Some(last) = rows.last() {
            self.after = (last.thread_id, last.seq);
        }
        Ok(rows)
    }
}
