//! Puts an engine together from the configuration: the store, the queue, the news, the world, the door, the worker.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};
use store::limits::{Cap, Limits as Books, MemoryLimits, Pace, RedisLimits, Subject};
use store::{
    MemoryNews, MemoryQueue, News, Parts, Queue, RedisNews, RedisQueue, Store, Strategies, VectorIndex,
    Weights,
};
use worker::{
    Backoff, Bounds, Hands, Limits, Worker,
    world::{
        COMMANDS, Caps, Command, Commands, Index, Live, Method, Models, Price, Provider, Providers, Script,
        Server, Servers, Session, Sight, Structured, ToolRule, Transport, about,
    },
};

use crate::{
    config::{
        CommandMethod, CommandSettings, LimitSettings, McpSettings, McpTransport, ModelLimits, PriceSettings,
        ProviderSettings, SecretRef, ServerLimits, SessionSettings, Settings, SightSettings, StructuredForm,
        TenantSettings, ToolSettings,
    },
    exit::{Exit, Stop},
};

/// Whether the queue may live in this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    /// Api and worker are one process.
    Yes,
    /// They are not, and must meet at a server.
    No,
}

/// The store of the configuration, brought up to date or not.
pub(crate) async fn store(settings: &Settings) -> anyhow::Result<Store> {
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
    let Caps { models, providers, servers } = caps(&settings.limits);
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

/// Whoever a strategy can turn to, each with what it is good for: the MCP servers, and the plain commands as one more.
pub(crate) fn experts(settings: &Settings) -> BTreeMap<String, String> {
    let servers = settings.mcp.iter().map(|(name, it)| (name.clone(), it.description.clone()));
    let told = || about(settings.commands.iter().map(|(name, it)| (name.as_str(), it.description.as_str())));
    let commands = (!settings.commands.is_empty()).then(|| (COMMANDS.to_owned(), told()));
    servers.chain(commands).collect()
}

/// The world of the configuration, whose pins are in the store.
pub(crate) fn world(settings: &Settings, store: &Store) -> anyhow::Result<Live> {
    let models = models(settings)?;
    let index = index(settings, entries(settings, store)?, models.clone());
    let servers = servers(settings)?.pinned(store.clone());
    Ok(Live::new(models, servers, commands(settings)?, index).limited(caps(&settings.limits)))
}

/// The models of the configuration.
pub(crate) fn models(settings: &Settings) -> anyhow::Result<Arc<Models>> {
    let providers: anyhow::Result<Providers> =
        settings.providers.iter().map(|(name, it)| Ok((name.clone(), provider(it)?))).collect();
    Ok(Arc::new(Models::new(providers?)?))
}

/// The index of the configuration, over its entries.
pub(crate) fn index(settings: &Settings, entries: Arc<dyn VectorIndex>, models: Arc<Models>) -> Index {
    match &settings.index.embedding_model {
        Some(model) => Index::embedded(entries, models, model.clone()),
        None => Index::lexical(entries),
    }
}

/// Where the index keeps its entries.
pub(crate) fn entries(settings: &Settings, store: &Store) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let url = settings.index.url.resolve()?;
    match url.expose_secret().split_once(':') {
        Some(("store", "")) => Ok(Arc::new(store.clone())),
        Some(("milvus", url)) => milvus(settings, url),
        Some(_) | None => Err(Stop::because(
            Exit::Usage,
            "index.url must be store: or begin with milvus:http:// or milvus:https://",
        )),
    }
}

#[cfg(feature = "milvus")]
fn milvus(settings: &Settings, url: &str) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let token = settings.index.token.as_ref().map(|it| it.resolve()).transpose()?;
    let index = store::MilvusIndex::new(url, token.as_ref().map(|it| it.expose_secret()));
    Ok(Arc::new(index.map_err(|err| Stop::because(Exit::Usage, format!("index.url: {err}")))?))
}

#[cfg(not(feature = "milvus"))]
fn milvus(_: &Settings, _: &str) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let words = "index.url names Milvus, and this turnfold was built without it: build one that knows it with \
        `cargo install --path cli --features milvus`, or set index.url = \"store:\"";
    Err(Stop::because(Exit::Usage, words))
}

/// The plain commands of the configuration.
fn commands(settings: &Settings) -> anyhow::Result<Commands> {
    let commands: anyhow::Result<BTreeMap<String, Command>> =
        settings.commands.iter().map(|(name, it)| Ok((name.clone(), command(it)?))).collect();
    Ok(Commands::new(commands?)?)
}

fn command(settings: &CommandSettings) -> anyhow::Result<Command> {
    let headers = settings.headers.iter();
    let headers = headers.map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
    Ok(Command {
        description: settings.description.clone(),
        parameters: settings.parameters.clone(),
        url: settings.url.resolve()?.expose_secret().to_owned(),
        method: match settings.method {
            CommandMethod::Post => Method::Post,
            CommandMethod::Put => Method::Put,
            CommandMethod::Patch => Method::Patch,
            CommandMethod::Delete => Method::Delete,
        },
        headers,
        safety: settings.safety,
        timeout: Duration::from_secs(settings.timeout_seconds),
    })
}

