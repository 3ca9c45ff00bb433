//! Which question a turn answers, so that it is never heard as the answer to the next one.

use sea_orm_migration::{prelude::*, schema::big_integer_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Turns {
    Table,
    /// The number of the next event of the log that ended with the question; null of a turn that answers none, or
    /// whichever is asked when it is heard.
    AnswersSeq,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = big_integer_null(Turns::AnswersSeq);
        manager.alter_table(Table::alter().table(Turns::Table).add_column(column).to_owned()).await
    }
}
