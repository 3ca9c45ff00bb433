//! The command line: `turnfold NOUN VERB`.

mod audit;
mod batch;
mod fixture;
mod inbox;
mod queue;
mod store;
mod thread;
mod turn;
mod webhook;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::{
    audit::{Audit, AuditKey},
    batch::{Batch, Form, Plan, Quoted, Reuse, Within},
    fixture::Fixture,
    inbox::{Answer, Inbox},
    queue::{Paused, Queue},
    store::{Round, Store},
    thread::{By, Fork, Reconcile, Thread, View},
    turn::{GroupBy, Priority, Send, Turn},
    webhook::Webhook,
};
use crate::output::Format;

/// Runs conversation turns of LLM agents as durable jobs, and keeps a log of every step.
#[derive(Parser)]
#[command(name = "turnfold", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 as asked; 1 a finding (diverged, tampered, refused), or what was waited for has failed; \
2 usage or configuration; 3 what was waited for asks a person; 4 the store, the queue or the api cannot be reached or used; \
5 some of it failed; 6 not checked, or there was nothing to check. To look at what has failed is 0: only a command that \
waits (--wait, --follow) tells by its code how that ended.\n\nWhere the api asks for a key, the one in TURNFOLD_KEY is shown, \
else the first of the configuration that is at hand."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The configuration file [default: turnfold.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Which turnfold.<ENV>.toml lies over it [env: TURNFOLD_ENV]
    #[arg(long, global = true, value_name = "ENV")]
    pub(crate) env: Option<String>,
    /// Sets one key over all files and variables, as in --set worker.slots=8
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// In which form data is printed: text, json or jsonl
    #[arg(short, long, global = true, value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) output: Format,
    /// Where the api is [default: as api.listen says]; no matter to a command that reads the store
    #[arg(long, global = true, value_name = "URL", env = "TURNFOLD_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Acts for this tenant, and sees nothing of others [default: whose key it is, or all]
    #[arg(long, global = true, value_name = "NAME", env = "TURNFOLD_TENANT", hide_env_values = true)]
    pub(crate) tenant: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Runs api and worker in one process, on SQLite, with nothing to install
    Dev {
        /// Where to listen [default: as api.listen says: 127.0.0.1:2026]
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Runs the api: turns in; events, states and results out
    Api {
        /// Where to listen [default: as api.listen says]
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Runs a worker: takes jobs and lets the nodes of their threads happen
    Worker,
    /// Brings the database up to date
    Migrate {
        /// Only say what is missing
        #[arg(long)]
        dry_run: bool,
    },
    /// Submits turns and looks after them, through the api
    #[command(subcommand)]
    Turn(Turn),
    /// Runs files of turns, in the format of OpenAI's batches
    #[command(subcommand)]
    Batch(Batch),
    /// Looks after who is told of the ends of batches, and what they were told
    #[command(subcommand)]
    Webhook(Webhook),
    /// Reads threads straight from the store: what happened, and whether it would happen again
    ///
    /// From the store that store.url names, that is, and not through the api as turn, batch, inbox and queue do: with --url
    /// (TURNFOLD_URL) those may look at another world. What goes on with a thread (fork, reconcile, events --follow) goes
    /// through the api.
    #[command(subcommand)]
    Thread(Thread),
    /// Looks twice: are the logs those that were written, and would what was recorded happen again
    #[command(subcommand)]
    Audit(Audit),
    /// Makes tests of what happened: captures threads as fixtures, and looks after those
    #[command(subcommand)]
    Fixture(Fixture),
    /// Looks after the store: is it whole, are its read models right, what may go
    #[command(subcommand)]
    Store(Store),
    /// The queue: what turns wait for, what is held back by a pause, and how it is filled again when it was lost
    #[command(subcommand)]
    Queue(Queue),
    /// The questions that wait for a person
    #[command(subcommand)]
    Inbox(Inbox),
    /// The events that released versions wrote, and whether this one reads them
    #[command(subcommand)]
    Schema(Schema),
    /// The strategies and their maps
    #[command(subcommand)]
    Strategy(Strategy),
    /// The MCP servers of the configuration
    #[command(subcommand)]
    Mcp(Mcp),
    /// The index of what the MCP servers offer, by which the retriever finds them
    #[command(subcommand)]
    Index(Index),
    /// The configuration
    #[command(subcommand)]
    Config(Config),
    /// Runs 220 turns against real MCP servers, kills its engine half way, and proves what was done
    Demo {
        /// Where it keeps its database and the servers' data; emptied first
        #[arg(long, value_name = "FOLDER", default_value = ".turnfold/demo")]
        folder: PathBuf,
        /// Turns to run instead, as lines of an OpenAI batch file with url /v1/turns
        ///
        /// A line's `metadata.answers`, a list, are given in order to what its thread asks; lines whose metadata says
        /// `"first": true` are over before the others begin.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Serves one of the MCP servers that come with turnfold, over stdin and stdout
    Expert {
        /// Which one: calendar, contacts or notes
        expert: experts::Expert,
        /// The file that holds its data
        #[arg(long, value_name = "FILE")]
        data: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum Schema {
    /// Reads the golden logs of all released versions; exit code 1, if a kind or a field of theirs is not read as it was
    /// written
    Check,
}

#[derive(Subcommand)]
pub(crate) enum Strategy {
    /// Lists the strategies
    Ls,
    /// Prints the map of one, as a Mermaid flowchart
    Map {
        /// Which
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum Mcp {
    /// Lists the configured servers and whether they can be reached
    Ls,
    /// Lists the tools of one server
    Tools {
        /// Which
        server: String,
    },
    /// Lists what the servers are pinned to: a server whose tools have changed is not used until that is approved
    Pins {
        #[command(subcommand)]
        command: Option<Pins>,
    },
}

#[derive(Subcommand)]
pub(crate) enum Pins {
    /// Shows how a server's tools differ from those that it is pinned to
    Diff {
        /// Which
        server: String,
    },
    /// Pins a server to the tools that it has now
    Approve {
        /// Which
        server: String,
        /// Only if their hash begins like this, as diff told it
        #[arg(long)]
        hash: Option<String>,
    },
    /// Forgets the pin of a server: the next turn that uses it pins what it then has
    Reset {
        /// Which
        server: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum Index {
    /// Asks every server what it offers and brings the index up to date, by a turn of index_builder
    Build,
    /// Shows what the store's index holds, beside the servers of the configuration
    Status,
    /// Ranks the servers by how well they fit the words
    Search {
        /// The words
        query: String,
        /// At most so many
        #[arg(long, default_value_t = 5)]
        limit: usize,
    },
}

#[derive(Subcommand)]
pub(crate) enum Config {
    /// Prints the configuration in force; secrets are shown as references only
    Show {
        /// And where each value came from
        #[arg(long)]
        origin: bool,
    },
    /// Prints the manual of every key: the file of all defaults
    Default,
}

/// The command line as it is read: a number below zero is a value, and whoever takes the value says what is wrong with it.
pub(crate) fn command() -> clap::Command {
    fn signed(command: clap::Command) -> clap::Command {
        let signed_value = |it: clap::Arg| match it.get_action().takes_values() && !it.is_positional() {
            true => it.allow_negative_numbers(true),
            false => it,
        };
        command.mut_args(signed_value).mut_subcommands(signed)
    }
    signed(<Args as clap::CommandFactory>::command())
}

/// What is written on the command line for one of several things, which is also its name on the wire.
pub(crate) fn word(it: &impl ValueEnum) -> String {
    it.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
}

/// Reads `2w`, `90d`, `12h`, `30m` or `10s`.
fn age(text: &str) -> Result<Duration, String> {
    ::store::time::length(text).ok_or_else(|| "give a number and w, d, h, m or s, as in 90d".to_owned())
}
