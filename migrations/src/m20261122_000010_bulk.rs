//! Bulk: files of lines, batches of their lines, and what came of each line.
//!
//! ## Why results stand in a table of their own
//!
//! A line may be run again, and whoever has read its first result has read it: results are only ever added, numbered
//! without gaps in the order in which they came. A line points at the one that counts.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, big_integer_null, blob, boolean, integer, text, text_null, uuid, uuid_null},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Files {
    Table,
    /// A UUIDv7.
    Id,
    /// Whose it is.
    Tenant,
    /// What its owner calls it.
    Filename,
    /// `batch` or `batch_output`.
    Purpose,
    /// How long it is.
    Bytes,
    /// `uploading`, which nobody sees, or `processed`.
    Status,
    CreatedAt,
    /// When it may be thrown away; null: when its owner does.
    ExpiresAt,
}

#[derive(DeriveIden)]
enum FileChunks {
    Table,
    FileId,
    /// Its place, from 0.
    Nth,
    /// Whether it begins where a line begins, and ends where one ends.
    StartsLine,
    EndsLine,
    /// Some 256 KiB, cut at a line's end where there is one.
    Data,
}

#[derive(DeriveIden)]
enum Batches {
    Table,
    /// A UUIDv7.
    Id,
    Tenant,
    /// Who made it.
    Author,
    /// What every line is sent to.
    Endpoint,
    /// The file of lines.
    InputFile,
    /// As its owner wrote it.
    CompletionWindow,
    /// A JSON object that nobody here reads.
    Metadata,
    /// For how many seconds the files of its results are kept; null: until somebody deletes them.
    OutputSeconds,
    /// Whether an earlier result of the same line is taken.
    Reuse,
    /// What it may cost, in millionths of a US dollar.
    MaxMicroUsd,
    /// How many lines are under way at once.
    Window,
    /// For how many seconds a line may be under way.
    ItemSeconds,
    /// How urgent its turns are.
    Priority,
    Status,
    /// Why nothing more is begun: `paused` or `max_usd`.
    Stopped,
    /// Why it failed as a whole.
    Fault,
    /// The next chunk to validate, and how many lines were found before it.
    Validated,
    Lines,
    /// How many of them are of this batch: all that are not blank.
    Total,
    /// The number of its last result.
    Done,
    /// What its turns took.
    InputTokens,
    OutputTokens,
    MicroUsd,
    /// The files of its results, once they are written.
    OutputFile,
    ErrorFile,
    IdempotencyKey,
    RequestHash,
    /// Which api looks after it, and until when nobody else does.
    KeptBy,
    KeptUntil,
    CreatedAt,
    InProgressAt,
    ExpiresAt,
    FinalizingAt,
    CompletedAt,
    FailedAt,
    ExpiredAt,
    CancellingAt,
    CancelledAt,
}

#[derive(DeriveIden)]
enum BatchItems {
    Table,
    BatchId,
    /// The number of its line in the file, from 1.
    Nth,
    Tenant,
    /// Its owner's name for it; null where it has none, or one that an earlier line has.
    CustomId,
    /// Where its line stands: in which chunk, from which byte, how long.
    Chunk,
    Start,
    Length,
    /// `waiting`, `fed`, `asked`, `completed`, `reused`, `failed`, `bad`, `expired` or `cancelled`.
    State,
    /// How often it was begun anew.
    Attempt,
    /// Names what it asks for by its content.
    Memo,
    Strategy,
    ThreadId,
    TurnId,
    FedAt,
    InputTokens,
    OutputTokens,
    MicroUsd,
    /// Why it has no result.
    Code,
    Message,
    /// The number of the result that counts.
    DoneNo,
}

#[derive(DeriveIden)]
enum BatchResults {
    Table,
    BatchId,
    /// Its number, from 1 without gaps, in the order in which results came.
    N,
    /// Of which line.
    Nth,
    At,
    /// The line of output, without its number.
    Line,
}

fn tables() -> [TableCreateStatement; 5] {
    let files = Table::create()
        .table(Files::Table)
        .col(uuid(Files::Id).primary_key())
        .col(text(Files::Tenant))
        .col(text(Files::Filename))
        .col(text(Files::Purpose))
        .col(big_integer(Files::Bytes))
        .col(text(Files::Status))
        .col(big_integer(Files::CreatedAt))
        .col(big_integer_null(Files::ExpiresAt))
        .to_owned();
    let chunks = Table::create()
        .table(FileChunks::Table)
        .col(uuid(FileChunks::FileId))
        .col(integer(FileChunks::Nth))
        .col(boolean(FileChunks::StartsLine))
        .col(boolean(FileChunks::EndsLine))
        .col(blob(FileChunks::Data))
        .primary_key(Index::create().col(FileChunks::FileId).col(FileChunks::Nth))
        .to_owned();
    let results = Table::create()
        .table(BatchResults::Table)
        .col(uuid(BatchResults::BatchId))
        .col(big_integer(BatchResults::N))
        .col(big_integer(BatchResults::Nth))
        .col(big_integer(BatchResults::At))
        .col(text(BatchResults::Line))
        .primary_key(Index::create().col(BatchResults::BatchId).col(BatchResults::N))
        .to_owned();
    [files, chunks, batches(), items(), results]
}

