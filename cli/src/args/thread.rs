//! Arguments of `turnfold thread`.

use std::path::PathBuf;

use clap::{ArgGroup, Subcommand};

use super::{ListOrder, Selection, values::reason};

#[derive(Subcommand)]
pub(crate) enum Thread {
    /// List threads, newest first unless --order says otherwise
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Only threads in this status: idle, busy, interrupted (a question waits for an answer) or error
        #[arg(long)]
        status: Option<String>,
        /// Only threads with a turn that matches this filter (see `turn list --help`)
        #[arg(long = "where", value_name = "FILTER")]
        filter: Option<String>,
        /// List all threads that `thread hold` protects from deletion, with the reasons
        #[arg(long, conflicts_with_all = ["status", "filter", "order", "limit"])]
        held: bool,
        /// Order of the list
        ///
        /// All but newest and oldest put the newest 10,000 threads that match in order: the highest value first, or with _asc the
        /// lowest. usd and tokens need the search index.
        #[arg(long, value_enum, value_name = "ORDER", default_value_t = ListOrder::Newest)]
        order: ListOrder,
        /// Maximum number of threads
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
    },
    /// Search messages, arguments and results of tools for words, newest first
    ///
    /// Finds the events that have all the words, in any order and case, and shows the newest one of each thread. Numbers such as
    /// A-10/77 are found as they are written. The index is filled a moment after the log; `search.enabled` switches it off.
    Search {
        /// Words to search for
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Maximum number of threads
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=99))]
        limit: u16,
    },
    /// Show one thread: status, last reply, usage
    #[command(visible_alias = "get")]
    Show {
        /// Thread; `last` is the most recent one
        id: String,
    },
    /// Print the events of a thread
    #[command(visible_alias = "logs")]
    Events {
        /// Thread; `last` is the most recent one
        id: String,
        /// Start at this event
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        from: u64,
        /// Maximum number of events [default: all]
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Keep printing events as they happen, until the thread is idle; needs the API
        #[arg(short, long, conflicts_with = "limit")]
        follow: bool,
    },
    /// Show the state and the conversation after an event, computed from the events up to there
    State {
        /// Thread; `last` is the most recent one
        id: String,
        /// Show the state after this event [default: the last one]
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Run today's code against the recorded log and report where it decides differently
    ///
    /// Calls no model and no tool. For each difference it names the event, the node, and what differs: the next node, a
    /// part of the state (state.plan.steps.2), messages or requests. Exits with 1 if there is a difference.
    Replay {
        /// Thread; `last` is the most recent one
        id: String,
        /// Treat as differences, and list, reworded prompts, and tools and replies that are described differently; without this they
        /// are only counted
        #[arg(long)]
        prompts: bool,
    },
    /// Check whether a thread's log, images or files were changed, and whether the tables match the log
    ///
    /// The hash of each event covers the event before it, so a change breaks this hash chain. The events hold the hashes of images
    /// and files. Today's code plays no part;
    /// for that see `thread replay`. Exits with 1 if something was changed.
    Verify {
        /// Thread; `last` is the most recent one
        id: String,
    },
    /// Explain the last decision and what the thread waits for
    Why {
        /// Thread; `last` is the most recent one
        id: String,
        /// Explain the last decision up to this event [default: the last one]
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Show what a model was sent: the last request to a model up to an event
    ///
    /// Shows the system prompt, the messages, and the tools and the schema of the reply by name. The first line has the name of the
    /// prompt: `configured` or `built-in`, and the hash of its template, as in `strategy show --prompts`.
    Prompt {
        /// Thread; `last` is the most recent one
        id: String,
        /// Show the last request up to this event [default: the last one]
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Show the tools and the schema in full
        #[arg(long)]
        full: bool,
    },
    /// Compare two threads event by event; exit with 1 if they differ
    Diff {
        /// Id of the first thread; `last` is the most recent one
        left: String,
        /// Id of the second thread
        right: String,
        #[command(flatten)]
        view: DiffView,
    },
    /// Find the first event after which a condition holds, or the first build that decides differently
    #[command(group = ArgGroup::new("sought").required(true))]
    Bisect {
        /// Thread; `last` is the most recent one
        id: String,
        /// Condition over node, status, event, reply, messages, tokens, usd and state paths:
        /// "state.plan.current > 0 and node = assess"
        #[arg(long = "where", value_name = "CONDITION", group = "sought")]
        condition: Option<String>,
        /// Find the first event that today's code would decide differently
        #[arg(long, group = "sought")]
        diverges: bool,
        /// Replay the thread with each of these turnfold binaries, oldest first
        #[arg(long, value_name = "BINARY", num_args = 1.., group = "sought")]
        builds: Vec<PathBuf>,
    },
    /// Add up the tokens and the cost of threads, from their logs
    ///
    /// With --where or --since, only the turns that match are counted.
    Cost {
        /// Group by this
        #[arg(long, value_enum, default_value_t = CostBy::Node)]
        by: CostBy,
        /// Order of the groups
        #[arg(long, value_enum, default_value_t = CostOrder::Usd)]
        order: CostOrder,
        /// Show only the first groups; the others are counted together
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        top: Option<u16>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Print a log with its hashes, one event a line; `thread import` reads it
    Export {
        /// Thread; `last` is the most recent one
        id: String,
        /// Print the run as one HTML page instead, which shows and verifies it without turnfold
        ///
        /// It has the conversation, the timeline, the state after each of the first 1,000 events (at most 32 MiB of states), and the
        /// stored bytes. It loads nothing.
        #[arg(long)]
        html: bool,
        /// Leave out messages, prompts, arguments, results, facts, reasons and names of people; the page then cannot verify the log
        #[arg(long, requires = "html")]
        redact: bool,
    },
    /// Import a thread: an exported log, a folder of `audit export`, or a fixture
    ///
    /// A fixture is a log that is kept as a test. Only its recorded answers are read, and today's code decides again.
    Import {
        /// File or folder; - reads stdin
        file: PathBuf,
        /// Import as a new thread, even if the exported one exists here
        #[arg(long = "new")]
        as_new: bool,
        /// Import even if the log ends in the middle of a turn; workers then continue that turn
        #[arg(long)]
        go_on: bool,
    },
    /// Copy the log of a thread, up to an event, into a new thread that continues from there
    ///
    /// The new thread calls models and tools for real. It does not repeat calls that have an answer in the copy. If a turn was
    /// running at that event, the new thread continues it. If a tool was just being called and the call may change something,
    /// a person is asked whether it took effect. The original thread stays as it is, with everything that it did.
    Fork(Fork),
    /// Delete a thread with its turns and events
    ///
    /// Refused while the thread is busy, waits for an answer, or is protected by `thread hold`.
    Delete {
        /// Thread; `last` is the most recent one
        id: String,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Protect a thread from deletion until it is released
    Hold {
        /// Thread; `last` is the most recent one
        id: String,
        /// Reason, shown in `thread list --held`
        #[arg(long)]
        reason: String,
    },
    /// End the protection of a thread by `thread hold`
    Release {
        /// Thread; `last` is the most recent one
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Settle a call whose answer was lost: record whether it took effect
    Reconcile(Reconcile),
}

/// Source and changes of a fork.
#[derive(clap::Args)]
pub(crate) struct Fork {
    /// Thread to copy; `last` is the most recent one
    #[arg(required_unless_present = "from_list")]
    pub(crate) id: Option<String>,
    /// Copy each thread of this file, and print its id and that of the fork; - reads stdin
    ///
    /// One id a line, or JSON lines such as {"thread": "ID", "at": 12}; --at is for those without a number. Warns of the calls that
    /// may change something and that the forks may make again. The same command finds the forks that exist and creates the others, so it
    /// may be killed; another --idempotency-key creates new ones. Exits with 5 if a thread could not be forked.
    #[arg(long, value_name = "FILE", conflicts_with = "id")]
    pub(crate) from_list: Option<PathBuf>,
    /// Fork a list without asking for confirmation
    #[arg(long, short, requires = "from_list")]
    pub(crate) yes: bool,
    /// Copy up to this event [default: the last one]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Override keys of the strategy's configuration from that event on
    #[arg(long, value_name = "JSON")]
    pub(crate) tune: Option<String>,
    /// Budget of the new thread and of each of its turns, in place of the current one:
    /// {"turn": {"tokens": N, "usd": N, "seconds": N}, "thread": {...}}
    #[arg(long, value_name = "JSON")]
    pub(crate) budget: Option<String>,
    /// Use this model from that event on; short for --tune '{"model": "..."}'
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Replace a node's prompt by a text or by the contents of @FILE; {prompt} stands for the built-in prompt
    #[arg(long, value_name = "NODE=TEXT")]
    pub(crate) prompt: Vec<String>,
    /// Add a fact (a conclusion) to the state, as if a node had recorded it: JSON as in `facts` of `thread events -o json`
    #[arg(long, value_name = "JSON")]
    pub(crate) learn: Vec<String>,
    /// First message to the new thread; if a question is open there, the answer to it
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Option<String>,
    /// Return the existing fork if this key was used before
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until the new thread is idle
    #[arg(short, long)]
    pub(crate) wait: bool,
}

/// Outcome of a call in doubt.
#[derive(clap::Args)]
pub(crate) struct Reconcile {
    /// Thread; `last` is the most recent one
    pub(crate) id: String,
    /// Number of the call, if the node made several at once
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) slot: usize,
    /// The call took effect, with this result
    #[arg(long, value_name = "RESULT", group = "verdict")]
    pub(crate) happened: Option<String>,
    /// The call did not take effect; make it again
    #[arg(long, group = "verdict")]
    pub(crate) did_not: bool,
    /// You do not know; the call is not made again
    #[arg(long, group = "verdict")]
    pub(crate) skip: bool,
}

/// Parts of a comparison; all of them if none is named.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct DiffView {
    /// Show the events that differ
    #[arg(long)]
    pub(crate) events: bool,
    /// Show how the states differ at the first difference
    #[arg(long)]
    pub(crate) state: bool,
    /// Show tokens and cost of each thread, up to the first difference and in total
    #[arg(long)]
    pub(crate) cost: bool,
}

impl DiffView {
    /// Selects all parts if none is named.
    pub(crate) fn or_all(self) -> Self {
        let all = !(self.events || self.state || self.cost);
        Self { events: self.events || all, state: self.state || all, cost: self.cost || all }
    }
}

/// Grouping of tokens and cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CostBy {
    /// Node of a strategy
    Node,
    /// Turn
    Turn,
    /// Thread
    Thread,
    /// Batch that created the thread
    Batch,
    /// Tenant of the thread
    Tenant,
    /// Strategy of the thread
    Strategy,
    /// Model
    Model,
    /// Node and its prompt, by the name of the prompt
    Prompt,
    /// Tool, as SERVER.TOOL
    Tool,
    /// Day of the answers, in UTC
    Day,
    /// Use of the answers: used, unusable and repeated, or a summary of a long conversation
    Purpose,
}

/// Order of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CostOrder {
    /// Dearest first
    Usd,
    /// Longest first
    Time,
    /// Most tokens first
    Tokens,
}
