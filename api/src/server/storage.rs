//! Limits of what each tenant stores: files, logs and attachments.
//!
//! The size is counted at most once a second, and so seldom that counting takes at most a fiftieth of the time. Between counts, each API
//! process adds the files that it receives itself. A tenant may therefore exceed its limit by what its turns write until the next count.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use store::Store;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};

use super::{
    limit_warnings::LimitWarnings,
    problem::{ApiError, Kind},
};

/// Minimum age of a count before the next.
const FRESH: Duration = Duration::from_secs(1);

/// Minimum age of a count, as a multiple of the time that it took.
const REST: u32 = 50;

/// Limits of what each tenant stores.
pub(crate) struct StorageLimits {
    /// Last count by tenant. Each has a lock of its own: a tenant never waits for the count of another.
    counts: Mutex<BTreeMap<String, Arc<Mutex<Option<Count>>>>>,
    warnings: LimitWarnings,
}

struct Count {
    begun: Instant,
    took: Duration,
    /// Size, with the files that were received since the count.
    bytes: u64,
}

impl StorageLimits {
    pub(crate) fn new(warnings: LimitWarnings) -> Self {
        Self { counts: Mutex::default(), warnings }
    }

    /// Returns the bytes that a tenant may still store, by its limit.
    ///
    /// # Errors
    ///
    /// [`Kind::StorageFull`] if there are none.
    pub(crate) async fn left(&self, store: &Store, tenant: &str, max: u64) -> Result<u64, ApiError> {
        let count = self.of(tenant).await;
        let mut count = count.lock().await;
        let bytes = Self::fresh(&mut count, store, tenant).await?;
        match max.checked_sub(bytes) {
            Some(left @ 1..) => Ok(left),
            Some(0) | None => {
                self.warnings.note(SETTING, Some(tenant));
                Err(full(tenant, bytes, max))
            }
        }
    }

    /// Refuses a file that is larger than what a tenant may still store.
    pub(crate) fn too_large(&self, tenant: &str, left: u64) -> ApiError {
        self.warnings.note(SETTING, Some(tenant));
        let detail = format!("file: tenant {tenant} may store only {} KiB more", left / 1024);
        Kind::StorageFull.because(detail).hint(HINT)
    }

    /// Adds the size of a file that was received.
    pub(crate) async fn add(&self, tenant: &str, bytes: u64) {
        if let Some(count) = &mut *self.of(tenant).await.lock().await {
            count.bytes = count.bytes.saturating_add(bytes);
        }
    }

    async fn of(&self, tenant: &str) -> Arc<Mutex<Option<Count>>> {
        Arc::clone(self.counts.lock().await.entry(tenant.to_owned()).or_default())
    }

    async fn fresh(
        count: &mut MutexGuard<'_, Option<Count>>,
        store: &Store,
        tenant: &str,
    ) -> Result<u64, ApiError> {
        let is_fresh = |count: &&Count| count.begun.elapsed() < FRESH.max(count.took.saturating_mul(REST));
        if let Some(count) = count.as_ref().filter(is_fresh) {
            return Ok(count.bytes);
        }
        let begun = Instant::now();
        let bytes = store.stored_bytes(tenant).await?;
        **count = Some(Count { begun, took: begun.elapsed(), bytes });
        Ok(bytes)
    }
}

/// Key of the limit in the configuration.
const SETTING: &str = "storage_mib";

/// Remedies of a tenant that may store nothing more.
const HINT: &str =
    "delete files; an operator can delete old threads with `turnfold store prune`, or raise `storage_mib`";

/// Creates the error of a tenant that may store nothing more.
fn full(tenant: &str, bytes: u64, max: u64) -> ApiError {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let detail = format!(
        "tenant {tenant} stores {} MiB of files and logs, and its limit is {} MiB",
        mib(bytes),
        mib(max)
    );
    Kind::StorageFull.because(detail).hint(HINT)
}
