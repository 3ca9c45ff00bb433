//! One file a noun.

mod audit;
mod batch;
mod config;
mod fixture;
mod follow;
mod holds;
mod inbox;
mod index;
mod mcp;
mod pins;
mod queue;
mod redrive;
mod schema;
mod serve;
mod strategy;
pub(crate) mod thread;
mod turn;
mod upkeep;
mod waits;
mod webhook;
mod witness;

use std::ffi::OsString;

use shared::Graph;
use store::Strategies;

use crate::{
    args::{Args, Audit, Command, Fixture, Global, Queue, Store},
    client::Client,
    config::{LogFormat, Origins, Settings, Sources},
    engine,
    exit::{Exit, Stop},
    output::Format,
    person::person,
};

/// What every command is given.
pub(crate) struct Given {
    pub(crate) settings: Settings,
    pub(crate) origins: Origins,
    pub(crate) strategies: Strategies,
    pub(crate) format: Format,
    pub(crate) url: Option<String>,
    pub(crate) tenant: Option<String>,
    /// What says which configuration is in force, for another build of turnfold.
    pub(crate) passed_on: Vec<OsString>,
}

impl Given {
    /// The api, for the tenant that the command acts for.
    fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.settings, self.url.as_deref(), self.tenant.as_deref())
    }

    /// The same for all tenants, whoever the command acts for.
    fn client_for_all(&self) -> anyhow::Result<Client> {
        Client::new(&self.settings, self.url.as_deref(), None)
    }

    /// The store, if it is up to date.
    async fn store(&self) -> anyhow::Result<store::Store> {
        let store = engine::store(&self.settings).await?;
        engine::check_migrated(&store).await?;
        Ok(store)
    }
}

/// Whether a command looks at all of the store, or deletes from it, and so cannot act for one tenant.
fn is_for_all(command: &Command) -> bool {
    matches!(
        command,
        Command::Store(Store::Prune { .. })
            | Command::Audit(Audit::Checkpoint { .. } | Audit::Verify { thread: None, .. })
            | Command::Fixture(Fixture::Capture { .. } | Fixture::Suggest { .. })
            | Command::Queue(Queue::Rebuild { .. })
    )
}

/// Does what the command line says.
pub(crate) async fn run(args: Args, graphs: Vec<&'static dyn Graph>) -> anyhow::Result<Exit> {
    let Args { global, command } = args;
    // An expert is a child of a worker: its configuration is its command line.
    if let Command::Expert { expert, data } = command {
        experts::serve(expert, data).await?;
        return Ok(Exit::Ok);
    }
    let mut sources = sources(&global, graphs.clone());
    if let Command::Dev { listen: Some(listen) } | Command::Api { listen: Some(listen) } = &command {
        sources = sources.flag("--listen", "api.listen", listen.to_string());
    }
    if let Command::Batch(batch) = &command
        && batch.is_local()
    {
        sources =
            sources.flag("--local", "api.listen", "127.0.0.1:0").flag("--local", "queue.url", "memory:");
    }
    let passed_on = passed_on(&global);
    let (settings, origins) = Settings::load(sources)?;
    // What is deleted is told like what is served: it is asked for later.
    let serves = matches!(
        command,
        Command::Dev { .. } | Command::Api { .. } | Command::Worker | Command::Store(Store::Prune { .. })
    );
    trace(&settings, serves)?;
    let given = Given {
        settings,
        origins,
        strategies: Strategies::new(graphs),
        format: global.output,
        url: global.url,
        tenant: global.tenant.filter(|it| !it.is_empty()),
        passed_on,
    };
    if given.tenant.is_some() && is_for_all(&command) {
        let words = "this command looks at the whole store: leave --tenant (TURNFOLD_TENANT) out";
        return Err(Stop::because(Exit::Usage, words));
    }
    match command {
        Command::Dev { .. } => serve::dev(given).await,
        Command::Api { .. } => serve::api(given).await,
        Command::Worker => serve::worker(given).await,
        Command::Migrate { dry_run } => serve::migrate(given, dry_run).await,
        Command::Turn(turn) => turn::run(given, turn).await,
        Command::Batch(batch) => batch::run(given, batch).await,
        Command::Webhook(webhook) => webhook::run(given, webhook).await,
        Command::Thread(thread) => thread::run(given, thread).await,
        Command::Audit(audit) => audit::run(given, audit).await,
        Command::Fixture(fixture) => fixture::run(given, fixture).await,
        Command::Store(store) => upkeep::run(given, store).await,
        Command::Queue(queue) => queue::run(given, queue).await,
        Command::Inbox(inbox) => inbox::run(given, inbox).await,
        Command::Schema(schema) => schema::run(&given, schema),
        Command::Strategy(strategy) => strategy::run(&given, strategy),
        Command::Mcp(mcp) => mcp::run(given, mcp).await,
        Command::Index(index) => index::run(given, index).await,
        Command::Config(config) => config::run(&given, config),
        Command::Demo { folder, file } => crate::demo::run(given, &folder, file.as_deref()).await,
        Command::Expert { .. } => Ok(Exit::Ok),
    }
}

/// The flags that say which configuration is in force.
fn passed_on(global: &Global) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    let mut flag = |name: &str, value: OsString| flags.extend([name.into(), value]);
    global.config.iter().for_each(|it| flag("--config", it.into()));
    global.env.iter().for_each(|it| flag("--env", it.into()));
    global.set.iter().for_each(|it| flag("--set", it.into()));
    flags
}

fn sources(global: &Global, strategies: Vec<&'static dyn Graph>) -> Sources {
    let sources = Sources {
        config: global.config.clone(),
        env: global.env.clone(),
        strategies,
        ..Sources::of_process()
    };
    global.set.iter().fold(sources, |sources, set| sources.set(set))
}

/// Traces go to stderr. A command that only looks says nothing but warnings, and what became of an MCP server in its own
/// words.
fn trace(settings: &Settings, serves: bool) -> anyhow::Result<()> {
    let filter = if serves { &settings.log.filter } else { "warn,rmcp=off" };
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|err| Stop::because(Exit::Usage, format!("log.filter makes no sense: {err}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let done = match settings.log.format {
        LogFormat::Json => builder.json().with_current_span(true).try_init(),
        LogFormat::Text => builder.with_target(false).with_ansi(crate::output::watched()).try_init(),
    };
    // An embedding program may have a subscriber of its own.
    let _ = done;
    Ok(())
}
