//! Builds the parts of an engine from the configuration: store, queue, notifications, API, worker and world.

mod claim;
mod world;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use queue::rate_limits::{MemoryRateLimiter, RateLimiter, RedisRateLimiter, Subject, Timing};
use queue::{
    MemoryNotifications, MemoryQueue, Notifications, Queue, RedisNotifications, RedisQueue, Weights,
};
use secrecy::{ExposeSecret as _, SecretString};
use store::{Backends, ConnectionSettings, Store, StrategyRegistry};
use worker::{
    Backoff, RequestAdmission, StepRunner, TurnLimits, Worker, WorkerConfig,
    world::{LiveWorld, RateLimitConfig},
};

pub(crate) use self::{
    claim::Claim,
    world::{entries, experts, index, models, price, servers, world},
};
use crate::{
    config::{ApiSettings, SecretRef, Settings, TenantSettings},
    exit::{CliError, Exit},
    output::counted,
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
    if let Some(file) = Store::sqlite_file(url.expose_secret()).filter(|it| !it.exists()) {
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
    let connections = ConnectionSettings {
        max: settings.store.connections,
        prepared_statements: settings.store.prepared_statements,
    };
    Ok(Store::connect_with(url.expose_secret(), connections).await?)
}

/// Connects the store, the queue and the notifications.
pub(crate) async fn parts(
    settings: &Settings,
    store: Store,
    alone: Alone,
    name: &str,
) -> anyhow::Result<Backends> {
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
            let queue = RedisQueue::connect(url, lease, name).await?.with_weights(weights(settings));
            (Arc::new(queue), Arc::new(RedisNotifications::connect(url).await?))
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

/// True for the address of a Redis server, or of sentinels.
fn is_redis(url: &str) -> bool {
    let schemes = ["redis", "rediss", "redis+sentinel", "rediss+sentinel"];
    url.split_once("://").is_some_and(|(scheme, _)| schemes.contains(&scheme))
}

/// The weights of the tenants.
fn weights(settings: &Settings) -> Weights {
    Weights::new(settings.tenants.iter().map(|(name, it)| (name.clone(), it.weight)))
}

/// The configuration of the API.
pub(crate) fn door(
    settings: &Settings,
    parts: Backends,
    strategies: StrategyRegistry,
) -> anyhow::Result<api::ApiConfig> {
    let resolved = |keys: &[SecretRef]| keys.iter().map(SecretRef::resolve).collect::<Result<Vec<_>, _>>();
    let keys = resolved(&settings.api.keys)?;
    let mut tenants = BTreeMap::new();
    for (name, it) in &settings.tenants {
        tenants.insert(name.clone(), resolved(&it.keys)?);
    }
    check_keys(&keys, &tenants)?;
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
    let of_tenant = |(name, it): (&String, &TenantSettings)| Some((name.clone(), it.waiting_max?));
    let waiting_max = api::AdmissionLimits {
        all: settings.api.waiting_max,
        tenants: settings.tenants.iter().filter_map(of_tenant).collect(),
    };
    let servers = |(name, it): (&String, &TenantSettings)| Some((name.clone(), it.servers.clone()?));
    let tenant_servers = settings.tenants.iter().filter_map(servers).collect();
    let chat_wait = Duration::from_secs(settings.api.chat_wait_seconds);
    Ok(api::ApiConfig {
        parts,
        strategies,
        experts,
        tuned,
        budget,
        context: settings.context.clone(),
        keys,
        tenants,
        tenant_servers,
        accepts: world::accepts(settings),
        connections: connection_limits(&settings.api)?,
        body_limit,
        chat_wait,
        waiting_max,
        bulk,
        webhooks,
        capacity: capacity(settings),
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
    let RateLimitConfig { models, providers, servers } = world::caps(&settings.limits);
    let models = models.into_iter().map(|(name, cap)| (Subject::Model(name), cap));
    let providers = providers.into_iter().map(|(name, cap)| (Subject::Provider(name), cap));
    let servers = servers.into_iter().map(|(name, cap)| (Subject::Server(name), cap));
    let slots = u64::try_from(settings.worker.slots).unwrap_or(u64::MAX);
    api::Capacity { slots, caps: models.chain(providers).chain(servers).collect() }
}

/// Refuses a key that has two owners: its tenant would be ambiguous.
fn check_keys(
    operators: &[SecretString],
    tenants: &BTreeMap<String, Vec<SecretString>>,
) -> anyhow::Result<()> {
    let mut known = BTreeMap::new();
    let operators = operators.iter().map(|key| (key, "api".to_owned()));
    let tenants =
        tenants.iter().flat_map(|(name, keys)| keys.iter().map(move |key| (key, format!("tenants.{name}"))));
    for (key, owner) in operators.chain(tenants) {
        match known.insert(key.expose_secret(), owner.clone()) {
            Some(other) if other != owner => {
                let message = format!(
                    "{owner}.keys and {other}.keys contain the same key; hint: give each a key of its own"
                );
                return Err(CliError::with_exit(Exit::Usage, message));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// The limits and the timeout that a worker applies to its requests.
pub(crate) async fn bounds(settings: &Settings) -> anyhow::Result<RequestAdmission> {
    let url = settings.queue.url.resolve()?;
    let pace = Timing::with_permit_ttl(lease(settings));
    // Also without limits: workers share what they know of models and servers that refuse requests.
    let limits: Arc<dyn RateLimiter> = match url.expose_secret() {
        url if is_redis(url) => Arc::new(RedisRateLimiter::connect(url, pace).await?),
        _ => Arc::new(MemoryRateLimiter::new(pace)),
    };
    let timeout = settings.worker.node_timeout_seconds.map(Duration::from_secs);
    Ok(RequestAdmission::new(limits, timeout).with_retries(world::retries(settings)))
}

/// The configured worker.
pub(crate) fn worker(
    settings: &Settings,
    parts: Backends,
    strategies: StrategyRegistry,
    world: Arc<LiveWorld>,
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
    format!("{}-{}", host(), std::process::id())
}

/// Host name of this machine.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "worker".to_owned() } else { host.trim().to_owned() }
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
    let keys = settings.api.keys.len() + settings.tenants.values().map(|it| it.keys.len()).sum::<usize>();
    api::check_bind(address, keys).map_err(|err| CliError::with_exit(Exit::Usage, err.to_string()))?;
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
