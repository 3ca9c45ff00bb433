//! `turns`: one row a submitted turn. While it is queued, this row is the only place that knows of it.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, text, text_null, uuid, uuid_uniq},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Turns {
    Table,
    /// Its place in the queue: the lower is heard first. Given by the database, so that no clock decides.
    Position,
    /// A UUIDv7, made by whoever submits.
    Id,
    /// The thread that is to hear it.
    ThreadId,
    /// `queued`, `running`, `completed`, `interrupted`, `failed` or `cancelled`.
    Status,
    /// How its words are to be taken: `auto`, `answer` or `replan`.
    Policy,
    /// Its words: a JSON array of messages, exactly as submitted.
    Input,
    /// What the client wants to find again: a JSON object that nobody here reads.
    Metadata,
    /// Who submitted it.
    Author,
    /// What makes a repeated submission the same one; null if the client named none.
    IdempotencyKey,
    /// What the submission said, so that one key is not used for two requests.
    RequestHash,
    /// The number of the event by which its thread heard it; null while it is queued.
    HeardSeq,
    /// The number of the event that ended it, or that it waits on a person after; null while it is under way.
    EndedSeq,
    /// Why it failed.
    Error,
    /// When it was submitted, in microseconds since the Unix epoch.
    CreatedAt,
    /// When this row was last written, in microseconds since the Unix epoch.
    UpdatedAt,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(Turns::Table)
            .col(big_integer(Turns::Position).auto_increment().primary_key())
            .col(uuid_uniq(Turns::Id))
            .col(uuid(Turns::ThreadId))
            .col(text(Turns::Status))
            .col(text(Turns::Policy))
            .col(text(Turns::Input))
            .col(text(Turns::Metadata))
            .col(text(Turns::Author))
            .col(text_null(Turns::IdempotencyKey).unique_key())
            .col(text_null(Turns::RequestHash))
            .col(big_integer_null(Turns::HeardSeq))
            .col(big_integer_null(Turns::EndedSeq))
            .col(text_null(Turns::Error))
            .col(big_integer(Turns::CreatedAt))
            .col(big_integer(Turns::UpdatedAt))
            .to_owned();
        manager.create_table(table).await?;
        // A thread at rest asks for its oldest queued turn.
        let of_thread = Index::create()
            .name("turns_thread_status_position")
            .table(Turns::Table)
            .col(Turns::ThreadId)
            .col(Turns::Status)
            .col(Turns::Position)
            .to_owned();
        manager.create_index(of_thread).await?;
        // The sweep asks for all that are queued, a progress display for how many.
        let by_status = Index::create()
            .name("turns_status_position")
            .table(Turns::Table)
            .col(Turns::Status)
            .col(Turns::Position)
            .to_owned();
        manager.create_index(by_status).await
    }
}
