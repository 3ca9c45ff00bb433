//! A log from one end to the other, with little of it in memory.

use std::ops::ControlFlow;

use super::{
    Recorded, Store, ThreadId,
    read::recorded,
    round::{Pages, Range},
};
use crate::Error;

impl Store {
    /// Gives `each` the events of a thread from number `from` on, up to `until` or the last: page by page, so however long
    /// the log is, little of it is held.
    ///
    /// # Errors
    ///
    /// What `each` says; [`Error::Unreadable`] if this build cannot read an event.
    pub async fn along<E: From<Error>>(
        &self,
        thread: ThreadId,
        from: u64,
        until: Option<u64>,
        mut each: impl FnMut(Recorded) -> Result<(), E>,
    ) -> Result<(), E> {
        self.along_until(thread, from, |it| {
            if until.is_some_and(|until| until < it.seq) {
                return Ok(ControlFlow::Break(()));
            }
            each(it).map(ControlFlow::Continue)
        })
        .await
    }

    /// The same until `each` has enough.
    ///
    /// # Errors
    ///
    /// As [`Self::along`].
    pub async fn along_until<E: From<Error>>(
        &self,
        thread: ThreadId,
        from: u64,
        mut each: impl FnMut(Recorded) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut pages = Pages::of(Range::of(thread, from));
        loop {
            let page = pages.next(&self.database.pool).await.map_err(E::from)?;
            if page.is_empty() {
                return Ok(());
            }
            for row in &page {
                if each(recorded(row)?)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
}
