//! Webhooks, and the outbox of their deliveries.
//!
//! ```text
//!   webhook    a URL, its event types, and the signing secret
//!   delivery   one event for one webhook: pending → delivered | failed     written together with its event
//! ```
//!
//! **Invariant:** a delivery is written in the transaction of its event, so neither exists without the other. It is
//! sent at least once, always with the same id, by the API server that holds its lease.

mod claim;
mod deliveries;
mod table;

use std::fmt;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, ConnectionTrait as _, DbBackend, EntityTrait as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _, QueryTrait as _,
};
use secrecy::{ExposeSecret as _, SecretString};
use shared::status;
use uuid::Uuid;

use self::table::{
    deliveries as delivery,
    webhooks::{self, Column},
};
use crate::{
    Error, Store,
    log::{Transaction, plain, statement},
};

pub use claim::{DeliveryLimits, Endpoint};
pub(crate) use deliveries::announce;
pub use deliveries::{AttemptOutcome, Delivery, DeliveryFilter};
pub use shared::DeliveryState;

/// Id of a webhook: a UUIDv7.
pub type WebhookId = Uuid;

/// Id of a delivery: a UUIDv7.
pub type DeliveryId = Uuid;

/// Maximum number of webhooks per tenant, and of operator webhooks.
pub const MOST_WEBHOOKS: usize = 20;

status! {
    /// Event that a webhook can subscribe to.
    EventType {
        /// All lines of a batch succeeded.
        BatchCompleted = "batch.completed",
        /// All lines of a batch ended, and some failed.
        BatchCompletedWithErrors = "batch.completed_with_errors",
        /// The time limit of a batch passed before all of its lines ended.
        BatchExpired = "batch.expired",
        /// A batch was cancelled.
        BatchCancelled = "batch.cancelled",
        /// No line of a batch could be run.
        BatchFailed = "batch.failed",
    }
}

/// An endpoint that receives events.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Id of the webhook.
    pub id: WebhookId,
    /// Tenant whose events are sent; an operator webhook, with `None`, receives the events of all tenants.
    pub tenant: Option<String>,
    /// Address of the endpoint.
    pub url: String,
    /// Event types that are sent.
    pub types: Vec<EventType>,
    /// Signing secret: `whsec_…`.
    pub secret: SecretString,
    /// Creation time, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time at which the webhook was disabled, in microseconds since the Unix epoch, and the reason.
    pub disabled: Option<(i64, String)>,
}

impl Webhook {
    /// Creates a webhook with a new id.
    pub fn new(tenant: Option<&str>, url: &str, types: Vec<EventType>, secret: SecretString) -> Self {
        Self {
            id: clock::new_id(),
            tenant: tenant.map(plain),
            url: plain(url),
            types,
            secret,
            created_at: clock::now(),
            disabled: None,
        }
    }
}

impl Store {
    /// Stores a webhook unless its tenant has reached the limit. Returns true if it was stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_webhook(&self, new: &Webhook) -> Result<bool, Error> {
        let new = new.clone();
        self.database.transact(move |tx| add(tx, new).boxed()).await
    }

    /// Returns a webhook, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn webhook(&self, id: WebhookId) -> Result<Option<Webhook>, Error> {
        let row = webhooks::Entity::find_by_id(id).one(&self.database.pool).await?;
        row.map(Webhook::try_from).transpose()
    }

    /// Returns the webhooks of one tenant or of all, oldest first.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn webhooks(&self, tenant: Option<&str>) -> Result<Vec<Webhook>, Error> {
        let rows = webhooks::Entity::find()
            .apply_if(tenant, |rows, tenant| rows.filter(Column::Tenant.eq(tenant)))
            .order_by_asc(Column::Id);
        rows.all(&self.database.pool).await?.into_iter().map(Webhook::try_from).collect()
    }

    /// Deletes a webhook with all of its deliveries. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn remove_webhook(&self, id: WebhookId) -> Result<bool, Error> {
        self.database.transact(move |tx| remove(tx, id).boxed()).await
    }
}

async fn add(tx: &Transaction, new: Webhook) -> Result<bool, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        // Concurrent inserts are counted one after the other. A row lock would not help, since the new rows do not
        // exist yet.
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
    let types = serde_json::Value::from_iter(new.types.iter().map(|kind| kind.as_str())).to_string();
    let row = webhooks::ActiveModel {
        id: Set(new.id),
        tenant: Set(new.tenant),
        url: Set(new.url),
        types: Set(types),
        secret: Set(new.secret.expose_secret().to_owned()),
        created_at: Set(new.created_at),
        disabled_at: Set(None),
        disabled_reason: Set(None),
    };
    webhooks::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(true)
}

async fn remove(tx: &Transaction, id: WebhookId) -> Result<bool, Error> {
    delivery::Entity::delete_many().filter(delivery::Column::WebhookId.eq(id)).exec(tx).await?;
    Ok(webhooks::Entity::delete_by_id(id).exec(tx).await?.rows_affected > 0)
}

impl TryFrom<webhooks::Model> for Webhook {
    type Error = Error;

    fn try_from(row: webhooks::Model) -> Result<Self, Error> {
        let webhooks::Model { id, tenant, url, types, secret, created_at, disabled_at, disabled_reason } =
            row;
        let unread = |error: &dyn fmt::Display| Error::Database(format!("webhook {id}: its types: {error}"));
        let names: Vec<String> = serde_json::from_str(&types).map_err(|error| unread(&error))?;
        // Event types of a newer version are ignored.
        let types = names.iter().filter_map(|name| name.parse().ok()).collect();
        let disabled = disabled_at.map(|at| (at, disabled_reason.unwrap_or_default()));
        Ok(Self { id, tenant, url, types, secret: secret.into(), created_at, disabled })
    }
}
