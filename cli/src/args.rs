//! The command line: `turnfold NOUN VERB`.

mod audit;
mod batch;
mod config;
mod fixture;
mod inbox;
mod index;
mod judge;
mod key;
mod list_order;
mod maintenance;
mod mcp;
mod model;
mod otel;
mod prompt;
mod queue;
mod schedule;
mod schema;
mod stats;
mod strategy;
mod thread;
mod turn;
mod values;
mod webhook;
mod whatif;
mod worker;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::{
    audit::{AdminLog, Approvals, Audit, AuditJudge, AuditKey},
    batch::{Batch, BatchOrder, CompletionWindow, Confirmation, Only, Plan, ResultFormat, Reuse},
    config::Config,
    fixture::Fixture,
    inbox::{Answer, Inbox, Settle},
    index::Index,
    judge::JudgeArgs,
    key::Key,
    list_order::ListOrder,
    maintenance::{Replayed, Selection, Store},
    mcp::{Mcp, Pins},
    model::Model,
    otel::Otel,
    prompt::Prompt,
    queue::{PauseTarget, Queue},
    schedule::{Add as NewSchedule, Schedule},
    schema::Schema,
    stats::StatsRange,
    strategy::Strategy,
    thread::{CostBy, CostOrder, DiffView, Fork, Reconcile, Thread},
    turn::{GroupBy, Send, Turn},
    values::value_name,
    webhook::Webhook,
    whatif::{Cohort as CohortFile, Run as WhatIfRun, ToolPolicy, WhatIf, WhatIfCommand},
    worker::Worker,
};
use crate::output::Format;

/// Run LLM agent conversations as durable jobs, and keep an event log of every step
#[derive(Parser)]
#[command(name = "turnfold", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Exit codes:
    0  Success
    1  A check found a difference, the request was refused, or the awaited turn failed
    2  Wrong usage or configuration
    3  The awaited turn asks a person a question
    4  The API or another server cannot be reached
    5  Part of the work failed, or the awaited turn ended `partial`
    6  Not checked: the log cannot be read by this version, or nothing matched
    7  Not found: no such thread, turn, batch, webhook or schedule
    8  The API key is missing, wrong or not allowed to do this
    9  The database or Redis is missing, out of date or cannot be reached
   10  The awaited turn ended `declined`
  130  Interrupted by Ctrl-C; what runs on a server continues

A command that shows something that failed succeeds (0). Only a command that waits reports the
failure of a turn by its exit code (--wait, --follow).

The API key is read from TURNFOLD_KEY. If that is not set, the first key in the configuration
is used.

Terms:
  A turn is one message to an agent, and all that the agent does until it has finished.
  A thread is one conversation, with a log of its events.
  A strategy is a kind of agent: a graph of steps, called nodes.
  `turnfold NOUN --help` explains the other terms.";

#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Configuration file [default: turnfold.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Read turnfold.<ENV>.toml as well; it takes precedence [env: TURNFOLD_ENV]
    #[arg(long, global = true, value_name = "ENV")]
    pub(crate) env: Option<String>,
    /// Set one configuration key, overriding files and environment; repeatable: --set worker.slots=8
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Output format: text, json or jsonl
    #[arg(short, long, global = true, value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) output: Format,
    /// Address of the API [default: api.listen]
    #[arg(long, global = true, value_name = "URL", env = "TURNFOLD_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Act as this tenant (an owner of threads) and see only its data [default: the key's tenant, or all tenants]
    #[arg(long, global = true, value_name = "NAME", env = "TURNFOLD_TENANT", hide_env_values = true)]
    pub(crate) tenant: Option<String>,
}

