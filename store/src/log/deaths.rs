//! Deaths of workers whose queue is in memory. A queue of many processes counts them itself.
//!
//! ## Why only the jobs of a worker that starts after a death are recorded
//!
//! A write before every job would be dear. So the first death is known only from the row of the worker that did not stop in an
//! orderly way. From then on the jobs that may have caused it are recorded, each before its first step and until after it.

use std::collections::BTreeMap;

use queue::Deaths;
use sea_orm::{ActiveValue::Set, EntityTrait, sea_query::OnConflict};

use crate::{
    Error,
    log::{
        Store,
        ids::{ThreadId, plain, signed, unsigned},
        tables::deaths,
    },
};

/// Thread id of the row of the worker itself.
const WORKER: ThreadId = ThreadId::nil();

/// A worker that did not stop in an orderly way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadWorker {
    /// Name of the worker.
    pub name: String,
    /// Number of workers that died while they ran the first step of these threads.
    pub deaths: BTreeMap<ThreadId, u64>,
}

impl Store {
    /// Records that a worker with a queue in memory starts. Returns the one before it if that one died.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn worker_starts(&self, name: &str) -> Result<Option<DeadWorker>, Error> {
        let mut before = None;
        let mut deaths = BTreeMap::new();
        for row in deaths::Entity::find().all(&self.database.pool).await? {
            if row.thread_id == WORKER {
                before = Some(row.worker);
            } else {
                deaths.insert(row.thread_id, unsigned(row.count)?);
            }
        }
        self.set_deaths(WORKER, &Deaths { count: 0, last: name.to_owned() }).await?;
        Ok(before.map(|name| DeadWorker { name, deaths }))
    }

    /// Records that the worker stops in an orderly way, so that none of its jobs has killed it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn worker_stops(&self) -> Result<(), Error> {
        deaths::Entity::delete_many().exec(&self.database.writer).await?;
        Ok(())
    }

    /// Records the deaths of a thread, including the one that its next step may cause.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn set_deaths(&self, thread: ThreadId, deaths: &Deaths) -> Result<(), Error> {
        use deaths::Column;
        let row = deaths::ActiveModel {
            thread_id: Set(thread),
            count: Set(signed(deaths.count)),
            worker: Set(plain(&deaths.last)),
        };
        let replace =
            OnConflict::column(Column::ThreadId).update_columns([Column::Count, Column::Worker]).to_owned();
        let insert = deaths::Entity::insert_many([row]).on_conflict(replace);
        insert.exec_without_returning(&self.database.writer).await?;
        Ok(())
    }

    /// Forgets the deaths of a thread that has survived a step.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn forget_deaths(&self, thread: ThreadId) -> Result<(), Error> {
        deaths::Entity::delete_by_id(thread).exec(&self.database.writer).await?;
        Ok(())
    }
}
