//! What may be said to `turnfold batch`.

use std::{borrow::Cow, path::PathBuf};

use clap::Subcommand;

use super::Priority;

#[derive(Subcommand)]
pub(crate) enum Batch {
    /// Checks the form of a file line by line, without a server
    Validate {
        /// The file: lines of {"custom_id": …, "method": "POST", "url": "/v1/turns", "body": {…}}
        file: PathBuf,
    },
    /// Uploads a file and has its lines run; the same command again finds the same batch
    Submit {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        plan: Plan,
        #[command(flatten)]
        quoted: Quoted,
        /// Stay until all lines have ended
        #[arg(short, long)]
        wait: bool,
    },
    /// Predicts what a file would cost and when it would be done, by past turns of the same strategies
    Quote {
        /// The file, of which nothing is left behind; or a batch, of which the rest is quoted
        what: String,
        #[command(flatten)]
        plan: Plan,
        /// How many workers there will be
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        workers: u32,
    },
    /// Lists batches, the newest first
    Ls {
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: u64,
    },
    /// Shows how far a batch has come
    Get {
        /// Which
        id: String,
        /// Stay until all lines have ended
        #[arg(short, long)]
        wait: bool,
    },
    /// Prints what came of the lines, in the order of their ends; also while the batch is run
    ///
    /// Without --out all of it: a line that was run again has a result each time, and the last one counts. With --out each line
    /// once, with the last result that it had when the command began, or with --follow when all lines had ended.
    Results {
        /// Which
        id: String,
        /// Stay until all lines have ended; --out is written then, stdout as results come
        #[arg(short, long)]
        follow: bool,
        /// In which form [default: as --out ends: .csv, .parquet; else jsonl]
        #[arg(long, value_enum)]
        format: Option<Form>,
        /// Where to; the file appears once it is whole [default: stdout]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Calls a batch off: what has ended stays, and nothing more is begun
    Cancel {
        /// Which
        id: String,
    },
    /// Begins no more lines of a batch until it is resumed
    Pause {
        /// Which
        id: String,
    },
    /// Goes on with a batch that was paused or has spent its money, or runs lines again
    Resume {
        /// Which
        id: String,
        /// Run these lines again, and no others
        #[arg(long, value_enum)]
        only: Option<Only>,
        /// What the whole batch may cost from now on, in US dollars
        #[arg(long, value_name = "USD", value_parser = usd)]
        max_usd: Option<f64>,
    },
    /// From file to file: submits, waits, and writes the results; the same command again goes on where it stopped
    Run {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        plan: Plan,
        #[command(flatten)]
        quoted: Quoted,
        /// Where the results go; the file appears once it is whole
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// In which form they are written [default: as --out ends: .csv, .parquet; else jsonl]
        #[arg(long, value_enum)]
        format: Option<Form>,
    },
}

/// How the lines of a file are to be run.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Begin no more lines once the batch has cost so many US dollars
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(crate) max_usd: Option<f64>,
    /// Run at most so many lines at once [default and most: batch.window of the api's configuration, 2000]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window: Option<u32>,
    /// Within which time all lines must have ended, or expire: a number with s, m, h, d or w, 30d at most [default: 24h; with --local
    /// 30d, as nothing goes on while nobody runs it]
    #[arg(long, value_name = "TIME", value_parser = Within::read)]
    pub(crate) within: Option<Within>,
    /// How urgent the lines are among the turns of their tenant [default: as the api says]
    #[arg(long, value_enum)]
    pub(crate) priority: Option<Priority>,
    /// Whether earlier results of the same lines are taken again
    #[arg(long, value_enum, default_value_t)]
    pub(crate) reuse: Reuse,
    /// Without a server: run everything in this process, on SQLite, and stay until it is done; `batch run` writes the results
    ///
    /// Other batches that are open in the same store go on meanwhile, and are told of. A quote begins nothing.
    #[arg(long)]
    pub(crate) local: bool,
}

