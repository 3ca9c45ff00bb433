//! Application state shared by all handlers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::extract::State;
use queue::{ALL_APIS, ALL_WORKERS, Lane, Notification, Schedule, clock};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::{Budget, ContextSettings, MultitaskStrategy, SUMMARISE_PROMPT};
use store::ThreadId;
use threads::{Backends, StrategyRegistry};
use tokio::{
    sync::{Mutex, Notify, Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    admission::AdmissionControl,
    api_keys::ApiKeys,
    config::{ApiConfig, BatchConfig, Capacity, Origins, WebhookConfig},
    embedding_model::EmbeddingModel,
    limit_warnings::LimitWarnings,
    problem::ApiError,
    readiness::Readiness,
    storage::StorageLimits,
    streams::Streams,
    tenant_rules::TenantRules,
};
use crate::{
    logs::{end_cache::EndCache, fold_cache::FoldCache},
    openai::waits::Waits,
    stats::cache::StatsCache,
};

/// Maximum number of files read for quotes and checks at the same time.
const CONCURRENT_QUOTES: usize = 2;

/// Maximum number of requests that replay many events at the same time.
const CONCURRENT_REPLAYS: usize = 2;

/// Application state shared by all handlers.
pub(crate) struct AppState {
    pub(crate) backends: Backends,
    pub(crate) strategies: StrategyRegistry,
    /// Hash of the prompts of each strategy.
    pub(crate) prompts: BTreeMap<String, String>,
    pub(crate) experts: BTreeMap<String, String>,
    pub(crate) mcp_servers: BTreeMap<String, String>,
    pub(crate) origins: Origins,
    pub(crate) fixture_secrets: strategy_tests::Secrets,
    pub(crate) tenant_rules: TenantRules,
    /// Names of the configured providers of models, if they are known.
    pub(crate) providers: Option<BTreeSet<String>>,
    /// Patterns of the models whose cost is known. `None`: unknown.
    pub(crate) priced_models: Option<Vec<String>>,
    /// Embedding model that requests are passed on to.
    pub(crate) embeddings: Option<EmbeddingModel>,
    pub(crate) strategy_configs: BTreeMap<String, Value>,
    /// Treatment of turns that are submitted while another one of the thread is in progress, by strategy.
    pub(crate) multitask: BTreeMap<String, MultitaskStrategy>,
    pub(crate) budget: Budget,
    pub(crate) context: ContextSettings,
    pub(crate) keys: ApiKeys,
    /// Kinds of attachments that models take.
    pub(crate) accepts: shared::Accepts,
    pub(crate) streams: Streams,
    /// Maximum time that a chat completion waits for its turn.
    pub(crate) chat_wait: Duration,
    /// Clients that wait for an answer.
    pub(crate) waits: Waits,
    /// True if a conversation that a client sends whole continues its thread.
    pub(crate) finds_threads: bool,
    pub(crate) admission: AdmissionControl,
    /// Limits of what tenants store.
    pub(crate) storage: StorageLimits,
    pub(crate) batches: BatchConfig,
    /// Wakes the batch coordinator of this process.
    pub(crate) batches_changed: watch::Sender<()>,
    pub(crate) webhooks: WebhookConfig,
    /// Capacity of the workers, for quotes.
    pub(crate) capacity: Capacity,
    /// One permit for each file that may be read for a quote or a check; others wait.
    pub(crate) quotes: Semaphore,
    /// One permit for each request that replays many events; others wait.
    pub(crate) replays: Semaphore,
    /// Wakes the webhook dispatcher of this process.
    pub(crate) deliveries_changed: Notify,
    /// Folds of long logs.
    pub(crate) folds: FoldCache,
    /// Results of ended turns.
    pub(crate) ends: EndCache,
    /// Outcome of the last readiness check.
    pub(crate) readiness: Readiness,
    /// Earliest time of the next measurement for the metrics.
    pub(crate) next_measurement: Mutex<Option<Instant>>,
    /// Statistics that were computed recently.
    pub(crate) stats: StatsCache,
    /// Start of the API, in microseconds since the Unix epoch.
    pub(crate) started: i64,
    /// Cancelled on shutdown. Everything that waits must then return.
    pub(crate) stop: CancellationToken,
}

/// Extractor of the application state.
pub(crate) type SharedState = State<Arc<AppState>>;

impl AppState {
    pub(crate) fn new(config: ApiConfig, stop: CancellationToken) -> Self {
        let ApiConfig {
            parts: backends,
            strategies,
            experts,
            mcp_servers,
            origins,
            fixture_secrets,
            tuned: strategy_configs,
            multitask,
            budget,
            context,
            keys,
            oidc,
            sign_in,
            session_secret,
            tenant_rules,
            providers,
            priced_models,
            embeddings,
            access_log: _,
            accepts,
            max_streams_per_key,
            cors_origins: _,
            body_limit: _,
            connections: _,
            chat_wait,
            finds_threads,
            waiting_max,
            bulk: batches,
            webhooks,
            capacity,
        } = config;
        let warnings = LimitWarnings::default();
        let keys = ApiKeys::new(
            keys,
            oidc.map(|issuer| (issuer, sign_in)),
            session_secret.as_ref(),
            backends.store.clone(),
        );
        let admission = AdmissionControl::new(waiting_max, warnings.clone());
        let named = |name: &str| {
            let texts = [strategies.find(name)?.prompts(), &[SUMMARISE_PROMPT]].concat();
            Some((name.to_owned(), hash_of_texts(&texts)))
        };
        let prompts = strategies.names().into_iter().filter_map(named).collect();
        Self {
            backends,
            strategies,
            prompts,
            experts,
            mcp_servers,
            origins,
            fixture_secrets,
            tenant_rules,
            providers,
            priced_models,
            embeddings,
            strategy_configs,
            multitask,
            budget,
            context: context.without_defaults(),
            keys,
            accepts,
            streams: Streams::new(max_streams_per_key, warnings.clone()),
            chat_wait,
            waits: Waits::new(),
            finds_threads,
            admission,
            storage: StorageLimits::new(warnings),
            batches,
            batches_changed: watch::Sender::default(),
            webhooks,
            capacity,
            quotes: Semaphore::new(CONCURRENT_QUOTES),
            replays: Semaphore::new(CONCURRENT_REPLAYS),
            deliveries_changed: Notify::new(),
            folds: FoldCache::default(),
            ends: EndCache::default(),
            readiness: Readiness::default(),
            next_measurement: Mutex::default(),
            stats: StatsCache::default(),
            started: clock::now(),
            stop,
        }
    }

    /// Admits one more turn of a tenant.
    pub(crate) async fn admit(&self, tenant: &str) -> Result<(), ApiError> {
        self.storage_left(tenant).await?;
        let own = self.tenant_rules.of(tenant).max_waiting_turns;
        self.admission.admit(&self.backends.store, tenant, own).await
    }

    /// Returns the bytes that a tenant may still store. `None`: it has no limit.
    pub(crate) async fn storage_left(&self, tenant: &str) -> Result<Option<u64>, ApiError> {
        match self.tenant_rules.of(tenant).max_stored_bytes {
            Some(max) => self.storage.left(&self.backends.store, tenant, max).await.map(Some),
            None => Ok(None),
        }
    }

    /// Enqueues a thread in the lane of its next turn. A failure is logged, not returned: the sweeper enqueues every runnable
    /// thread that has no job.
    pub(crate) async fn enqueue(&self, thread: ThreadId) {
        match self.backends.store.lane(thread).await {
            Ok(Some(lane)) => self.enqueue_in(thread, &lane, Schedule::Now).await,
            Ok(None) => warn!(%thread, "cannot enqueue thread: it does not exist"),
            Err(error) => warn!(%thread, %error, "cannot enqueue thread; the sweeper will retry"),
        }
    }

    /// Enqueues a thread in the given lane.
    pub(crate) async fn enqueue_in(&self, thread: ThreadId, lane: &Lane, when: Schedule) {
        if let Err(error) = self.backends.queue.enqueue(thread, lane, when).await {
            warn!(%thread, %error, "cannot enqueue thread; the sweeper will retry");
        }
    }

    /// Makes the worker that is running the thread, if any, reread its log at once. Its current request may be obsolete.
    pub(crate) async fn wake_worker(&self, thread: ThreadId) {
        self.backends.notifications.publish(ALL_WORKERS, Notification::Changed { thread }).await;
    }

    /// Makes the worker that is running the thread, if any, repeat the answer that is being written, for a new follower.
    pub(crate) async fn repeat_answer(&self, thread: ThreadId) {
        self.backends.notifications.publish(ALL_WORKERS, Notification::FollowerJoined { thread }).await;
    }

    /// Makes every API read keys again, after one was revoked or rotated.
    pub(crate) async fn keys_changed(&self) {
        self.keys.issued.forget();
        self.backends.notifications.publish(ALL_APIS, Notification::KeysChanged).await;
    }

    /// Makes the followers of the thread reread it, after a turn ended without an event.
    pub(crate) async fn notify_followers(&self, thread: ThreadId) {
        match self.backends.store.head(thread).await {
            Ok(head) => {
                let appended = Notification::Appended { seq: head.seq, turn_over: true, end: None };
                self.backends.notifications.publish(thread, appended).await
            }
            Err(error) => warn!(%thread, %error, "cannot notify followers; they will poll"),
        }
    }
}

/// Hashes texts by their content and their boundaries.
fn hash_of_texts(texts: &[&str]) -> String {
    let hash = texts.iter().fold(Sha256::new(), |hash, text| hash.chain_update(Sha256::digest(text)));
    hex::encode(hash.finalize())
}
