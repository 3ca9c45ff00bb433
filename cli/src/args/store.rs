//! What may be said to `turnfold store`.

use std::time::Duration;

use clap::Subcommand;

use super::age;

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
    /// Deletes what is old: threads at rest, batches that are over, and files that no batch uses
    ///
    /// Threads go that are idle or failed and were not touched for so long, with their turns and events; none that is held.
    ///
    /// Batches go that have been over for so long (completed, failed, expired or cancelled), with their lines, results, and files
    /// of output and errors, and with what webhooks were told of them; none that is open, and none with a line whose thread is
    /// held. With them goes what was paid for: a line that is sent again is run again. Until then results can be read,
    /// also of lines whose threads are gone.
    ///
    /// Files go that are that old and that no batch uses: those of batches that are gone, and those of which none was made.
    ///
    /// With --strategy, only threads go: neither batches nor files.
    Prune {
        /// For so long, as in 90d, 12h or 30m [default: as retention.after_days says]
        #[arg(long, value_name = "AGE", value_parser = age)]
        older_than: Option<Duration>,
        /// Only threads under this strategy, and no batch or file
        #[arg(long)]
        strategy: Option<String>,
        /// Only say how many
        #[arg(long)]
        dry_run: bool,
        /// Do not ask whether that is meant
        #[arg(short, long)]
        yes: bool,
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
