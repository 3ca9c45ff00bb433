//! Counts of ended turns and of model responses, by interval.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE ended_turn_counts (
        seconds BIGINT NOT NULL,      -- length of the interval
        start BIGINT NOT NULL,        -- start of the interval, in microseconds
        tenant TEXT NOT NULL,
        strategy TEXT NOT NULL,
        ended TEXT NOT NULL,          -- answered, partial, declined, interrupted, failed or cancelled
        cause TEXT NOT NULL,          -- as in turns; empty if there is none
        turns BIGINT NOT NULL,
        PRIMARY KEY (seconds, start, tenant, strategy, ended, cause)
    );

    CREATE TABLE model_response_counts (
        seconds BIGINT NOT NULL,
        start BIGINT NOT NULL,
        tenant TEXT NOT NULL,
        strategy TEXT NOT NULL,
        model TEXT NOT NULL,          -- as provider/model
        responses BIGINT NOT NULL,
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        micro_usd BIGINT NOT NULL,
        without_usage BIGINT NOT NULL,
        without_price BIGINT NOT NULL,
        PRIMARY KEY (seconds, start, tenant, strategy, model)
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
