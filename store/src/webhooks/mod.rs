//! Webhooks: who wants to be told when something has happened, and what is still to be told.
//!
//! ```text
//!   webhook    a URL, the types of what it is told, and the secret with which that is signed
//!   delivery   one thing told to one webhook: pending → delivered | failed     written with what it tells of
//! ```
//!
//! **Invariant:** a delivery is written in the transaction of what it tells of: neither is there without the other. It is
//! sent at least once, always under the same name, by whichever api holds its lease.

mod deliveries;
mod table;
mod take;

use std::{fmt, str::FromStr};

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, DatabaseTransaction, DbBackend,
    EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _, QueryTrait as _,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::table::{
    deliveries as delivery,
    webhooks::{self, Column},
};
use crate::{
    Error, Store,
    log::{UnknownStatus, plain, statement, status::status},
    time,
};

pub(crate) use deliveries::announce;
pub use deliveries::{Delivery, DeliveryFilter, Outcome};
pub use take::{Addressee, AtOnce};

/// Names a webhook: a UUIDv7.
pub type WebhookId = Uuid;

/// Names a delivery: a UUIDv7.
pub type DeliveryId = Uuid;

/// How many webhooks a tenant may have, and how many the operators.
pub const MOST_WEBHOOKS: usize = 20;

status! {
    /// What a webhook can be told of.
    EventType {
        /// All lines of a batch ended well.
        BatchCompleted = "batch.completed",
        /// All lines of a batch have ended, some of them badly.
        BatchCompletedWithErrors = "batch.completed_with_errors",
        /// The time of a batch was over before all of its lines had ended.
        BatchExpired = "batch.expired",
        /// A batch was called off.
        BatchCancelled = "batch.cancelled",
        /// No line of a batch could be run.
        BatchFailed = "batch.failed",
    }
}

status! {
    /// How far a delivery has come.
    DeliveryState {
        /// It is to be sent, for the first time or again.
        Pending = "pending",
        /// It has arrived.
        Delivered = "delivered",
        /// Nobody tries any more.
        Failed = "failed",
    }
}

/// Somebody who wants to be told.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Which.
    pub id: WebhookId,
    /// Whose batches it is told of; of everybody's, if it is an operator's.
    pub tenant: Option<String>,
    /// Where it is.
    pub url: String,
    /// What it is told of.
    pub types: Vec<EventType>,
    /// With what it is signed: `whsec_…`.
    pub secret: SecretString,
    /// When it was made, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Since when it is told nothing more, and why.
    pub disabled: Option<(i64, String)>,
}

impl Webhook {
    /// One that is new.
    pub fn new(tenant: Option<&str>, url: &str, types: Vec<EventType>, secret: SecretString) -> Self {
        Self {
            id: Uuid::now_v7(),
            tenant: tenant.map(plain),
            url: plain(url),
            types,
            secret,
            created_at: time::now(),
            disabled: None,
        }
    }
}

impl Store {
    /// Keeps a webhook, unless its tenant has as many as it may; and says whether it did.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_webhook(&self, new: &Webhook) -> Result<bool, Error> {
        let new = new.clone();
        self.database.transact(move |tx| add(tx, new).boxed()).await
    }

    /// A webhook, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn webhook(&self, id: WebhookId) -> Result<Option<Webhook>, Error> {
        let row = webhooks::Entity::find_by_id(id).one(&self.database.pool).await?;
        row.map(Webhook::try_from).transpose()
    }

    /// The webhooks of this tenant, or all there are; oldest first.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn webhooks(&self, tenant: Option<&str>) -> Result<Vec<Webhook>, Error> {
        let rows = webhooks::Entity::find()
            .apply_if(tenant, |rows, it| rows.filter(Column::Tenant.eq(it)))
            .order_by_asc(Column::Id);
        rows.all(&self.database.pool).await?.into_iter().map(Webhook::try_from).collect()
    }

    /// Forgets a webhook and all of its deliveries, and says whether it was there.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn remove_webhook(&self, id: WebhookId) -> Result<bool, Error> {
        self.database.transact(move |tx| remove(tx, id).boxed()).await
    }
}

async fn add(tx: &DatabaseTransaction, new: Webhook) -> Result<bool, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        // Those that are added at once count one after the other: rows that are not there yet cannot be locked.
        let alone = "SELECT pg_advisory_xact_lock(hashtext('webhooks'), hashtext($1))";
        tx.execute_raw(statement(tx, alone, [new.tenant.clone().unwrap_or_default().into()])).await?;
    }
    let own = match &new.tenant {
        Some(tenant) => Column::Tenant.eq(tenant.as_str()),
        None => Column::Tenant.is_null(),
    };
    if MOST_WEBHOOKS as u64 <= webhooks::Entity::find().filter(own).count(tx).await? {
        return Ok(false);
    }
    let types = serde_json::Value::from_iter(new.types.iter().map(|it| it.as_str())).to_string();
    let row = webhooks::ActiveModel {
        id: Set(new.id),
        tenant: Set(new.tenant),
        url: Set(new.url),
        types: Set(types),
        secret: Set(new.secret.expose_secret().to_owned()),
        created_at: Set(new.created_at),
        disabled_at: Set(None),
        disabled_why: Set(None),
    };
    webhooks::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(true)
}

async fn remove(tx: &DatabaseTransaction, id: WebhookId) -> Result<bool, Error> {
    delivery::Entity::delete_many().filter(delivery::Column::WebhookId.eq(id)).exec(tx).await?;
    Ok(webhooks::Entity::delete_by_id(id).exec(tx).await?.rows_affected > 0)
}

impl TryFrom<webhooks::Model> for Webhook {
    type Error = Error;

    fn try_from(row: webhooks::Model) -> Result<Self, Error> {
        let webhooks::Model { id, tenant, url, types, secret, created_at, disabled_at, disabled_why } = row;
        let unread = |error: &dyn fmt::Display| Error::Database(format!("webhook {id}: its types: {error}"));
        let names: Vec<String> = serde_json::from_str(&types).map_err(|error| unread(&error))?;
        // What a newer version can tell of, this one does not.
        let types = names.iter().filter_map(|it| it.parse().ok()).collect();
        let disabled = disabled_at.map(|at| (at, disabled_why.unwrap_or_default()));
        Ok(Self { id, tenant, url, types, secret: secret.into(), created_at, disabled })
    }
}
