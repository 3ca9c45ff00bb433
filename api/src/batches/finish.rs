//! The end of a batch: its results are written into files, what came out well and what did not.

use store::{
    bulk::{Batch, BatchStatus, Cutter, FileId, Good, ItemState, NewFile},
    time,
};

use super::keeper::{Done, Keeper, PAGE, micros};
use crate::problem::{Kind, Problem};

/// What these files are for.
const OUTPUT: &str = "batch_output";

impl Keeper {
    /// Writes both files, and says how the batch ended. Begun again, it writes them again under the same names.
    pub(super) async fn finish(&self, batch: &Batch) -> Result<Done, Problem> {
        let store = &self.house.parts.store;
        let output = self.write(batch, batch.output_file, Good::Yes).await?;
        let error = self.write(batch, batch.error_file, Good::No).await?;
        if !store.name_results(batch, &self.name, output, error).await? {
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

    /// Writes one file, unless it has no line.
    async fn write(
        &self,
        batch: &Batch,
        file: Option<FileId>,
        good: Good,
    ) -> Result<Option<FileId>, Problem> {
        let store = &self.house.parts.store;
        let Some(file) = file else { return Ok(None) };
        let kind = match good {
            Good::Yes => "output",
            Good::No => "error",
        };
        let kept = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let new = NewFile {
            tenant: batch.tenant.clone(),
            filename: format!("batch_{}_{kind}.jsonl", batch.id.simple()),
            purpose: OUTPUT.to_owned(),
            expires_at: batch.output_seconds.map(|it| time::now().saturating_add(kept(it))),
        };
        let (mut cutter, mut nth, mut bytes, mut after) = (Cutter::new(usize::MAX), 0, 0, 0);
        loop {
            let page = store.final_results(batch.id, good, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            if after == 0 {
                store.begin_file(file, new.clone()).await?;
            }
            after = last.n;
            for mut line in page {
                line.line.push('\n');
                bytes += line.line.len() as u64;
                for chunk in cutter.push(line.line.as_bytes()) {
                    store.write_chunk(file, nth, chunk).await?;
                    nth += 1;
                }
            }
            // It may take longer than a lease.
            if !self.still_keeps(batch).await? {
                return Err(Kind::Stale.because("another api looks after the batch by now"));
            }
        }
        if after == 0 {
            return Ok(None);
        }
        if let Some(chunk) = cutter.finish() {
            store.write_chunk(file, nth, chunk).await?;
        }
        Ok(store.finish_file(file, bytes).await?.map(|it| it.id))
    }

    /// Renews the leases of this keeper; whether this batch is among its own.
    async fn still_keeps(&self, batch: &Batch) -> Result<bool, Problem> {
        let kept = self.house.parts.store.keep_batches(&self.name, micros(self.house.bulk.lease)).await?;
        Ok(kept.iter().any(|it| it.id == batch.id))
    }
}