fn batches() -> TableCreateStatement {
    Table::create()
        .table(Batches::Table)
        .col(uuid(Batches::Id).primary_key())
        .col(text(Batches::Tenant))
        .col(text(Batches::Author))
        .col(text(Batches::Endpoint))
        .col(uuid(Batches::InputFile))
        .col(text(Batches::CompletionWindow))
        .col(text(Batches::Metadata))
        .col(big_integer_null(Batches::OutputSeconds))
        .col(boolean(Batches::Reuse))
        .col(big_integer_null(Batches::MaxMicroUsd))
        .col(big_integer(Batches::Window))
        .col(big_integer_null(Batches::ItemSeconds))
        .col(integer(Batches::Priority))
        .col(text(Batches::Status))
        .col(text_null(Batches::Stopped))
        .col(text_null(Batches::Fault))
        .col(integer(Batches::Validated))
        .col(big_integer(Batches::Lines))
        .col(big_integer(Batches::Total))
        .col(big_integer(Batches::Done))
        .col(big_integer(Batches::InputTokens))
        .col(big_integer(Batches::OutputTokens))
        .col(big_integer(Batches::MicroUsd))
        .col(uuid_null(Batches::OutputFile))
        .col(uuid_null(Batches::ErrorFile))
        .col(text_null(Batches::IdempotencyKey).unique_key())
        .col(text_null(Batches::RequestHash))
        .col(text_null(Batches::KeptBy))
        .col(big_integer(Batches::KeptUntil))
        .col(big_integer(Batches::CreatedAt))
        .col(big_integer_null(Batches::InProgressAt))
        .col(big_integer(Batches::ExpiresAt))
        .col(big_integer_null(Batches::FinalizingAt))
        .col(big_integer_null(Batches::CompletedAt))
        .col(big_integer_null(Batches::FailedAt))
        .col(big_integer_null(Batches::ExpiredAt))
        .col(big_integer_null(Batches::CancellingAt))
        .col(big_integer_null(Batches::CancelledAt))
        .to_owned()
}

fn items() -> TableCreateStatement {
    Table::create()
        .table(BatchItems::Table)
        .col(uuid(BatchItems::BatchId))
        .col(big_integer(BatchItems::Nth))
        .col(text(BatchItems::Tenant))
        .col(text_null(BatchItems::CustomId))
        .col(integer(BatchItems::Chunk))
        .col(integer(BatchItems::Start))
        .col(integer(BatchItems::Length))
        .col(text(BatchItems::State))
        .col(integer(BatchItems::Attempt))
        .col(text_null(BatchItems::Memo))
        .col(text_null(BatchItems::Strategy))
        .col(uuid_null(BatchItems::ThreadId))
        .col(uuid_null(BatchItems::TurnId))
        .col(big_integer_null(BatchItems::FedAt))
        .col(big_integer(BatchItems::InputTokens))
        .col(big_integer(BatchItems::OutputTokens))
        .col(big_integer(BatchItems::MicroUsd))
        .col(text_null(BatchItems::Code))
        .col(text_null(BatchItems::Message))
        .col(big_integer_null(BatchItems::DoneNo))
        .primary_key(Index::create().col(BatchItems::BatchId).col(BatchItems::Nth))
        .to_owned()
}

fn indexes() -> [IndexCreateStatement; 5] {
    // A tenant's lists come newest first.
    let files = Index::create()
        .name("files_tenant_id")
        .table(Files::Table)
        .col(Files::Tenant)
        .col(Files::Id)
        .to_owned();
    let batches = Index::create()
        .name("batches_tenant_id")
        .table(Batches::Table)
        .col(Batches::Tenant)
        .col(Batches::Id)
        .to_owned();
    // Those that are to be looked after.
    let open = Index::create().name("batches_status").table(Batches::Table).col(Batches::Status).to_owned();
    // What is next, and how many there are of each state.
    let states = Index::create()
        .name("batch_items_state_nth")
        .table(BatchItems::Table)
        .col(BatchItems::BatchId)
        .col(BatchItems::State)
        .col(BatchItems::Nth)
        .to_owned();
    // An earlier result of the same line.
    let memos = Index::create()
        .name("batch_items_tenant_custom_id_memo")
        .table(BatchItems::Table)
        .col(BatchItems::Tenant)
        .col(BatchItems::CustomId)
        .col(BatchItems::Memo)
        .to_owned();
    [files, batches, open, states, memos]
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in tables() {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        // A name stands once in a batch, however many lines are validated at once.
        let names = Index::create()
            .name("batch_items_custom_id")
            .table(BatchItems::Table)
            .col(BatchItems::BatchId)
            .col(BatchItems::CustomId)
            .unique()
            .to_owned();
        manager.create_index(names).await
    }
}
