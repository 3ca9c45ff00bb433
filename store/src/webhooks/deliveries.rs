//! Deliveries: updated after each attempt, and kept for 30 days as a log.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, QueryTrait as _, sea_query::Query,
};

use super::{
    DeliveryId, DeliveryState, WebhookId,
    outbox::name,
    table::{
        deliveries::{self, Column},
        webhooks,
    },
};
use crate::{
    AdminEvent, By, Error, Store,
    admin::{Entry, append},
    log::{Transaction, at_most, plain, replanned::Replanned},
};

/// Retention period of finished deliveries, in microseconds.
const KEPT: i64 = 30 * 24 * 60 * 60 * 1_000_000;

/// One event for one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Id of the delivery.
    pub id: DeliveryId,
    /// Id of the receiving webhook.
    pub webhook: WebhookId,
    /// Event type, as sent.
    pub kind: String,
    /// Request body, byte for byte.
    pub payload: String,
    /// Creation time, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Current state of the delivery.
    pub state: DeliveryState,
    /// Number of attempts started.
    pub attempts: u32,
    /// Time of the next attempt, in microseconds since the Unix epoch.
    pub due_at: i64,
    /// Time of the last attempt, in microseconds since the Unix epoch.
    pub tried_at: Option<i64>,
    /// HTTP status of the last response.
    pub status: Option<u16>,
    /// Error of the last attempt.
    pub error: Option<String>,
}

/// Filter for a list of deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryFilter<'a> {
    /// Tenant of the webhooks; all tenants if `None`.
    pub tenant: Option<&'a str>,
    /// Id of the webhook; all webhooks if `None`.
    pub webhook: Option<WebhookId>,
    /// State of the deliveries; all states if `None`.
    pub state: Option<DeliveryState>,
}

/// Outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The delivery succeeded.
    Arrived {
        /// HTTP status of the response.
        status: u16,
    },
    /// The attempt failed.
    Missed {
        /// HTTP status of the response, if there was one.
        status: Option<u16>,
        /// Cause of the failure.
        error: String,
        /// Time of the next attempt, in microseconds since the Unix epoch; no further attempt if `None`.
        again: Option<i64>,
    },
    /// The receiver answered that it wants no further deliveries.
    Gone {
        /// HTTP status of the response.
        status: u16,
    },
}

impl Delivery {
    /// Returns the `webhook-id` of the delivery, which is the same for every attempt.
    pub fn name(&self) -> String {
        name(self.id)
    }
}

impl Store {
    /// Records the outcome of an attempt, unless a newer attempt has started. If the receiver is gone, its webhook is
    /// disabled and no further deliveries to it are attempted.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn settle_delivery(&self, tried: &Delivery, outcome: AttemptOutcome) -> Result<(), Error> {
        let tried = tried.clone();
        self.database.transact(move |tx| settle(tx, tried, outcome).boxed()).await
    }

    /// Returns a delivery, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<Delivery>, Error> {
        let row = deliveries::Entity::find_by_id(id).one(&self.database.pool).await?;
        row.map(Delivery::try_from).transpose()
    }

    /// Returns at most `limit` deliveries created before `after`, newest first.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn deliveries(
        &self,
        filter: DeliveryFilter<'_>,
        after: Option<DeliveryId>,
        limit: u64,
    ) -> Result<Vec<Delivery>, Error> {
        let of_tenant = |tenant: &str| {
            let own = Query::select()
                .column(webhooks::Column::Id)
                .from(webhooks::Entity)
                .and_where(webhooks::Column::Tenant.eq(tenant))
                .to_owned();
            Column::WebhookId.in_subquery(own)
        };
        let rows = deliveries::Entity::find()
            .apply_if(filter.tenant, |rows, tenant| rows.filter(of_tenant(tenant)))
            .apply_if(filter.webhook, |rows, webhook| rows.filter(Column::WebhookId.eq(webhook)))
            .apply_if(filter.state, |rows, state| rows.filter(Column::State.eq(state.as_str())))
            .apply_if(after, |rows, after| rows.filter(Column::Id.lt(after)))
            .order_by_desc(Column::Id)
            .limit(at_most(limit));
        rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(Delivery::try_from).collect()
    }

    /// Restarts a delivery from its first attempt, with the same id. Returns true if it exists.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn redeliver(&self, id: DeliveryId) -> Result<bool, Error> {
        let row = deliveries::ActiveModel {
            state: Set(DeliveryState::Pending.to_string()),
            attempts: Set(0),
            due_at: Set(clock::now()),
            ..Default::default()
        };
        let update = deliveries::Entity::update_many().set(row).filter(Column::Id.eq(id));
        Ok(update.exec(&self.database.writer).await?.rows_affected == 1)
    }

    /// Deletes deliveries that finished more than 30 days ago, and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn sweep_deliveries(&self) -> Result<u64, Error> {
        let over = [DeliveryState::Delivered, DeliveryState::Failed].map(DeliveryState::as_str);
        let delete = deliveries::Entity::delete_many()
            .filter(Column::State.is_in(over))
            .filter(Column::DueAt.lt(clock::now() - KEPT));
        Ok(delete.exec(&self.database.writer).await?.rows_affected)
    }
}

