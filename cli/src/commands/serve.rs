//! The commands that run until SIGTERM or Ctrl-C (`dev`, `api`, `worker`), and `migrate`.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use secrecy::SecretString;
use serde_json::json;
use store::{Distributed, Store};
use threads::{Backends, StrategyRegistry};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::info;
use worker::{Shutdown, Worker};
use world::{LiveWorld, Models};

use super::{Context, reload::LiveSecrets};
use crate::{
    config::{LogFormat, Origins, Settings},
    engine::{self, Alone, Claim},
    exit::{CliError, Exit},
    output::{self, quoted_for_shell},
    telemetry::LiveExport,
};

/// Hint if another engine already uses the SQLite file.
const SECOND_ENGINE_HINT: &str = "stop the other one, use another file with --set store.url=sqlite:FILE, or share a queue with \
    --set queue.url=redis://HOST";

/// Runs the API and a worker in one process. Migrates the database first.
pub(crate) async fn dev(ctx: Context) -> anyhow::Result<Exit> {
    let dev = Dev::ready(&ctx.settings, &ctx.origins, &ctx.strategies, SECOND_ENGINE_HINT).await?;
    note_configuration("dev", &ctx.settings, &ctx.origins, dev.store()).await?;
    let address = dev.address()?;
    output::note(&ready(&ctx, address));
    let (stop_worker, stop_api) = (Shutdown::default(), CancellationToken::new());
    let signals = tokio::spawn(handle_signals(stop_worker.clone(), stop_api.clone()));
    let secrets = dev.secrets(address);
    let _reload = secrets.reload_on_hangup(&ctx);
    dev.serve(stop_worker.clone(), stop_api).await;
    signals.abort();
    exit_of(&stop_worker)
}

/// The message of `dev` once it listens: the address, commands to try, and the providers without a key.
fn ready(ctx: &Context, address: SocketAddr) -> String {
    let url = url_of(address);
    let turnfold = format!("turnfold{}", flags_to_reach(ctx, address));
    let keyless = without_key(&ctx.settings);
    format!(
        "turnfold is ready at {url} (console; API: {url}/docs)\n\n  {turnfold} turn send -g probe \"echo hello\" --follow\n  \
         {turnfold} thread events last\n\n{keyless}Stop with Ctrl-C."
    )
}

/// A URL that reaches the address from this machine: `0.0.0.0` and `::` are reached through the loopback interface.
fn url_of(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    format!("http://{address}")
}

/// The flags by which a second terminal reaches the same configuration and the same address.
fn flags_to_reach(ctx: &Context, address: SocketAddr) -> String {
    let url = url_of(address);
    let is_configured = ctx.settings.api.listen.port() != 0 && ctx.origins.of_key("api.listen") != "--listen";
    let is_known = ctx.url.as_ref().map_or(is_configured, |named| named.trim_end_matches('/') == url);
    let mut flags: Vec<String> =
        ctx.config_flags.iter().map(|flag| quoted_for_shell(&flag.to_string_lossy())).collect();
    if !is_known {
        flags.extend(["--url".to_owned(), url]);
    }
    flags.iter().map(|flag| format!(" {flag}")).collect()
}

/// One line for each provider whose key cannot be read, with the strategies that use it; empty if there is none.
fn without_key(settings: &Settings) -> String {
    let mut lines = String::new();
    for (name, provider) in &settings.providers {
        let Some(error) = provider.missing_secret() else { continue };
        let strategies: Vec<&str> = settings.strategies_of(name).collect();
        if !strategies.is_empty() {
            lines += &format!(
                "No key for {error}\n  turns of these strategies will fail: {}\n",
                strategies.join(", ")
            );
        }
    }
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// The API and a worker in one process, ready to serve.
pub(super) struct Dev {
    listener: TcpListener,
    config: api::ApiConfig,
    worker: Worker,
    models: Arc<Models>,
    world: Arc<LiveWorld>,
    claim: Option<Claim>,
    export: Option<LiveExport>,
    reports: AbortOnDropHandle<()>,
}

impl Dev {
    /// Opens the port and migrates the database. `hint` is part of the error if another engine uses the same SQLite file.
    pub(super) async fn ready(
        settings: &Settings,
        origins: &Origins,
        strategies: &StrategyRegistry,
        hint: &str,
    ) -> anyhow::Result<Self> {
        let listener = engine::listen(settings).await?;
        let store = engine::wait_for_servers(|| engine::store_or_new(settings)).await?;
        let (store, export) = LiveExport::start(settings, store)?;
        let claim = Claim::of(settings, hint)?;
        engine::wait_for_servers(async || Ok(store.migrate().await?)).await?;
        let parts = connect_parts(settings, &store, Alone::Yes).await?;
        let models = engine::models(settings)?;
        let config =
            engine::api_config(settings, origins, parts.clone(), strategies.clone(), || Ok(models.clone()))?;
        let world = Arc::new(engine::world(settings, &parts.store, models.clone())?);
        let bounds = engine::wait_for_servers(|| engine::bounds(settings, &parts.store)).await?;
        let worker = engine::worker(settings, parts, strategies.clone(), world.clone(), bounds);
        let reports = report_servers(settings, &world);
        Ok(Self { listener, config, worker, models, world, claim, export, reports })
    }

    /// The store of its events.
    pub(super) fn store(&self) -> &Store {
        &self.config.parts.store
    }

    /// The secrets that this process uses.
    fn secrets(&self, address: SocketAddr) -> LiveSecrets {
        let keys = Some((self.config.keys.clone(), address));
        LiveSecrets { keys, models: Arc::clone(&self.models), world: Some(Arc::clone(&self.world)) }
    }

    /// Adds a random operator key to the API, for the process that started it.
    pub(super) fn add_key(&mut self) -> anyhow::Result<SecretString> {
        let mut bytes = [0; 32];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut bytes).map_err(rustls::Error::from)?;
        let key = SecretString::from(hex::encode(bytes));
        self.config.keys.add_operator(&key);
        Ok(key)
    }

    /// The address that the API listens on, with the port that the system chose.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until both are stopped.
    pub(super) async fn serve(self, stop_worker: Shutdown, stop_api: CancellationToken) {
        let Self { listener, config, worker, models: _, world, claim, export, reports } = self;
        let run = async {
            worker.run(stop_worker.clone()).await;
            if stop_worker.failure().is_some() {
                stop_api.cancel();
            }
        };
        tokio::join!(api::serve(listener, config, stop_api.clone()), run);
        drop(reports);
        world.close().await;
        finish(export).await;
        drop(claim);
    }
}

