//! How a turn comes in: once, however often it is sent.

mod many;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::{NotSet, Set},
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect,
    TryInsertResult,
};
use serde_json::Value;
use shared::{DEFAULT_TENANT, Message, Opened, Policy};
use uuid::Uuid;

use super::{
    Head, Store, ThreadId, ThreadStatus, Turn, TurnStatus,
    append::Batch,
    corrupt,
    database::Database,
    plain,
    tables::{threads, turns},
    turns::policy_text,
};
use crate::{Error, gather::Gather, queue::Priority, time};

pub use many::MOST_SUBMITTED;

/// A turn that somebody submits.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTurn {
    /// Where.
    pub thread: Opening,
    /// How its words are to be taken.
    pub policy: Policy,
    /// How urgent it is.
    pub priority: Priority,
    /// Its words.
    pub messages: Vec<Message>,
    /// What the client wants to find again: a JSON object.
    pub metadata: Value,
    /// Who submits it.
    pub author: String,
    /// What makes a repeated submission the same one.
    pub idempotency: Option<Idempotency>,
    /// Its thread does not hear it before this, in microseconds since the Unix epoch; at once, if nothing is said.
    pub due_at: Option<i64>,
}

/// The thread that a turn is submitted to.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made a submission, and used up at once")]
pub enum Opening {
    /// One that opens with it.
    New(Opened),
    /// One that is there.
    Existing(ThreadId),
}

/// What makes a repeated submission the same one, among those to threads of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's name for the submission.
    pub key: String,
    /// What the submission says, so that one key is not used for two.
    pub request_hash: String,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// It is queued, and its thread is at rest: ring for it.
    New(Turn),
    /// It is queued, and its thread is under way: whoever is at it hears this turn next.
    ///
    /// ## Why nobody rings then
    ///
    /// A ring would bring a second worker to a thread that one is at, and what that one is asking a model would be
    /// asked, and paid, twice. The row of the thread is locked until the turn is in the queue, and the worker looks
    /// into the queue after the row says that the thread rests: so one of the two sees the other.
    Behind(Turn),
    /// It was submitted before, and this is how far it has come.
    Known(Turn),
}

impl Submitted {
    /// The turn, whichever way it went.
    pub fn into_turn(self) -> Turn {
        match self {
            Submitted::New(turn) | Submitted::Behind(turn) | Submitted::Known(turn) => turn,
        }
    }
}

impl Store {
    /// Queues a turn, and opens its thread if that is new: all of it or nothing. Of submissions that race
    /// with one key, one is new and the others know it.
    ///
    /// Those that open a thread and come while others are on their way go together in the next transaction.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request, [`Error::UnknownThread`] if there is
    /// none.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn submit(&self, new: NewTurn) -> Result<Submitted, Error> {
        if let Opening::Existing(_) = new.thread {
            return alone(&self.database, new).await;
        }
        let ending = || Error::Unavailable("the process is coming to its end".to_owned());
        self.arrivals.bring(new).await.unwrap_or_else(|| Err(ending()))
    }

    /// The turn that was submitted to a thread of this tenant with this key before, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn submitted(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<Turn>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }

    /// The turns that were submitted to threads of this tenant with these keys before, each in the place of its key.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn submitted_many(
        &self,
        tenant: &str,
        keys: &[Idempotency],
    ) -> Result<Vec<Option<Turn>>, Error> {
        let keys: Vec<String> = keys.iter().map(|it| key_of(tenant, &it.key)).collect();
        let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.is_in(keys.clone()));
        let rows = rows.all(&self.database.pool).await?.into_iter();
        let mut known: BTreeMap<_, _> = rows.map(|it| (it.idempotency_key.clone(), it)).collect();
        keys.into_iter().map(|it| known.remove(&Some(it)).map(Turn::try_from).transpose()).collect()
    }
}

/// Queues turns that open their threads, many at once.
pub(super) type Arrivals = Gather<NewTurn, Result<Submitted, Error>>;

/// How many transactions of them are on their way at once.
const HANDS: usize = 2;

pub(super) fn arrivals(database: &Database) -> Arrivals {
    let database = database.clone();
    Gather::new(HANDS, MOST_SUBMITTED, move |new| {
        let database = database.clone();
        async move { arrive(&database, new).await }
    })
}

async fn arrive(database: &Database, mut new: Vec<NewTurn>) -> Vec<Result<Submitted, Error>> {
    if new.len() > 1
        && let Ok(outcomes) = many::queue_all(database, new.clone()).await
    {
        return outcomes;
    }
    // What is the matter with one is not to be the matter with the others.
    let mut outcomes = Vec::with_capacity(new.len());
    for new in new.drain(..) {
        outcomes.push(alone(database, new).await);
    }
    outcomes
}

async fn alone(database: &Database, new: NewTurn) -> Result<Submitted, Error> {
    database.transact(|tx| insert(tx, new).boxed()).await
}

