//! Files: written once, piece by piece, and read as often as anybody likes.
//!
//! **Invariant:** a file is not there for anybody before it is whole, or once it is thrown away. What a writer left behind that
//! died is swept away after a day; what whoever threw a file away left behind, with the next sweep.

use std::time::Duration;

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait as _, DatabaseTransaction, EntityTrait as _, ExprTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _,
    sea_query::{Expr, Query, SimpleExpr},
};
use uuid::Uuid;

use super::{
    BatchId, BatchStatus, Chunk, FileId,
    batches::is_open,
    record::hold,
    tables::{batches, chunks, files},
};
use crate::{
    Error, Order, Store,
    log::{at_most, plain, signed, unsigned},
    time,
};

/// That of a file that is being written, that of one that is whole, and that of one that is thrown away.
const UPLOADING: &str = "uploading";
const PROCESSED: &str = "processed";
const GONE: &str = "gone";

/// How many pieces of a file that is thrown away go in one statement: some 16 MiB.
const AT_ONCE: i32 = 64;

/// How long after its beginning a file must be whole, in microseconds.
const WHOLE_WITHIN: i64 = 24 * 60 * 60 * 1_000_000;

/// A file that somebody begins to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Whose it is.
    pub tenant: String,
    /// What its owner calls it.
    pub filename: String,
    /// What it is for.
    pub purpose: String,
}

/// A file that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Which.
    pub id: FileId,
    /// Whose it is.
    pub tenant: String,
    /// What its owner calls it.
    pub filename: String,
    /// What it is for.
    pub purpose: String,
    /// How long it is.
    pub bytes: u64,
    /// When it was begun, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// From when on nobody sees it.
    pub expires_at: Option<i64>,
}

impl Store {
    /// Begins to write a file under this name; what was written under it before is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begin_file(&self, id: FileId, new: NewFile) -> Result<(), Error> {
        let row = row(id, new);
        self.database.transact(move |tx| begin(tx, row, id).boxed()).await
    }

    /// The same for a file of the results of a batch, whose end `keeper` writes.
    ///
    /// ## Why the batch is asked
    ///
    /// Whoever overslept its lease may think that the file is still to be written, and it is what the owner of the batch
    /// reads by now.
    ///
    /// # Errors
    ///
    /// [`Error::BatchLost`] if the batch is no longer `keeper`'s, has come to its end or has no such file, and
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begin_results(
        &self,
        batch: BatchId,
        keeper: &str,
        id: FileId,
        new: NewFile,
    ) -> Result<(), Error> {
        // What was written before goes piece by piece, so that the row of the batch is not locked for long.
        for _ in 0..2 {
            let (row, keeper) = (row(id, new.clone()), keeper.to_owned());
            if self.database.transact(move |tx| begin_results(tx, batch, keeper, row, id).boxed()).await? {
                return Ok(());
            }
            self.erase(id).await?;
        }
        Err(Error::BatchLost(batch))
    }

    /// Writes the piece at this place.
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

    /// Says that a file is whole, of so many pieces, how long it is, and for how many seconds after its beginning it is
    /// kept; until somebody deletes it, if nobody says. Nothing, if a piece of it is not there: it was deleted meanwhile, or
    /// somebody else began it again.
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
            .apply_if(seconds, |it, kept| {
                it.col_expr(files::Column::ExpiresAt, begun.add(time::span(Duration::from_secs(kept))))
            })
            .filter(files::Column::Id.eq(id))
            .filter(files::Column::Status.ne(GONE))
            .filter(is_whole);
        let updated = update.exec(&self.database.writer).await?.rows_affected;
        if updated == 0 { Ok(None) } else { self.file(id).await }
    }

    /// A file, if there is one, it is whole, and its time is not over.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn file(&self, id: FileId) -> Result<Option<File>, Error> {
        let rows = files::Entity::find_by_id(id).filter(is_there());
        rows.one(&self.database.pool).await?.map(File::try_from).transpose()
    }

    /// Files that are whole and whose time is not over, at most `limit`: those that come after `after` in this order, of this
    /// tenant or of all, for this purpose or any.
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
        let id = files::Column::Id;
        let rows = files::Entity::find()
            .filter(is_there())
            .apply_if(tenant, |rows, it| rows.filter(files::Column::Tenant.eq(it)))
            .apply_if(purpose, |rows, it| rows.filter(files::Column::Purpose.eq(it)))
            .limit(at_most(limit));
        let rows = match order {
            Order::NewestFirst => rows.apply_if(after, |it, id_of| it.filter(id.lt(id_of))).order_by_desc(id),
            Order::OldestFirst => rows.apply_if(after, |it, id_of| it.filter(id.gt(id_of))).order_by_asc(id),
        };
        rows.all(&self.database.pool).await?.into_iter().map(File::try_from).collect()
    }

    /// A piece of a file, if it has one at this place.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn chunk(&self, file: FileId, nth: u32) -> Result<Option<Chunk>, Error> {
        let row = chunks::Entity::find_by_id((file, place(nth))).one(&self.database.pool).await?;
        Ok(row.map(|it| Chunk { starts_line: it.starts_line, ends_line: it.ends_line, data: it.data }))
    }

    /// Throws a file away, with all of its pieces, unless a batch that is open reads it; says whether it is gone.
    ///
    /// From the first write on nobody sees it. Its pieces go after that, some at a time: a long file holds up no other
    /// write. What is left of it when that is broken off goes with the next sweep.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn delete_file(&self, id: FileId) -> Result<bool, Error> {
        if !self.database.transact(move |tx| hide_unread(tx, id).boxed()).await? {
            return Ok(false);
        }
        self.erase(id).await?;
        Ok(true)
    }

    /// Deletes what there is of a file that was thrown away, some pieces at a time.
    ///
    /// **Invariant:** nothing goes of a file that somebody has begun again since.
    async fn erase(&self, id: FileId) -> Result<(), Error> {
        let (pool, of_it) = (&self.database.pool, || chunks::Column::FileId.eq(id));
        let gone = files::Entity::find_by_id(id).filter(files::Column::Status.eq(GONE));
        let is_gone = Expr::exists(gone.select_only().column(files::Column::Id).into_query());
        let last = chunks::Entity::find().filter(of_it()).select_only().column(chunks::Column::Nth);
        let last = last.order_by_desc(chunks::Column::Nth).into_tuple::<i32>().one(pool).await?;
        let mut from = 0;
        while last.is_some_and(|it| from <= it) {
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

    /// Throws away what nobody can want any more: files whose time is over and that no open batch reads, those that were
    /// never finished, and what is left of those that were thrown away.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn sweep_files(&self) -> Result<u64, Error> {
        let now = time::now();
        let unfinished =
            files::Column::Status.eq(UPLOADING).and(files::Column::CreatedAt.lt(now - WHOLE_WITHIN));
        let ids: Vec<Uuid> = files::Entity::find()
            .select_only()
            .column(files::Column::Id)
            .filter(files::Column::ExpiresAt.lt(now).or(unfinished).or(files::Column::Status.eq(GONE)))
            .into_tuple()
            .all(&self.database.pool)
            .await?;
        let mut swept = 0;
        for id in ids {
            swept += u64::from(self.delete_file(id).await?);
        }
        Ok(swept)
    }
}

