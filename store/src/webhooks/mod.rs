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
mod filter;
mod notices;
mod outbox;
pub(crate) mod table;
mod turn_subscriptions;
mod webhook;

use futures::FutureExt as _;
use sea_orm::{
    ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _,
};
use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use tracing::debug;

use self::table::{
    deliveries as delivery,
    webhooks::{self, Column},
};
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, one_at_a_time, plain},
};

pub use claim::{DeliveryLimits, Endpoint};
pub use deliveries::{AttemptOutcome, Delivery, DeliveryFilter};
pub use filter::WebhookFilter;
pub(crate) use notices::{Notice, announce_turn, notices};
pub(crate) use outbox::{Happening, announce};
pub use shared::DeliveryState;
pub(crate) use turn_subscriptions::TurnSubscriptions;
pub use webhook::{DeliveryId, EventType, Webhook, WebhookId};

/// Maximum number of webhooks per tenant, and of operator webhooks.
pub const MOST_WEBHOOKS: usize = 20;

impl Store {
    /// Stores a webhook unless its tenant has reached the limit. Returns true if it was stored.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_webhook(&self, new: &Webhook, by: impl Into<By>) -> Result<bool, Error> {
        let (new, by) = (new.clone(), by.into());
        let is_added = self.database.transact(move |tx| add(tx, new, by).boxed()).await?;
        self.turn_subscriptions.forget();
        Ok(is_added)
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
    pub async fn remove_webhook(&self, id: WebhookId, by: impl Into<By>) -> Result<bool, Error> {
        let by = by.into();
        self.database.transact(move |tx| remove(tx, id, by).boxed()).await
    }

    /// Reports whether a webhook wants events of turns. True while the database does not answer.
    pub(crate) async fn has_turn_webhooks(&self) -> bool {
        if let Some(wanted) = self.turn_subscriptions.get() {
            return wanted;
        }
        let read_at = Instant::now();
        match self.read_turn_webhooks().await {
            Ok(wanted) => {
                self.turn_subscriptions.set(Some((read_at, wanted)));
                wanted
            }
            Err(error) => {
                debug!(%error, "cannot read webhooks");
                true
            }
        }
    }

    async fn read_turn_webhooks(&self) -> Result<bool, Error> {
        let enabled = webhooks::Entity::find().filter(Column::DisabledAt.is_null());
        for row in enabled.all(&self.database.pool).await? {
            if Webhook::try_from(row)?.types.iter().any(|event| event.is_of_turns()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

async fn add(tx: &Transaction, new: Webhook, by: By) -> Result<bool, Error> {
    one_at_a_time(tx, "webhooks", new.tenant.as_deref().unwrap_or_default()).await?;
    let own = match &new.tenant {
        Some(tenant) => Column::Tenant.eq(tenant.as_str()),
        None => Column::Tenant.is_null(),
    };
    if MOST_WEBHOOKS as u64 <= webhooks::Entity::find().filter(own).count(tx).await? {
        return Ok(false);
    }
    let types = serde_json::Value::from_iter(new.types.iter().map(|kind| kind.as_str())).to_string();
    let row = webhooks::Model {
        id: new.id,
        tenant: new.tenant,
        url: new.url,
        types,
        secret: new.secret.expose_secret().to_owned(),
        created_at: new.created_at,
        disabled_at: None,
        disabled_reason: None,
        strategy: new.filter.strategy.as_deref().map(plain),
        metadata: new.filter.metadata_text(),
    };
    let (tenant, created) = (row.tenant.clone(), AdminEvent::WebhookCreated { webhook: row.details() });
    webhooks::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    append(tx, vec![Entry::new(tenant.as_deref(), by, created)]).await?;
    Ok(true)
}

async fn remove(tx: &Transaction, id: WebhookId, by: By) -> Result<bool, Error> {
    delivery::Entity::delete_many().filter(delivery::Column::WebhookId.eq(id)).exec(tx).await?;
    let row = webhooks::Entity::find_by_id(id).lock_exclusive().one(tx).await?;
    let Some(row) = row else { return Ok(false) };
    webhooks::Entity::delete_by_id(id).exec(tx).await?;
    let deleted = AdminEvent::WebhookDeleted { webhook: id };
    append(tx, vec![Entry::new(row.tenant.as_deref(), by, deleted)]).await?;
    Ok(true)
}
