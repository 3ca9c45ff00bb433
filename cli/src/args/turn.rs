//! Arguments of `turnfold turn`.

use std::{path::PathBuf, time::Duration};

use clap::{Subcommand, ValueEnum};
use shared::{MultitaskStrategy, Priority};

use super::{
    ListOrder,
    values::{duration, multitask_strategy, priority},
};

#[derive(Subcommand)]
pub(crate) enum Turn {
    /// Send a message to an agent, or answer the question it asked
    ///
    /// With --wait or --follow, the exit code says how the turn ended: 0 answered, 5 partial (not everything was done), 10
    /// declined (the request was not carried out), 3 the agent asks a person, 1 failed or cancelled.
    Send(Send),
    /// List turns, newest first unless --order says otherwise
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Only turns of this thread; `last` is the most recent one
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Only turns in this status: queued, running, completed, interrupted (the agent asked a person), failed or cancelled
        #[arg(long)]
        status: Option<String>,
        /// Only turns that match this filter: FIELD OPERATOR VALUE, joined by `and`
        ///
        /// Example: "status = failed and error ~ 'timed out' and age < 7d". Fields: status, outcome (answered, partial or
        /// declined), strategy, tenant, priority, author, thread, batch, custom_id, error, cause, age, created, updated, took and
        /// metadata.KEY. Operators: = != ~ (contains) < and >. An age is 7d, 12h or 30m. `created` and `updated` are compared with
        /// a time (RFC 3339), a day, or an age. With an age, created > 7d means created within the last seven days, as does
        /// age < 7d. `took` is the time from the submission to the end: took > 40s.
        ///
        /// The search index has more fields: text (all the words in one event: text = 'order A-10/77'), tool, model, prompt (its
        /// hash), worker, rating (good or bad: the last one of a person), usd and tokens (usd > 0.25).
        #[arg(long = "where", value_name = "FILTER")]
        filter: Option<String>,
        /// Count turns by this field instead of listing them: turns that failed, and turns without a full answer
        #[arg(long, value_enum, value_name = "FIELD", conflicts_with_all = ["thread", "status", "order"])]
        group_by: Option<GroupBy>,
        /// Order of the list
        ///
        /// All but newest and oldest put the newest 10,000 turns that match in order: the highest value first, or with _asc the
        /// lowest. usd and tokens need the search index.
        #[arg(long, value_enum, value_name = "ORDER", default_value_t = ListOrder::Newest)]
        order: ListOrder,
        /// Maximum number of turns
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
    },
    /// Show one turn: status, reply, usage, cause of failure
    #[command(visible_alias = "get")]
    Show {
        /// Turn; `last` is the most recent one
        id: String,
        /// Wait until the turn ends; the exit codes are those of `turn send --wait`
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
    /// Rate the answer of a turn that has ended: good or bad
    ///
    /// The rating is an event of the log. It changes nothing else, and replay ignores it. Another rating of the same turn replaces
    /// the first in the counts of `prompt list`; the log keeps both.
    Rate {
        /// Turn; `last` is the most recent one
        id: String,
        /// Judgement: good or bad
        #[arg(value_enum, hide_possible_values = true)]
        rating: Rating,
        /// Reason, at most 2,000 characters
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Retry all failed turns that match a filter, oldest first
    ///
    /// You can interrupt the command and run it again: it skips the turns that it has retried. Exits with 5 if some turns
    /// could not be retried.
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

/// Judgement of an answer.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Rating {
    Good,
    Bad,
}

impl From<Rating> for shared::Rating {
    fn from(rating: Rating) -> Self {
        match rating {
            Rating::Good => Self::Good,
            Rating::Bad => Self::Bad,
        }
    }
}

/// A new turn.
#[derive(Default, clap::Args)]
pub(crate) struct Send {
    /// Message; - reads stdin
    pub(crate) text: String,
    /// Strategy for a new thread [default: planner, or chat where no MCP server is configured]
    #[arg(short = 'g', long, value_name = "NAME", conflicts_with = "thread")]
    pub(crate) strategy: Option<String>,
    /// Continue an existing thread; `last` is the most recent one
    #[arg(short, long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Override keys of the strategy's configuration for the new thread
    #[arg(long, value_name = "JSON", conflicts_with = "thread")]
    pub(crate) tune: Option<String>,
    /// Budget of the new thread and of each of its turns, which may not exceed the operator's:
    /// {"turn": {"tokens": N, "usd": N, "seconds": N}, "thread": {...}}
    #[arg(long, value_name = "JSON", conflicts_with = "thread")]
    pub(crate) budget: Option<String>,
    /// Ask for an answer in a form: a file with a JSON Schema, or with a `response_format` of OpenAI's API
    ///
    /// The answer is then one JSON object that fits the schema. Questions to a person stay text.
    #[arg(long, value_name = "FILE")]
    pub(crate) response_format: Option<PathBuf>,
    /// Attach metadata; filter by it later with --where 'metadata.K = V'. A value that is not JSON is a text
    #[arg(long, value_name = "K=V")]
    pub(crate) metadata: Vec<String>,
    /// Priority within the tenant: high, normal or low [default: normal]
    #[arg(long, value_parser = priority(), value_name = "LEVEL", hide_possible_values = true)]
    pub(crate) priority: Option<Priority>,
    /// Start after this delay, or later (10m, 12h, 7d; at most 1 year)
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "not_before")]
    pub(crate) delay: Option<Duration>,
    /// Start at this time, or later: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) not_before: Option<String>,
    /// Start a new request, even if a question of the thread waits for an answer
    #[arg(long)]
    pub(crate) replan: bool,
    /// While another turn of the thread is running or queued: reject, enqueue, interrupt or rollback
    ///
    /// reject refuses this turn and stores nothing. enqueue starts it after the others. interrupt cancels the running turn
    /// before its next write; queued ones never start. rollback does the same, and the new turn does not see the messages of the
    /// cancelled one; its writes are not undone, but named. Default: that of the tenant, or else of the strategy, or else enqueue.
    #[arg(long, value_parser = multitask_strategy(), value_name = "NAME", hide_possible_values = true, requires = "thread")]
    pub(crate) multitask_strategy: Option<MultitaskStrategy>,
    /// Return the existing turn if this key was used before
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until the turn ends, then print the reply
    #[arg(short, long)]
    pub(crate) wait: bool,
    /// Print events as they happen, until the turn ends
    ///
    /// With text output, the answer is printed while the model writes it. With -o jsonl, each event is one line; with -o json,
    /// all events are one list, printed at the end. If the turn starts later, the command waits for it.
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) follow: bool,
}

/// Field by which turns are counted.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum GroupBy {
    /// The error of a failed turn, without numbers, ids and quoted texts; the causes of a partial or declined one
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
