//! An engine of our own for one command: the api and a worker in this process, on SQLite, behind a port of 127.0.0.1.

use secrecy::ExposeSecret as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::Stop as StopWorker;

use super::signals::Signals;
use crate::{
    commands::{Given, serve::Dev},
    exit::{Exit, Stop},
};

/// An engine that is under way.
pub(super) struct Local {
    url: String,
    stop_worker: StopWorker,
    stop_api: CancellationToken,
    served: JoinHandle<anyhow::Result<()>>,
}

impl Local {
    pub(super) async fn start(given: &Given) -> anyhow::Result<Self> {
        if !given.settings.store.url.resolve()?.expose_secret().starts_with("sqlite:") {
            let words = "--local keeps everything in SQLite, and store.url names something else: leave --local out and \
                run an api and a worker, or add --set store.url=sqlite:.turnfold/turnfold.db";
            return Err(Stop::because(Exit::Usage, words));
        }
        let dev = Dev::ready(given).await?;
        let url = format!("http://{}", dev.address()?);
        let (stop_worker, stop_api) = (StopWorker::default(), CancellationToken::new());
        let served = tokio::spawn(dev.serve(stop_worker.clone(), stop_api.clone()));
        Ok(Self { url, stop_worker, stop_api, served })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Lets it finish what it has begun; one more signal has it give that back at once.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self { stop_worker, stop_api, mut served, .. } = self;
        stop_worker.drain();
        stop_api.cancel();
        let mut signals = Signals::new()?;
        tokio::select! {
            ended = &mut served => return ended?,
            () = signals.heard() => stop_worker.halt(),
        }
        served.await?
    }
}
