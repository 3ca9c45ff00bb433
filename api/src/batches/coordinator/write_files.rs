//! Writing of the output and error files at the end of a batch.
//!
//! ## Why the files are written in steps
//!
//! Files of a million lines take long, and other batches have lines to submit meanwhile. The progress is known to this
//! coordinator only. If another process takes over the batch, it starts the files again under the same ids. The content
//! is the same, cut at the same positions, because no item changes once all have ended. Two writers, one of which has
//! lost the batch unknowingly, therefore cannot damage a file: a file counts only if all of its chunks exist, and a
//! writer that has lost the batch cannot start one.

use queue::clock;
use store::batches::{Batch, BatchStatus, Chunker, FileId, ItemState, NewFile, ResultSelection};

use super::{BatchCoordinator, Progress};
use crate::{
    batches::results::PAGE,
    server::problem::{ApiError, Kind},
};

/// Purpose of the result files.
const OUTPUT: &str = "batch_output";

/// Progress of writing the files of a batch.
pub(super) struct Writing {
    /// The complete output file, unless it has no lines.
    output: Option<FileId>,
    /// Kind of results being written: successful ones, or errors.
    selection: ResultSelection,
    cutter: Chunker,
    chunks: u32,
    bytes: u64,
    /// Number of the last result in the file.
    after: u64,
}

impl Writing {
    fn new(selection: ResultSelection, output: Option<FileId>) -> Self {
        Self { output, selection, cutter: Chunker::new(usize::MAX), chunks: 0, bytes: 0, after: 0 }
    }
}

impl BatchCoordinator {
    /// Writes the next part of the files. After the last line, ends the batch. After an error, the files are started
    /// again.
    pub(super) async fn write_files(&self, batch: &Batch) -> Result<Progress, ApiError> {
        let begun = self.writing().remove(&batch.id);
        let mut writing = begun.unwrap_or_else(|| Writing::new(ResultSelection::Successful, None));
        match (self.write(batch, &mut writing).await?, writing.selection) {
            (None, _) => {}
            (Some(output), ResultSelection::Successful) => {
                writing = Writing::new(ResultSelection::Unsuccessful, output)
            }
            (Some(error), ResultSelection::Unsuccessful) => {
                return self.end(batch, writing.output, error).await;
            }
        }
        self.writing().insert(batch.id, writing);
        Ok(Progress::Partial)
    }

    async fn end(
        &self,
        batch: &Batch,
        output: Option<FileId>,
        error: Option<FileId>,
    ) -> Result<Progress, ApiError> {
        if !self.app.parts.store.name_results(batch, &self.name, output, error).await? {
            return Ok(Progress::Idle);
        }
        let late = batch.at.expires <= clock::now() && batch.counts.of(ItemState::Expired) > 0;
        let to = match batch.at.cancelling {
            Some(_) => BatchStatus::Cancelled,
            None if late => BatchStatus::Expired,
            None => BatchStatus::Completed,
        };
        self.advance(batch, to, None).await
    }

    /// Writes the next lines of a file. Returns the file once it is complete; it is none if it has no lines.
    async fn write(&self, batch: &Batch, writing: &mut Writing) -> Result<Option<Option<FileId>>, ApiError> {
        let store = &self.app.parts.store;
        let (file, kind) = match writing.selection {
            ResultSelection::Successful => (batch.output_file, "output"),
            ResultSelection::Unsuccessful => (batch.error_file, "error"),
        };
        // The counts tell whether there are any lines, without reading all others.
        let count = match writing.selection {
            ResultSelection::Successful => batch.counts.good(),
            ResultSelection::Unsuccessful => batch.total - batch.counts.good(),
        };
        let Some(file) = file.filter(|_| 0 < count) else { return Ok(Some(None)) };
        let page = store.final_results(batch.id, writing.selection, writing.after, PAGE).await?;
        let Some(last) = page.last() else { return self.close(batch, file, writing).await.map(Some) };
        if writing.after == 0 {
            store.begin_results(batch.id, &self.name, file, new_file(batch, kind)).await?;
        }
        writing.after = last.n;
        for mut line in page {
            line.line.push('\n');
            writing.bytes += line.line.len() as u64;
            for chunk in writing.cutter.push(line.line.as_bytes()) {
                store.write_chunk(file, writing.chunks, chunk).await?;
                writing.chunks += 1;
            }
        }
        Ok(None)
    }

    async fn close(
        &self,
        batch: &Batch,
        file: FileId,
        writing: &mut Writing,
    ) -> Result<Option<FileId>, ApiError> {
        let store = &self.app.parts.store;
        if writing.after == 0 {
            return Ok(None);
        }
        let cutter = std::mem::replace(&mut writing.cutter, Chunker::new(usize::MAX));
        if let Some(chunk) = cutter.finish() {
            store.write_chunk(file, writing.chunks, chunk).await?;
            writing.chunks += 1;
        }
        let whole = store.finish_file(file, writing.chunks, writing.bytes, batch.output_seconds).await?;
        let gone = || Kind::Stale.because("another API process writes the files of the batch");
        whole.map(|file| Some(file.id)).ok_or_else(gone)
    }
}

fn new_file(batch: &Batch, kind: &str) -> NewFile {
    NewFile {
        tenant: batch.tenant.clone(),
        filename: format!("batch_{}_{kind}.jsonl", batch.id.simple()),
        purpose: OUTPUT.to_owned(),
    }
}