/// Within which time a batch must have ended, as the api has it.
#[derive(Clone, Debug)]
pub(crate) struct Within {
    text: Cow<'static, str>,
    seconds: u64,
}

impl Within {
    /// As long as a batch has, if nobody says.
    pub(crate) const DAY: Self = Self { text: Cow::Borrowed("24h"), seconds: 24 * 60 * 60 };
    /// The longest that the api takes.
    pub(crate) const LONGEST: Self = Self { text: Cow::Borrowed("30d"), seconds: 30 * 24 * 60 * 60 };

    fn read(text: &str) -> Result<Self, String> {
        let seconds = store::time::length(text).map(|it| it.as_secs());
        let seconds = seconds.filter(|it| (1..=Self::LONGEST.seconds).contains(it));
        let wrong = || "give a number with s, m, h, d or w, from 1s to 30d, as in 7d".to_owned();
        Ok(Self { text: text.to_owned().into(), seconds: seconds.ok_or_else(wrong)? })
    }

    /// As it was said.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The same, however it was said.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }
}

/// Reads what a batch may cost. JSON has no word for what is no number or has no end: it would be no limit at all.
fn usd(text: &str) -> Result<f64, String> {
    let usd = text.parse().ok().filter(|it: &f64| it.is_finite() && 0.0 < *it);
    usd.ok_or_else(|| "give a number above 0, as in 2.50".to_owned())
}

/// Whether it is said before what the lines would take.
#[derive(clap::Args)]
pub(crate) struct Quoted {
    /// Say first what they would probably cost and when they would be done, and ask whether that is meant
    #[arg(long)]
    pub(crate) quote: bool,
    /// With --quote: do not ask
    #[arg(short, long, requires = "quote")]
    pub(crate) yes: bool,
    /// With --quote: how many workers there will be
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "quote")]
    pub(crate) workers: u32,
}

/// Whether earlier results are taken again.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Reuse {
    /// Those of lines that were called the same, asked for the same and ended well
    #[default]
    Succeeded,
    /// Every line is run
    None,
}

impl Reuse {
    /// Its name on the wire, where it is not what the api does by itself.
    pub(crate) fn wish(self) -> Option<&'static str> {
        match self {
            Reuse::Succeeded => None,
            Reuse::None => Some("none"),
        }
    }
}

/// Which lines are run again.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Only {
    /// Those that failed
    Failed,
    /// Those whose time was over
    Expired,
}

/// In which form results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Every line as the api gives it, with all there is to know
    #[default]
    Jsonl,
    /// line (its number in the file), custom_id, status, answer, error_code, error_message, tokens, usd: for a spreadsheet
    Csv,
    /// The same columns, for a data frame
    Parquet,
}

impl Batch {
    /// Whether it brings its own engine along.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Batch::Submit { plan, .. } | Batch::Run { plan, .. } | Batch::Quote { plan, .. } => plan.local,
            Batch::Validate { .. }
            | Batch::Ls { .. }
            | Batch::Get { .. }
            | Batch::Results { .. }
            | Batch::Cancel { .. }
            | Batch::Pause { .. }
            | Batch::Resume { .. } => false,
        }
    }
}

#[test]
fn a_time_is_read_as_the_api_reads_it() {
    let seconds = |text: &str| Within::read(text).map(|it| it.seconds).ok();
    let days = [("1d", 86_400), ("30d", 2_592_000), ("720h", 2_592_000), ("4w", 2_419_200)];
    let wanted = [("90s", 90), ("5m", 300), ("24h", 86_400)].into_iter().chain(days);
    for (text, wanted) in wanted {
        assert_eq!(seconds(text), Some(wanted), "{text}");
    }
    for text in ["", "d", "7", "7w", "0h", "-1h", "1.5h", "31d", "721h", "99999999999999999999s", "7 d", "é"]
    {
        assert_eq!(seconds(text), None, "{text}");
    }
}
