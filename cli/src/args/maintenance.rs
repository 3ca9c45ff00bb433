//! Arguments of `turnfold store`.

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;

use super::values::{duration, reason};

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Check that no log was changed, and that this version can read every event
    Verify {
        #[command(flatten)]
        selection: Selection,
    },
    /// Correct the rows of threads and turns that differ from the log
    Rebuild {
        #[command(flatten)]
        selection: Selection,
        /// Empty the search index instead; the API and the workers fill it again from the logs
        #[arg(long, conflicts_with_all = ["thread", "filter", "since", "jobs", "dry_run"])]
        search: bool,
        /// List the differences without writing
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete old threads, finished batches and unused files
    ///
    /// Threads are deleted if they are idle or failed and have not changed for the time of --older-than, with their turns and
    /// events. Threads that `thread hold` protects stay.
    ///
    /// Batches are deleted if they ended before that time, with their lines, results, output files and webhook deliveries. A
    /// batch stays if the thread of one of its lines is protected. The results of a deleted batch cannot be used again: a line
    /// that is submitted again runs again.
    ///
    /// Files are deleted if they are that old and no batch uses them.
    ///
    /// With --strategy, only threads are deleted.
    Prune {
        /// Age: 90d, 12h, 30m [default: retention.after_days]
        #[arg(long, value_name = "AGE", value_parser = duration)]
        older_than: Option<Duration>,
        /// Delete only threads of this strategy
        #[arg(long)]
        strategy: Option<String>,
        /// Count what would be deleted
        #[arg(long)]
        dry_run: bool,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
        /// Reason, for the administrative log: one line, at most 500 characters
        #[arg(long, value_name = "TEXT", value_parser = reason)]
        reason: Option<String>,
    },
}

/// Selection of the threads that a command reads.
#[derive(Default, clap::Args)]
pub(crate) struct Selection {
    /// Only this thread; `last` is the most recent one
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Only threads with a turn that matches this filter; see `turn list --help`
    #[arg(long = "where", value_name = "FILTER", conflicts_with = "thread")]
    pub(crate) filter: Option<String>,
    /// Only threads with a turn submitted within this time, and forks made within it: 7d, 12h, 30m
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "thread")]
    pub(crate) since: Option<Duration>,
    /// Number of threads that are read at the same time [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
}

/// Selection of the threads that a replay reads.
#[derive(Default, clap::Args)]
pub(crate) struct Replayed {
    #[command(flatten)]
    pub(crate) threads: Selection,
    /// Only the threads of this file of `whatif cohort`, each as it was then
    #[arg(long, value_name = "FILE", conflicts_with_all = ["thread", "filter", "since"])]
    pub(crate) cohort: Option<PathBuf>,
}
