//! What may be said to `turnfold thread`.

use std::path::PathBuf;

use clap::{ArgGroup, Subcommand};

use super::Round;

#[derive(Subcommand)]
pub(crate) enum Thread {
    /// Lists threads, the newest first
    Ls {
        /// Only idle, busy, interrupted or error ones
        #[arg(long)]
        status: Option<String>,
        /// Only those with a turn that fulfils these conditions, in the language of `turn ls --where`: the one with the
        /// newest such turn first
        #[arg(long = "where", value_name = "CONDITIONS")]
        conditions: Option<String>,
        /// Only those under a hold, with its reason: all of them
        #[arg(long, conflicts_with_all = ["status", "conditions", "limit"])]
        held: bool,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: u64,
    },
    /// Shows where a thread stands
    Get {
        /// Which; `last` is the newest
        id: String,
    },
    /// Prints what happened, event by event
    Events {
        /// Which; `last` is the newest
        id: String,
        /// From this event on
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        from: u64,
        /// At most so many
        #[arg(long)]
        limit: Option<u64>,
        /// Go on with what happens, until the thread rests; told by the api, also after that was away
        #[arg(short, long, conflicts_with = "limit")]
        follow: bool,
    },
    /// Prints what the thread knew and said at some event: the fold of its log up to there
    State {
        /// Which; `last` is the newest
        id: String,
        /// The event; the last one, if none is named
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Folds the log again, without asking anyone anything, and compares the outcome with what is stored
    Replay {
        /// Which; `last` is the newest
        id: String,
    },
    /// Checks the hash chain, and whether today's code would decide as the log says
    ///
    /// Where it would not, the event, the node and what differs are told: where control goes, what is remembered
    /// (state.plan.steps.2), what is said, what is asked of the world. Prompts that are worded otherwise are counted.
    Verify {
        /// Which; `last` is the newest
        id: String,
        /// Tell of prompts that are worded otherwise today, too; they are a finding then
        #[arg(long)]
        prompts: bool,
    },
    /// Tells why control went where it went, and what the thread waits for now
    Why {
        /// Which; `last` is the newest
        id: String,
        /// The last decision up to this event; the last there is, if none is named
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Lays two threads side by side: where they part, and in what; exit code 1 if they do
    Diff {
        /// One; `last` is the newest
        left: String,
        /// The other
        right: String,
        #[command(flatten)]
        view: View,
    },
    /// Finds the first event after which something holds, or the first build that decides otherwise
    #[command(group = ArgGroup::new("sought").required(true))]
    Bisect {
        /// Which; `last` is the newest
        id: String,
        /// What must hold, in the language of `turn ls --where`, over node, standing, event, reply, messages, tokens, usd
        /// and paths into the state: "state.plan.current > 0 and node = assess"
        #[arg(long = "where", value_name = "CONDITIONS", group = "sought")]
        conditions: Option<String>,
        /// That today's code would decide otherwise
        #[arg(long, group = "sought")]
        diverges: bool,
        /// Builds of turnfold, the oldest first, each of which verifies the thread
        #[arg(long, value_name = "BINARY", num_args = 1.., group = "sought")]
        builds: Vec<PathBuf>,
    },
    /// Counts the tokens and the money that threads took, from their logs
    ///
    /// Of the threads that --where and --since choose, only the turns that fulfil them are counted.
    Cost {
        /// What is counted together
        #[arg(long, value_enum, default_value_t = By::Node)]
        by: By,
        #[command(flatten)]
        round: Round,
    },
    /// Prints a log byte for byte, an event a line, with its hashes: what `import` reads
    Export {
        /// Which; `last` is the newest
        id: String,
    },
    /// Takes in the log of a thread: one that was exported, every hash of which must hold, or a fixture, of which today's
    /// code lives what came from outside
    Import {
        /// The file; - reads stdin
        file: PathBuf,
        /// As a thread of its own, even if the one that was exported is here
        #[arg(long = "new")]
        anew: bool,
        /// Even if it ends in the middle of a turn: workers go on with it
        #[arg(long)]
        go_on: bool,
    },
    /// Begins a thread with a copy of another's log, which lives on by itself with something changed
    ///
    /// Nothing that ran before is run again. A turn that was under way there goes on here; a write that was under way is
    /// in doubt. What the other thread did afterwards is not undone: what the new one does, it does for real.
    Fork(Fork),
    /// Holds a thread: nothing deletes it until it is released
    Hold {
        /// Which; `last` is the newest
        id: String,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Lets go of a thread that was held
    Release {
        /// Which; `last` is the newest
        id: String,
    },
    /// Says what became of a call whose answer was lost
    Reconcile(Reconcile),
}

/// What is forked, and what is changed in it.
#[derive(clap::Args)]
pub(crate) struct Fork {
    /// Which; `last` is the newest
    pub(crate) id: String,
    /// After this event; the last one, if none is named
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Tunes the strategy from there on, as JSON over what was in force
    #[arg(long, value_name = "JSON")]
    pub(crate) tune: Option<String>,
    /// What it and each of its turns may take from there on, as JSON, instead of the budget in force:
    /// {"turn": {"tokens": …, "usd": …, "seconds": …}, "thread": {…}}
    #[arg(long, value_name = "JSON")]
    pub(crate) budget: Option<String>,
    /// Asks this model from there on: --tune '{"model": …}' in short
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Words that a node says first to its model from there on, or the @FILE that holds them; {prompt} in them stands
    /// for the node's own
    #[arg(long, value_name = "NODE=WORDS")]
    pub(crate) prompt: Vec<String>,
    /// A fact that the strategy takes for concluded, as JSON, as under `learned` in its events
    #[arg(long, value_name = "JSON")]
    pub(crate) learn: Vec<String>,
    /// What the new thread hears first: the answer, if a person is asked there
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Option<String>,
    /// Sending the same key again gives the same fork
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Stay until the new thread rests
    #[arg(short, long)]
    pub(crate) wait: bool,
}

/// What became of a call.
#[derive(clap::Args)]
pub(crate) struct Reconcile {
    /// Which thread; `last` is the newest
    pub(crate) id: String,
    /// Which of the node's requests
    #[arg(long, default_value_t = 0)]
    pub(crate) slot: usize,
    /// It happened, with this result
    #[arg(long, value_name = "RESULT", group = "verdict")]
    pub(crate) happened: Option<String>,
    /// It did not happen: it is attempted again
    #[arg(long, group = "verdict")]
    pub(crate) did_not: bool,
    /// Nobody knows, and it shall not be attempted again
    #[arg(long, group = "verdict")]
    pub(crate) skip: bool,
}

/// What is shown of two threads; all of it, if nothing is named.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct View {
    /// The events that differ
    #[arg(long)]
    pub(crate) events: bool,
    /// In what the states differ where the threads part
    #[arg(long)]
    pub(crate) state: bool,
    /// What each took, before they part and in all
    #[arg(long)]
    pub(crate) cost: bool,
}

impl View {
    /// What is to be shown.
    pub(crate) fn shown(self) -> Self {
        let all = !(self.events || self.state || self.cost);
        Self { events: self.events || all, state: self.state || all, cost: self.cost || all }
    }
}

/// By what tokens and money are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// The node that asked, of each strategy
    Node,
    /// The turn that it was asked in
    Turn,
    /// The thread
    Thread,
    /// The batch that opened the thread
    Batch,
    /// Whom the thread belongs to
    Tenant,
    /// The thread's strategy
    Strategy,
    /// The model that was asked
    Model,
}
