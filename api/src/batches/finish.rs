//! The end of a batch: its results are written into files, what came out well and what did not.
//!
//! ## Why a step at a time
//!
//! The files of a million lines take their time, and other batches have lines to begin meanwhile. How far they are written
//! this keeper alone knows: whoever takes the batch over begins them again, under the same names. They hold the same then,
//! cut in the same places, as nothing more ends in a batch whose items have all ended; so two writers, one of which does not
//! know that it lost the batch, get in each other's way and no further: a file counts only if no piece of it is missing, and
//! whoever lost the batch begins none.

use store::{
    bulk::{Batch, BatchStatus, Cutter, FileId, Good, ItemState, NewFile},
    time,
};

use super::{
    keeper::{Done, Keeper},
    results::PAGE,
};
use crate::problem::{Kind, Problem};

/// What these files are for.
const OUTPUT: &str = "batch_output";

/// How far the files of a batch are written.
pub(super) struct Writing {
    /// The first file, once it is whole, if it has a line.
    output: Option<FileId>,
    /// What goes into the file that is being written.
    good: Good,
    cutter: Cutter,
    chunks: u32,
    bytes: u64,
    /// The number of the last result in it.
    after: u64,
}

impl Writing {
    fn new(good: Good, output: Option<FileId>) -> Self {
        Self { output, good, cutter: Cutter::new(usize::MAX), chunks: 0, bytes: 0, after: 0 }
    }
}

impl Keeper {
    /// Goes on with both files; after the last line, says how the batch ended. What goes wrong has them begun again.
    pub(super) async fn finish(&self, batch: &Batch) -> Result<Done, Problem> {
        let begun = self.writing().remove(&batch.id);
        let mut writing = begun.unwrap_or_else(|| Writing::new(Good::Yes, None));
        match (self.write(batch, &mut writing).await?, writing.good) {
            (None, _) => {}
            (Some(output), Good::Yes) => writing = Writing::new(Good::No, output),
            (Some(error), Good::No) => return self.end(batch, writing.output, error).await,
        }
        self.writing().insert(batch.id, writing);
        Ok(Done::Part)
    }

    async fn end(
        &self,
        batch: &Batch,
        output: Option<FileId>,
        error: Option<FileId>,
    ) -> Result<Done, Problem> {
        if !self.house.parts.store.name_results(batch, &self.name, output, error).await? {
            return Ok(Done::Nothing);
        }
        let late = batch.at.expires <= time::now() && batch.counts.of(ItemState::Expired) > 0;
        let to = match batch.at.cancelling {
            Some(_) => BatchStatus::Cancelled,
            None if late => BatchStatus::Expired,
            None => BatchStatus::Completed,
        };
        self.advance(batch, to, None).await
    }

    /// Writes the next lines of a file. Once there are no more, that is told: the file, unless it has no line.
    async fn write(&self, batch: &Batch, it: &mut Writing) -> Result<Option<Option<FileId>>, Problem> {
        let store = &self.house.parts.store;
        let (file, kind) = match it.good {
            Good::Yes => (batch.output_file, "output"),
            Good::No => (batch.error_file, "error"),
        };
        // Whether there is a line for it is known: nobody looks through a million others to find none.
        let count = match it.good {
            Good::Yes => batch.counts.good(),
            Good::No => batch.total - batch.counts.good(),
        };
        let Some(file) = file.filter(|_| 0 < count) else { return Ok(Some(None)) };
        let page = store.final_results(batch.id, it.good, it.after, PAGE).await?;
        let Some(last) = page.last() else { return self.close(batch, file, it).await.map(Some) };
        if it.after == 0 {
            store.begin_results(batch.id, &self.name, file, new_file(batch, kind)).await?;
        }
        it.after = last.n;
        for mut line in page {
            line.line.push('\n');
            it.bytes += line.line.len() as u64;
            for chunk in it.cutter.push(line.line.as_bytes()) {
                store.write_chunk(file, it.chunks, chunk).await?;
                it.chunks += 1;
            }
        }
        Ok(None)
    }

    async fn close(&self, batch: &Batch, file: FileId, it: &mut Writing) -> Result<Option<FileId>, Problem> {
        let store = &self.house.parts.store;
        if it.after == 0 {
            return Ok(None);
        }
        let cutter = std::mem::replace(&mut it.cutter, Cutter::new(usize::MAX));
        if let Some(chunk) = cutter.finish() {
            store.write_chunk(file, it.chunks, chunk).await?;
            it.chunks += 1;
        }
        let whole = store.finish_file(file, it.chunks, it.bytes, batch.output_seconds).await?;
        let gone = || Kind::Stale.because("another api writes the files of the batch, or did so meanwhile");
        whole.map(|it| Some(it.id)).ok_or_else(gone)
    }
}

fn new_file(batch: &Batch, kind: &str) -> NewFile {
    NewFile {
        tenant: batch.tenant.clone(),
        filename: format!("batch_{}_{kind}.jsonl", batch.id.simple()),
        purpose: OUTPUT.to_owned(),
    }
}
