//! Texts of built-in prompts, and counts of the use of all prompts.
//!
//! ## Why only built-in texts have a table
//!
//! A later version of the code has other texts, and no log has the template of an earlier one. A configured prompt stands in the logs of
//! its threads, may contain personal data, and is deleted with the last of them.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE prompt_templates (
        name TEXT NOT NULL PRIMARY KEY,   -- first digits of the hash of the text
        content TEXT NOT NULL
    );

    CREATE TABLE prompt_counts (
        tenant TEXT NOT NULL,
        strategy TEXT NOT NULL,
        node TEXT NOT NULL,               -- empty in the row that counts ratings of the strategy
        prompt TEXT NOT NULL,             -- name as in the log; empty if the request has none
        model TEXT NOT NULL,              -- as provider/model
        first_used BIGINT NOT NULL,
        last_used BIGINT NOT NULL,
        last_thread UUID NOT NULL,        -- the thread that used it last
        responses BIGINT NOT NULL,
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        micro_usd BIGINT NOT NULL,
        without_price BIGINT NOT NULL,
        answered BIGINT NOT NULL,         -- turns by their end
        partial BIGINT NOT NULL,
        declined BIGINT NOT NULL,
        failed BIGINT NOT NULL,
        good BIGINT NOT NULL,             -- rated turns, each by its last rating
        bad BIGINT NOT NULL,
        PRIMARY KEY (tenant, strategy, node, prompt, model)
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
