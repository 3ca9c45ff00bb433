//! Builds the parts of an engine from the configuration: store, queue, notifications, API, worker and world.

mod claim;
mod fixture_secrets;
mod issuer;
mod keys;
mod patience;
mod world;

use std::{sync::Arc, time::Duration};

use ::world::{Models, RateLimitConfig, World};
use anyhow::Context as _;
use axum::http::HeaderValue;
use queue::rate_limits::{MemoryRateLimiter, RateLimiter, RedisRateLimiter, Subject, Timing};
use queue::{
    MemoryNotifications, MemoryQueue, Notifications, Prefix, Queue, RedisNotifications, RedisQueue, Weights,
};
use secrecy::ExposeSecret as _;
use store::{ConnectionSettings, Store};
use threads::{Backends, StrategyRegistry};
use worker::{Backoff, MaxRunningTurns, RequestAdmission, StepRunner, TurnLimits, Worker, WorkerConfig};

pub(crate) use self::{
    claim::Claim,
    fixture_secrets::fixture_secrets,
    keys::ConfiguredKeys,
    patience::wait_for_servers,
    world::{
        entries, experts, http_providers, index, models, prices, secrets, servers, world, world_with_index,
    },
};
use crate::{
    config::{ApiSettings, Origins, Settings, TenantSettings},
    exit::{CliError, Exit},
    output::{counted, note},
};

/// The number of processes that share the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    /// The API and the worker are one process, so the queue may be in memory.
    Yes,
    /// They are separate processes and need a shared queue.
    No,
}

/// Opens the configured store without migrating it. Never creates a SQLite file: a mistyped path must not leave one behind.
pub(crate) async fn store(settings: &Settings) -> anyhow::Result<Store> {
    let url = settings.store.url.resolve()?;
    if let Some(file) = Store::sqlite_file(url.expose_secret()).filter(|file| !file.exists()) {
        let message = format!(
            "there is no database at {}; hint: `turnfold dev` or `turnfold migrate` creates one",
            file.display()
        );
        return Err(CliError::with_exit(Exit::Database, message));
    }
    store_or_new(settings).await
}

/// Opens the configured store, and creates a missing SQLite file.
pub(crate) async fn store_or_new(settings: &Settings) -> anyhow::Result<Store> {
    let url = settings.store.url.resolve()?;
    if let Some(file) = Store::sqlite_file(url.expose_secret()) {
        claim::check_file(&file)?;
    }
    let connections = ConnectionSettings {
        max: settings.store.connections,
        prepared_statements: settings.store.prepared_statements,
    };
    let store = Store::connect_with(url.expose_secret(), connections).await?;
    Ok(store.with_search(settings.search.enabled))
}

/// Connects the store, the queue and the notifications.
pub(crate) async fn parts(
    settings: &Settings,
    store: Store,
    alone: Alone,
    name: &str,
) -> anyhow::Result<Backends> {
    metrics::metrics().turns.name_tenants(settings.tenants.keys().map(String::as_str));
    let url = settings.queue.url.resolve()?;
    let lease = lease(settings);
    let (queue, notifications): (Arc<dyn Queue>, Arc<dyn Notifications>) = match url.expose_secret() {
        "memory:" if alone == Alone::Yes => {
            let queue = MemoryQueue::with_weights(lease, weights(settings)).consumer(name);
            (Arc::new(queue), Arc::new(MemoryNotifications::new()))
        }
        "memory:" => {
            let message = "queue.url is memory:, but separate api and worker processes need a shared queue; hint: set \
                queue.url = \"redis://…\", or run both in one process with `turnfold dev`";
            return Err(CliError::with_exit(Exit::Usage, message));
        }
        url if is_redis(url) => {
            let prefix = queue_prefix(settings, &store).await?;
            if !settings.queue.prefix.is_empty() {
                prefix.register(url, &store.identity().await?).await?;
            }
            let queue = RedisQueue::connect(&prefix, url, lease, name).await?;
            let notifications = RedisNotifications::connect(&prefix, url).await?;
            (Arc::new(queue.with_weights(weights(settings))), Arc::new(notifications))
        }
        _ => {
            return Err(CliError::with_exit(
                Exit::Usage,
                "queue.url must be memory:, or begin with redis://, rediss://, redis+sentinel:// or rediss+sentinel://",
            ));
        }
    };
    Ok(Backends { store, queue, notifications })
}

/// The prefix of the keys and channels of this deployment in Redis.
async fn queue_prefix(settings: &Settings, store: &Store) -> anyhow::Result<Prefix> {
    Ok(match settings.queue.prefix.as_str() {
        "" => Prefix::parse(&store.identity().await?)?,
        configured => Prefix::parse(configured)?,
    })
}

/// True for the address of a Redis server, or of sentinels.
fn is_redis(url: &str) -> bool {
    let schemes = ["redis", "rediss", "redis+sentinel", "rediss+sentinel"];
    url.split_once("://").is_some_and(|(scheme, _)| schemes.contains(&scheme))
}

