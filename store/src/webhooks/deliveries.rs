//! What is told: written with what it tells of, settled by whoever sent it, and kept for a while as a log.

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, DatabaseTransaction, EntityTrait as _, ExprTrait as _,
    QueryFilter as _, QueryOrder as _, QuerySelect as _, QueryTrait as _, sea_query::Query,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    DeliveryId, DeliveryState, EventType, Webhook, WebhookId,
    table::{
        deliveries::{self, Column},
        webhooks,
    },
};
use crate::{
    Error, Store,
    log::{at_most, plain},
    time,
};

/// For how long it is kept what came of a delivery, in microseconds.
const KEPT: i64 = 30 * 24 * 60 * 60 * 1_000_000;

/// One thing told to one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which.
    pub id: DeliveryId,
    /// Who is told.
    pub webhook: WebhookId,
    /// What happened, as it is spelt.
    pub kind: String,
    /// The body, byte for byte.
    pub payload: String,
    /// When it was written, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// How far it has come.
    pub state: DeliveryState,
    /// How often it was begun to be sent.
    pub attempts: u32,
    /// When it is due next.
    pub due_at: i64,
    /// When it was last tried, and what the other side answered or why it did not.
    pub tried_at: Option<i64>,
    /// The HTTP status of the last answer.
    pub status: Option<u16>,
    /// Why the last attempt did not do.
    pub error: Option<String>,
}

/// Which deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryFilter<'a> {
    /// Those of this tenant's webhooks; of all, if nobody says.
    pub tenant: Option<&'a str>,
    /// Those of this webhook.
    pub webhook: Option<WebhookId>,
    /// Those that stand so.
    pub state: Option<DeliveryState>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It arrived.
    Arrived {
        /// What was answered.
        status: u16,
    },
    /// It did not.
    Missed {
        /// What was answered, if anything was.
        status: Option<u16>,
        /// Why that will not do.
        error: String,
        /// When it is tried again, in microseconds since the Unix epoch; never, if nothing is said.
        again: Option<i64>,
    },
    /// The other side wants to be told nothing any more.
    Gone {
        /// What was answered.
        status: u16,
    },
}

/// Writes a delivery for each webhook that wants to hear this of this tenant.
pub(crate) async fn announce(
    tx: &DatabaseTransaction,
    tenant: &str,
    event: EventType,
    data: Value,
) -> Result<(), Error> {
    let rows = webhooks::Entity::find()
        .filter(webhooks::Column::Tenant.eq(tenant).or(webhooks::Column::Tenant.is_null()))
        .filter(webhooks::Column::DisabledAt.is_null());
    let now = time::now();
    let mut new = Vec::new();
    for row in rows.all(tx).await? {
        let webhook = Webhook::try_from(row)?;
        if !webhook.types.contains(&event) {
            continue;
        }
        let id = Uuid::now_v7();
        let payload = json!({
            "object": "event",
            "id": name(id),
            "type": event.as_str(),
            "created_at": now.div_euclid(1_000_000),
            "timestamp": time::rfc3339(now),
            "data": data,
        });
        new.push(deliveries::ActiveModel {
            id: Set(id),
            webhook_id: Set(webhook.id),
            kind: Set(event.to_string()),
            payload: Set(plain(&payload.to_string())),
            created_at: Set(now),
            state: Set(DeliveryState::Pending.to_string()),
            attempts: Set(0),
            due_at: Set(now),
            tried_at: Set(None),
            status: Set(None),
            error: Set(None),
        });
    }
    if !new.is_empty() {
        deliveries::Entity::insert_many(new).exec_without_returning(tx).await?;
    }
    Ok(())
}

/// A delivery's name on the wire: its `webhook-id`.
fn name(id: DeliveryId) -> String {
    format!("msg_{}", id.simple())
}

impl Delivery {
    /// Its name on the wire: its `webhook-id`, the same each time that it is sent.
    pub fn name(&self) -> String {
        name(self.id)
    }
}