/// The MCP servers of the configuration, not held against their pins.
pub(crate) fn servers(settings: &Settings) -> anyhow::Result<Servers> {
    let servers: anyhow::Result<BTreeMap<String, Server>> =
        settings.mcp.iter().map(|(name, it)| Ok((name.clone(), server(it)?))).collect();
    Ok(Servers::new(servers?))
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

fn caps(settings: &LimitSettings) -> Caps {
    let of_models = |limits: &BTreeMap<String, ModelLimits>| {
        limits.iter().map(|(name, it)| (name.clone(), cap(it))).collect::<BTreeMap<_, _>>()
    };
    let of_server = |it: &ServerLimits| Cap {
        concurrency: it.concurrency,
        requests_per_minute: it.requests_per_minute,
        ..Cap::default()
    };
    Caps {
        models: of_models(&settings.models),
        providers: of_models(&settings.providers),
        servers: settings.servers.iter().map(|(name, it)| (name.clone(), of_server(it))).collect(),
    }
}

fn cap(limits: &ModelLimits) -> Cap {
    let ModelLimits { concurrency, requests_per_minute, tokens_per_minute, usd_per_day } = *limits;
    Cap { concurrency, requests_per_minute, tokens_per_minute, micro_usd_per_day: usd_per_day.map(micro_usd) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is below zero or beyond all money is cut off"
)]
fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
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

fn provider(settings: &ProviderSettings) -> anyhow::Result<Provider> {
    Ok(match settings {
        ProviderSettings::Script { script } => Provider::Scripted(scripted(script)?),
        ProviderSettings::Http { base_url, api_key, timeout_seconds, structured, prices } => {
            match api_key.as_ref().map(|it| it.resolve()).transpose() {
                Ok(api_key) => {
                    let timeout = Duration::from_secs(*timeout_seconds);
                    let structured = match structured {
                        StructuredForm::Auto => Structured::Auto,
                        StructuredForm::JsonSchema => Structured::JsonSchema,
                        StructuredForm::Tool => Structured::Tool,
                        StructuredForm::Json => Structured::Json,
                    };
                    let prices = prices.iter().map(|(model, it)| (model.clone(), price(it))).collect();
                    Provider::OpenAi { base_url: base_url.clone(), api_key, timeout, structured, prices }
                }
                Err(err) => Provider::Locked { why: err.to_string() },
            }
        }
    })
}

fn scripted(script: &Path) -> anyhow::Result<Script> {
    Script::read(script).map_err(|err| Stop::because(Exit::Usage, err.to_string()))
}

pub(crate) fn price(it: &PriceSettings) -> Price {
    Price { input: it.input, output: it.output }
}

/// How many threads may have a session with one server at once, and how long one lasts without a call.
const SESSIONS_MAX: usize = 64;
const SESSION_IDLE: Duration = Duration::from_secs(600);

fn server(settings: &McpSettings) -> anyhow::Result<Server> {
    let transport = match &settings.transport {
        McpTransport::Child { command, args, env, cwd } => {
            let env: BTreeMap<String, SecretString> =
                env.iter().map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
            let env = env.into_iter().map(|(k, v)| (k, v.expose_secret().to_owned())).collect();
            Transport::Stdio { command: command.clone(), args: args.clone(), env, cwd: cwd.clone() }
        }
        McpTransport::Http { url, headers } => {
            let headers =
                headers.iter().map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
            Transport::Http { url: url.resolve()?.expose_secret().to_owned(), headers }
        }
    };
    Ok(Server {
        description: settings.description.clone(),
        transport,
        call_timeout: Duration::from_secs(settings.call_timeout_seconds),
        connect_timeout: Duration::from_secs(settings.connect_timeout_seconds),
        session: match settings.session {
            SessionSettings::Shared => Session::Shared,
            SessionSettings::Thread => Session::Thread { most: SESSIONS_MAX, idle: SESSION_IDLE },
        },
        concurrency: settings.concurrency,
        tools: settings.tools.iter().map(|(name, it)| (name.clone(), rule(it))).collect(),
        sight: sight(&settings.sight),
        nodes: settings.nodes.iter().map(|(strategy, it)| (strategy.clone(), of_nodes(it))).collect(),
    })
}

fn of_nodes(nodes: &BTreeMap<String, SightSettings>) -> BTreeMap<String, Sight> {
    nodes.iter().map(|(node, it)| (node.clone(), sight(it))).collect()
}

fn sight(settings: &SightSettings) -> Sight {
    Sight { allow: settings.allow.clone(), deny: settings.deny.clone() }
}

fn rule(settings: &ToolSettings) -> ToolRule {
    ToolRule {
        safety: settings.safety,
        timeout: settings.timeout_seconds.map(Duration::from_secs),
        concurrency: settings.concurrency,
    }
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
    store.check_migrated().await.context("the database is not ready")
}