/// The weights of the tenants.
fn weights(settings: &Settings) -> Weights {
    Weights::new(
        settings.named_tenants().into_iter().map(|(name, tenant)| (name, tenant.weight.unwrap_or(1))),
    )
}

/// The configuration of the API. It builds the models only if an embedding model is configured.
pub(crate) fn api_config(
    settings: &Settings,
    origins: &Origins,
    parts: Backends,
    strategies: StrategyRegistry,
    models: impl FnOnce() -> anyhow::Result<Arc<Models>>,
) -> anyhow::Result<api::ApiConfig> {
    let keys = ConfiguredKeys::read(settings)?;
    let experts = experts(settings);
    let body_limit = usize::try_from(settings.api.body_limit_kib)?.saturating_mul(1024);
    let (tuned, budget) = (settings.strategies.clone(), settings.budget.clone());
    let bulk = api::BatchConfig {
        window: settings.batch.window,
        file_max: settings.batch.file_mib.saturating_mul(1024 * 1024),
        line_max: usize::try_from(settings.batch.line_kib)?.saturating_mul(1024),
        ..api::BatchConfig::default()
    };
    let webhooks = api::WebhookConfig {
        private_addresses: settings.webhooks.private_addresses,
        ..api::WebhookConfig::default()
    };
    let named = settings.named_tenants();
    let tenant_rules = api::TenantRules {
        named: named
            .iter()
            .map(|(name, tenant)| (name.clone(), tenant_rule(&settings.api, tenant)))
            .collect(),
        others: tenant_rule(&settings.api, &settings.other_tenants()),
    };
    let origins = origins.clone();
    let chat_wait = Duration::from_secs(settings.api.chat_wait_seconds);
    Ok(api::ApiConfig {
        parts,
        strategies,
        experts,
        mcp_servers: settings
            .mcp
            .iter()
            .map(|(name, server)| (name.clone(), server.description.clone()))
            .collect(),
        origins: Arc::new(move |key| origins.of_either(key, "_file")),
        fixture_secrets: fixture_secrets(settings)?,
        tuned,
        multitask: settings.api.multitask_strategy.clone(),
        budget,
        context: settings.context.clone(),
        keys: api::KeyRing::new(&keys.operators, &keys.tenants),
        oidc: settings.api.oidc.as_ref().map(issuer::oidc).transpose()?,
        sign_in: settings.api.oidc.as_ref().map(issuer::sign_in).transpose()?.flatten(),
        session_secret: settings.api.session_secret.as_ref().map(keys::session_secret).transpose()?,
        tenant_rules,
        providers: Some(settings.providers.keys().cloned().collect()),
        priced_models: Some(world::priced_models(settings)),
        embeddings: world::embeddings(settings, models)?,
        access_log: settings.api.access_log,
        accepts: world::accepts(settings),
        connections: connection_limits(&settings.api)?,
        max_streams_per_key: usize::try_from(settings.api.max_streams_per_key)?,
        cors_origins: settings
            .api
            .cors_origins
            .iter()
            .map(|cors_origin| origin(cors_origin))
            .collect::<Result<_, _>>()?,
        body_limit,
        chat_wait,
        finds_threads: settings.api.continue_conversations,
        waiting_max: settings.api.waiting_max,
        bulk,
        webhooks,
        capacity: capacity(settings),
    })
}

/// The configuration of an API in this process on a database: without a port, keys, background tasks or work in the queue.
pub(crate) fn embedded_config(
    settings: &Settings,
    origins: &Origins,
    store: Store,
    strategies: StrategyRegistry,
) -> anyhow::Result<api::ApiConfig> {
    let mut settings = settings.clone();
    settings.api.keys.clear();
    settings.tenants.values_mut().for_each(|tenant| tenant.keys.clear());
    settings.api.oidc = None;
    settings.api.session_secret = None;
    settings.api.access_log = false;
    let queue = Arc::new(MemoryQueue::new(lease(&settings)));
    let parts = Backends { store, queue, notifications: Arc::new(MemoryNotifications::new()) };
    api_config(&settings, origins, parts, strategies, || models(&settings))
}

/// The rule of one tenant.
fn tenant_rule(all: &ApiSettings, settings: &TenantSettings) -> api::TenantRule {
    api::TenantRule {
        strategies: settings.strategies.clone(),
        models: settings.models.clone(),
        servers: settings.servers.clone(),
        config: settings.config.clone(),
        max_waiting_turns: settings.max_waiting_turns,
        max_stored_bytes: settings.storage_mib.map(|mib| mib.saturating_mul(1 << 20)),
        require_other_approver: settings.require_other_approver.unwrap_or(all.require_other_approver),
        multitask_strategy: settings.multitask_strategy,
    }
}

/// Checks an origin of `api.cors_origins`: a scheme and a host, as browsers send it.
fn origin(text: &str) -> anyhow::Result<HeaderValue> {
    let is_exact =
        reqwest::Url::parse(text).is_ok_and(|parsed| parsed.origin().ascii_serialization() == text);
    HeaderValue::from_str(text).ok().filter(|_| is_exact).ok_or_else(|| {
        let message = format!(
            "api.cors_origins: {text:?} is not an origin\nhint: name each one exactly, without a path, such as \
             https://console.example.org"
        );
        CliError::with_exit(Exit::Usage, message)
    })
}

