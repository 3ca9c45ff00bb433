//! The command line: `turnfold NOUN VERB`.

mod audit;
mod batch;
mod fixture;
mod thread;
mod webhook;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{ArgGroup, Parser, Subcommand};
use uuid::Uuid;

pub(crate) use self::{
    audit::{Audit, AuditKey},
    batch::{Batch, Form, Only, Plan, Quoted, Reuse},
    fixture::Fixture,
    thread::{By, Thread, View},
    webhook::Webhook,
};
use crate::output::Format;

/// Runs conversation turns of LLM agents as durable jobs, and keeps a log of every step.
#[derive(Parser)]
#[command(name = "turnfold", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 as asked; 1 a finding (diverged, tampered, failed); 2 usage or configuration; \
3 a person is waited for; 4 the store, the queue or the api cannot be reached; 5 some of it failed; 6 not checked."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(clap::Args)]
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
    /// In which form data is printed
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Where the api is, for the commands that talk to one [default: as api.listen says]
    #[arg(long, global = true, value_name = "URL", env = "TURNFOLD_URL")]
    pub(crate) url: Option<String>,
    /// The tenant that those commands act for; they then see nothing of others [default: whose key it is, or all]
    #[arg(long, global = true, value_name = "NAME", env = "TURNFOLD_TENANT")]
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
    /// Runs a worker: takes jobs and lets one node happen in each
    Worker,
    /// Brings the database up to date
    Migrate {
        /// Only say what is missing
        #[arg(long)]
        dry_run: bool,
    },
    /// Submits turns and looks after them
    #[command(subcommand)]
    Turn(Turn),
    /// Runs files of turns, in the format of OpenAI's batches
    #[command(subcommand)]
    Batch(Batch),
    /// Looks after who is told of the ends of batches, and what they were told
    #[command(subcommand)]
    Webhook(Webhook),
    /// Reads threads straight from the store: what happened, and whether it would happen again
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
pub(crate) enum Turn {
    /// Says something to an agent; to a thread that asked, it is the answer
    Send {
        /// The words; - reads them from stdin
        text: String,
        /// The strategy of a new thread
        #[arg(short = 'g', long, conflicts_with = "thread", default_value = "planner")]
        strategy: String,
        /// An existing thread
        #[arg(short, long)]
        thread: Option<Uuid>,
        /// Configuration of the new thread, as JSON
        #[arg(long, value_name = "JSON", conflicts_with = "thread")]
        tune: Option<String>,
        /// How urgent it is among the turns of its tenant [default: normal]
        #[arg(long, value_enum)]
        priority: Option<Priority>,
        /// Not before so long from now, as in 10m, 12h or 7d; at most a year
        #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "not_before")]
        delay: Option<Duration>,
        /// Not before this moment, as in 2026-12-24T18:00:00Z
        #[arg(long, value_name = "MOMENT")]
        not_before: Option<String>,
        /// Take it as a new matter, even if the thread waits for an answer
        #[arg(long)]
        replan: bool,
        /// Sending the same key again gives the same turn and pays nothing
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Wait for the end and print the reply
        #[arg(short, long)]
        wait: bool,
        /// Print the events as they happen
        #[arg(short, long, conflicts_with = "wait")]
        follow: bool,
    },
    /// Lists turns, the newest first
    Ls {
        /// Only of this thread
        #[arg(long)]
        thread: Option<Uuid>,
        /// Only queued, running, completed, interrupted, failed or cancelled ones
        #[arg(long)]
        status: Option<String>,
        /// Only those that fulfil these conditions: FIELD OPERATOR VALUE, joined by `and`
        ///
        /// As in "status = failed and error ~ 'timed out' and created > 7d". Fields are status, strategy, tenant, priority,
        /// author, thread, error, cause, created, updated and metadata.KEY; operators are = != ~ (contains) < and >. A
        /// time is RFC 3339, a day, or so long ago, as in 7d, 12h or 30m.
        #[arg(long = "where", value_name = "CONDITIONS")]
        conditions: Option<String>,
        /// Count the failed ones by what they have in common, instead of listing them
        #[arg(long, value_enum, value_name = "FIELD", conflicts_with_all = ["thread", "status"])]
        group_by: Option<GroupBy>,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: u64,
    },
    /// Shows one turn
    Get {
        /// Which
        id: Uuid,
    },
    /// Calls a turn off
    Cancel {
        /// Which
        id: Uuid,
    },
    /// Has a failed turn try again
    Retry {
        /// Which
        id: Uuid,
    },
    /// Has all failed turns that fulfil conditions try again, the oldest first
    ///
    /// It may be broken off and run again: what tries again has failed no more. Exit code 5, if some could not be.
    Redrive {
        /// Which, in the language of `turn ls --where`
        #[arg(long = "where", value_name = "CONDITIONS")]
        conditions: Option<String>,
        /// At most so many a second, or a minute: 5/s, 20/m [default: one after the other]
        #[arg(long, value_name = "RATE", value_parser = rate)]
        rate: Option<Duration>,
        /// Only say how many, by cause
        #[arg(long)]
        dry_run: bool,
        /// Do not ask whether that is meant
        #[arg(short, long)]
        yes: bool,
    },
}

