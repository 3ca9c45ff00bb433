//! Reads the logs of a scan event by event, several threads concurrently, with at most one page of each range in
//! memory.

use crate::{
    Error,
    integrity::{Finding, Wrong, chain_walk::Walk},
    log::{
        Store,
        event_row::EventRow,
        head::Head,
        ids::{ThreadId, signed},
        rows::Recorded,
        thread_ranges::{Heads, Pages, ThreadScan},
    },
};

/// A consumer of logs, one after the other.
pub trait Reader: Send + 'static {
    /// True if [`Store::read_logs`] verifies the hashes of the logs that it reads.
    const CHECKS_CHAIN: bool = false;

    /// Receives the next event of a log. The events of one log arrive in order and without events of other logs between
    /// them. An event that this build cannot decode is passed as an error, and the log continues after it.
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>);

    /// Called after the last event of a log with its head, if the hashes are verified in the same pass.
    fn end(&mut self, _head: Head) {}

    /// Called after the last event of a log whose events are not those that were appended, if the reader checks the chain.
    fn broken(&mut self, _finding: Finding) {}

    /// Called after the last event of each range of threads, for queries about data that is not in the logs. An error
    /// ends the scan.
    fn pause(&mut self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }
}

/// A reader of no events, for a pass that only verifies hashes.
impl Reader for () {
    fn read(&mut self, _thread: ThreadId, _event: Result<Recorded, Error>) {}
}

/// Passes an event to the reader, and to the walk through its log if the reader checks the chain.
fn read_row<R: Reader>(row: &EventRow, walk: &mut Option<Walk>, reader: &mut R) {
    let thread = row.columns.thread_id;
    if !R::CHECKS_CHAIN {
        return reader.read(thread, row.recorded());
    }
    if walk.as_ref().is_none_or(|walk| walk.thread() != thread) {
        end_walk(walk.replace(Walk::new(thread, Vec::new())), reader);
    }
    if let Some(walk) = walk {
        reader.read(thread, walk.step(row));
    }
}

/// Returns true if the event was in its log when the thread was frozen, or if no thread is.
fn is_before_head(row: &EventRow, heads: Option<&Heads>) -> bool {
    let events = heads.and_then(|heads| heads.get(&row.columns.thread_id));
    events.is_none_or(|events| row.columns.seq < signed(*events))
}

fn end_walk(walk: Option<Walk>, reader: &mut impl Reader) {
    let findings = walk.map(Walk::finish).unwrap_or_default();
    if let Some(broken) = findings.into_iter().find(|finding| finding.wrong != Wrong::Unreadable) {
        reader.broken(broken);
    }
}

impl Store {
    /// Reads all logs of a scan. Each reader that `make` creates receives some of the logs, each of them complete.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the only selected thread does not exist, and [`Error::Unavailable`] if the database
    /// does not answer.
    pub async fn read_logs<R, M>(&self, round: &ThreadScan, make: M) -> Result<Vec<R>, Error>
    where
        R: Reader,
        M: Fn() -> R + Clone + Send + 'static,
    {
        let (database, heads) = (self.database.clone(), round.heads().cloned());
        let ranges = round.for_each(self, move |range| {
            let (database, heads, mut reader) = (database.clone(), heads.clone(), make());
            async move {
                let mut pages = Pages::of(range);
                let (mut events, mut walk) = (0_u64, None);
                loop {
                    let page = pages.next(&database.pool).await?;
                    if page.is_empty() {
                        end_walk(walk, &mut reader);
                        reader.pause().await?;
                        return Ok((events, reader));
                    }
                    events += page.len() as u64;
                    let rows = page.iter().filter(|row| is_before_head(row, heads.as_ref()));
                    rows.for_each(|row| read_row(row, &mut walk, &mut reader));
                    // Yields between pages, so that other tasks can run.
                    tokio::task::yield_now().await;
                }
            }
        });
        let ranges = ranges.await?;
        match round.only() {
            Some(thread) if ranges.iter().all(|(events, _)| *events == 0) => {
                Err(Error::UnknownThread(thread))
            }
            Some(_) | None => Ok(ranges.into_iter().map(|(_, reader)| reader).collect()),
        }
    }
}
