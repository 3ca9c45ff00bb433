//! How a turn comes in: once, however often it is sent.

mod insert;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use serde_json::{Map, Value};
use shared::{DEFAULT_TENANT, Message, Opened, Policy};

use super::{Store, ThreadId, Turn, TurnId, database::Database, plain, tables::turns};
use crate::{
    Error,
    gather::{Gather, Lone},
    queue::Priority,
};

pub use insert::MOST_SUBMITTED;
pub(super) use insert::insert_one;

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

impl NewTurn {
    /// One that says these words, and is like any other besides.
    pub fn of(thread: Opening, messages: Vec<Message>, author: String) -> Self {
        Self {
            thread,
            policy: Policy::Auto,
            priority: Priority::Normal,
            messages,
            metadata: Value::Object(Map::new()),
            author,
            idempotency: None,
            due_at: None,
        }
    }
}

/// The thread that a turn is submitted to.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made a submission, and used up at once")]
pub enum Opening {
    /// One that opens with it.
    New(Opened),
    /// One that is there.
    Existing(ThreadId),
    /// One that is there, as the answer to what it asks after so many events: it hears it then, or not at all.
    Asking(ThreadId, u64),
}

/// What makes a repeated submission the same one, among those to threads of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The client's name for the submission.
    pub key: String,
    /// What the submission says, so that one key is not used for two.
    pub request_hash: String,
}

impl Idempotency {
    /// Of a submission to which no client gave a key: it has this name with us.
    ///
    /// **Invariant:** it ends with what no client's key holds, so neither is ever taken for the other.
    pub fn ours(name: &str, request_hash: String) -> Self {
        Self { key: format!("{name}{BETWEEN}"), request_hash }
    }
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
        if let Opening::Existing(_) | Opening::Asking(..) = new.thread {
            return alone(&self.database, new).await;
        }
        let outcome = self.arrivals.bring(new).await;
        outcome.unwrap_or_else(|| Err(Error::Unavailable("the process is coming to its end".to_owned())))
    }

    /// The turn that was submitted to a thread of this tenant with this key before, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn submitted(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<Turn>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }

    /// Gives up the key of a turn: what is submitted with it from now on is another.
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
    Gather::new(HANDS, MOST_SUBMITTED, Lone::Leaves, move |new| {
        let database = database.clone();
        async move { arrive(&database, new).await }
    })
}

/// ## Why some are not tried once more
///
/// When the database goes away in the middle of it, nobody knows whether they are in. Who has a key is known by it; whoever
/// has none would be in twice, so its client is told, and decides.
async fn arrive(database: &Database, new: Vec<NewTurn>) -> Vec<Result<Submitted, Error>> {
    let (mut in_doubt, mut away) = (None, None);
    if new.len() > 1 {
        match insert::insert_all(database, new.clone()).await {
            Ok(outcomes) => return outcomes,
            Err(error @ Error::Unavailable(_)) => in_doubt = Some(error),
            // What is the matter with one is not to be the matter with the others.
            Err(_) => {}
        }
    }
    let mut outcomes = Vec::with_capacity(new.len());
    for new in new {
        let in_doubt = in_doubt.as_ref().filter(|_| new.idempotency.is_none());
        let outcome = match away.as_ref().or(in_doubt) {
            Some(error) => Err(Error::again(error)),
            None => alone(database, new).await,
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

async fn alone(database: &Database, new: NewTurn) -> Result<Submitted, Error> {
    database.transact(|tx| insert_one(tx, new).boxed()).await
}

/// What stands between a tenant and its key, and after a key that a batch has made: no client's key holds it.
pub(crate) const BETWEEN: char = '\u{1f}';

/// A key as its column has it, where it must be one of a kind among all tenants' keys: with the tenant before it, as a
/// client's key holds no control characters. The keys of the default tenant stand alone, as they did before there were others.
pub(crate) fn key_of(tenant: &str, key: &str) -> String {
    let key = plain(key);
    if tenant == DEFAULT_TENANT { key } else { format!("{tenant}{BETWEEN}{key}") }
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
