//! Reads the logs of a round event by event, some threads at a time, and never holds more than a page of them.

use super::{
    Store, ThreadId,
    read::{Recorded, recorded},
    round::{Pages, Round},
};
use crate::Error;

/// Whoever reads logs, one after the other.
pub trait Reader: Send + 'static {
    /// Takes the next event of a log; a log's events come in their order and without those of others between them. An
    /// event that this build cannot read is an error; the log goes on behind it.
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>);

    /// Comes after the last event of the last log of a range, which has few threads: the place to ask the store for what
    /// logs do not tell. An error ends the round.
    fn pause(&mut self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }
}

impl Store {
    /// Reads all logs of a round. Each reader that `make` makes reads some of them, each log as a whole.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if there is not the one that alone was to be read, [`Error::Unavailable`] if the
    /// database does not answer.
    pub async fn read_logs<R, M>(&self, round: &Round, make: M) -> Result<Vec<R>, Error>
    where
        R: Reader,
        M: Fn() -> R + Clone + Send + 'static,
    {
        let database = self.database.clone();
        let ranges = round.go(self, move |range| {
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
                    // A page is work without a pause: others want to live too.
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
