//! Commands: one module for each noun of the command line.

mod admin_log;
mod approvals;
mod audit;
mod batch;
mod checkpoint;
mod cohort;
mod completions;
mod config;
mod coverage;
mod doctor;
mod executable;
mod fixture;
mod follow;
mod inbox;
mod index;
mod init;
mod judge;
mod key;
mod maintenance;
mod mcp;
mod model;
mod new_strategy;
mod otel;
mod pins;
mod prompt;
mod queue;
mod redrive;
mod reload;
mod schedule;
mod schema;
mod selection;
mod serve;
mod settle;
mod signals;
pub(crate) mod source;
mod stats;
mod strategy;
pub(crate) mod thread;
mod turn;
mod webhook;
mod whatif;
mod worker;

pub(crate) use self::batch::COLUMNS_HELP;

use std::ffi::OsString;

use shared::Graph;
use threads::StrategyRegistry;

use crate::{
    args::{Args, Audit, Command, Fixture, Global, Queue, Store, Worker},
    client::Client,
    config::{Origins, Settings, Sources},
    engine,
    exit::{CliError, Exit},
    log,
    output::Format,
    process,
};

/// Settings and options shared by all commands.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) origins: Origins,
    /// The sources of the settings, to read them again.
    pub(crate) sources: Sources,
    pub(crate) strategies: StrategyRegistry,
    pub(crate) format: Format,
    pub(crate) url: Option<String>,
    pub(crate) tenant: Option<String>,
    /// Flags that select the configuration, for another build of turnfold.
    pub(crate) config_flags: Vec<OsString>,
}

impl Context {
    /// Returns a client of the API, acting for `--tenant`.
    fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.settings, self.url.as_deref(), self.tenant.as_deref())
    }

    /// Returns a client of the API that acts for no particular tenant.
    fn client_for_all(&self) -> anyhow::Result<Client> {
        Client::new(&self.settings, self.url.as_deref(), None)
    }

    /// Returns a client of an API in this process on a database. It sees this tenant, or all if there is none.
    fn embedded_client(&self, store: store::Store, tenant: Option<&str>) -> anyhow::Result<Client> {
        let config = engine::embedded_config(&self.settings, &self.origins, store, self.strategies.clone())?;
        Client::embedded(api::router(config), tenant)
    }

    /// Returns true if commands use the API of this configuration, not one at another address.
    fn uses_own_api(&self) -> bool {
        self.url.as_ref().is_none_or(String::is_empty)
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// If the schema is missing or out of date.
    async fn store(&self) -> anyhow::Result<store::Store> {
        let store = engine::store(&self.settings).await?;
        engine::check_migrated(&store).await?;
        Ok(store)
    }
}

/// Returns true if a command covers the whole database and so cannot act for one tenant.
fn is_for_all(command: &Command) -> bool {
    matches!(
        command,
        Command::Store(Store::Prune { .. })
            | Command::Audit(Audit::Checkpoint { .. } | Audit::Verify { thread: None, .. })
            | Command::Fixture(Fixture::Capture { .. } | Fixture::Suggest { .. })
            | Command::Queue(Queue::Rebuild { .. })
    )
}

/// Runs a command.
pub(crate) async fn run(args: Args, graphs: Vec<&'static dyn Graph>) -> anyhow::Result<Exit> {
    let Args { global, command } = args;
    // A bundled server is a child process of a worker. It has no configuration but its command line.
    if let Command::Expert { expert, data } = command {
        demo_servers::serve(expert, data).await?;
        return Ok(Exit::Ok);
    }
    if let Command::Completions { shell } = &command {
        return completions::completions(*shell);
    }
    if let Command::Init = command {
        return init::run(global.config.as_deref());
    }
    if let Command::Man { folder } = &command {
        return completions::man(folder);
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
    if let Command::Whatif(asked) = &command {
        sources = asked.over(sources)?;
    }
    let config_flags = config_flags(&global);
    let (settings, origins) = Settings::load(sources.clone())?;
    // Deletions are logged like the activity of a server.
    let serves = matches!(
        command,
        Command::Dev { .. }
            | Command::Api { .. }
            | Command::Worker { command: None }
            | Command::Store(Store::Prune { .. })
    );
    log::start(&settings.log, serves)?;
    if serves {
        process::raise_file_limit();
    }
    let ctx = Context {
        settings,
        origins,
        sources,
        strategies: StrategyRegistry::new(graphs),
        format: global.output,
        url: global.url,
        tenant: global.tenant.filter(|tenant| !tenant.is_empty()),
        config_flags,
    };
    if ctx.tenant.is_some() && is_for_all(&command) {
        let message = "this command covers the whole database\nhint: leave out --tenant and TURNFOLD_TENANT";
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    match command {
        Command::Dev { .. } => serve::dev(ctx).await,
        Command::Api { .. } => serve::api(ctx).await,
        Command::Worker { command: None } => serve::worker(ctx).await,
        Command::Worker { command: Some(Worker::List) } => worker::list(&ctx).await,
        Command::Migrate { dry_run, distribute } => serve::migrate(ctx, dry_run, distribute).await,
        Command::Turn(turn) => turn::run(ctx, turn).await,
        Command::Batch(batch) => batch::run(ctx, batch).await,
        Command::Schedule(schedule) => schedule::run(ctx, schedule).await,
        Command::Webhook(webhook) => webhook::run(ctx, webhook).await,
        Command::Key(key) => key::run(ctx, key).await,
        Command::Thread(thread) => thread::run(ctx, thread).await,
        Command::Audit(audit) => audit::run(ctx, audit).await,
        Command::Whatif(asked) => whatif::run(ctx, asked).await,
        Command::Otel(otel) => otel::run(ctx, otel).await,
        Command::Fixture(fixture) => fixture::run(ctx, fixture).await,
        Command::Store(store) => maintenance::run(ctx, store).await,
        Command::Queue(queue) => queue::run(ctx, queue).await,
        Command::Inbox(inbox) => inbox::run(ctx, inbox).await,
        Command::Stats { range } => stats::run(&ctx, range).await,
        Command::Prompt(prompt) => prompt::run(&ctx, prompt).await,
        Command::Schema(schema) => schema::run(&ctx, schema),
        Command::Strategy(strategy) => strategy::run(&ctx, strategy),
        Command::Mcp(mcp) => mcp::run(ctx, mcp).await,
        Command::Model(model) => model::run(&ctx, model).await,
        Command::Index(index) => index::run(ctx, index).await,
        Command::Config(config) => config::run(&ctx, config),
        Command::Doctor { models } => doctor::run(ctx, models).await,
        Command::Demo { folder, file } => crate::demo::run(ctx, &folder, file.as_deref()).await,
        Command::Init | Command::Completions { .. } | Command::Man { .. } | Command::Expert { .. } => {
            Ok(Exit::Ok)
        }
    }
}

/// Returns the flags that select the configuration.
fn config_flags(global: &Global) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    let mut flag = |name: &str, value: OsString| flags.extend([name.into(), value]);
    global.config.iter().for_each(|path| flag("--config", path.into()));
    global.env.iter().for_each(|name| flag("--env", name.into()));
    global.set.iter().for_each(|text| flag("--set", text.into()));
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
