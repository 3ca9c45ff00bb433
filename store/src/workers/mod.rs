//! Workers that run, as they last reported.
//!
//! Nothing depends on these rows: leases alone decide which worker has a job.

mod learned_model;
pub(crate) mod table;

use std::{collections::BTreeMap, time::Duration};

use queue::clock;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, sea_query::OnConflict,
};
use uuid::Uuid;

pub use self::learned_model::LearnedModel;
use self::table::Column;
use crate::{
    Error, Store,
    log::{database::statement, plain, signed, unsigned},
};

/// Time after which a worker that no longer reports is forgotten.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Time since its last report after which a worker is missing.
const MISSING_AFTER: Duration = Duration::from_secs(30);

/// Maximum workers that are listed.
const LISTED_MAX: u64 = 1_000;

/// Maximum bytes of what a worker has learned about models.
const LEARNED_BYTES_MAX: usize = 1 << 20;

/// A worker, as it last reported.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRecord {
    /// Id of the worker; new at each start.
    pub id: Uuid,
    /// Name of the worker in log messages and in the queue.
    pub name: String,
    /// Name of its machine.
    pub host: String,
    /// Id of its process.
    pub pid: u32,
    /// Version of turnfold.
    pub version: String,
    /// Versions of the strategies that it runs, by name.
    pub strategies: BTreeMap<String, u32>,
    /// Maximum concurrent jobs.
    pub slots: u64,
    /// Jobs that were running.
    pub in_flight: u64,
    /// Steps a second between its last two reports; `None` before the second report.
    pub steps_per_second: Option<f64>,
    /// Knowledge of the worker about models.
    pub learned_models: Vec<LearnedModel>,
    /// Start of the worker, in microseconds since the Unix epoch.
    pub started_at: i64,
    /// Time of the report, in microseconds since the Unix epoch.
    pub seen_at: i64,
}

impl WorkerRecord {
    /// Returns true if the worker has missed three reports at this time.
    pub fn is_missing(&self, now: i64) -> bool {
        clock::duration_micros(MISSING_AFTER) < now.saturating_sub(self.seen_at)
    }
}

impl Store {
    /// Records that a worker runs, and forgets workers that have not reported for a day.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn record_worker(&self, worker: &WorkerRecord) -> Result<(), Error> {
        let changed = [Column::InFlight, Column::StepsPerSecond, Column::LearnedModels, Column::SeenAt];
        let reported = OnConflict::column(Column::Id).update_columns(changed).to_owned();
        table::Entity::insert_many([row(worker).into_active_model()])
            .on_conflict(reported)
            .exec_without_returning(&self.database.writer)
            .await?;
        let too_old = clock::now().saturating_sub(clock::duration_micros(KEPT));
        table::Entity::delete_many().filter(Column::SeenAt.lt(too_old)).exec(&self.database.writer).await?;
        Ok(())
    }

    /// Records a sign of life of a worker, at this time in microseconds since the Unix epoch.
    ///
    /// PostgreSQL does not wait for the disk: after a crash of its server, the last signs may be missing.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn show_life(&self, id: Uuid, at: i64) -> Result<(), Error> {
        let writer = &self.database.writer;
        let mut sql = "UPDATE workers SET alive_at = $1 WHERE id = $2".to_owned();
        if self.database.postgres().is_some() {
            sql += " AND set_config('synchronous_commit', 'off', true) = 'off'";
        }
        writer.execute_raw(statement(writer, &sql, [at.into(), id.into()])).await?;
        Ok(())
    }

    /// Returns the last sign of life of the worker with this name, in microseconds since the Unix epoch. The worker `except` has
    /// perhaps the same name, and is not meant. Of several, one that started by the time `running_at` is meant.
    ///
    /// # Errors
    ///
    /// [`Error`] if the rows cannot be read.
    pub async fn last_sign_of_life(
        &self,
        name: &str,
        except: Uuid,
        running_at: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let named = table::Entity::find().filter(Column::Name.eq(plain(name))).filter(Column::Id.ne(except));
        let columns = [Column::StartedAt, Column::SeenAt, Column::AliveAt];
        let signs = named.select_only().columns(columns).into_tuple();
        let signs: Vec<(i64, i64, Option<i64>)> = signs.all(&self.database.pool).await?;
        let last = |is_meant: &dyn Fn(i64) -> bool| {
            let meant = signs.iter().filter(|(started_at, ..)| is_meant(*started_at));
            meant.map(|(_, seen_at, alive_at)| alive_at.unwrap_or_default().max(*seen_at)).max()
        };
        let ran = running_at.and_then(|at| last(&|started_at| started_at <= at));
        Ok(ran.or_else(|| last(&|_| true)))
    }

    /// Forgets a worker that stopped.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn remove_worker(&self, id: Uuid) -> Result<(), Error> {
        table::Entity::delete_by_id(id).exec(&self.database.writer).await?;
        Ok(())
    }

    /// Returns the workers that reported last, at most 1,000, ordered by name and start.
    ///
    /// # Errors
    ///
    /// [`Error::Database`] if a row cannot be read.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, Error> {
        let rows = table::Entity::find()
            .order_by_desc(Column::SeenAt)
            .limit(LISTED_MAX)
            .all(&self.database.pool)
            .await?;
        let mut workers = rows.into_iter().map(worker).collect::<Result<Vec<_>, _>>()?;
        // Sorted here, because the engines' collations differ.
        workers.sort_by(|a, b| (&a.name, a.started_at, a.id).cmp(&(&b.name, b.started_at, b.id)));
        Ok(workers)
    }
}

fn row(worker: &WorkerRecord) -> table::Model {
    table::Model {
        id: worker.id,
        name: plain(&worker.name),
        host: plain(&worker.host),
        pid: i64::from(worker.pid),
        version: worker.version.clone(),
        strategies: serde_json::json!(worker.strategies).to_string(),
        slots: signed(worker.slots),
        in_flight: signed(worker.in_flight),
        steps_per_second: worker.steps_per_second,
        learned_models: learned_models(&worker.learned_models),
        started_at: worker.started_at,
        seen_at: worker.seen_at,
        alive_at: None,
    }
}

/// Returns the models as JSON; `None` if there are none, or they are too many for a row.
fn learned_models(models: &[LearnedModel]) -> Option<String> {
    let text = serde_json::json!(models).to_string();
    (!models.is_empty() && text.len() <= LEARNED_BYTES_MAX).then(|| plain(&text))
}

fn worker(row: table::Model) -> Result<WorkerRecord, Error> {
    let unreadable =
        |what: &str| Error::Database(format!("the row of worker {} has an invalid {what}", row.id));
    Ok(WorkerRecord {
        pid: u32::try_from(row.pid).map_err(|_| unreadable("pid"))?,
        strategies: serde_json::from_str(&row.strategies).map_err(|_| unreadable("list of strategies"))?,
        id: row.id,
        name: row.name,
        host: row.host,
        version: row.version,
        slots: unsigned(row.slots)?,
        in_flight: unsigned(row.in_flight)?,
        steps_per_second: row.steps_per_second,
        // Nothing depends on it, so what another version wrote is left out.
        learned_models: row
            .learned_models
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
        started_at: row.started_at,
        seen_at: row.seen_at,
    })
}
