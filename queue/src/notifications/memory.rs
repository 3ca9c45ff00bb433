//! Notifications within one process.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use uuid::Uuid;

use super::{
    notification::{Notification, Notifications},
    registry::{Interest, Registry},
};
use crate::error::QueueError;

/// Notifications within one process. Clones share their subscribers.
#[derive(Clone, Debug, Default)]
pub struct MemoryNotifications {
    registry: Arc<Registry>,
}

impl MemoryNotifications {
    /// Creates an instance without subscribers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Notifications for MemoryNotifications {
    async fn publish(&self, thread: Uuid, notification: Notification) {
        self.registry.deliver(thread, &notification);
    }

    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError> {
        Ok(self.registry.subscribe((thread, Interest::All)).into_stream())
    }

    async fn subscribe_to_ends(&self, thread: Uuid) -> Result<BoxStream<'static, Notification>, QueueError> {
        Ok(self.registry.subscribe((thread, Interest::Ends)).into_stream())
    }
}
