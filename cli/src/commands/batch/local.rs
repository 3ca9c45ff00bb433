//! The engine of `--local`: an API and a worker in this process, on SQLite, at a port of 127.0.0.1. For a quote, only the API, at no port.

use secrecy::{ExposeSecret as _, SecretString};
use shared::DEFAULT_TENANT;
use store::{
    Order, Store,
    batches::{Batch, BatchStatus, ItemState},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::Shutdown;

use super::previous::{Abandoned, Batches, Known};
use crate::{
    client::Client,
    commands::{Context, serve::Dev, signals::Signals},
    config::Settings,
    engine,
    exit::{CliError, Exit},
    output::note,
};

/// Hint if another engine uses the same database file.
const BUSY_HINT: &str = "stop it or wait for it; if it is turnfold dev, leave out --local to run the batch there (with --url \
    if it does not listen at api.listen); or use another file with --set store.url=sqlite:FILE";

/// Number of batches read at a time.
const PAGE: u64 = 100;

/// Maximum number of other batches that are listed.
const MAX_LISTED: usize = 10;

/// Returns the settings without API keys that cannot be resolved, which a local command does not need.
fn without_missing_keys(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let keys =
        settings.tenants.values_mut().map(|settings| &mut settings.keys).chain([&mut settings.api.keys]);
    keys.for_each(|list| list.retain(|key| key.resolve().is_ok()));
    settings
}

/// A running engine.
pub(super) struct LocalEngine {
    url: String,
    key: Option<SecretString>,
    stop_worker: Shutdown,
    stop_api: CancellationToken,
    done: JoinHandle<()>,
}

impl LocalEngine {
    /// Starts API and worker, which run all open work of the database, for the submission with this name.
    pub(super) async fn start(ctx: &Context, submission: &str) -> anyhow::Result<Self> {
        require_sqlite(ctx)?;
        let mut dev =
            Dev::ready(&without_missing_keys(&ctx.settings), &ctx.origins, &ctx.strategies, BUSY_HINT)
                .await?;
        let key = ctx.settings.has_keys().then(|| dev.add_key()).transpose()?;
        let url = format!("http://{}", dev.address()?);
        list_other_batches(ctx, dev.store(), submission, &url).await?;
        let (stop_worker, stop_api) = (Shutdown::default(), CancellationToken::new());
        let done = tokio::spawn(dev.serve(stop_worker.clone(), stop_api.clone()));
        Ok(Self { url, key, stop_worker, stop_api, done })
    }

    pub(super) fn client(&self, ctx: &Context) -> anyhow::Result<Client> {
        let client =
            Client::new(&without_missing_keys(&ctx.settings), Some(&self.url), ctx.tenant.as_deref())?;
        Ok(match &self.key {
            Some(key) => client.with_key(key.clone()),
            None => client,
        })
    }

    /// Stops after running jobs have finished, or at once after a signal.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop_worker.drain();
        self.stop_api.cancel();
        let mut signals = Signals::new()?;
        tokio::select! {
            ended = &mut self.done => return Ok(ended?),
            () = signals.received() => self.stop_worker.halt(),
        }
        Ok(self.done.await?)
    }
}

/// Returns a client of an API without a worker: no work of the database runs, and nothing costs money.
pub(super) async fn api_only(ctx: &Context) -> anyhow::Result<Client> {
    require_sqlite(ctx)?;
    let store = engine::store_or_new(&ctx.settings).await?;
    store.migrate().await?;
    ctx.embedded_client(store, ctx.tenant.as_deref())
}

fn require_sqlite(ctx: &Context) -> anyhow::Result<()> {
    if ctx.settings.store.url.resolve()?.expose_secret().starts_with("sqlite:") {
        return Ok(());
    }
    let message = "--local needs a SQLite database, but store.url names another one\nhint: leave out --local and run an API and a \
        worker, or add --set store.url=sqlite:.turnfold/turnfold.db";
    Err(CliError::with_exit(Exit::Usage, message))
}

/// Notes which other open batches of the database will run as well.
async fn list_other_batches(ctx: &Context, store: &Store, submission: &str, url: &str) -> anyhow::Result<()> {
    let tenant = ctx.tenant.as_deref().unwrap_or(DEFAULT_TENANT);
    let (mut made, mut open, mut after) = (Batches::default(), Vec::new(), None);
    loop {
        let page = store.batches(None, Order::NewestFirst, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for batch in page {
            let id = format!("batch_{}", batch.id.simple());
            if batch.tenant == tenant {
                made.note(&batch.metadata, || Known { id: id.clone(), abandoned: abandoned(&batch) });
            }
            if is_runnable(&batch) {
                open.push(id);
            }
        }
    }
    let own = made.latest(submission).batch.map(|batch| batch.id);
    open.retain(|id| own.as_ref() != Some(id));
    if open.is_empty() {
        return Ok(());
    }
    let more = match open.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    open.truncate(MAX_LISTED);
    note(&format!(
        "other open batches of this database run as well: {}{more}\n(pause one with: turnfold batch pause ID --url {url})",
        open.join(", ")
    ));
    Ok(())
}

/// Returns true if a batch has lines that an engine would run.
fn is_runnable(batch: &Batch) -> bool {
    batch.status.is_open() && (batch.stopped.is_none() || 0 < batch.counts.of(ItemState::Submitted))
}

fn abandoned(batch: &Batch) -> Option<Abandoned> {
    if batch.status == BatchStatus::Failed {
        return Some(Abandoned::Failed);
    }
    batch.at.cancelling.map(|_| Abandoned::Cancelled)
}