/// Moves every `--set` before the subcommand. If a global option stands before and after a subcommand, clap keeps only the values
/// after it.
pub(crate) fn sets_first(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter().peekable();
    let (mut first, mut rest) = (Vec::from_iter(args.next()), Vec::new());
    while let Some(arg) = args.next_if(|next| next != "--") {
        if arg == "--set" && args.peek().is_some_and(|next| next != "--") {
            first.push(arg);
            first.extend(args.next());
        } else if arg.to_str().is_some_and(|text| text.starts_with("--set=")) {
            first.push(arg);
        } else {
            rest.push(arg);
        }
    }
    first.extend(rest);
    first.extend(args);
    first
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the API and a worker in one process, on SQLite, without any other server
    Dev {
        /// Listen on this address [default: api.listen, 127.0.0.1:2026]
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Run the HTTP API
    Api {
        /// Listen on this address [default: api.listen]
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Run a worker, which executes the steps of agents; or list the workers that run
    Worker {
        #[command(subcommand)]
        command: Option<Worker>,
    },
    /// Create or update the database schema
    Migrate {
        /// List missing migrations without applying them
        #[arg(long)]
        dry_run: bool,
        /// Also distribute logs and attachments over the servers of PostgreSQL's extension Citus
        ///
        /// Their rows are copied, and cannot be read meanwhile. Stop all turnfold processes first, and start them afterwards.
        #[arg(long, conflicts_with = "dry_run")]
        distribute: bool,
    },
    /// Submit and manage turns
    ///
    /// A turn is one message to an agent, and all that the agent does until it has finished.
    #[command(subcommand)]
    Turn(Turn),
    /// Run files of turns in OpenAI's batch format
    ///
    /// A batch is a file of requests. Each line of the file is one request.
    #[command(subcommand)]
    Batch(Batch),
    /// Submit turns and batches at the times of a cron expression
    #[command(subcommand)]
    Schedule(Schedule),
    /// Manage webhooks and their deliveries
    ///
    /// A webhook is a URL that receives a signed request, called a delivery, when a batch or a turn ends or asks a person.
    #[command(subcommand)]
    Webhook(Webhook),
    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Key(Key),
    /// Inspect, replay, verify and fork threads
    ///
    /// A thread is one conversation with an agent. Everything that happens in it is an event of its log.
    ///
    /// With --url (or TURNFOLD_URL) the API at that address is used; otherwise the database that store.url names. Both print
    /// the same.
    #[command(subcommand)]
    Thread(Thread),
    /// Check all threads: was a log changed, and would today's code decide the same
    ///
    /// The hash of each event covers the event before it, so a change breaks this hash chain. A checkpoint is a signed list of
    /// the last event of every thread, kept outside the database.
    #[command(subcommand)]
    Audit(Audit),
    /// Show what recorded threads would do with another threshold, prompt or model, without any call
    ///
    /// Replays the logs over their recorded answers, with the keys that --set, --prompt and --model change, as in
    /// --set planner.confidence=0.9. Lists where each thread would go differently first, and what it spent from there on, as a
    /// quote for running it again. A thread is not decided if today's code differs from its log without the change. Calls no
    /// model and no tool, and writes nothing. Exits with 6 if a thread is not decided, or if no thread matched.
    Whatif(WhatIf),
    /// Export OpenTelemetry traces from the log
    #[command(subcommand)]
    Otel(Otel),
    /// Capture threads as fixtures (tests), and maintain them
    ///
    /// A fixture is the log of a real thread, used as a test: with the recorded answers, today's code must decide the same.
    #[command(subcommand)]
    Fixture(Fixture),
    /// Verify, rebuild and prune the database
    ///
    /// The tables of threads and turns are derived from the logs, so they can be rebuilt.
    #[command(subcommand)]
    Store(Store),
    /// Inspect and control the queue of jobs
    ///
    /// A job tells a worker that a thread has work to do. The queue can be lost at any time: it is rebuilt from the logs.
    #[command(subcommand)]
    Queue(Queue),
    /// Show counts of turns by outcome and cause, and tokens and cost by model, through the API
    Stats {
        /// Time that the counts cover
        #[arg(long, value_enum, default_value_t)]
        range: StatsRange,
    },
    /// List the prompts that models were sent, with their use, and show or compare their texts, through the API
    #[command(subcommand)]
    Prompt(Prompt),
    /// List and answer the questions that agents ask people
    #[command(subcommand)]
    Inbox(Inbox),
    /// Check that this version reads the events of released versions
    #[command(subcommand)]
    Schema(Schema),
    /// List the agent strategies and draw their graphs
    #[command(subcommand)]
    Strategy(Strategy),
    /// Inspect the configured MCP servers (tools for agents), and approve changes of their tools
    #[command(subcommand)]
    Mcp(Mcp),
    /// Check the models of the configured providers
    #[command(subcommand)]
    Model(Model),
    /// Build and search the index of MCP servers
    ///
    /// The strategy `retriever` searches this index for the server that fits a request.
    #[command(subcommand)]
    Index(Index),
    /// Show the configuration in effect, and the defaults
    #[command(subcommand)]
    Config(Config),
    /// Check what the API and workers need, and say what to do: database, clocks, providers, MCP servers, keys, disk, limits
    ///
    /// Exits with 1 if a check fails; a warning is not a failure.
    Doctor {
        /// Ask each model that strategies use for one short reply, which costs a few tokens
        #[arg(long)]
        models: bool,
    },
    /// Run 220 turns on real MCP servers, kill the process that runs them halfway, and check the outcome
    Demo {
        /// Folder for the database and the servers' data; its old content is deleted
        #[arg(long, value_name = "FOLDER", default_value = ".turnfold/demo")]
        folder: PathBuf,
        /// Run the turns of this file instead: lines of an OpenAI batch file with url /v1/turns
        ///
        /// The list `metadata.answers` of a line answers the questions of its thread, in order. Lines with the metadata
        /// `"first": true` finish before the others start.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Write a turnfold.toml to begin with
    ///
    /// It has a provider, an agent, and public prices of models as comments with their date. A file that exists is
    /// never changed.
    Init,
    /// Print a shell completion script
    ///
    /// For bash: turnfold completions bash > ~/.local/share/bash-completion/completions/turnfold
    Completions {
        /// Shell: bash, zsh or fish
        #[arg(value_enum, hide_possible_values = true)]
        shell: Shell,
    },
    /// Write a man page for each command into a folder
    Man {
        /// Folder for the pages; created if it does not exist
        folder: PathBuf,
    },
    /// Serve one of the demo's MCP servers on stdin and stdout; planners call an MCP server an expert
    Expert {
        /// Server: calendar, contacts or notes
        expert: demo_servers::Expert,
        /// File that holds the server's data
        #[arg(long, value_name = "FILE")]
        data: PathBuf,
    },
}

/// A shell that completions are generated for.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Builds the command-line parser. Every option accepts a negative number as its value, so that the error names what is
/// wrong with the value instead of an unknown flag.
pub(crate) fn command() -> clap::Command {
    fn accept_negative_numbers(command: clap::Command) -> clap::Command {
        let accept = |arg: clap::Arg| match arg.get_action().takes_values() && !arg.is_positional() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        };
        command.mut_args(accept).mut_subcommands(accept_negative_numbers)
    }
    accept_negative_numbers(<Args as clap::CommandFactory>::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_counts_wherever_it_stands() {
        let sets = |line: &str| {
            let line = line.split(' ').map(OsString::from);
            Args::try_parse_from(sets_first(line)).map(|args| args.global.set).map_err(|error| error.kind())
        };
        let all = sets("turnfold --set a=1 worker --set b=2 --set=c=3 list --set d=4").unwrap();
        assert_eq!(all, ["a=1", "b=2", "c=3", "d=4"], "in this order: the last one of a key counts");
        assert_eq!(sets("turnfold worker --set"), Err(clap::error::ErrorKind::InvalidValue));
        assert_eq!(sets("turnfold worker --set --set a=1"), Err(clap::error::ErrorKind::InvalidValue));
        let after_dashes = sets_first(["turnfold", "worker", "--", "--set", "a=1"].map(OsString::from));
        assert_eq!(after_dashes, ["turnfold", "worker", "--", "--set", "a=1"]);
    }
}
