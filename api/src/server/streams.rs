//! Open event streams, counted by key.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    caller::Caller,
    limit_warnings::LimitWarnings,
    problem::{ApiError, Kind},
};

/// Key of a caller, and its subject: tokens of one issuer share a key.
type Owner = (Option<Arc<str>>, Option<Arc<str>>);

/// Open event streams by key. Clones share them.
///
/// ## Why the newest is refused
///
/// Every open stream answers a request, and none is idle. A client that loses one would open it again and displace the next.
#[derive(Clone)]
pub(crate) struct Streams {
    max: usize,
    warnings: LimitWarnings,
    open: Arc<Mutex<BTreeMap<Owner, usize>>>,
}

impl Streams {
    /// Limits each key to `max` streams.
    pub(crate) fn new(max: usize, warnings: LimitWarnings) -> Self {
        Self { max, warnings, open: Arc::default() }
    }

    /// Counts one more stream until the permit is dropped.
    ///
    /// # Errors
    ///
    /// [`Kind::TooManyStreams`] if the key has as many open as it may.
    pub(crate) fn open(&self, caller: &Caller) -> Result<StreamPermit, ApiError> {
        let owner = (caller.key.clone(), caller.subject.clone());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(owner.clone()).or_default();
        if self.max <= *count {
            self.warnings.note("max_streams_per_key", caller.tenant.as_deref());
            let detail = format!("this key has {} open event streams, the maximum", self.max);
            let hint = "close one; an operator can raise `max_streams_per_key` under `[api]`";
            return Err(Kind::TooManyStreams.because(detail).hint(hint).retry_after(1));
        }
        *count += 1;
        Ok(StreamPermit { streams: self.clone(), owner })
    }
}

/// An open event stream; dropping it makes room.
pub(crate) struct StreamPermit {
    streams: Streams,
    owner: Owner,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.owner);
            }
        }
    }
}

#[tokio::test]
async fn a_key_at_its_limit_leaves_room_for_others() {
    let caller = |key: &str| Caller::operator(Some(key.into()));
    let streams = Streams::new(2, LimitWarnings::default());
    let first = streams.open(&caller("a")).unwrap();
    let _second = streams.open(&caller("a")).unwrap();
    assert_eq!(streams.open(&caller("a")).err().unwrap().kind, Kind::TooManyStreams);
    let other = streams.open(&caller("b")).unwrap();
    drop((first, other));
    let _third = streams.open(&caller("a")).unwrap();
    assert_eq!(streams.open.lock().unwrap().len(), 1, "a key without streams is forgotten");
}
