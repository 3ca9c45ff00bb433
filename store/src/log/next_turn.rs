//! The turn that a thread starts next.

pub(crate) mod lookup;

use crate::{
    Error,
    log::{Store, ids::ThreadId},
};

pub use lookup::Queued;

impl Store {
    /// Returns the turn that a thread starts next: the oldest of those with the highest priority. Turns that are not
    /// yet due are skipped.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written its row.
    pub async fn next_queued(&self, thread: ThreadId) -> Result<Option<Queued>, Error> {
        let rows = self.waiters.submit(thread).await.ok_or_else(Error::gone)??;
        rows.get(&thread).map(Queued::try_from).transpose()
    }
}
