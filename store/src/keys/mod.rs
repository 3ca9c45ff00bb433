//! API keys: hash, owner, scopes and lifetime of each.
//!
//! A key consists of a public id and a secret part. The table holds the id and a hash of the secret part, so a copy of the
//! database opens nothing.
//!
//! ## Why SHA-256 is enough
//!
//! The secret part has 256 random bits. A slow hash such as Argon2 protects secrets that people choose, by making each guess
//! expensive. 256 random bits cannot be guessed at any speed, and a slow hash would cost every request milliseconds.

pub(crate) mod table;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, Condition, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _, QueryTrait as _,
    sea_query::SimpleExpr,
};
use sha2::{Digest as _, Sha256};
use shared::MultitaskStrategy;

use self::table::Column;
use crate::{
    AdminEvent, By, Error, KeyDetails, Store,
    admin::{Entry, append},
    log::{Transaction, at_most, one_at_a_time, plain},
    schedules,
};

/// Maximum number of valid keys per tenant, and of valid operator keys. As many revoked and expired ones are kept.
pub const MOST_KEYS: u64 = 1_000;

/// An API key, without its secret part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Public part of the key.
    pub id: String,
    /// SHA-256 of the secret part.
    pub hash: Vec<u8>,
    /// Tenant for which the key acts; `None` for an operator's key.
    pub tenant: Option<String>,
    /// Name for people; may be empty.
    pub name: String,
    /// Names of the scopes.
    pub scopes: Vec<String>,
    /// Author of the key.
    pub created_by: String,
    /// Creation time, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// End of validity, in microseconds since the Unix epoch; `None` if the key does not expire.
    pub expires_at: Option<i64>,
    /// Time of the revocation, in microseconds since the Unix epoch.
    pub revoked_at: Option<i64>,
    /// Time of the last use, in microseconds since the Unix epoch; up to a minute late.
    pub last_used_at: Option<i64>,
    /// Treatment of a turn that the key submits to a busy thread, if the turn names none.
    pub multitask_strategy: Option<MultitaskStrategy>,
}

impl Key {
    /// Returns what an administrative log has of the stored row.
    pub(crate) fn details(&self) -> KeyDetails {
        KeyDetails {
            id: self.id.clone(),
            fingerprint: hex::encode(Sha256::digest(&self.hash)),
            name: plain(&self.name),
            scopes: self.scopes.clone(),
            created_by: plain(&self.created_by),
            created_at: self.created_at,
            expires_at: self.expires_at,
            multitask_strategy: self.multitask_strategy,
        }
    }

    /// Reports whether the key is neither revoked nor expired at this time.
    pub fn is_valid(&self, now: i64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

impl Store {
    /// Stores a key unless its tenant has reached the limit. Returns true if it was stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_key(&self, new: &Key, by: impl Into<By>) -> Result<bool, Error> {
        let (new, by) = (new.clone(), by.into());
        self.database.transact(move |tx| create(tx, new, by).boxed()).await
    }

    /// Stores the successor of a key, which expires at `old_expires_at` or earlier. Its schedules continue with the
    /// successor. Returns true if it was stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn rotate_key(
        &self,
        old: &str,
        old_expires_at: i64,
        new: &Key,
        by: impl Into<By>,
    ) -> Result<bool, Error> {
        let (old, new, by) = (old.to_owned(), new.clone(), by.into());
        self.database.transact(move |tx| rotate(tx, old, old_expires_at, new, by).boxed()).await
    }

    /// Returns a key, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn key(&self, id: &str) -> Result<Option<Key>, Error> {
        let row = table::Entity::find_by_id(plain(id)).one(&self.database.pool).await?;
        Ok(row.map(Key::from))
    }

    /// Returns at most `limit` keys of one tenant or of all, oldest first, that were created after the key `after`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn keys(
        &self,
        tenant: Option<&str>,
        after: Option<&Key>,
        limit: u64,
    ) -> Result<Vec<Key>, Error> {
        let is_later = |key: &Key| {
            let same_time = Condition::all()
                .add(Column::CreatedAt.eq(key.created_at))
                .add(Column::Id.gt(key.id.as_str()));
            Condition::any().add(Column::CreatedAt.gt(key.created_at)).add(same_time)
        };
        let rows = table::Entity::find()
            .apply_if(tenant, |rows, tenant| rows.filter(Column::Tenant.eq(tenant)))
            .apply_if(after, |rows, key| rows.filter(is_later(key)))
            .order_by_asc(Column::CreatedAt)
            .order_by_asc(Column::Id)
            .limit(at_most(limit));
        Ok(rows.all(&self.database.pool).await?.into_iter().map(Key::from).collect())
    }

    /// Revokes a key, unless it is revoked already.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn revoke_key(&self, id: &str, by: impl Into<By>) -> Result<(), Error> {
        let (id, by) = (plain(id), by.into());
        self.database.transact(move |tx| revoke(tx, id, by).boxed()).await
    }

    /// Notes the use of a key. An earlier time than the noted one changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn key_used(&self, id: &str, at: i64) -> Result<(), Error> {
        let row = table::ActiveModel { last_used_at: Set(Some(at)), ..Default::default() };
        let is_earlier = Condition::any().add(Column::LastUsedAt.is_null()).add(Column::LastUsedAt.lt(at));
        let update = table::Entity::update_many().set(row).filter(Column::Id.eq(plain(id)));
        update.filter(is_earlier).exec(&self.database.writer).await?;
        Ok(())
    }
}

