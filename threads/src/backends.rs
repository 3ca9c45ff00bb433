//! The services that the API server and the worker share: the log, the job queue and notifications.

use std::sync::Arc;

use queue::{Notifications, Queue};
use store::Store;

/// Handles to the log, the job queue and the notifications.
#[derive(Clone)]
pub struct Backends<L = Store> {
    /// The event log.
    pub store: L,
    /// The job queue.
    pub queue: Arc<dyn Queue>,
    /// Notifications for subscribers.
    pub notifications: Arc<dyn Notifications>,
}