/// Connects the store, the queue and the notifications, and waits for servers that do not answer yet.
async fn connect_parts(settings: &Settings, store: &Store, alone: Alone) -> anyhow::Result<Backends> {
    let name = engine::name(settings);
    engine::wait_for_servers(|| engine::parts(settings, store.clone(), alone, &name)).await
}

/// Writes into the administrative log that a process starts with another configuration than the last one of its kind.
async fn note_configuration(
    process: &str,
    settings: &Settings,
    origins: &Origins,
    store: &Store,
) -> anyhow::Result<()> {
    let (name, version, sha256) = (engine::name(settings), env!("CARGO_PKG_VERSION"), origins.sha256());
    let note = async || Ok(store.note_configuration(process, &name, version, &sha256).await?);
    if engine::wait_for_servers(note).await? {
        info!(sha256, "the configuration is another than the last one");
    }
    Ok(())
}

/// Runs the API.
pub(crate) async fn api(ctx: Context) -> anyhow::Result<Exit> {
    let is_text = ctx.settings.log.format == LogFormat::Text;
    let listener = engine::listen(&ctx.settings).await?;
    let store = engine::wait_for_servers(|| ctx.store()).await?;
    let (store, export) = LiveExport::start(&ctx.settings, store)?;
    let claim = Claim::of(&ctx.settings, SECOND_ENGINE_HINT)?;
    let parts = connect_parts(&ctx.settings, &store, Alone::No).await?;
    note_configuration("api", &ctx.settings, &ctx.origins, &store).await?;
    let models = engine::models(&ctx.settings)?;
    let config = engine::api_config(&ctx.settings, &ctx.origins, parts, ctx.strategies.clone(), || {
        Ok(Arc::clone(&models))
    })?;
    let address = listener.local_addr()?;
    let secrets = LiveSecrets { keys: Some((config.keys.clone(), address)), models, world: None };
    let _reload = secrets.reload_on_hangup(&ctx);
    info!(%address, "listening");
    // A consumer of JSON log messages gets nothing else on stderr.
    if is_text {
        output::note(&format!("turnfold api is ready at {} (console; API: {0}/docs)", url_of(address)));
    }
    let stop = CancellationToken::new();
    let signals = tokio::spawn(handle_signals(Shutdown::default(), stop.clone()));
    api::serve(listener, config, stop).await;
    finish(export).await;
    signals.abort();
    drop(claim);
    Ok(Exit::Ok)
}

/// Runs a worker.
pub(crate) async fn worker(ctx: Context) -> anyhow::Result<Exit> {
    let metrics = match ctx.settings.worker.metrics_listen {
        Some(address) => Some(metrics_listener(address).await?),
        None => None,
    };
    let store = engine::wait_for_servers(|| ctx.store()).await?;
    let (store, export) = LiveExport::start(&ctx.settings, store)?;
    let claim = Claim::of(&ctx.settings, SECOND_ENGINE_HINT)?;
    let parts = connect_parts(&ctx.settings, &store, Alone::No).await?;
    note_configuration("worker", &ctx.settings, &ctx.origins, &store).await?;
    let served = metrics
        .map(|listener| AbortOnDropHandle::new(tokio::spawn(serve_metrics(listener, parts.store.clone()))));
    let models = engine::models(&ctx.settings)?;
    let world = Arc::new(engine::world(&ctx.settings, &parts.store, Arc::clone(&models))?);
    let secrets = LiveSecrets { keys: None, models, world: Some(Arc::clone(&world)) };
    let _reload = secrets.reload_on_hangup(&ctx);
    let bounds = engine::wait_for_servers(|| engine::bounds(&ctx.settings, &parts.store)).await?;
    let worker = engine::worker(&ctx.settings, parts, ctx.strategies, world.clone(), bounds);
    let stop = Shutdown::default();
    let signals = tokio::spawn(handle_signals(stop.clone(), CancellationToken::new()));
    let reports = report_servers(&ctx.settings, &world);
    worker.run(stop.clone()).await;
    drop(reports);
    signals.abort();
    finish(export).await;
    drop(served);
    world.close().await;
    drop(claim);
    exit_of(&stop)
}

