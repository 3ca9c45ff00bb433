//! What may be said to `turnfold turn`.

use std::time::Duration;

use clap::Subcommand;

use super::age;

#[derive(Subcommand)]
pub(crate) enum Turn {
    /// Says something to an agent; to a thread that asked, it is the answer
    Send(Send),
    /// Lists turns, the newest first
    Ls {
        /// Only of this thread; `last` is the newest
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Only queued, running, completed, interrupted, failed or cancelled ones
        #[arg(long)]
        status: Option<String>,
        /// Only those that fulfil these conditions: FIELD OPERATOR VALUE, joined by `and`
        ///
        /// As in "status = failed and error ~ 'timed out' and age < 7d". Fields are status, strategy, tenant, priority,
        /// author, thread, error, cause, age, created, updated and metadata.KEY; operators are = != ~ (contains) < and >.
        /// An age is 7d, 12h or 30m. The moments created and updated are set against RFC 3339, a day, or so long ago:
        /// created > 7d is what came after the moment seven days ago, as age < 7d says in fewer words.
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
        /// Which; `last` is the newest
        id: String,
        /// Wait for the end; the exit code tells what it was
        #[arg(short, long)]
        wait: bool,
    },
    /// Calls a turn off
    Cancel {
        /// Which; `last` is the newest
        id: String,
    },
    /// Has a failed turn try again
    Retry {
        /// Which; `last` is the newest
        id: String,
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

/// What is said, to whom, and how.
#[derive(Default, clap::Args)]
pub(crate) struct Send {
    /// The words; - reads them from stdin
    pub(crate) text: String,
    /// The strategy of a new thread
    #[arg(short = 'g', long, conflicts_with = "thread", default_value = "planner")]
    pub(crate) strategy: String,
    /// An existing thread; `last` is the newest
    #[arg(short, long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Configuration of the new thread, as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "thread")]
    pub(crate) tune: Option<String>,
    /// What the new thread and each of its turns may take, as JSON, within what the operator allows:
    /// {"turn": {"tokens": …, "usd": …, "seconds": …}, "thread": {…}}
    #[arg(long, value_name = "JSON", conflicts_with = "thread")]
    pub(crate) budget: Option<String>,
    /// What the turn is found by again, as in --metadata customer=17: JSON where it is some, else text
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<String>,
    /// How urgent it is among the turns of its tenant [default: normal]
    #[arg(long, value_enum)]
    pub(crate) priority: Option<Priority>,
    /// Not before so long from now, as in 10m, 12h or 7d; at most a year
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "not_before")]
    pub(crate) delay: Option<Duration>,
    /// Not before this moment, as in 2026-12-24T18:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(crate) not_before: Option<String>,
    /// Take it as a new matter, even if the thread waits for an answer
    #[arg(long)]
    pub(crate) replan: bool,
    /// Sending the same key again gives the same turn and pays nothing
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait for the end and print the reply
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Print the events as they happen, until the turn has ended; one that is not due yet is waited for
    ///
    /// With -o jsonl each event is a line of JSON as it happens; with -o json all of them are one list at the end, as by
    /// `thread events`.
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) follow: bool,
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