/// The limits of connections to the API.
fn connection_limits(settings: &ApiSettings) -> anyhow::Result<api::ConnectionLimits> {
    Ok(api::ConnectionLimits {
        max: usize::try_from(settings.max_connections)?,
        max_per_address: usize::try_from(settings.max_connections_per_address)?,
        header_timeout: Duration::from_secs(settings.header_timeout_seconds),
        body_timeout: Duration::from_secs(settings.body_timeout_seconds),
    })
}

/// The slots and limits, from which batch quotes predict the finish time.
fn capacity(settings: &Settings) -> api::Capacity {
    let RateLimitConfig { models, providers, servers, tenants: _ } = world::caps(settings);
    let models = models.into_iter().map(|(name, cap)| (Subject::Model(name), cap));
    let providers = providers.into_iter().map(|(name, cap)| (Subject::Provider(name), cap));
    let servers = servers.into_iter().map(|(name, cap)| (Subject::Server(name), cap));
    let slots = u64::try_from(settings.worker.slots).unwrap_or(u64::MAX);
    api::Capacity { slots, caps: models.chain(providers).chain(servers).collect() }
}

/// The limits and the timeout that a worker applies to its requests.
pub(crate) async fn bounds(settings: &Settings, store: &Store) -> anyhow::Result<RequestAdmission> {
    let url = settings.queue.url.resolve()?;
    let pace = Timing::with_permit_ttl(lease(settings));
    // Also without limits: workers share what they know of models and servers that refuse requests.
    let limits: Arc<dyn RateLimiter> = match url.expose_secret() {
        url if is_redis(url) => {
            let prefix = queue_prefix(settings, store).await?;
            Arc::new(RedisRateLimiter::connect(&prefix, url, pace).await?)
        }
        _ => Arc::new(MemoryRateLimiter::new(pace)),
    };
    let timeout = settings.worker.node_timeout_seconds.map(Duration::from_secs);
    let running = MaxRunningTurns {
        named: settings
            .named_tenants()
            .into_iter()
            .map(|(name, tenant)| (name, tenant.max_running_turns))
            .collect(),
        others: settings.other_tenants().max_running_turns,
    };
    let admission = RequestAdmission::new(limits, timeout).with_retries(world::retries(settings));
    Ok(admission.with_max_running_turns(running))
}

/// The configured worker.
pub(crate) fn worker(
    settings: &Settings,
    parts: Backends,
    strategies: StrategyRegistry,
    world: Arc<dyn World>,
    admission: RequestAdmission,
) -> Worker {
    let steps =
        StepRunner { parts, strategies, world, backoff: Backoff::default(), admission, name: name(settings) };
    let limits = WorkerConfig {
        slots: settings.worker.slots,
        max_jobs_in_place: settings.worker.max_jobs_in_place,
        lease: lease(settings),
        sweep_interval: Duration::from_secs(settings.queue.sweep_seconds),
        drain_timeout: Duration::from_secs(settings.worker.drain_seconds),
    };
    let turn_limits = TurnLimits {
        deaths: settings.worker.max_deaths,
        events: settings.worker.max_events_per_turn,
        bytes: settings.worker.max_thread_mib.saturating_mul(1 << 20),
    };
    Worker::new(steps, limits).with_turn_limits(turn_limits)
}

/// Name of this process in log messages and in the queue.
pub(crate) fn name(settings: &Settings) -> String {
    if !settings.worker.name.is_empty() {
        return settings.worker.name.clone();
    }
    format!("{}-{}", worker::host(), std::process::id())
}

fn lease(settings: &Settings) -> Duration {
    Duration::from_secs(settings.queue.lease_seconds)
}

/// Opens the port of the API.
///
/// # Errors
///
/// Refuses an address that other machines can reach if no key is configured.
pub(crate) async fn listen(settings: &Settings) -> anyhow::Result<tokio::net::TcpListener> {
    let address = settings.api.listen;
    ConfiguredKeys::read(settings)?
        .check_for(address)?
        .iter()
        .for_each(|warning| note(&format!("warning: {warning}")));
    tokio::net::TcpListener::bind(address).await.map_err(|err| {
        let message = if err.kind() == std::io::ErrorKind::AddrInUse {
            format!(
                "cannot listen on {address}: the port is in use, perhaps by another turnfold; hint: stop it, or choose \
                 another port with --listen"
            )
        } else {
            format!("cannot listen on {address}: {err}; hint: choose another address with --listen")
        };
        CliError::with_exit(Exit::Unreachable, message)
    })
}

/// Refuses a database with missing migrations.
pub(crate) async fn check_migrated(store: &Store) -> anyhow::Result<()> {
    let checked = store.check_migrated().await;
    if let Err(store::Error::NotMigrated { pending }) = &checked {
        let missing = counted(pending.len(), "migration");
        let message = format!("the database lacks {missing}; hint: run `turnfold migrate`");
        return Err(CliError::with_exit(Exit::Database, message));
    }
    checked.context("the database is not ready")
}