/// Returns the error of a worker that stopped by itself.
fn exit_of(worker: &Shutdown) -> anyhow::Result<Exit> {
    match worker.failure() {
        None => Ok(Exit::Ok),
        Some(reason) => Err(CliError::with_exit(Exit::Database, format!("the worker stopped: {reason}"))),
    }
}

/// Starts a task that reports the MCP servers to the store.
fn report_servers(settings: &Settings, world: &Arc<LiveWorld>) -> AbortOnDropHandle<()> {
    let (name, world) = (engine::name(settings), Arc::clone(world));
    AbortOnDropHandle::new(tokio::spawn(async move { world.keep_reporting_servers(&name).await }))
}

/// Exports the last turns.
async fn finish(export: Option<LiveExport>) {
    if let Some(export) = export {
        export.finish().await;
    }
}

/// Opens the port for the metrics of a worker. They need no key, so the address must be a loopback address.
async fn metrics_listener(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if api::check_bind(address, 0).is_err() {
        let message = format!(
            "worker.metrics_listen: {address} is reachable from other machines, and metrics need no key\nhint: use 127.0.0.1"
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    let listening = TcpListener::bind(address).await;
    listening.with_context(|| format!("worker.metrics_listen: cannot listen on {address}"))
}

/// Serves the metrics of this process at `/metrics`.
async fn serve_metrics(listener: TcpListener, store: Store) {
    let read = async move || {
        store.measure_connections();
        ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::metrics().to_prometheus())
    };
    let router = Router::new().route("/metrics", get(read));
    api::listen(listener, router, api::ConnectionLimits::default(), CancellationToken::new()).await;
}

/// Migrates the database, or lists the missing migrations, and distributes the logs if `distribute` says so.
pub(crate) async fn migrate(ctx: Context, dry_run: bool, distribute: bool) -> anyhow::Result<Exit> {
    if distribute {
        let store = engine::store_or_new(&ctx.settings).await?;
        let applied = store.migrate().await?;
        let Distributed { tables, nodes } = store.distribute().await?;
        let report = json!({ "applied": applied, "distributed": tables, "nodes": nodes });
        output::one(ctx.format, &report, || {
            let applied = applied.iter().map(|name| format!("applied {name}\n")).collect::<String>();
            let tables = if tables.is_empty() { "no further table".to_owned() } else { tables.join(" and ") };
            format!(
                "{applied}distributed {tables} by thread; {} with rows of distributed tables\n{LOCAL_TABLES}",
                output::counted(nodes, "server")
            )
        })?;
        return Ok(Exit::Ok);
    }
    let (names, verb) = match dry_run {
        true => (engine::store(&ctx.settings).await?.pending().await?, "missing"),
        false => (engine::store_or_new(&ctx.settings).await?.migrate().await?, "applied"),
    };
    output::one(ctx.format, &json!({ verb: names }), || match names.as_slice() {
        [] => "the database is up to date".to_owned(),
        names => names.iter().map(|name| format!("{verb} {name}")).collect::<Vec<_>>().join("\n"),
    })?;
    Ok(Exit::Ok)
}

/// The tables that `migrate --distribute` leaves where they are, with the reason.
const LOCAL_TABLES: &str = "all other tables stay on the server that store.url names: the unique keys of turns, forks and batches do \
    not contain the thread, and threads and open_turns are joined with turns\nrestart every turnfold process that runs";

/// Handles SIGTERM and Ctrl-C. The first one lets running jobs finish; the second one returns them to the queue at once.
async fn handle_signals(worker: Shutdown, api: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    for is_second in [false, true] {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        api.cancel();
        if is_second {
            worker.halt();
        } else {
            info!("stopping: running jobs may finish");
            worker.drain();
        }
    }
}

#[test]
fn an_unspecified_address_is_reached_through_loopback() {
    assert_eq!(url_of("0.0.0.0:2026".parse().unwrap()), "http://127.0.0.1:2026");
    assert_eq!(url_of("[::]:7".parse().unwrap()), "http://[::1]:7");
    assert_eq!(url_of("192.0.2.7:80".parse().unwrap()), "http://192.0.2.7:80");
}
