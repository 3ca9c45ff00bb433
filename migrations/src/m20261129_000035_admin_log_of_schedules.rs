//! Schedules, webhooks and configurations in the administrative logs.
//!
//! After this migration, the store writes an entry for each schedule and webhook that exists: from now on, a verification compares
//! their rows with the logs. The index finds the last configurations, which each process reads when it starts.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const CONFIGURATIONS: &str = "CREATE INDEX admin_events_configuration ON admin_events (log_id, seq) \
                              WHERE kind = 'configuration_changed'";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, CONFIGURATIONS).await
    }
}
