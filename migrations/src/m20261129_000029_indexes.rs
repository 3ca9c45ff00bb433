//! Indexes and a column for statements that read whole tables: of conversations, files and batches.
//!
//! ## Why a conversation knows that its thread has begun
//!
//! Those without a thread are counted at each creation. An index that contains only them stays small, whereas a search for their
//! missing threads reads every conversation of the tenant.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const STATEMENTS: &str = "
    -- An older build does not set it, so false does not prove that there is no thread.
    ALTER TABLE conversations ADD COLUMN begun BOOLEAN NOT NULL DEFAULT FALSE;
    UPDATE conversations SET begun = TRUE WHERE EXISTS (SELECT 1 FROM threads WHERE threads.id = conversations.thread_id);
    DROP INDEX conversations_by_tenant;
    CREATE INDEX conversations_unused ON conversations (tenant) WHERE NOT begun;

    CREATE INDEX files_unfinished ON files (created_at) WHERE status <> 'processed';
    CREATE INDEX files_expires_at ON files (expires_at) WHERE expires_at IS NOT NULL;

    CREATE INDEX batches_input_file ON batches (input_file);
    CREATE INDEX batches_output_file ON batches (output_file) WHERE output_file IS NOT NULL;
    CREATE INDEX batches_error_file ON batches (error_file) WHERE error_file IS NOT NULL";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, STATEMENTS).await
    }
}