/// A file that is being written from now on.
fn row(id: FileId, new: NewFile) -> files::ActiveModel {
    files::ActiveModel {
        id: Set(id),
        tenant: Set(plain(&new.tenant)),
        filename: Set(plain(&new.filename)),
        purpose: Set(plain(&new.purpose)),
        bytes: Set(0),
        status: Set(UPLOADING.to_owned()),
        created_at: Set(time::now()),
        expires_at: Set(None),
    }
}

/// **Invariant:** the row goes first, so of two that are at one file at once none waits for the other for ever.
async fn begin(tx: &DatabaseTransaction, row: files::ActiveModel, id: FileId) -> Result<(), Error> {
    files::Entity::delete_by_id(id).exec(tx).await?;
    chunks::Entity::delete_many().filter(chunks::Column::FileId.eq(id)).exec(tx).await?;
    files::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

/// Begins to write a file of results, unless there is one: that is thrown away.
async fn begin_results(
    tx: &DatabaseTransaction,
    batch: BatchId,
    keeper: String,
    row: files::ActiveModel,
    id: FileId,
) -> Result<bool, Error> {
    let kept = hold(tx, batch, &keeper).await?;
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

async fn hide_unread(tx: &DatabaseTransaction, id: FileId) -> Result<bool, Error> {
    files::Entity::find_by_id(id).lock_exclusive().one(tx).await?;
    // A statement of its own, so that it sees the batch of whoever had the row until now.
    let reads = batches::Entity::find().filter(is_open()).filter(batches::Column::InputFile.eq(id));
    if reads.one(tx).await?.is_some() {
        return Ok(false);
    }
    hide(tx, id).await?;
    Ok(true)
}

/// Has nobody see a file any more, and says whether there is one.
async fn hide(tx: &DatabaseTransaction, id: FileId) -> Result<bool, Error> {
    let row = files::ActiveModel { status: Set(GONE.to_owned()), ..Default::default() };
    let update = files::Entity::update_many().set(row).filter(files::Column::Id.eq(id));
    Ok(update.exec(tx).await?.rows_affected > 0)
}

/// Whether a file is there for a batch to read.
///
/// **Invariant:** whatever makes a batch open asks this in its transaction. The file's row is locked from then on, as by
/// whatever throws the file away: so one of the two sees the other.
pub(super) async fn is_readable(tx: &DatabaseTransaction, id: FileId) -> Result<bool, Error> {
    let row = files::Entity::find_by_id(id).filter(is_there()).lock_shared();
    Ok(row.one(tx).await?.is_some())
}

/// That a file is whole, and its time not over: after that only a batch that reads it keeps it.
fn is_there() -> SimpleExpr {
    let expires = files::Column::ExpiresAt;
    files::Column::Status.eq(PROCESSED).and(expires.is_null().or(expires.gt(time::now())))
}

/// A place as SQL has it: no file is long enough to saturate it.
pub(super) fn place(nth: u32) -> i32 {
    i32::try_from(nth).unwrap_or(i32::MAX)
}

impl TryFrom<files::Model> for File {
    type Error = Error;

    fn try_from(row: files::Model) -> Result<Self, Error> {
        let files::Model { id, tenant, filename, purpose, bytes, status: _, created_at, expires_at } = row;
        Ok(Self { id, tenant, filename, purpose, bytes: unsigned(bytes)?, created_at, expires_at })
    }
}
