//! The engine of a what-if run: a worker in this process, on a database of its own, without an API.

use std::sync::Arc;

use audit::judge::Judge as JudgeStrategy;
use store::Store;
use threads::{Backends, StrategyRegistry};
use tokio::task::JoinHandle;
use worker::Shutdown;
use world::{LiveWorld, Redactor};

use super::{
    plan::Folder,
    world::{Rules, RunWorld},
};
use crate::{
    args::ToolPolicy,
    commands::{Context, judge::Judge},
    config::Settings,
    engine::{self, Alone, Claim},
};

/// Hint if another process runs the same folder.
const BUSY_HINT: &str = "wait for it, or stop it; this command then continues the run";

/// A worker that runs the threads of a folder.
pub(super) struct Engine {
    pub(super) parts: Backends,
    pub(super) world: Arc<RunWorld>,
    /// The strategies of this process, and that of a judge.
    pub(super) strategies: StrategyRegistry,
    pub(super) stop: Shutdown,
    /// Number of threads that run at the same time.
    pub(super) slots: usize,
    live: Arc<LiveWorld>,
    settings: Settings,
    running: Option<JoinHandle<()>>,
    _claim: Option<Claim>,
}

impl Engine {
    /// Opens the database of a folder. The worker does not run yet.
    pub(super) async fn open(
        ctx: &Context,
        folder: &Folder,
        recorded: &Store,
        tools: ToolPolicy,
        max_usd: Option<f64>,
        judge: Option<&Judge>,
    ) -> anyhow::Result<Self> {
        let sources = ctx.sources.clone().flag("--to", "store.url", folder.url());
        let (settings, _) = Settings::load(sources.flag("--to", "queue.url", "memory:"))?;
        let store = engine::store_or_new(&settings).await?;
        let claim = Claim::of(&settings, BUSY_HINT)?;
        store.migrate().await?;
        // A server whose tools differ from its pin is refused here too.
        for pin in recorded.pins().await? {
            store.pin_if_absent(pin).await?;
        }
        let parts = engine::parts(&settings, store, Alone::Yes, &engine::name(&settings)).await?;
        let models = engine::models(&settings)?;
        let live = Arc::new(engine::world_with_index(&settings, &parts.store, recorded, models)?);
        let strategies = ctx.strategies.clone().with(&JudgeStrategy);
        let rules = Rules {
            tools,
            budget: max_usd.map(shared::micro_usd),
            judge: judge.cloned(),
            redactor: Redactor::new(engine::secrets(&settings)),
        };
        let world = RunWorld::new(Arc::clone(&live), parts.clone(), strategies.clone(), rules);
        let slots = settings.worker.slots;
        Ok(Self {
            parts,
            world: Arc::new(world),
            strategies,
            stop: Shutdown::default(),
            slots,
            live,
            settings,
            running: None,
            _claim: claim,
        })
    }

    /// Starts the worker.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let bounds = engine::bounds(&self.settings, &self.parts.store).await?;
        let world = Arc::clone(&self.world);
        let worker =
            engine::worker(&self.settings, self.parts.clone(), self.strategies.clone(), world, bounds);
        let stop = self.stop.clone();
        self.running = Some(tokio::spawn(async move { worker.run(stop).await }));
        Ok(())
    }

    /// Waits until the requests under way have finished.
    pub(super) async fn end(&mut self) -> anyhow::Result<()> {
        self.stop.drain();
        if let Some(running) = self.running.take() {
            running.await?;
        }
        self.live.close().await;
        Ok(())
    }
}