/// By what failed turns are counted.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum GroupBy {
    /// Their error without numbers, ids and quoted texts
    Cause,
}

/// Reads `5/s` or `20/m`, as the time between two.
fn rate(text: &str) -> Result<Duration, String> {
    let read = || {
        let (number, unit) = text.split_once('/')?;
        let number: u32 = number.parse().ok().filter(|it| (1..=1_000).contains(it))?;
        let each = match unit {
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            _ => return None,
        };
        Some(each / number)
    };
    read().ok_or_else(|| "give a number from 1 to 1000, and /s or /m, as in 5/s".to_owned())
}

/// How urgent a turn is.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Priority {
    /// Before all others
    High,
    /// As it comes
    Normal,
    /// When there is nothing else to do
    Low,
}

impl Priority {
    /// Its name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Checks every stored event: the hash chains, the numbers, and whether this version can read it
    Verify {
        #[command(flatten)]
        round: Round,
    },
    /// Makes the rows of threads and turns again from the events, where they are not as the log says
    Rebuild {
        #[command(flatten)]
        round: Round,
        /// Only say what differs
        #[arg(long)]
        dry_run: bool,
    },
    /// Deletes threads that are idle or failed and were not touched for long, with their turns and events; none that is
    /// held
    Prune {
        /// For so long, as in 90d, 12h or 30m [default: as retention.after_days says]
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
        /// Only those under this strategy
        #[arg(long)]
        strategy: Option<String>,
        /// Only say how many
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which threads a command goes over, and how.
#[derive(Default, clap::Args)]
pub(crate) struct Round {
    /// Only this thread; `last` is the newest
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Only threads with a turn that fulfils these conditions, in the language of `turn ls --where`
    #[arg(long = "where", value_name = "CONDITIONS", conflicts_with = "thread")]
    pub(crate) conditions: Option<String>,
    /// Only threads with a turn that was submitted since so long ago, as in 7d, 12h or 30m
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "thread")]
    pub(crate) since: Option<Duration>,
    /// How many ranges of threads at once [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
}

/// Reads `90d`, `12h`, `30m` or `10s`.
fn age(text: &str) -> Result<Duration, String> {
    let seconds = |number: &str, each: u64| number.parse::<u64>().ok()?.checked_mul(each);
    let read = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((number, "d")) => seconds(number, 24 * 60 * 60),
        Some((number, "h")) => seconds(number, 60 * 60),
        Some((number, "m")) => seconds(number, 60),
        Some((number, "s")) => seconds(number, 1),
        Some(_) | None => None,
    };
    read.map(Duration::from_secs).ok_or_else(|| "give a number and d, h, m or s, as in 90d".to_owned())
}

#[derive(Subcommand)]
pub(crate) enum Inbox {
    /// Lists what is asked, the last question first
    Ls {
        /// Only clarification, slot_fill, choice, approval, ambiguity, input or in_doubt
        #[arg(long)]
        kind: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: u64,
        /// Stay, and list again whenever something has changed
        #[arg(short, long)]
        watch: bool,
    },
    /// Shows what a thread asks, and how it can be answered
    Show {
        /// Which thread
        thread: Uuid,
    },
    /// Answers what a thread asks
    #[command(group = ArgGroup::new("how").required(true))]
    Answer {
        /// Which thread
        thread: Uuid,
        /// The words: an option by its words or its number, where there are options; - reads them from stdin
        #[arg(group = "how")]
        answer: Option<String>,
        /// Yes, to an approval; of a call in doubt: it happened
        #[arg(long, group = "how")]
        accept: bool,
        /// JSON for an answer, where there are no options
        #[arg(long, value_name = "JSON", group = "how")]
        edit: Option<String>,
        /// No answer: the turn is called off, and its thread is idle
        #[arg(long, group = "how")]
        ignore: bool,
        /// Sending the same key again gives the same turn
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Wait for the end and print the reply
        #[arg(short, long)]
        wait: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// Tells why turns do not run right now: counted by what they wait for, then one by one
    Ls {
        /// At most so many turns
        #[arg(long, default_value_t = 50)]
        limit: u64,
    },
    /// Rings for every thread that can move and that nobody has rung for, as the workers' sweep does
    Rebuild {
        /// Only say how many
        #[arg(long)]
        dry_run: bool,
    },
    /// Lists what is paused
    Pauses,
    /// Has nothing new begun of a strategy or a tenant, or with a model; what is under way is finished
    Pause {
        #[command(flatten)]
        what: Paused,
        /// Why, for whoever wonders
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Lets what was paused go on
    Resume {
        #[command(flatten)]
        what: Paused,
    },
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Paused {
    /// All threads of this strategy
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    /// All requests to this model
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// All threads of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) of_tenant: Option<String>,
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
