//! Puts an engine together from the configuration: the store, the queue, the news, the door, the worker, and its world.

mod claim;
mod world;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};
use store::limits::{Limits as Books, MemoryLimits, Pace, RedisLimits, Subject};
use store::{MemoryNews, MemoryQueue, News, Parts, Queue, RedisNews, RedisQueue, Store, Strategies, Weights};
use worker::{
    Backoff, Bounds, Hands, Limits, Worker,
    world::{Caps, Live},
};

pub(crate) use self::{
    claim::Claim,
    world::{entries, experts, index, models, price, servers, world},
};
use crate::{
    config::{SecretRef, Settings, TenantSettings},
    exit::{Exit, Stop},
    output::counted,
};

/// Whether the queue may live in this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    /// Api and worker are one process.
    Yes,
    /// They are not, and must meet at a server.
    No,
}

/// The store of the configuration, brought up to date or not. Who only looks leaves nothing behind at an address that was
/// mistyped.
pub(crate) async fn store(settings: &Settings) -> anyhow::Result<Store> {
    let url = settings.store.url.resolve()?;
    if let Some(file) = Store::sqlite_file(url.expose_secret()).filter(|it| !it.exists()) {
        let words = format!(
            "there is no database at {}: `turnfold dev` or `turnfold migrate` makes one",
            file.display()
        );
        return Err(Stop::because(Exit::Unreachable, words));
    }
    store_or_new(settings).await
}

/// The same; a SQLite file is made where there is none.
pub(crate) async fn store_or_new(settings: &Settings) -> anyhow::Result<Store> {
    let url = settings.store.url.resolve()?;
    Ok(Store::connect_with(url.expose_secret(), settings.store.connections).await?)
}

/// The log, the doorbell and the news.
pub(crate) async fn parts(
    settings: &Settings,
    store: Store,
    alone: Alone,
    name: &str,
) -> anyhow::Result<Parts> {
    let url = settings.queue.url.resolve()?;
    let lease = lease(settings);
    let (queue, news): (Arc<dyn Queue>, Arc<dyn News>) = match url.expose_secret() {
        "memory:" if alone == Alone::Yes => {
            let queue = MemoryQueue::weighing(lease, weights(settings)).consumer(name);
            (Arc::new(queue), Arc::new(MemoryNews::new()))
        }
        "memory:" => {
            let words = "queue.url is memory:, but api and worker are processes of their own and must meet at a server: \
                set queue.url = \"redis://…\", or run both in one process with `turnfold dev`";
            return Err(Stop::because(Exit::Usage, words));
        }
        url if url.starts_with("redis://") || url.starts_with("rediss://") => {
            let queue = RedisQueue::connect(url, lease, name).await?.weighing(weights(settings));
            (Arc::new(queue), Arc::new(RedisNews::connect(url).await?))
        }
        _ => return Err(Stop::because(Exit::Usage, "queue.url must be memory: or begin with redis://")),
    };
    Ok(Parts { store, queue, news })
}

/// How much of the work each tenant is given.
fn weights(settings: &Settings) -> Weights {
    Weights::new(settings.tenants.iter().map(|(name, it)| (name.clone(), it.weight)))
}

/// The door of the configuration.
pub(crate) fn door(settings: &Settings, parts: Parts, strategies: Strategies) -> anyhow::Result<api::Door> {
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
    let bulk = api::Bulk {
        window: settings.batch.window,
        file_max: settings.batch.file_mib.saturating_mul(1024 * 1024),
        line_max: usize::try_from(settings.batch.line_kib)?.saturating_mul(1024),
        ..api::Bulk::default()
    };
    let webhooks =
        api::Webhooks { private_addresses: settings.webhooks.private_addresses, ..api::Webhooks::default() };
    let of_tenant = |(name, it): (&String, &TenantSettings)| Some((name.clone(), it.waiting_max?));
    let waiting_max = api::WaitingMax {
        all: settings.api.waiting_max,
        tenants: settings.tenants.iter().filter_map(of_tenant).collect(),
    };
    let chat_wait = Duration::from_secs(settings.api.chat_wait_seconds);
    Ok(api::Door {
        parts,
        strategies,
        experts,
        tuned,
        budget,
        keys,
        tenants,
        body_limit,
        chat_wait,
        waiting_max,
        bulk,
        webhooks,
        capacity: capacity(settings),
    })
}

