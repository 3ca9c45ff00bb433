//! What an api and a worker hold in common: the log, the doorbell, and the news of both.

use std::sync::Arc;

use crate::{News, Queue, Store};

/// The log, the doorbell, and the news of both.
#[derive(Clone)]
pub struct Parts<L = Store> {
    /// Where events are kept.
    pub store: L,
    /// Who is rung for.
    pub queue: Arc<dyn Queue>,
    /// What listeners hear.
    pub news: Arc<dyn News>,
}
