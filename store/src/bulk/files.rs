//! Files: written once, piece by piece, and read as often as anybody likes.
//!
//! **Invariant:** a file is not there for anybody before it is whole. What a writer left behind that died is swept away
//! after a day.

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait as _, DatabaseTransaction, EntityTrait as _, ExprTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _,
    sea_query::{Expr, Query, SimpleExpr},
};
use uuid::Uuid;

use super::{
    Chunk, FileId,
    batches::{is_open, micros},
    tables::{batches, chunks, files},
};
use crate::{
    Error, Store,
    log::{at_most, plain, signed, unsigned},
    time,
};

/// That of a file that is being written, and that of one that is whole.
const UPLOADING: &str = "uploading";
const PROCESSED: &str = "processed";

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
        let row = files::ActiveModel {
            id: Set(id),
            tenant: Set(plain(&new.tenant)),
            filename: Set(plain(&new.filename)),
            purpose: Set(plain(&new.purpose)),
            bytes: Set(0),
            status: Set(UPLOADING.to_owned()),
            created_at: Set(time::now()),
            expires_at: Set(None),
        };
        self.database.transact(move |tx| begin(tx, row, id).boxed()).await
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
        let _alone = self.database.writing().await;
        chunks::Entity::insert(row).exec_without_returning(&self.database.pool).await?;
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
            .apply_if(seconds, |it, kept| it.col_expr(files::Column::ExpiresAt, begun.add(micros(kept))))
            .filter(files::Column::Id.eq(id))
            .filter(is_whole);
        let updated = {
            let _alone = self.database.writing().await;
            update.exec(&self.database.pool).await?.rows_affected
        };
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

    /// Files that are whole and whose time is not over, newest first, at most `limit`; those begun before `after`, of this
    /// tenant or of all, for this purpose or any.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn files(
        &self,
        tenant: Option<&str>,
        purpose: Option<&str>,
        after: Option<FileId>,
        limit: u64,
    ) -> Result<Vec<File>, Error> {
        let rows = files::Entity::find()
            .filter(is_there())
            .apply_if(tenant, |rows, it| rows.filter(files::Column::Tenant.eq(it)))
            .apply_if(purpose, |rows, it| rows.filter(files::Column::Purpose.eq(it)))
            .apply_if(after, |rows, it| rows.filter(files::Column::Id.lt(it)))
            .order_by_desc(files::Column::Id)
            .limit(at_most(limit));
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
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn delete_file(&self, id: FileId) -> Result<bool, Error> {
        self.database.transact(move |tx| erase_unread(tx, id).boxed()).await
    }

    /// Throws away what nobody can want any more: files whose time is over and that no open batch reads, and those that
    /// were never finished.
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
            .filter(files::Column::ExpiresAt.lt(now).or(unfinished))
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

async fn begin(tx: &DatabaseTransaction, row: files::ActiveModel, id: FileId) -> Result<(), Error> {
    erase(tx, id).await?;
    files::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

/// **Invariant:** the row goes first, so of two that are at one file at once none waits for the other for ever.
async fn erase(tx: &DatabaseTransaction, id: FileId) -> Result<(), Error> {
    files::Entity::delete_by_id(id).exec(tx).await?;
    chunks::Entity::delete_many().filter(chunks::Column::FileId.eq(id)).exec(tx).await?;
    Ok(())
}

async fn erase_unread(tx: &DatabaseTransaction, id: FileId) -> Result<bool, Error> {
    files::Entity::find_by_id(id).lock_exclusive().one(tx).await?;
    // A statement of its own, so that it sees the batch of whoever had the row until now.
    let reads = batches::Entity::find().filter(is_open()).filter(batches::Column::InputFile.eq(id));
    if reads.one(tx).await?.is_some() {
        return Ok(false);
    }
    erase(tx, id).await?;
    Ok(true)
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