/// What there is to run turns with.
fn capacity(settings: &Settings) -> api::Capacity {
    let Caps { models, providers, servers } = world::caps(&settings.limits);
    let models = models.into_iter().map(|(name, cap)| (Subject::Model(name), cap));
    let providers = providers.into_iter().map(|(name, cap)| (Subject::Provider(name), cap));
    let servers = servers.into_iter().map(|(name, cap)| (Subject::Server(name), cap));
    let slots = u64::try_from(settings.worker.slots).unwrap_or(u64::MAX);
    api::Capacity { slots, caps: models.chain(providers).chain(servers).collect() }
}

/// Refuses a key that would open for two: nobody could say for whom it acts.
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
                let words =
                    format!("{owner}.keys and {other}.keys hold the same key: give each a key of its own");
                return Err(Stop::because(Exit::Usage, words));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// What holds a worker's requests back.
pub(crate) async fn bounds(settings: &Settings) -> anyhow::Result<Bounds> {
    let url = settings.queue.url.resolve()?;
    let pace = Pace::holding(lease(settings));
    // Where nothing is limited nothing is counted, and no connection is needed for that.
    let limits: Arc<dyn Books> = match url.expose_secret() {
        url if url.starts_with("redis") && !settings.limits.is_none() => {
            Arc::new(RedisLimits::connect(url, pace).await?)
        }
        _ => Arc::new(MemoryLimits::new(pace)),
    };
    Ok(Bounds::new(limits, settings.worker.node_timeout_seconds.map(Duration::from_secs)))
}

/// The worker of the configuration.
pub(crate) fn worker(
    settings: &Settings,
    parts: Parts,
    strategies: Strategies,
    world: Arc<Live>,
    bounds: Bounds,
) -> Worker {
    let hands = Hands { parts, strategies, world, backoff: Backoff::default(), bounds, name: name(settings) };
    let limits = Limits {
        slots: settings.worker.slots,
        nodes: settings.worker.nodes_per_job,
        lease: lease(settings),
        sweep: Duration::from_secs(settings.queue.sweep_seconds),
        drain: Duration::from_secs(settings.worker.drain_seconds),
    };
    Worker::new(hands, limits)
}

/// What this process is called in the log and in the queue.
pub(crate) fn name(settings: &Settings) -> String {
    if !settings.worker.name.is_empty() {
        return settings.worker.name.clone();
    }
    format!("{}-{}", host(), std::process::id())
}

/// What this machine is called.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().is_empty() { "worker".to_owned() } else { host.trim().to_owned() }
}

fn lease(settings: &Settings) -> Duration {
    Duration::from_secs(settings.queue.lease_seconds)
}

/// The port that the api listens on.
pub(crate) async fn listen(settings: &Settings) -> anyhow::Result<tokio::net::TcpListener> {
    let address = settings.api.listen;
    let keys = settings.api.keys.len() + settings.tenants.values().map(|it| it.keys.len()).sum::<usize>();
    api::check_exposure(address, keys).map_err(|err| Stop::because(Exit::Usage, err.to_string()))?;
    tokio::net::TcpListener::bind(address).await.map_err(|err| {
        let words = if err.kind() == std::io::ErrorKind::AddrInUse {
            format!("the port of {address} is in use, perhaps by another turnfold: stop that, or choose another with --listen")
        } else {
            format!("cannot listen on {address}: {err}; choose another address with --listen")
        };
        Stop::because(Exit::Unreachable, words)
    })
}

/// Refuses a database that is not up to date.
pub(crate) async fn check_migrated(store: &Store) -> anyhow::Result<()> {
    let checked = store.check_migrated().await;
    if let Err(store::Error::NotMigrated { pending }) = &checked {
        let lacks = counted(pending.len(), "migration");
        let words = format!("run `turnfold migrate`: the database lacks {lacks}");
        return Err(Stop::because(Exit::Unreachable, words));
    }
    checked.context("the database is not ready")
}