async fn create(tx: &Transaction, new: Key, by: By) -> Result<bool, Error> {
    let (tenant, key) = (new.tenant.clone(), new.details());
    let Some(forgotten) = add(tx, new).await? else { return Ok(false) };
    let created = AdminEvent::KeyCreated { key };
    append(tx, entries(tenant.as_deref(), &by, created, forgotten)).await?;
    Ok(true)
}

async fn rotate(tx: &Transaction, old: String, old_expires_at: i64, new: Key, by: By) -> Result<bool, Error> {
    let (tenant, key) = (new.tenant.clone(), new.details());
    // Before the end of the old key is read: a rotation at the same time must not make it live longer.
    one_at_a_time(tx, "api_keys", tenant.as_deref().unwrap_or_default()).await?;
    let before = table::Entity::find_by_id(old.clone()).one(tx).await?.and_then(|row| row.expires_at);
    // First, because an expired key leaves room for the new one.
    let end = Some(before.map_or(old_expires_at, |end| end.min(old_expires_at)));
    expire(tx, &old, end).await?;
    let Some(forgotten) = add(tx, new).await? else {
        expire(tx, &old, before).await?;
        return Ok(false);
    };
    schedules::inherit(tx, &old, &key.id).await?;
    let rotated = AdminEvent::KeyRotated { old, old_expires_at, key };
    append(tx, entries(tenant.as_deref(), &by, rotated, forgotten)).await?;
    Ok(true)
}

async fn expire(tx: &Transaction, id: &str, at: Option<i64>) -> Result<(), Error> {
    let row = table::ActiveModel { expires_at: Set(at), ..Default::default() };
    table::Entity::update_many().set(row).filter(Column::Id.eq(id)).exec(tx).await?;
    Ok(())
}

async fn revoke(tx: &Transaction, id: String, by: By) -> Result<(), Error> {
    let Some(row) = table::Entity::find_by_id(id.clone()).one(tx).await? else { return Ok(()) };
    let at = clock::now();
    let revoked = table::ActiveModel { revoked_at: Set(Some(at)), ..Default::default() };
    let update = table::Entity::update_many().set(revoked).filter(Column::Id.eq(id.as_str()));
    if update.filter(Column::RevokedAt.is_null()).exec(tx).await?.rows_affected == 0 {
        return Ok(());
    }
    append(tx, vec![Entry::new(row.tenant.as_deref(), by, AdminEvent::KeyRevoked { key: id, at })]).await
}

/// Entries about a new key, and about the rows that were deleted for it.
fn entries(tenant: Option<&str>, by: &By, event: AdminEvent, forgotten: Vec<String>) -> Vec<Entry> {
    let mut entries = vec![Entry::new(tenant, by.clone(), event)];
    if !forgotten.is_empty() {
        let forgotten = AdminEvent::KeysForgotten { keys: forgotten };
        entries.push(Entry::new(tenant, By::turnfold(None), forgotten));
    }
    entries
}

/// Inserts a key unless its owner has reached the limit. Returns the ids of the ended keys that were deleted, or `None` if it was not
/// inserted.
async fn add(tx: &Transaction, new: Key) -> Result<Option<Vec<String>>, Error> {
    one_at_a_time(tx, "api_keys", new.tenant.as_deref().unwrap_or_default()).await?;
    let own = match &new.tenant {
        Some(tenant) => Column::Tenant.eq(tenant.as_str()),
        None => Column::Tenant.is_null(),
    };
    let unexpired = Condition::any().add(Column::ExpiresAt.is_null()).add(Column::ExpiresAt.gt(clock::now()));
    let valid =
        table::Entity::find().filter(own.clone()).filter(Column::RevokedAt.is_null()).filter(unexpired);
    if MOST_KEYS <= valid.count(tx).await? {
        return Ok(None);
    }
    let deleted = delete_ended(tx, own).await?;
    let row = table::Model {
        id: new.id,
        hash: new.hash,
        tenant: new.tenant,
        name: plain(&new.name),
        scopes: new.scopes.join(" "),
        created_by: plain(&new.created_by),
        created_at: new.created_at,
        expires_at: new.expires_at,
        revoked_at: new.revoked_at,
        last_used_at: new.last_used_at,
        multitask_strategy: new.multitask_strategy.map(|strategy| strategy.as_str().to_owned()),
    };
    table::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    Ok(Some(deleted))
}

/// Deletes the oldest keys of an owner that are revoked or expired, beyond [`MOST_KEYS`]. Returns their ids.
async fn delete_ended(tx: &Transaction, own: SimpleExpr) -> Result<Vec<String>, Error> {
    let ended =
        Condition::any().add(Column::RevokedAt.is_not_null()).add(Column::ExpiresAt.lte(clock::now()));
    let superfluous = table::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(own)
        .filter(ended)
        .order_by_desc(Column::CreatedAt)
        .offset(MOST_KEYS)
        .limit(MOST_KEYS);
    let ids: Vec<String> = superfluous.into_tuple().all(tx).await?;
    if !ids.is_empty() {
        table::Entity::delete_many().filter(Column::Id.is_in(ids.iter().cloned())).exec(tx).await?;
    }
    Ok(ids)
}

impl From<table::Model> for Key {
    fn from(row: table::Model) -> Self {
        Self {
            id: row.id,
            hash: row.hash,
            tenant: row.tenant,
            name: row.name,
            scopes: row.scopes.split_whitespace().map(str::to_owned).collect(),
            created_by: row.created_by,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
            // A newer version may have stored a strategy that this one does not know.
            multitask_strategy: row.multitask_strategy.and_then(|name| name.parse().ok()),
        }
    }
}
