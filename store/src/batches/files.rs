//! Files: written once, chunk by chunk, and read any number of times.
//!
//! **Invariant:** a file is invisible until it is complete, and again once it is deleted. The sweeper removes an
//! unfinished upload after one day and the remains of a deleted file on its next run.

use std::time::Duration;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, ExprTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _,
    sea_query::{Expr, Query, SimpleExpr},
};

use super::{
    BatchId, BatchStatus, Chunk, FileId,
    batch::is_open,
    tables::{batches, chunks, files},
    transitions::lock_batch,
};
use crate::{
    AdminEvent, By, Error, Order, Store,
    admin::{Entry, append},
    log::{Transaction, at_most, plain, replanned::Replanned, signed, statement, unsigned},
};

/// States of a file: being uploaded, complete, and deleted.
const UPLOADING: &str = "uploading";
const PROCESSED: &str = "processed";
const GONE: &str = "gone";

/// Number of chunks of a deleted file that one statement removes: about 16 MiB.
const AT_ONCE: i32 = 64;

/// Expired files, unfinished uploads, and remains of deleted files. Each part has an index that contains little more than its rows.
const TO_SWEEP: &str = "SELECT id FROM files WHERE expires_at < $1 UNION SELECT id FROM files \
                        WHERE status <> 'processed' AND (status = 'gone' OR created_at < $2)";

/// Time limit for an upload, in microseconds.
const WHOLE_WITHIN: i64 = 24 * 60 * 60 * 1_000_000;

/// Parameters of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Tenant that owns the file.
    pub tenant: String,
    /// File name from the client.
    pub filename: String,
    /// Purpose of the file, as in OpenAI's API.
    pub purpose: String,
}

/// A complete file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Id of the file.
    pub id: FileId,
    /// Tenant that owns the file.
    pub tenant: String,
    /// File name from the client.
    pub filename: String,
    /// Purpose of the file, as in OpenAI's API.
    pub purpose: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Start of the upload, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Expiry of the file, in microseconds since the Unix epoch; it is invisible afterwards.
    pub expires_at: Option<i64>,
}

