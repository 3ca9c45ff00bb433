//! The commands that run until they are told to stop, and the one that prepares their database.

use std::{io, net::SocketAddr, sync::Arc};

use secrecy::SecretString;
use serde_json::json;
use store::{Store, Strategies};
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
    engine::{self, Alone, Claim},
    exit::Exit,
    output,
};

/// What to do where another engine works on the same file.
const TWO: &str = "stop that; or name another file with --set store.url=sqlite:FILE; or have both meet at a server, with \
    --set queue.url=redis://HOST";

/// Api and worker in one process; the database is brought up to date first.
pub(crate) async fn dev(given: Given) -> anyhow::Result<Exit> {
    let dev = Dev::ready(&given.settings, &given.strategies, TWO).await?;
    let address = dev.desk.address()?;
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

/// The routes of the api at a port that is open: they answer what they are asked, and nothing is begun.
pub(super) struct Desk {
    listener: TcpListener,
    door: api::Door,
}

impl Desk {
    /// Opens the port and brings the database up to date.
    pub(super) async fn ready(settings: &Settings, strategies: &Strategies) -> anyhow::Result<Self> {
        let listener = engine::listen(settings).await?;
        let store = engine::store_or_new(settings).await?;
        Self::at(listener, store, settings, strategies).await
    }

    async fn at(
        listener: TcpListener,
        store: Store,
        settings: &Settings,
        strategies: &Strategies,
    ) -> anyhow::Result<Self> {
        store.migrate().await?;
        let parts = engine::parts(settings, store, Alone::Yes, &engine::name(settings)).await?;
        Ok(Self { listener, door: engine::door(settings, parts, strategies.clone())? })
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

    /// Answers for as long as it is asked.
    pub(super) async fn answer(self) -> io::Result<()> {
        axum::serve(self.listener, api::router(self.door)).await
    }
}

/// Api and worker in one process, ready to serve.
pub(super) struct Dev {
    pub(super) desk: Desk,
    worker: Worker,
    world: Arc<Live>,
    claim: Option<Claim>,
}

impl Dev {
    /// Opens the port and brings the database up to date. Who finds another engine at the same file is told `mend`.
    pub(super) async fn ready(
        settings: &Settings,
        strategies: &Strategies,
        mend: &str,
    ) -> anyhow::Result<Self> {
        let listener = engine::listen(settings).await?;
        let store = engine::store_or_new(settings).await?;
        let claim = Claim::of(settings, mend)?;
        let desk = Desk::at(listener, store, settings, strategies).await?;
        let parts = desk.door.parts.clone();
        let world = Arc::new(engine::world(settings, &parts.store)?);
        let bounds = engine::bounds(settings).await?;
        let worker = engine::worker(settings, parts, strategies.clone(), world.clone(), bounds);
        Ok(Self { desk, worker, world, claim })
    }

    /// Where its events are.
    pub(super) fn store(&self) -> &Store {
        &self.desk.door.parts.store
    }

    /// Serves until both are told to stop.
    pub(super) async fn serve(
        self,
        stop_worker: StopWorker,
        stop_api: CancellationToken,
    ) -> anyhow::Result<()> {
        let Self { desk: Desk { listener, door }, worker, world, claim } = self;
        let served = tokio::join!(api::serve(listener, door, stop_api), worker.run(stop_worker)).0;
        world.close().await;
        drop(claim);
        Ok(served?)
    }
}

/// The api alone.
pub(crate) async fn api(given: Given) -> anyhow::Result<Exit> {
    let listener = engine::listen(&given.settings).await?;
    let store = given.store().await?;
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
    let store = given.store().await?;
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
