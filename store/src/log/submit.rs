//! Submitting turns: each is queued once, however often the client sends it.

mod insert;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use queue::{Batcher, Priority, WhenAlone};
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use serde_json::{Map, Value};
use shared::{CallerId, DEFAULT_TENANT, Message, Opened, Policy};

use crate::{
    Error,
    log::{
        Store,
        attachments::AttachmentContent,
        database::Database,
        ids::{ThreadId, TurnId, plain},
        tables::turns,
        turns::Turn,
    },
};

pub use insert::MOST_SUBMITTED;
pub(crate) use insert::insert_one;

/// A turn to submit.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTurn {
    /// The thread of the turn.
    pub thread: Opening,
    /// Treatment of the messages: as an answer or as a new request.
    pub policy: Policy,
    /// Priority within the tenant.
    pub priority: Priority,
    /// Messages of the turn.
    pub messages: Vec<Message>,
    /// Contents of the messages' images and files.
    pub attachments: Vec<AttachmentContent>,
    /// A JSON object of the client, kept with the turn.
    pub metadata: Value,
    /// Name of the submitter.
    pub author: String,
    /// Authenticated submitter; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Key that identifies a repeated submission.
    pub idempotency: Option<Idempotency>,
    /// Earliest start in microseconds since the Unix epoch; `None` starts at once.
    pub due_at: Option<i64>,
}

impl NewTurn {
    /// Creates a turn with these messages and default options.
    pub fn of(thread: Opening, messages: Vec<Message>, author: String) -> Self {
        Self {
            thread,
            policy: Policy::Auto,
            priority: Priority::Normal,
            messages,
            attachments: Vec::new(),
            metadata: Value::Object(Map::new()),
            author,
            caller: None,
            idempotency: None,
            due_at: None,
        }
    }
}

/// The thread to which a turn is submitted.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made a submission, and used up at once")]
pub enum Opening {
    /// A new thread.
    New(Opened),
    /// An existing thread.
    Existing(ThreadId),
    /// An existing thread whose question the turn answers. The number is the length of the log that ends with the
    /// question; the turn starts only at that length.
    Asking(ThreadId, u64),
}

/// Identifies a repeated submission within a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// Key chosen by the client.
    pub key: String,
    /// Hash of the request; detects a key that is reused for another request.
    pub request_hash: String,
}

impl Idempotency {
    /// Builds the idempotency key for a submission of turnfold itself.
    ///
    /// **Invariant:** the key ends with a character that no client key contains, so the two never collide.
    pub fn ours(name: &str, request_hash: String) -> Self {
        Self { key: format!("{name}{BETWEEN}"), request_hash }
    }
}

/// Outcome of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// Queued on an idle thread, which the caller must enqueue.
    New(Turn),
    /// Queued on a busy thread, whose worker starts the turn next.
    ///
    /// ## Why the caller does not enqueue the thread
    ///
    /// A job would bring a second worker to the thread, and the request that the first worker has in flight would be
    /// sent, and paid for, twice. The thread's row is locked until the turn is queued, and the worker reads the queue
    /// after it has marked the thread idle, so one of the two sees the other.
    Behind(Turn),
    /// Submitted before; the turn in its current state.
    Known(Turn),
}

impl Submitted {
    /// Returns the turn, for every outcome.
    pub fn into_turn(self) -> Turn {
        match self {
            Submitted::New(turn) | Submitted::Behind(turn) | Submitted::Known(turn) => turn,
        }
    }
}

