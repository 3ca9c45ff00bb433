//! Claims due deliveries: each is sent by one API server at a time, and tenants take turns.

use std::{collections::BTreeMap, iter};

use queue::clock;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait as _, EntityTrait as _, ExprTrait as _, FromQueryResult, QueryFilter as _, Value,
    sea_query::{Expr, SimpleExpr},
};
use uuid::Uuid;

use super::{
    Delivery, DeliveryId, DeliveryState, WebhookId,
    table::deliveries::{self, Column},
};
use crate::{Error, Store, log::statement};

/// Maximum number of due deliveries examined per round.
const LOOKED_AT: i64 = 256;

/// Limits on concurrent deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryLimits {
    /// Total number of deliveries.
    pub all: usize,
    /// Deliveries to the webhooks of one tenant; all operator webhooks together count as one tenant.
    pub tenant: usize,
    /// Deliveries to one webhook.
    pub webhook: usize,
}

/// Recipient of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Id of the webhook.
    pub webhook: WebhookId,
    /// Tenant that owns the webhook; `None` for an operator webhook.
    pub tenant: Option<String>,
}

/// A delivery that is due.
#[derive(FromQueryResult)]
struct Due {
    id: DeliveryId,
    webhook_id: WebhookId,
    tenant: Option<String>,
}

impl Store {
    /// Claims due deliveries, each under a lease of `lease` microseconds, up to the limits in `at_once`, which include
    /// the running deliveries in `busy`. The scheduling is fair: the next delivery goes to the tenant, and then to the
    /// webhook, with the fewest running deliveries. Each claim counts as an attempt.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn claim_deliveries(
        &self,
        at_once: DeliveryLimits,
        busy: &[Endpoint],
        lease: i64,
    ) -> Result<Vec<(Endpoint, Delivery)>, Error> {
        let now = clock::now();
        let (mut tenants, mut webhooks) = (BTreeMap::new(), BTreeMap::new());
        for delivery in busy {
            *tenants.entry(delivery.tenant.clone()).or_insert(0) += 1;
            *webhooks.entry(delivery.webhook).or_insert(0) += 1;
        }
        let full = webhooks.iter().filter(|(_, count)| at_once.webhook <= **count).map(|(id, _)| *id);
        let mut due = self.look(now, at_once.webhook, full.collect()).await?;
        let mut taken = BTreeMap::new();
        while busy.len() + taken.len() < at_once.all {
            let on_their_way = |delivery: &Due| {
                let of_tenant = tenants.get(&delivery.tenant).copied().unwrap_or(0);
                (of_tenant, webhooks.get(&delivery.webhook_id).copied().unwrap_or(0))
            };
            let next = due.iter().enumerate().map(|(nth, delivery)| (on_their_way(delivery), nth));
            let next = next.filter(|((of_tenant, of_webhook), _)| {
                *of_tenant < at_once.tenant && *of_webhook < at_once.webhook
            });
            let Some((_, nth)) = next.min() else { break };
            let Due { id, webhook_id, tenant } = due.remove(nth);
            *tenants.entry(tenant.clone()).or_insert(0) += 1;
            *webhooks.entry(webhook_id).or_insert(0) += 1;
            taken.insert(id, Endpoint { webhook: webhook_id, tenant });
        }
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let row = deliveries::ActiveModel { due_at: Set(now + lease), ..Default::default() };
        let update = deliveries::Entity::update_many()
            .set(row)
            .col_expr(Column::Attempts, Expr::col(Column::Attempts).add(1))
            .filter(Column::Id.is_in(taken.keys().copied()))
            .filter(is_due(now));
        let rows = update.exec_with_returning(&self.database.writer).await?;
        let named = |row: deliveries::Model| Some((taken.remove(&row.id)?, Delivery::try_from(row)));
        rows.into_iter().filter_map(named).map(|(to, delivery)| Ok((to, delivery?))).collect()
    }

    /// Returns due deliveries, at most `each` per webhook and none of the webhooks in `full`. The first delivery of
    /// every tenant comes first, so a backlog of one tenant does not hide the others.
    async fn look(&self, now: i64, each: usize, full: Vec<WebhookId>) -> Result<Vec<Due>, Error> {
        // SQL has no empty lists; no webhook has the nil UUID.
        let full: Vec<Value> = iter::once(Uuid::nil()).chain(full).map(Value::from).collect();
        let marks: Vec<String> = (4..).take(full.len()).map(|nth| format!("${nth}")).collect();
        let sql = format!(
            "SELECT id, webhook_id, tenant FROM \
             (SELECT due.*, webhooks.tenant, row_number() OVER \
             (PARTITION BY webhooks.tenant ORDER BY of_webhook, due_at, due.id) AS of_tenant FROM \
             (SELECT id, webhook_id, due_at, row_number() OVER \
             (PARTITION BY webhook_id ORDER BY due_at, id) AS of_webhook FROM webhook_deliveries \
             WHERE state = 'pending' AND due_at <= $1 AND webhook_id NOT IN ({})) AS due \
             JOIN webhooks ON webhooks.id = due.webhook_id WHERE of_webhook <= $2) AS due \
             ORDER BY of_tenant, due_at, id LIMIT $3",
            marks.join(", ")
        );
        let values: [Value; 3] =
            [now.into(), i64::try_from(each).unwrap_or(i64::MAX).into(), LOOKED_AT.into()];
        let pool = &self.database.pool;
        let look = statement(pool, &sql, values.into_iter().chain(full));
        Ok(Due::find_by_statement(look).all(pool).await?)
    }
}

fn is_due(now: i64) -> SimpleExpr {
    Column::State.eq(DeliveryState::Pending.as_str()).and(Column::DueAt.lte(now))
}
