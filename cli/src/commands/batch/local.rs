//! An engine of our own for one command: the api and a worker in this process, on SQLite, behind a port of 127.0.0.1.

use secrecy::{ExposeSecret as _, SecretString};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::Stop as StopWorker;

use super::signals::Signals;
use crate::{
    client::Client,
    commands::{Given, serve::Dev},
    config::Settings,
    exit::{Exit, Stop},
};

/// The settings without the keys that are not at hand: they open nothing here, and nobody need have them.
fn at_hand(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let keys = settings.tenants.values_mut().map(|it| &mut it.keys).chain([&mut settings.api.keys]);
    keys.for_each(|it| it.retain(|key| key.resolve().is_ok()));
    settings
}

/// An engine that is under way.
pub(super) struct Local {
    url: String,
    key: Option<SecretString>,
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
        let settings = at_hand(&given.settings);
        let mut dev = Dev::ready(&settings, &given.strategies).await?;
        // Where nobody is asked for a key, nobody shows one.
        let key = given.settings.has_keys().then(|| dev.own_key()).transpose()?;
        let url = format!("http://{}", dev.address()?);
        let (stop_worker, stop_api) = (StopWorker::default(), CancellationToken::new());
        let served = tokio::spawn(dev.serve(stop_worker.clone(), stop_api.clone()));
        Ok(Self { url, key, stop_worker, stop_api, served })
    }

    pub(super) fn client(&self, given: &Given) -> anyhow::Result<Client> {
        let client = Client::new(&at_hand(&given.settings), Some(&self.url), given.tenant.as_deref())?;
        Ok(match &self.key {
            Some(key) => client.with_key(key.clone()),
            None => client,
        })
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
