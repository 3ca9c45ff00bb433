//! Sequential reads of a whole log with bounded memory.

use std::ops::ControlFlow;

use crate::{
    Error,
    log::{
        Store,
        ids::ThreadId,
        rows::Recorded,
        thread_ranges::{Pages, Range},
    },
};

/// Most events that are read with one statement, together with those that others read at the same time.
const SHORT: u64 = 128;

impl Store {
    /// Passes the events of a thread from number `from` up to `until`, or to the last one, to `each`. Holds one page in
    /// memory, whatever the length of the log.
    ///
    /// # Errors
    ///
    /// Any error of `each`; [`Error::Unreadable`] if this build cannot read an event.
    pub async fn along<E: From<Error>>(
        &self,
        thread: ThreadId,
        from: u64,
        until: Option<u64>,
        mut each: impl FnMut(Recorded) -> Result<(), E>,
    ) -> Result<(), E> {
        self.along_until(thread, from, until, |event| each(event).map(ControlFlow::Continue)).await
    }

    /// Passes events to `each` until it breaks off.
    ///
    /// # Errors
    ///
    /// As [`Self::along`].
    pub async fn along_until<E: From<Error>>(
        &self,
        thread: ThreadId,
        from: u64,
        until: Option<u64>,
        mut each: impl FnMut(Recorded) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let until = until.unwrap_or(u64::MAX);
        if until.saturating_sub(from) < SHORT {
            for event in self.between(thread, from, until).await.map_err(E::from)? {
                if each(event)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let mut pages = Pages::of(Range::of(thread, from));
        loop {
            let page = pages.next(&self.database.pool).await.map_err(E::from)?;
            if page.is_empty() {
                return Ok(());
            }
            for row in &page {
                let event = row.recorded()?;
                let is_last = until <= event.seq;
                if until < event.seq || each(event)?.is_break() || is_last {
                    return Ok(());
                }
            }
        }
    }
}
