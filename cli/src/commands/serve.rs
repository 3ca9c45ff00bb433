//! The commands that run until they are told to stop, and the one that prepares their database.

use std::{io, net::SocketAddr, sync::Arc};

use secrecy::SecretString;
use serde_json::json;
use store::Strategies;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::info;
use worker::{Stop as StopWorker, Worker, world::Live};

use super::Given;
use crate::{
    config::Settings,
    engine::{self, Alone},
    exit::Exit,
    output,
};

/// Api and worker in one process; the database is brought up to date first.
pub(crate) async fn dev(given: Given) -> anyhow::Result<Exit> {
    let dev = Dev::ready(&given.settings, &given.strategies).await?;
    let address = dev.address()?;
    output::remark(&format!(
        "turnfold is ready at http://{address} (try it at http://{address}/docs)\n\
         \n  turnfold turn send -g probe \"echo hello\" --follow\n  turnfold thread events last\n\nCtrl-C stops it."
    ));
    let (stop_worker, stop_api) = (StopWorker::default(), CancellationToken::new());
    let signals = tokio::spawn(heed_signals(stop_worker.clone(), stop_api.clone()));
    let served = dev.serve(stop_worker, stop_api).await;
    signals.abort();
    served?;
    Ok(Exit::Ok)
}

/// Api and worker in one process, ready to serve.
pub(super) struct Dev {
    listener: TcpListener,
    door: api::Door,
    worker: Worker,
    world: Arc<Live>,
}

impl Dev {
    /// Opens the port and brings the database up to date.
    pub(super) async fn ready(settings: &Settings, strategies: &Strategies) -> anyhow::Result<Self> {
        let listener = engine::listen(settings).await?;
        let store = engine::store_or_new(settings).await?;
        store.migrate().await?;
        let name = engine::name(settings);
        let parts = engine::parts(settings, store, Alone::Yes, &name).await?;
        let world = Arc::new(engine::world(settings, &parts.store)?);
        let door = engine::door(settings, parts.clone(), strategies.clone())?;
        let bounds = engine::bounds(settings).await?;
        let worker = engine::worker(settings, parts, strategies.clone(), world.clone(), bounds);
        Ok(Self { listener, door, worker, world })
    }

    /// A key of its own: whoever starts it is its operator.
    pub(super) fn own_key(&mut self) -> anyhow::Result<SecretString> {
        let mut bytes = [0; 32];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut bytes).map_err(rustls::Error::from)?;
        let key = SecretString::from(hex::encode(bytes));
        self.door.keys.push(key.clone());
        Ok(key)
    }

    /// Where it listens.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until both are told to stop.
    pub(super) async fn serve(
        self,
        stop_worker: StopWorker,
        stop_api: CancellationToken,
    ) -> anyhow::Result<()> {
        let Self { listener, door, worker, world } = self;
        let served = tokio::join!(api::serve(listener, door, stop_api), worker.run(stop_worker)).0;
        world.close().await;
        Ok(served?)
    }
}

/// The api alone.
pub(crate) async fn api(given: Given) -> anyhow::Result<Exit> {
    let listener = engine::listen(&given.settings).await?;
    let store = engine::store(&given.settings).await?;
    engine::check_migrated(&store).await?;
    let parts = engine::parts(&given.settings, store, Alone::No, &engine::name(&given.settings)).await?;
    let door = engine::door(&given.settings, parts, given.strategies)?;
    info!(address = %listener.local_addr()?, "listening");
    let stop = CancellationToken::new();
    let signals = tokio::spawn(heed_signals(StopWorker::default(), stop.clone()));
    api::serve(listener, door, stop).await?;
    signals.abort();
    Ok(Exit::Ok)
}

/// A worker alone.
pub(crate) async fn worker(given: Given) -> anyhow::Result<Exit> {
    let store = engine::store(&given.settings).await?;
    engine::check_migrated(&store).await?;
    let parts = engine::parts(&given.settings, store, Alone::No, &engine::name(&given.settings)).await?;
    let world = Arc::new(engine::world(&given.settings, &parts.store)?);
    let bounds = engine::bounds(&given.settings).await?;
    let worker = engine::worker(&given.settings, parts, given.strategies, world.clone(), bounds);
    let stop = StopWorker::default();
    let signals = tokio::spawn(heed_signals(stop.clone(), CancellationToken::new()));
    worker.run(stop).await;
    signals.abort();
    world.close().await;
    Ok(Exit::Ok)
}

/// Brings the database up to date, or says what is missing.
pub(crate) async fn migrate(given: Given, dry_run: bool) -> anyhow::Result<Exit> {
    let (names, verb) = match dry_run {
        true => (engine::store(&given.settings).await?.pending().await?, "missing"),
        false => (engine::store_or_new(&given.settings).await?.migrate().await?, "applied"),
    };
    output::one(given.format, &json!({ verb: names }), || match names.as_slice() {
        [] => "the database is up to date".to_owned(),
        names => names.iter().map(|it| format!("{verb} {it}")).collect::<Vec<_>>().join("\n"),
    })?;
    Ok(Exit::Ok)
}

/// The first SIGTERM or Ctrl-C lets jobs finish, the second gives them back at once.
async fn heed_signals(worker: StopWorker, api: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    for again in [false, true] {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        api.cancel();
        if again {
            worker.halt();
        } else {
            info!("told to stop");
            worker.drain();
        }
    }
}
