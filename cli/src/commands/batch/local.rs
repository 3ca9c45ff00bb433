//! An engine of our own for one command: the api and a worker in this process, on SQLite, behind a port of 127.0.0.1; or
//! but the routes of the api, for whoever only asks.

use std::io;

use secrecy::{ExposeSecret as _, SecretString};
use shared::DEFAULT_TENANT;
use store::{
    Store,
    bulk::{Batch, BatchStatus, ItemState},
};
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use worker::Stop as StopWorker;

use super::{
    before::{GivenUp, Known, Made},
    signals::Signals,
};
use crate::{
    client::Client,
    commands::{
        Given,
        serve::{Desk, Dev},
    },
    config::Settings,
    exit::{Exit, Stop},
    output::remark,
};

/// What to do where another engine works on the same file.
const TWO: &str = "stop that or wait for its end; or, if it is `turnfold dev`, leave --local out to have that run the batch \
    (with --url, if it listens elsewhere than api.listen says); or name another file with --set store.url=sqlite:FILE";

/// How many batches are read at once, and how many are told of.
const PAGE: u64 = 100;
const TOLD: usize = 10;

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
    served: Served,
}

enum Served {
    Engine { stop_worker: StopWorker, stop_api: CancellationToken, done: JoinHandle<anyhow::Result<()>> },
    Desk(AbortOnDropHandle<io::Result<()>>),
}

impl Local {
    /// An engine that runs whatever there is to run in the store, for a submission of this name.
    pub(super) async fn start(given: &Given, submission: &str) -> anyhow::Result<Self> {
        on_sqlite(given)?;
        let mut dev = Dev::ready(&at_hand(&given.settings), &given.strategies, TWO).await?;
        let (url, key) = opened(given, &mut dev.desk)?;
        tell_of_others(given, dev.store(), submission, &url).await?;
        let (stop_worker, stop_api) = (StopWorker::default(), CancellationToken::new());
        let done = tokio::spawn(dev.serve(stop_worker.clone(), stop_api.clone()));
        Ok(Self { url, key, served: Served::Engine { stop_worker, stop_api, done } })
    }

    /// The routes alone: nothing that rests in the store is gone on with, and nothing is paid.
    pub(super) async fn desk(given: &Given) -> anyhow::Result<Self> {
        on_sqlite(given)?;
        let mut desk = Desk::ready(&at_hand(&given.settings), &given.strategies).await?;
        let (url, key) = opened(given, &mut desk)?;
        let served = Served::Desk(AbortOnDropHandle::new(tokio::spawn(desk.answer())));
        Ok(Self { url, key, served })
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
        match self.served {
            // Whatever it was asked is answered.
            Served::Desk(answering) => {
                drop(answering);
                Ok(())
            }
            Served::Engine { stop_worker, stop_api, mut done } => {
                stop_worker.drain();
                stop_api.cancel();
                let mut signals = Signals::new()?;
                tokio::select! {
                    ended = &mut done => return ended?,
                    () = signals.heard() => stop_worker.halt(),
                }
                done.await?
            }
        }
    }
}

fn on_sqlite(given: &Given) -> anyhow::Result<()> {
    if given.settings.store.url.resolve()?.expose_secret().starts_with("sqlite:") {
        return Ok(());
    }
    let words = "--local keeps everything in SQLite, and store.url names something else: leave --local out and \
        run an api and a worker, or add --set store.url=sqlite:.turnfold/turnfold.db";
    Err(Stop::because(Exit::Usage, words))
}

/// Where it is, and what opens it. Where nobody is asked for a key, nobody shows one.
fn opened(given: &Given, desk: &mut Desk) -> anyhow::Result<(String, Option<SecretString>)> {
    let key = given.settings.has_keys().then(|| desk.own_key()).transpose()?;
    Ok((format!("http://{}", desk.address()?), key))
}

/// Says which other batches of the store go on as well, before they do.
async fn tell_of_others(given: &Given, store: &Store, submission: &str, url: &str) -> anyhow::Result<()> {
    let tenant = given.tenant.as_deref().unwrap_or(DEFAULT_TENANT);
    let (mut made, mut open, mut after) = (Made::default(), Vec::new(), None);
    loop {
        let page = store.batches(None, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for batch in page {
            let id = format!("batch_{}", batch.id.simple());
            if batch.tenant == tenant {
                made.note(&batch.metadata, || Known { id: id.clone(), given_up: given_up(&batch) });
            }
            if goes_on(&batch) {
                open.push(id);
            }
        }
    }
    let own = made.of(submission).batch.map(|it| it.id);
    open.retain(|it| own.as_ref() != Some(it));
    if open.is_empty() {
        return Ok(());
    }
    let more = match open.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    open.truncate(TOLD);
    let go = if open.len() == 1 { "a batch of this store goes" } else { "batches of this store go" };
    remark(&format!(
        "besides, {go} on meanwhile: {}{more}\n(stop one with: turnfold batch pause ID --url {url})",
        open.join(", ")
    ));
    Ok(())
}

/// Whether an engine has something to run of a batch.
fn goes_on(batch: &Batch) -> bool {
    batch.status.is_open() && (batch.stopped.is_none() || 0 < batch.counts.of(ItemState::Fed))
}

fn given_up(batch: &Batch) -> Option<GivenUp> {
    if batch.status == BatchStatus::Failed {
        return Some(GivenUp::Failed);
    }
    batch.at.cancelling.map(|_| GivenUp::CalledOff)
}
