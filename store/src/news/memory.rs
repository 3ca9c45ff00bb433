//! News within one process.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use uuid::Uuid;

use super::{News, Notice, board::Board};
use crate::queue::QueueError;

/// News within one process; clones share their listeners.
#[derive(Clone, Debug, Default)]
pub struct MemoryNews {
    board: Arc<Board>,
}

impl MemoryNews {
    /// Nobody listens yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl News for MemoryNews {
    async fn publish(&self, thread: Uuid, notice: Notice) {
        self.board.deliver(thread, notice);
    }

    async fn subscribe(&self, thread: Uuid) -> Result<BoxStream<'static, Notice>, QueueError> {
        Ok(self.board.listen(thread).notices())
    }
}
