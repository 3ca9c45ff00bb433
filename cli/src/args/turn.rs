//! Arguments of `turnfold turn`.

use std::time::Duration;

use clap::Subcommand;

use super::duration;

#[derive(Subcommand)]
pub(crate) enum Turn {
    /// Send a message to an agent, or answer the question it asked
    ///
    /// With --wait or --follow the exit code says how the turn ended: 0 answered, 5 partial, 10 declined, 3 a question to a
    /// person, 1 failed or cancelled.
    Send(Send),
    /// List turns, newest first
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Only turns of this thread; `last` is the most recent one
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Only turns in this status: queued, running, completed, interrupted, failed or cancelled
        #[arg(long)]
        status: Option<String>,
        /// Only turns that match this filter: FIELD OPERATOR VALUE, joined by `and`
        ///
        /// Example: "status = failed and error ~ 'timed out' and age < 7d". Fields: status, outcome (answered,
        /// partial or declined), strategy, tenant, priority, author, thread, error, cause, age, created, updated and metadata.KEY. Operators: = != ~ (contains) < and >. An
        /// age is 7d, 12h or 30m. `created` and `updated` are compared with a time (RFC 3339), a day, or an age: created >
        /// 7d means created after the moment seven days ago, the same as age < 7d.
        #[arg(long = "where", value_name = "FILTER")]
        filter: Option<String>,
        /// Count the turns that failed or were not answered by this field, instead of listing turns
        #[arg(long, value_enum, value_name = "FIELD", conflicts_with_all = ["thread", "status"])]
        group_by: Option<GroupBy>,
        /// Maximum number of turns
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
    },
    /// Show one turn: status, reply, usage, cause of failure
    #[command(visible_alias = "get")]
    Show {
        /// Turn; `last` is the most recent one
        id: String,
        /// Wait until the turn ends; the exit code says how
        #[arg(short, long)]
        wait: bool,
    },
    /// Cancel a queued or running turn
    Cancel {
        /// Turn; `last` is the most recent one
        id: String,
    },
    /// Retry a failed turn
    Retry {
        /// Turn; `last` is the most recent one
        id: String,
    },
    /// Retry all failed turns that match a filter, oldest first
    ///
    /// Can be interrupted and run again: retried turns are no longer failed. Exits with 5 if some could not be retried.
    Redrive {
        /// Only turns that match this filter; see `turn list --help`
        #[arg(long = "where", value_name = "FILTER")]
        filter: Option<String>,
        /// Maximum rate, per second or minute: 5/s, 20/m [default: no limit]
        #[arg(long, value_name = "RATE", value_parser = rate)]
        rate: Option<Duration>,
        /// Count the turns by cause without retrying them
        #[arg(long)]
        dry_run: bool,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

/// A new turn.
#[derive(Default, clap::Args)]
pub(crate) struct Send {
    /// Message; - reads stdin
    pub(crate) text: String,
    /// Strategy for a new thread
    #[arg(short = 'g', long, value_name = "NAME", conflicts_with = "thread", default_value = "planner")]
    pub(crate) strategy: String,
    /// Continue an existing thread; `last` is the most recent one
    #[arg(short, long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Configuration overrides for the new thread
    #[arg(long, value_name = "JSON", conflicts_with = "thread")]
    pub(crate) tune: Option<String>,
    /// Budget of the new thread and of each of its turns, within the operator's limits:
    /// {"turn": {"tokens": N, "usd": N, "seconds": N}, "thread": {...}}
    #[arg(long, value_name = "JSON", conflicts_with = "thread")]
    pub(crate) budget: Option<String>,
    /// Attach metadata; filter by it later with --where 'metadata.K = V'. The value is JSON, else text
    #[arg(long, value_name = "K=V")]
    pub(crate) metadata: Vec<String>,
    /// Priority within the tenant: high, normal or low [default: normal]
    #[arg(long, value_enum, value_name = "LEVEL", hide_possible_values = true)]
    pub(crate) priority: Option<Priority>,
    /// Start no earlier than this from now (10m, 12h, 7d; at most 1 year)
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "not_before")]
    pub(crate) delay: Option<Duration>,
    /// Start no earlier than this time: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) not_before: Option<String>,
    /// Start a new request even if the thread is waiting for an answer
    #[arg(long)]
    pub(crate) replan: bool,
    /// Return the existing turn if this key was used before
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until the turn ends, then print the reply
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Print events as they happen, until the turn ends
    ///
    /// As text, the answer is printed while the model writes it. A turn that is not due yet is waited for. With -o jsonl each event is one line; with -o json all events are one list,
    /// printed at the end.
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) follow: bool,
}

/// Field by which turns are counted.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum GroupBy {
    /// The error without numbers, ids and quoted texts, or the causes of the outcome
    Cause,
}

/// Parses a rate such as `5/s` or `20/m` into the time between two turns.
fn rate(text: &str) -> Result<Duration, String> {
    let parse = || {
        let (number, unit) = text.split_once('/')?;
        let number: u32 = number.parse().ok().filter(|count| (1..=1_000).contains(count))?;
        let period = match unit {
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            _ => return None,
        };
        Some(period / number)
    };
    parse().ok_or_else(|| "expected a number from 1 to 1000 and /s or /m, such as 5/s".to_owned())
}

/// Priority of a turn within its tenant.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Priority {
    /// Before all others
    High,
    /// The default
    Normal,
    /// Only when nothing else is waiting
    Low,
}
