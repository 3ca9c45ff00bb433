//! Webhooks: where somebody wants to be told, and what they are told until it has arrived.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, integer, integer_null, text, text_null, uuid},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Webhooks {
    Table,
    /// A UUIDv7.
    Id,
    /// Whose batches it is told of; null: an operator's, told of all.
    Tenant,
    Url,
    /// A JSON array: the types that it is told of.
    Types,
    /// With what its deliveries are signed, as it was given to its owner: `whsec_…`.
    Secret,
    CreatedAt,
    /// Since when it is told nothing more, and why.
    DisabledAt,
    DisabledWhy,
}

#[derive(DeriveIden)]
enum WebhookDeliveries {
    Table,
    /// A UUIDv7, from which `webhook-id` is made.
    Id,
    WebhookId,
    /// What happened.
    Type,
    /// The body, byte for byte as it is signed.
    Payload,
    CreatedAt,
    /// `pending`, `delivered` or `failed`.
    State,
    /// How often it was begun to be sent.
    Attempts,
    /// When it is due; while it is being sent, when whoever sends it counts as dead.
    DueAt,
    /// What the last attempt came to.
    TriedAt,
    Status,
    Error,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let webhooks = Table::create()
            .table(Webhooks::Table)
            .col(uuid(Webhooks::Id).primary_key())
            .col(text_null(Webhooks::Tenant))
            .col(text(Webhooks::Url))
            .col(text(Webhooks::Types))
            .col(text(Webhooks::Secret))
            .col(big_integer(Webhooks::CreatedAt))
            .col(big_integer_null(Webhooks::DisabledAt))
            .col(text_null(Webhooks::DisabledWhy))
            .to_owned();
        manager.create_table(webhooks).await?;
        let deliveries = Table::create()
            .table(WebhookDeliveries::Table)
            .col(uuid(WebhookDeliveries::Id).primary_key())
            .col(uuid(WebhookDeliveries::WebhookId))
            .col(text(WebhookDeliveries::Type))
            .col(text(WebhookDeliveries::Payload))
            .col(big_integer(WebhookDeliveries::CreatedAt))
            .col(text(WebhookDeliveries::State))
            .col(integer(WebhookDeliveries::Attempts))
            .col(big_integer(WebhookDeliveries::DueAt))
            .col(big_integer_null(WebhookDeliveries::TriedAt))
            .col(integer_null(WebhookDeliveries::Status))
            .col(text_null(WebhookDeliveries::Error))
            .to_owned();
        manager.create_table(deliveries).await?;
        let due = Index::create()
            .name("webhook_deliveries_state_due_at")
            .table(WebhookDeliveries::Table)
            .col(WebhookDeliveries::State)
            .col(WebhookDeliveries::DueAt)
            .to_owned();
        manager.create_index(due).await?;
        let log = Index::create()
            .name("webhook_deliveries_webhook_id")
            .table(WebhookDeliveries::Table)
            .col(WebhookDeliveries::WebhookId)
            .col(WebhookDeliveries::Id)
            .to_owned();
        manager.create_index(log).await
    }
}
