//! Arguments of `turnfold batch`.

use std::{borrow::Cow, path::PathBuf};

use clap::Subcommand;
use shared::Priority;

use super::values::{priority, reason};
use crate::commands::COLUMNS_HELP;

#[derive(Subcommand)]
pub(crate) enum Batch {
    /// Check every line of a batch file as a batch would: without a server, or with --url by that API
    ///
    /// Without --url the rules are those of the configuration, and with --tenant those of that tenant.
    Validate {
        /// File with lines of {"custom_id": ..., "method": "POST", "url": "/v1/turns", "body": {...}}
        file: PathBuf,
    },
    /// Upload a file and run its lines; repeating the command continues the same batch
    Submit {
        /// Path of the batch file
        file: PathBuf,
        #[command(flatten)]
        plan: Plan,
        #[command(flatten)]
        confirmation: Confirmation,
        /// Wait until all lines have ended
        #[arg(short, long)]
        wait: bool,
    },
    /// Estimate cost and finish time of a file, or of what is left of a batch, from past turns
    Quote {
        /// Batch file, which is not stored, or id of a batch
        what: String,
        #[command(flatten)]
        plan: Plan,
        /// Number of workers that the estimate assumes
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        workers: u32,
    },
    /// List batches, newest first unless --order says otherwise
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Order of the list
        ///
        /// All but newest and oldest put the newest 10,000 batches in order: the highest value first, or with _asc the lowest.
        #[arg(long, value_enum, value_name = "ORDER", default_value_t = BatchOrder::Newest)]
        order: BatchOrder,
        /// Maximum number of batches
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u64,
    },
    /// Show one batch: progress, cost, causes of failures
    #[command(visible_alias = "get")]
    Show {
        /// Id of the batch
        id: String,
        /// Wait until all lines have ended
        #[arg(short, long)]
        wait: bool,
    },
    /// Print the results of a batch in the order in which lines end, also while it runs
    ///
    /// Without --out every result is printed: a line that ran twice has two results, and the last one counts. With --out
    /// each line appears once, with its last result.
    Results {
        /// Id of the batch
        id: String,
        /// Wait until all lines have ended. Results are printed as they come; with --out they are written at the end
        #[arg(short, long)]
        follow: bool,
        /// File format [default: by the extension of --out (.csv, .parquet), else jsonl]
        #[arg(long, value_enum)]
        format: Option<ResultFormat>,
        /// Write to this file, which appears once all results are in it [default: stdout]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Cancel a batch; finished lines keep their results
    Cancel {
        /// Id of the batch
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Start no more lines of a batch until it is resumed
    Pause {
        /// Id of the batch
        id: String,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
    /// Resume a batch that was paused or reached its cost limit, or run lines again
    Resume {
        /// Id of the batch
        id: String,
        /// Run only these lines again
        #[arg(long, value_enum)]
        only: Option<Only>,
        /// Run only the lines with this cause again: a `message` of `top_causes` in `batch show -o json`
        #[arg(long, value_name = "TEXT", requires = "only")]
        cause: Option<String>,
        /// New cost limit of the whole batch, in US dollars
        #[arg(long, value_name = "USD", value_parser = usd)]
        max_usd: Option<f64>,
    },
    /// Submit a file, wait, and write the results; repeating the command continues where it stopped
    Run {
        /// Path of the batch file
        file: PathBuf,
        #[command(flatten)]
        plan: Plan,
        #[command(flatten)]
        confirmation: Confirmation,
        /// File for the results, which appears once all results are in it
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// File format [default: by the extension of --out (.csv, .parquet), else jsonl]
        #[arg(long, value_enum)]
        format: Option<ResultFormat>,
    },
}

/// Options that control how the lines of a file run.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Start no more lines once the batch has cost this many US dollars [default: no limit]
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_usd: Option<f64>,
    /// Run at most this many lines at once [default and maximum: batch.window of the API, 2000]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window: Option<u32>,
    /// Deadline from now, such as 12h or 7d: lines that have not ended by then expire; at most 30d [default: 24h; 30d with
    /// --local]
    #[arg(long, value_name = "DURATION", value_parser = CompletionWindow::parse)]
    pub(crate) within: Option<CompletionWindow>,
    /// Priority within the tenant: high, normal or low [default: batch.priority of the API]
    #[arg(long, value_parser = priority(), value_name = "LEVEL", hide_possible_values = true)]
    pub(crate) priority: Option<Priority>,
    /// Earlier results to use again instead of running a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) reuse: Reuse,
    /// Run everything in this process, on SQLite, without a server; ends when the batch ends
    ///
    /// Other batches in the same database that have not ended run as well; the command names them first. An estimate runs no
    /// line of any batch.
    #[arg(long)]
    pub(crate) local: bool,
}

/// Time in which a batch must end.
#[derive(Clone, Debug)]
pub(crate) struct CompletionWindow {
    text: Cow<'static, str>,
    seconds: u64,
}

impl CompletionWindow {
    /// The default: 24 hours.
    pub(crate) const DAY: Self = Self { text: Cow::Borrowed("24h"), seconds: 24 * 60 * 60 };
    /// The maximum that the API accepts: 30 days.
    pub(crate) const MAX: Self = Self { text: Cow::Borrowed("30d"), seconds: 30 * 24 * 60 * 60 };

    fn parse(text: &str) -> Result<Self, String> {
        let seconds = queue::clock::parse_duration(text).map(|duration| duration.as_secs());
        let seconds = seconds.filter(|seconds| (1..=Self::MAX.seconds).contains(seconds));
        let invalid =
            || "expected a number and a unit (s, m, h, d or w), from 1s to 30d, such as 7d".to_owned();
        Ok(Self { text: text.to_owned().into(), seconds: seconds.ok_or_else(invalid)? })
    }

    /// Returns the text as the user wrote it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the duration in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }
}

/// Parses an amount of money. Rejects NaN and infinity, which JSON cannot express: the limit would be lost.
fn usd(text: &str) -> Result<f64, String> {
    let usd = text.parse().ok().filter(|amount: &f64| amount.is_finite() && 0.0 < *amount);
    usd.ok_or_else(|| "expected a number above 0, such as 2.50".to_owned())
}

/// Confirmation of the estimated cost before a batch is created.
#[derive(clap::Args)]
pub(crate) struct Confirmation {
    /// Estimate cost and finish time first, and ask for confirmation
    #[arg(long)]
    pub(crate) quote: bool,
    /// With --quote: do not ask
    #[arg(short, long, requires = "quote")]
    pub(crate) yes: bool,
    /// With --quote: number of workers that the estimate assumes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "quote")]
    pub(crate) workers: u32,
}

/// Reuse of earlier results.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Reuse {
    /// The result of a line with the same custom_id and body that succeeded
    #[default]
    Succeeded,
    /// No results: run every line
    None,
}