impl Store {
    /// Writes down what came of an attempt, unless it was begun anew meanwhile. A webhook that is gone is disabled, and
    /// nothing of it is tried any more.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn settle_delivery(&self, tried: &Delivery, outcome: Outcome) -> Result<(), Error> {
        let tried = tried.clone();
        self.database.transact(move |tx| settle(tx, tried, outcome).boxed()).await
    }

    /// A delivery, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<Delivery>, Error> {
        let row = deliveries::Entity::find_by_id(id).one(&self.database.pool).await?;
        row.map(Delivery::try_from).transpose()
    }

    /// Deliveries, newest first, at most `limit`; those written before `after`.
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
            .apply_if(filter.tenant, |rows, it| rows.filter(of_tenant(it)))
            .apply_if(filter.webhook, |rows, it| rows.filter(Column::WebhookId.eq(it)))
            .apply_if(filter.state, |rows, it| rows.filter(Column::State.eq(it.as_str())))
            .apply_if(after, |rows, it| rows.filter(Column::Id.lt(it)))
            .order_by_desc(Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Delivery::try_from).collect()
    }

    /// Has a delivery sent again, from its first attempt on, under the same name; and says whether it was there.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn redeliver(&self, id: DeliveryId) -> Result<bool, Error> {
        let row = deliveries::ActiveModel {
            state: Set(DeliveryState::Pending.to_string()),
            attempts: Set(0),
            due_at: Set(time::now()),
            ..Default::default()
        };
        let update = deliveries::Entity::update_many().set(row).filter(Column::Id.eq(id));
        Ok(update.exec(&self.database.writer).await?.rows_affected == 1)
    }

    /// Forgets what came of deliveries a month ago, and says of how many.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn sweep_deliveries(&self) -> Result<u64, Error> {
        let over = [DeliveryState::Delivered, DeliveryState::Failed].map(DeliveryState::as_str);
        let delete = deliveries::Entity::delete_many()
            .filter(Column::State.is_in(over))
            .filter(Column::DueAt.lt(time::now() - KEPT));
        Ok(delete.exec(&self.database.writer).await?.rows_affected)
    }
}

async fn settle(tx: &DatabaseTransaction, tried: Delivery, outcome: Outcome) -> Result<(), Error> {
    let (state, status, error, again, gone) = match outcome {
        Outcome::Arrived { status } => (DeliveryState::Delivered, Some(status), None, None, false),
        Outcome::Missed { status, error, again: Some(at) } => {
            (DeliveryState::Pending, status, Some(error), Some(at), false)
        }
        Outcome::Missed { status, error, again: None } => {
            (DeliveryState::Failed, status, Some(error), None, false)
        }
        Outcome::Gone { status } => {
            let words = format!("it answered {status}: it wants to be told nothing any more");
            (DeliveryState::Failed, Some(status), Some(words), None, true)
        }
    };
    let now = time::now();
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
    let why = error.unwrap_or_default();
    let row = webhooks::ActiveModel {
        disabled_at: Set(Some(now)),
        disabled_why: Set(Some(why.clone())),
        ..Default::default()
    };
    webhooks::Entity::update_many().set(row).filter(webhooks::Column::Id.eq(tried.webhook)).exec(tx).await?;
    let row = deliveries::ActiveModel {
        state: Set(DeliveryState::Failed.to_string()),
        due_at: Set(now),
        error: Set(Some(why)),
        ..Default::default()
    };
    deliveries::Entity::update_many()
        .set(row)
        .filter(Column::WebhookId.eq(tried.webhook))
        .filter(Column::State.eq(DeliveryState::Pending.as_str()))
        .exec(tx)
        .await?;
    Ok(())
}

impl TryFrom<deliveries::Model> for Delivery {
    type Error = Error;

    fn try_from(row: deliveries::Model) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Database(format!("delivery {}: {what}", row.id));
        Ok(Self {
            state: row.state.parse().map_err(|_| wrong("its state is unknown"))?,
            attempts: u32::try_from(row.attempts).map_err(|_| wrong("its attempts are no number"))?,
            status: row.status.and_then(|it| u16::try_from(it).ok()),
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
