//! What stands behind the door: all that a route may use.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::extract::State;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::Budget;
use store::{Lane, Notice, Parts, Strategies, ThreadId, WORKERS, When, time};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    auth::Keys,
    batches::{Bulk, Capacity},
    door::Door,
    threshold::Threshold,
    webhooks::Webhooks,
};

/// How many files are looked through at once for quotes.
const QUOTES: usize = 2;

/// All that a route may use.
pub(crate) struct House {
    pub(crate) parts: Parts,
    pub(crate) strategies: Strategies,
    /// Names the prompts of each strategy by their content.
    pub(crate) prompts: BTreeMap<String, String>,
    pub(crate) experts: BTreeMap<String, String>,
    pub(crate) tuned: BTreeMap<String, Value>,
    pub(crate) budget: Budget,
    pub(crate) keys: Keys,
    /// How long a chat completion is waited for.
    pub(crate) chat_wait: Duration,
    pub(crate) threshold: Threshold,
    pub(crate) bulk: Bulk,
    /// Changed when there is something to do for the keeper of batches.
    pub(crate) stirred: watch::Sender<()>,
    pub(crate) webhooks: Webhooks,
    /// What there is to run turns with, for quotes.
    pub(crate) capacity: Capacity,
    /// One for each file that may be looked through for a quote now: whoever else asks waits.
    pub(crate) quotes: Semaphore,
    /// Told when there is something to tell webhooks.
    pub(crate) announced: Notify,
    /// When the api was started, in microseconds since the Unix epoch.
    pub(crate) started: i64,
    /// Cancelled when the door closes: whatever waits must come to an end.
    pub(crate) stop: CancellationToken,
}

/// How a route gets it.
pub(crate) type Inside = State<Arc<House>>;

impl House {
    pub(crate) fn new(door: Door, stop: CancellationToken) -> Self {
        let Door {
            parts,
            strategies,
            experts,
            tuned,
            budget,
            keys,
            tenants,
            body_limit: _,
            chat_wait,
            waiting_max,
            bulk,
            webhooks,
            capacity,
        } = door;
        let keys = Keys::new(&keys, &tenants);
        let threshold = Threshold::new(waiting_max);
        let named = |name: &str| Some((name.to_owned(), content_of(strategies.find(name)?.prompts())));
        let prompts = strategies.names().into_iter().filter_map(named).collect();
        Self {
            parts,
            strategies,
            prompts,
            experts,
            tuned,
            budget,
            keys,
            chat_wait,
            threshold,
            bulk,
            stirred: watch::Sender::default(),
            webhooks,
            capacity,
            quotes: Semaphore::new(QUOTES),
            announced: Notify::new(),
            started: time::now(),
            stop,
        }
    }

    /// Rings for a thread, in the lane of its turn. A ring that fails is no error: the sweep rings for whoever was not
    /// rung for.
    pub(crate) async fn ring(&self, thread: ThreadId) {
        match self.parts.store.lane(thread).await {
            Ok(Some(lane)) => self.ring_in(thread, &lane, When::Now).await,
            Ok(None) => warn!(%thread, "nobody can ring for a thread that is not there"),
            Err(error) => warn!(%thread, %error, "cannot ring; the sweep will"),
        }
    }

    /// Rings for a thread in this lane.
    pub(crate) async fn ring_in(&self, thread: ThreadId, lane: &Lane, when: When) {
        if let Err(error) = self.parts.queue.ring(thread, lane, when).await {
            warn!(%thread, %error, "cannot ring; the sweep will");
        }
    }

    /// Has the worker that is at the thread, if there is one, look at it at once: what it is asking may not be wanted
    /// any more.
    pub(crate) async fn recall(&self, thread: ThreadId) {
        self.parts.news.publish(WORKERS, Notice::Recalled { thread }).await;
    }

    /// Has whoever follows the thread look at it, after a change that no event tells of.
    pub(crate) async fn nudge(&self, thread: ThreadId) {
        match self.parts.store.head(thread).await {
            Ok(head) => self.parts.news.publish(thread, Notice::Appended { seq: head.seq }).await,
            Err(error) => warn!(%thread, %error, "cannot tell the news; listeners look by themselves"),
        }
    }
}

/// Names texts by their content, and by where each ends.
fn content_of(texts: &[&str]) -> String {
    let hash = texts.iter().fold(Sha256::new(), |hash, it| hash.chain_update(Sha256::digest(it)));
    hex::encode(hash.finalize())
}