impl Reuse {
    /// Returns the value for the API, or `None` for the API's default.
    pub(crate) fn non_default(self) -> Option<&'static str> {
        match self {
            Reuse::Succeeded => None,
            Reuse::None => Some("none"),
        }
    }
}

/// Order of a list of batches, as the API names it.
#[derive(Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum BatchOrder {
    /// Newest first
    Newest,
    /// Oldest first
    Oldest,
    /// Last change of the status first: of a batch that has ended, its end
    Updated,
    /// Longest without a change of the status first
    UpdatedAsc,
    /// Most failed lines first
    Failed,
    /// Fewest failed lines first
    FailedAsc,
    /// Dearest first
    Usd,
    /// Cheapest first; no known cost counts as zero
    UsdAsc,
}

/// Lines to run again.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Only {
    /// Lines that failed
    Failed,
    /// Lines that expired
    Expired,
    /// Lines that ended with the outcome partial
    Partial,
    /// Lines that ended with the outcome declined
    Declined,
}

/// File format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ResultFormat {
    /// Each result as the API returns it, with all fields
    #[default]
    Jsonl,
    #[value(help = COLUMNS_HELP)]
    Csv,
    /// The same columns, for a data frame
    Parquet,
}

impl Batch {
    /// Returns true if the command runs its own engine (`--local`).
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Batch::Submit { plan, .. } | Batch::Run { plan, .. } | Batch::Quote { plan, .. } => plan.local,
            Batch::Validate { .. }
            | Batch::List { .. }
            | Batch::Show { .. }
            | Batch::Results { .. }
            | Batch::Cancel { .. }
            | Batch::Pause { .. }
            | Batch::Resume { .. } => false,
        }
    }
}

#[test]
fn completion_windows_are_parsed_as_the_api_parses_them() {
    let seconds = |text: &str| CompletionWindow::parse(text).map(|window| window.seconds).ok();
    let days = [("1d", 86_400), ("30d", 2_592_000), ("720h", 2_592_000), ("4w", 2_419_200)];
    let valid = [("90s", 90), ("5m", 300), ("24h", 86_400)].into_iter().chain(days);
    for (text, expected) in valid {
        assert_eq!(seconds(text), Some(expected), "{text}");
    }
    for text in ["", "d", "7", "7w", "0h", "-1h", "1.5h", "31d", "721h", "99999999999999999999s", "7 d", "é"]
    {
        assert_eq!(seconds(text), None, "{text}");
    }
}
