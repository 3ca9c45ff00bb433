//! Answers that clients wait for, and the processes that send them.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE answer_waiters (
        id UUID NOT NULL PRIMARY KEY,               -- process, new at each start
        seen_at BIGINT NOT NULL                     -- an old time: the process was killed
    );
    CREATE TABLE awaited_answers (
        waiter UUID NOT NULL,
        turn_id UUID NOT NULL,
        request_key TEXT NOT NULL,                  -- request of the client
        since BIGINT NOT NULL,
        PRIMARY KEY (waiter, turn_id)
    );
    CREATE INDEX awaited_answers_by_request ON awaited_answers (request_key)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