impl Store {
    /// Starts an upload with this id. Content that was stored under the id before is deleted.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begin_file(&self, id: FileId, new: NewFile) -> Result<(), Error> {
        let row = row(id, new);
        self.database.transact(move |tx| begin(tx, row, id).boxed()).await
    }

    /// Starts a result file of a batch that `owner` is finishing.
    ///
    /// ## Why the batch is checked
    ///
    /// A coordinator that lost its lease may try to write a file that is already complete and that the batch's owner
    /// may be reading.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if `owner` no longer holds the batch, or if the batch has ended or has no such file, and
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begin_results(
        &self,
        batch: BatchId,
        owner: &str,
        id: FileId,
        new: NewFile,
    ) -> Result<(), Error> {
        // Earlier content is deleted in parts, so that the batch's row is not locked for long.
        for _ in 0..2 {
            let (row, owner) = (row(id, new.clone()), owner.to_owned());
            if self.database.transact(move |tx| begin_results(tx, batch, owner, row, id).boxed()).await? {
                return Ok(());
            }
            self.erase(id).await?;
        }
        Err(Error::BatchLost(batch))
    }

    /// Writes the chunk at this index.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn write_chunk(&self, file: FileId, nth: u32, chunk: Chunk) -> Result<(), Error> {
        let Chunk { starts_line, ends_line, data } = chunk;
        let row = chunks::ActiveModel {
            file_id: Set(file),
            nth: Set(place(nth)),
            starts_line: Set(starts_line),
            ends_line: Set(ends_line),
            data: Set(data),
        };
        chunks::Entity::insert(row).exec_without_returning(&self.database.writer).await?;
        Ok(())
    }

    /// Marks a file as complete, with its number of chunks, its size, and its lifetime in seconds after the start of
    /// the upload; without a lifetime it is kept until it is deleted. Returns `None` if a chunk is missing: the file
    /// was deleted in the meantime, or another writer restarted the upload.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn finish_file(
        &self,
        id: FileId,
        chunks: u32,
        bytes: u64,
        seconds: Option<u64>,
    ) -> Result<Option<File>, Error> {
        let row = files::ActiveModel {
            bytes: Set(signed(bytes)),
            status: Set(PROCESSED.to_owned()),
            ..Default::default()
        };
        let (of_it, all) = (Expr::col(chunks::Column::FileId), Expr::col(chunks::Column::Nth).count());
        let there = Query::select().expr(all).from(chunks::Entity).and_where(of_it.eq(id)).take();
        let is_whole = SimpleExpr::from(there).eq(place(chunks));
        let begun = Expr::col(files::Column::CreatedAt);
        let update = files::Entity::update_many()
            .set(row)
            .apply_if(seconds, |update, kept| {
                update.col_expr(
                    files::Column::ExpiresAt,
                    begun.add(clock::duration_micros(Duration::from_secs(kept))),
                )
            })
            .filter(files::Column::Id.eq(id))
            .filter(files::Column::Status.ne(GONE))
            .filter(is_whole);
        let updated = update.exec(&self.database.writer).await?.rows_affected;
        if updated == 0 { Ok(None) } else { self.file(id).await }
    }

    /// Returns a file if it exists, is complete and has not expired.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn file(&self, id: FileId) -> Result<Option<File>, Error> {
        let rows = files::Entity::find_by_id(id).filter(is_there());
        rows.one(&self.database.pool).await?.map(File::try_from).transpose()
    }

    /// Returns at most `limit` complete, unexpired files that come after `after` in this order, for one tenant or all,
    /// and for one purpose or any.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn files(
        &self,
        tenant: Option<&str>,
        purpose: Option<&str>,
        order: Order,
        after: Option<FileId>,
        limit: u64,
    ) -> Result<Vec<File>, Error> {
        let rows = files::Entity::find()
            .filter(is_there())
            .apply_if(tenant, |rows, tenant| rows.filter(files::Column::Tenant.eq(tenant)))
            .apply_if(purpose, |rows, purpose| rows.filter(files::Column::Purpose.eq(purpose)));
        let rows = order.page(rows, files::Column::Id, after).limit(at_most(limit));
        rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(File::try_from).collect()
    }

    /// Returns the chunk at this index, if the file has one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn chunk(&self, file: FileId, nth: u32) -> Result<Option<Chunk>, Error> {
        let row = chunks::Entity::find_by_id((file, place(nth))).one(&self.database.pool).await?;
        Ok(row.map(|chunk| Chunk {
            starts_line: chunk.starts_line,
            ends_line: chunk.ends_line,
            data: chunk.data,
        }))
    }

    /// Deletes a file unless an open batch reads it. Returns true if the file is gone.
    ///
    /// The first write makes the file invisible. Its chunks are removed afterwards in several statements, so a long
    /// file does not block other writes. The next sweep removes whatever an interruption leaves behind.
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn delete_file(&self, id: FileId, by: impl Into<By>) -> Result<bool, Error> {
        let by = by.into();
        if !self.database.transact(move |tx| hide_unread(tx, id, by).boxed()).await? {
            return Ok(false);
        }
        self.erase(id).await?;
        Ok(true)
    }

    /// Removes the chunks of a deleted file, a limited number at a time.
    ///
    /// **Invariant:** if a new upload has started with the same id, its chunks are kept.
    async fn erase(&self, id: FileId) -> Result<(), Error> {
        let (pool, of_it) = (&self.database.pool, || chunks::Column::FileId.eq(id));
        let gone = files::Entity::find_by_id(id).filter(files::Column::Status.eq(GONE));
        let is_gone = Expr::exists(gone.select_only().column(files::Column::Id).into_query());
        let last = chunks::Entity::find().filter(of_it()).select_only().column(chunks::Column::Nth);
        let last = last.order_by_desc(chunks::Column::Nth).into_tuple::<i32>().one(pool).await?;
        let mut from = 0;
        while last.is_some_and(|seq| from <= seq) {
            let to = from.saturating_add(AT_ONCE);
            let some = chunks::Column::Nth.gte(from).and(chunks::Column::Nth.lt(to));
            let delete = chunks::Entity::delete_many().filter(of_it()).filter(some).filter(is_gone.clone());
            delete.exec(&self.database.writer).await?;
            from = to;
        }
        let delete = files::Entity::delete_by_id(id).filter(files::Column::Status.eq(GONE));
        delete.exec(&self.database.writer).await?;
        Ok(())
    }

    /// Removes files that are no longer needed: expired files that no open batch reads, unfinished uploads, and the
    /// remains of deleted files.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn sweep_files(&self) -> Result<u64, Error> {
        let (pool, now) = (&self.database.hot, clock::now());
        let find = statement(pool, TO_SWEEP, [now.into(), (now - WHOLE_WITHIN).into()]);
        let mut swept = 0;
        for row in pool.query_all_raw(find).await? {
            let by = By::turnfold(Some("it expired".to_owned()));
            swept += u64::from(self.delete_file(row.try_get("", "id")?, by).await?);
        }
        Ok(swept)
    }
}

