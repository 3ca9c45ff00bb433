//! Reads the logs of a scan event by event, several threads concurrently, with at most one page of each range in
//! memory.

use crate::{
    Error,
    log::{
        Store,
        head::Head,
        ids::ThreadId,
        rows::{Recorded, recorded},
        thread_ranges::{Pages, ThreadScan},
    },
};

/// A consumer of logs, one after the other.
pub trait Reader: Send + 'static {
    /// Receives the next event of a log. The events of one log arrive in order and without events of other logs between
    /// them. An event that this build cannot decode is passed as an error, and the log continues after it.
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>);

    /// Called after the last event of a log with its head, if the hashes are verified in the same pass.
    fn end(&mut self, _head: Head) {}

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
        let database = self.database.clone();
        let ranges = round.for_each(self, move |range| {
            let (database, mut reader) = (database.clone(), make());
            async move {
                let mut pages = Pages::of(range);
                let mut events = 0_u64;
                loop {
                    let page = pages.next(&database.pool).await?;
                    if page.is_empty() {
                        reader.pause().await?;
                        return Ok((events, reader));
                    }
                    events += page.len() as u64;
                    page.iter().for_each(|row| reader.read(row.thread_id, recorded(row)));
                    // Yields between pages, so that other tasks can run.
                    tokio::task::yield_now().await;
                }
            }
        });
        let ranges = ranges.await?;
        match round.thread {
            Some(thread) if ranges.iter().all(|(events, _)| *events == 0) => {
                Err(Error::UnknownThread(thread))
            }
            Some(_) | None => Ok(ranges.into_iter().map(|(_, reader)| reader).collect()),
        }
    }
}
