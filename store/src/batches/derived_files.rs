//! Compares the counts of batches with their items, and the files of their results with the results.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait as _, FromQueryResult, QueryResult};

use super::{BatchId, Chunk, Chunker, Counts, FileId, ItemState, ResultSelection};
use crate::{
    Error, RowFinding, Store,
    log::{signed, statement, types::is_of_another_type},
};

/// Lines that are read at a time.
const PAGE: u64 = 1_000;

/// Each batch with its items by state. One statement, because items move while it is read.
const COUNTED: &str = "SELECT batches.id AS id, batches.counts AS counts, batches.total AS total, batches.done AS done, \
     (SELECT count(*) FROM batch_results WHERE batch_results.batch_id = batches.id) AS results, \
     items.state AS state, items.items AS items FROM batches LEFT JOIN \
     (SELECT batch_id, state, count(*) AS items FROM batch_items GROUP BY batch_id, state) AS items \
     ON items.batch_id = batches.id ORDER BY batches.id";

const ENDED: &str = "SELECT id, output_file, error_file FROM batches \
     WHERE status IN ('completed', 'failed', 'expired', 'cancelled')";

/// Complete files whose size is not that of their chunks.
const SIZES: &str = "SELECT id FROM files WHERE status = 'processed' AND bytes <> \
     (SELECT coalesce(sum(octet_length(data)), 0) FROM file_chunks WHERE file_id = files.id)";

#[derive(FromQueryResult)]
struct Counted {
    id: BatchId,
    counts: String,
    total: i64,
    done: i64,
    results: i64,
    state: Option<String>,
    items: Option<i64>,
}

#[derive(FromQueryResult)]
struct Ended {
    id: BatchId,
    output_file: Option<FileId>,
    error_file: Option<FileId>,
}

#[derive(FromQueryResult)]
struct Sized {
    id: FileId,
}

#[derive(FromQueryResult)]
struct ChunkRow {
    starts_line: bool,
    ends_line: bool,
    data: Vec<u8>,
}

impl Store {
    /// Compares the counts in the rows of batches with their items and results, the sizes of files with their chunks, and the files of
    /// results with the results.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batch_findings(&self) -> Result<Vec<RowFinding>, Error> {
        let mut findings = self.count_findings().await?;
        let sizes = self.readable_rows(SIZES, Sized::from_query_result).await?;
        findings.extend(sizes.into_iter().map(|Sized { id }| RowFinding {
            table: "files",
            columns: &["bytes"],
            what: format!("file {id} has another size than its chunks"),
        }));
        for Ended { id, output_file, error_file } in
            self.readable_rows(ENDED, Ended::from_query_result).await?
        {
            for (file, selection) in
                [(output_file, ResultSelection::Successful), (error_file, ResultSelection::Unsuccessful)]
            {
                let Some(file) = file else { continue };
                if !self.file(file).await.is_ok_and(|file| file.is_some()) {
                    continue;
                }
                let is_whole = match self.has_results(file, id, selection).await {
                    // A result has a value of another type.
                    Err(Error::Database(_)) => false,
                    is_whole => is_whole?,
                };
                if !is_whole {
                    findings.push(RowFinding {
                        table: "file_chunks",
                        columns: &["file_id", "nth", "starts_line", "ends_line", "data"],
                        what: format!("file {file} does not contain the results of batch {id}"),
                    });
                }
            }
        }
        Ok(findings)
    }

    async fn count_findings(&self) -> Result<Vec<RowFinding>, Error> {
        let mut batches = BTreeMap::<BatchId, (Counted, BTreeMap<String, i64>)>::new();
        for mut row in self.readable_rows(COUNTED, Counted::from_query_result).await? {
            let counted = row.state.take().zip(row.items);
            let (_, items) = batches.entry(row.id).or_insert_with(|| (row, BTreeMap::new()));
            items.extend(counted);
        }
        let mut findings = Vec::new();
        for (id, (row, items)) in batches {
            let mut find = |columns, what: &str| {
                let what = format!("the row of batch {id} has {what}");
                findings.push(RowFinding { table: "batches", columns, what });
            };
            let counts: Option<Counts> = row.counts.parse().ok();
            let is_counted = |counts: &Counts| {
                ItemState::ALL.iter().all(|state| {
                    signed(counts.of(*state)) == items.get(state.as_str()).copied().unwrap_or_default()
                })
            };
            if !counts.as_ref().is_some_and(is_counted) {
                find(&["counts"], "other counts than its items");
            }
            if row.total != items.values().sum::<i64>() {
                find(&["total"], "another number of lines than items");
            }
            if row.done != row.results {
                find(&["done"], "another number of results than there are");
            }
        }
        Ok(findings)
    }

    /// Returns true if a file has the results of a batch, cut as they are when it is written.
    async fn has_results(
        &self,
        file: FileId,
        batch: BatchId,
        selection: ResultSelection,
    ) -> Result<bool, Error> {
        let (mut cutter, mut nth, mut after) = (Chunker::new(usize::MAX), 0, 0);
        loop {
            let page = self.final_results(batch, selection, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.n;
            for mut line in page {
                line.line.push('\n');
                for chunk in cutter.push(line.line.as_bytes()) {
                    if self.stored_chunk(file, nth).await? != Some(chunk) {
                        return Ok(false);
                    }
                    nth += 1;
                }
            }
        }
        if let Some(chunk) = cutter.finish() {
            if self.stored_chunk(file, nth).await? != Some(chunk) {
                return Ok(false);
            }
            nth += 1;
        }
        Ok(self.stored_chunk(file, nth).await?.is_none())
    }

    async fn stored_chunk(&self, file: FileId, nth: i32) -> Result<Option<Chunk>, Error> {
        let pool = &self.database.pool;
        let sql = "SELECT starts_line, ends_line, data FROM file_chunks WHERE file_id = $1 AND nth = $2";
        let row = pool.query_one_raw(statement(pool, sql, [file.into(), nth.into()])).await?;
        let read = |row: QueryResult| match ChunkRow::from_query_result(&row, "") {
            Ok(ChunkRow { starts_line, ends_line, data }) => Ok(Some(Chunk { starts_line, ends_line, data })),
            Err(error) if is_of_another_type(&error) => Ok(None),
            Err(error) => Err(error.into()),
        };
        row.map_or(Ok(None), read)
    }
}