/// Builds the row of a file whose upload starts now.
fn row(id: FileId, new: NewFile) -> files::ActiveModel {
    files::ActiveModel {
        id: Set(id),
        tenant: Set(plain(&new.tenant)),
        filename: Set(plain(&new.filename)),
        purpose: Set(plain(&new.purpose)),
        bytes: Set(0),
        status: Set(UPLOADING.to_owned()),
        created_at: Set(clock::now()),
        expires_at: Set(None),
    }
}

/// **Invariant:** the file's row is written first, so two writers of the same file cannot deadlock.
async fn begin(tx: &Transaction, row: files::ActiveModel, id: FileId) -> Result<(), Error> {
    files::Entity::delete_by_id(id).exec(tx).await?;
    chunks::Entity::delete_many().filter(chunks::Column::FileId.eq(id)).exec(tx).await?;
    files::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

/// Starts a result file. An existing file with the same id is deleted.
async fn begin_results(
    tx: &Transaction,
    batch: BatchId,
    owner: String,
    row: files::ActiveModel,
    id: FileId,
) -> Result<bool, Error> {
    let kept = lock_batch(tx, batch, &owner).await?;
    let is_its = [kept.output_file, kept.error_file].contains(&Some(id));
    if !is_its || kept.status != BatchStatus::Finalizing.as_str() {
        return Err(Error::BatchLost(batch));
    }
    if hide(tx, id).await? {
        return Ok(false);
    }
    files::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(true)
}

async fn hide_unread(tx: &Transaction, id: FileId, by: By) -> Result<bool, Error> {
    let file = files::Entity::find_by_id(id).lock_exclusive().one(tx).await?;
    // A separate statement, so that it sees a batch committed by the previous holder of the row lock.
    let reads = batches::Entity::find().filter(is_open()).filter(batches::Column::InputFile.eq(id));
    if reads.one(tx).await?.is_some() {
        return Ok(false);
    }
    hide(tx, id).await?;
    // Of an upload that was not completed, and of a file that was deleted before, only remains are removed.
    if let Some(file) = file.filter(|file| file.status == PROCESSED) {
        let deleted = AdminEvent::FileDeleted { file: id };
        append(tx, vec![Entry::new(Some(&file.tenant), by, deleted)]).await?;
    }
    Ok(true)
}

/// Makes a file invisible. Returns true if it existed.
async fn hide(tx: &Transaction, id: FileId) -> Result<bool, Error> {
    let row = files::ActiveModel { status: Set(GONE.to_owned()), ..Default::default() };
    let update = files::Entity::update_many().set(row).filter(files::Column::Id.eq(id));
    Ok(update.exec(tx).await?.rows_affected > 0)
}

/// Returns true if a batch can read this file.
///
/// **Invariant:** every transaction that opens a batch calls this function. It locks the file's row, as deletion does,
/// so one of the two always sees the other.
pub(crate) async fn is_readable(tx: &Transaction, id: FileId) -> Result<bool, Error> {
    let row = files::Entity::find_by_id(id).filter(is_there()).lock_shared();
    Ok(row.one(tx).await?.is_some())
}

/// SQL condition for a file that is complete and has not expired. An open batch can still read an expired file.
fn is_there() -> SimpleExpr {
    let expires = files::Column::ExpiresAt;
    files::Column::Status.eq(PROCESSED).and(expires.is_null().or(expires.gt(clock::now())))
}

/// Converts an index to its SQL type. It would saturate only for a file of more than `i32::MAX` chunks.
pub(crate) fn place(nth: u32) -> i32 {
    i32::try_from(nth).unwrap_or(i32::MAX)
}

impl TryFrom<files::Model> for File {
    type Error = Error;

    fn try_from(row: files::Model) -> Result<Self, Error> {
        let files::Model { id, tenant, filename, purpose, bytes, status: _, created_at, expires_at } = row;
        Ok(Self { id, tenant, filename, purpose, bytes: unsigned(bytes)?, created_at, expires_at })
    }
}