async fn settle(tx: &Transaction, tried: Delivery, outcome: AttemptOutcome) -> Result<(), Error> {
    let (state, status, error, again, gone) = match outcome {
        AttemptOutcome::Arrived { status } => (DeliveryState::Delivered, Some(status), None, None, false),
        AttemptOutcome::Missed { status, error, again: Some(at) } => {
            (DeliveryState::Pending, status, Some(error), Some(at), false)
        }
        AttemptOutcome::Missed { status, error, again: None } => {
            (DeliveryState::Failed, status, Some(error), None, false)
        }
        AttemptOutcome::Gone { status } => {
            let words = format!("the endpoint answered {status}: it accepts no more deliveries");
            (DeliveryState::Failed, Some(status), Some(words), None, true)
        }
    };
    let now = clock::now();
    let row = deliveries::ActiveModel {
        state: Set(state.to_string()),
        due_at: Set(again.unwrap_or(now)),
        tried_at: Set(Some(now)),
        status: Set(status.map(i32::from)),
        error: Set(error.as_deref().map(plain)),
        ..Default::default()
    };
    let attempts = i32::try_from(tried.attempts).unwrap_or(i32::MAX);
    let settled = deliveries::Entity::update_many()
        .set(row)
        .filter(Column::Id.eq(tried.id))
        .filter(Column::State.eq(DeliveryState::Pending.as_str()))
        .filter(Column::Attempts.eq(attempts))
        .exec(tx)
        .await?;
    if !gone || settled.rows_affected == 0 {
        return Ok(());
    }
    disable(tx, tried.webhook, now, error.unwrap_or_default()).await
}

/// Disables a webhook whose endpoint is gone, unless it is disabled already, and gives up its deliveries.
async fn disable(tx: &Transaction, webhook: WebhookId, at: i64, why: String) -> Result<(), Error> {
    let row = webhooks::ActiveModel {
        disabled_at: Set(Some(at)),
        disabled_reason: Set(Some(why.clone())),
        ..Default::default()
    };
    let update = webhooks::Entity::update_many().set(row).filter(webhooks::Column::Id.eq(webhook));
    let disabled = update.filter(webhooks::Column::DisabledAt.is_null()).exec(tx).await?.rows_affected;
    let row = deliveries::ActiveModel {
        state: Set(DeliveryState::Failed.to_string()),
        due_at: Set(at),
        error: Set(Some(why.clone())),
        ..Default::default()
    };
    deliveries::Entity::update_many()
        .set(row)
        .filter(Column::WebhookId.eq(webhook))
        .filter(Column::State.eq(DeliveryState::Pending.as_str()))
        .exec(tx)
        .await?;
    let row = webhooks::Entity::find_by_id(webhook).one(tx).await?.filter(|_| 0 < disabled);
    let Some(row) = row else { return Ok(()) };
    let by = By::turnfold(Some(why));
    let event = AdminEvent::WebhookDisabled { webhook, at };
    append(tx, vec![Entry::new(row.tenant.as_deref(), by, event)]).await
}

impl TryFrom<deliveries::Model> for Delivery {
    type Error = Error;

    fn try_from(row: deliveries::Model) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Database(format!("delivery {}: {what}", row.id));
        Ok(Self {
            state: row.state.parse().map_err(|_| wrong("its state is unknown"))?,
            attempts: u32::try_from(row.attempts).map_err(|_| wrong("its number of attempts is invalid"))?,
            status: row.status.and_then(|status| u16::try_from(status).ok()),
            id: row.id,
            webhook: row.webhook_id,
            kind: row.kind,
            payload: row.payload,
            created_at: row.created_at,
            due_at: row.due_at,
            tried_at: row.tried_at,
            error: row.error,
        })
    }
}