pub(super) async fn insert(tx: &DatabaseTransaction, new: NewTurn) -> Result<Submitted, Error> {
    let (thread, tenant) = match &new.thread {
        Opening::New(opened) => (Uuid::now_v7(), plain(&opened.tenant)),
        // Not locked: a thread is the same tenant's for ever.
        Opening::Existing(thread) => {
            let row = threads::Entity::find_by_id(*thread).one(tx).await?;
            (*thread, row.ok_or(Error::UnknownThread(*thread))?.tenant)
        }
    };
    // First the row that may turn out to exist: then nothing else was written yet.
    let id = Uuid::now_v7();
    let row = row(&new, thread, &tenant, id)?;
    let insert = turns::Entity::insert(row).on_conflict_do_nothing_on([turns::Column::IdempotencyKey]);
    match insert.exec_without_returning(tx).await? {
        TryInsertResult::Inserted(1..) => {}
        TryInsertResult::Inserted(0) | TryInsertResult::Conflicted | TryInsertResult::Empty => {
            return known(tx, &tenant, new.idempotency.as_ref()).await;
        }
    }
    let under_way = match new.thread {
        Opening::New(opened) => {
            open(tx, thread, opened).await?;
            false
        }
        Opening::Existing(thread) => {
            let row = threads::Entity::find_by_id(thread).lock_exclusive().one(tx).await?;
            row.ok_or(Error::UnknownThread(thread))?.status == ThreadStatus::Busy.as_str()
        }
    };
    let row = turns::Entity::find().filter(turns::Column::Id.eq(id)).one(tx).await?;
    let turn = row.ok_or(Error::UnknownTurn(id))?.try_into()?;
    Ok(if under_way { Submitted::Behind(turn) } else { Submitted::New(turn) })
}

fn row(new: &NewTurn, thread: ThreadId, tenant: &str, id: Uuid) -> Result<turns::ActiveModel, Error> {
    let unwritable = |error: serde_json::Error| {
        corrupt(thread, format_args!("the words of its next turn have no JSON: {error}"))
    };
    let (key, hash) =
        new.idempotency.as_ref().map(|it| (key_of(tenant, &it.key), plain(&it.request_hash))).unzip();
    let now = time::now();
    Ok(turns::ActiveModel {
        position: NotSet,
        id: Set(id),
        thread_id: Set(thread),
        status: Set(TurnStatus::Queued.to_string()),
        policy: Set(policy_text(new.policy).to_owned()),
        input: Set(serde_json::to_string(&new.messages).map_err(unwritable)?),
        metadata: Set(new.metadata.to_string()),
        author: Set(plain(&new.author)),
        idempotency_key: Set(key),
        request_hash: Set(hash),
        heard_seq: Set(None),
        ended_seq: Set(None),
        error: Set(None),
        created_at: Set(now),
        updated_at: Set(now),
        tenant: Set(tenant.to_owned()),
        priority: Set(new.priority.rank().into()),
        due_at: Set(new.due_at),
        cause: Set(None),
    })
}

/// A key as its column has it, where it must be one of a kind among all tenants' keys: with the tenant before it, as a
/// client's key holds no control characters. The keys of the default tenant stand alone, as they did before there were others.
pub(crate) fn key_of(tenant: &str, key: &str) -> String {
    let key = plain(key);
    if tenant == DEFAULT_TENANT { key } else { format!("{tenant}\u{1f}{key}") }
}

async fn open(tx: &DatabaseTransaction, thread: ThreadId, opened: Opened) -> Result<(), Error> {
    let now = time::now();
    let row = threads::ActiveModel {
        id: Set(thread),
        strategy: Set(plain(&opened.strategy)),
        status: Set(ThreadStatus::Idle.to_string()),
        created_at: Set(now),
        updated_at: Set(now),
        tenant: Set(plain(&opened.tenant)),
    };
    threads::Entity::insert(row).exec_without_returning(tx).await?;
    Batch::insert(tx, &[&Batch::new(&Head::start(thread), &[opened.into()], now)?]).await
}

/// The turn that this submission turned out to repeat.
async fn known(
    tx: &DatabaseTransaction,
    tenant: &str,
    idempotency: Option<&Idempotency>,
) -> Result<Submitted, Error> {
    let vanished = || Error::Database("a turn was refused as known and is not there".to_owned());
    let turn = of_key(tx, tenant, idempotency.ok_or_else(vanished)?).await?;
    turn.map(Submitted::Known).ok_or_else(vanished)
}

/// The turn that was submitted to a thread of this tenant with this key.
async fn of_key(
    db: &impl ConnectionTrait,
    tenant: &str,
    idempotency: &Idempotency,
) -> Result<Option<Turn>, Error> {
    let Idempotency { key, request_hash } = idempotency;
    let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.eq(key_of(tenant, key)));
    let Some(row) = rows.one(db).await? else { return Ok(None) };
    if row.request_hash != Some(plain(request_hash)) {
        return Err(Error::KeyReused);
    }
    Ok(Some(row.try_into()?))
}