impl Store {
    /// Queues a turn and creates its thread if it is new, all or nothing. Of concurrent submissions with one key, one
    /// is new and the others are known.
    ///
    /// Concurrent submissions that create threads share a transaction.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request, [`Error::UnknownThread`] if the thread does not
    /// exist.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn submit(&self, new: NewTurn) -> Result<Submitted, Error> {
        if let Opening::Existing(_) | Opening::Asking(..) = new.thread {
            return write_one(&self.database, new).await;
        }
        let outcome = self.arrivals.submit(new).await;
        outcome.unwrap_or_else(|| Err(Error::Unavailable("this process is shutting down".to_owned())))
    }

    /// Returns the turn that was submitted with this key in this tenant, if any.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn submitted(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<Turn>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }

    /// Releases the key of a turn, so that it can be used for another one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn give_up_key(&self, turn: TurnId) -> Result<(), Error> {
        let row =
            turns::ActiveModel { idempotency_key: Set(None), request_hash: Set(None), ..Default::default() };
        let update = turns::Entity::update_many().set(row).filter(turns::Column::Id.eq(turn));
        update.exec(&self.database.writer).await?;
        Ok(())
    }

    /// Returns the turns that were submitted with these keys in this tenant, in the order of the keys.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn submitted_many(
        &self,
        tenant: &str,
        keys: &[Idempotency],
    ) -> Result<Vec<Option<Turn>>, Error> {
        let keys: Vec<String> = keys.iter().map(|key| key_of(tenant, &key.key)).collect();
        let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.is_in(keys.clone()));
        let rows = rows.all(&self.database.pool).await?.into_iter();
        let mut known: BTreeMap<_, _> = rows.map(|row| (row.idempotency_key.clone(), row)).collect();
        keys.into_iter().map(|key| known.remove(&Some(key)).map(Turn::try_from).transpose()).collect()
    }
}

/// Batches submissions that create threads.
pub(crate) type Arrivals = Batcher<NewTurn, Result<Submitted, Error>>;

/// Maximum transactions in flight.
const HANDS: usize = 2;

pub(crate) fn arrivals(database: &Database) -> Arrivals {
    let database = database.clone();
    Batcher::new(HANDS, MOST_SUBMITTED, WhenAlone::SendNow, move |new| {
        let database = database.clone();
        async move { arrive(&database, new).await }
    })
}

/// Queues a batch, falling back to one transaction per turn if it fails.
///
/// ## Why some turns are not retried
///
/// If the connection breaks during the transaction, its outcome is unknown. A turn with a key is recognized by it; a
/// turn without one could be queued twice, so its client gets the error and decides.
async fn arrive(database: &Database, new: Vec<NewTurn>) -> Vec<Result<Submitted, Error>> {
    let (mut in_doubt, mut away) = (None, None);
    if new.len() > 1 {
        match insert::insert_all(database, new.clone()).await {
            Ok(outcomes) => return outcomes,
            Err(error @ Error::Unavailable(_)) => in_doubt = Some(error),
            // A fault of one turn must not fail the others.
            Err(_) => {}
        }
    }
    let mut outcomes = Vec::with_capacity(new.len());
    for new in new {
        let in_doubt = in_doubt.as_ref().filter(|_| new.idempotency.is_none());
        let outcome = match away.as_ref().or(in_doubt) {
            Some(error) => Err(Error::again(error)),
            None => write_one(database, new).await,
        };
        if let Err(error @ Error::Unavailable(_)) = &outcome
            && in_doubt.is_none()
        {
            away = Some(error.again());
        }
        outcomes.push(outcome);
    }
    outcomes
}

async fn write_one(database: &Database, new: NewTurn) -> Result<Submitted, Error> {
    database.transact(|tx| insert_one(tx, new).boxed()).await
}

/// Separator between tenant and key, and suffix of keys of batch items. No client key contains it.
pub(crate) const BETWEEN: char = '\u{1f}';

/// Returns the key as stored: unique among all tenants, because the tenant is prefixed. Keys of the default tenant have
/// no prefix; client keys contain no control characters.
pub(crate) fn key_of(tenant: &str, key: &str) -> String {
    let key = plain(key);
    if tenant == DEFAULT_TENANT { key } else { format!("{tenant}{BETWEEN}{key}") }
}

/// Returns the turn with this key in this tenant.
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
