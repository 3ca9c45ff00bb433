//! Arguments of `turnfold queue`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// Show why turns are not running: counts by reason, then each turn
    #[command(name = "list", visible_alias = "ls")]
    List {
        /// Maximum number of turns
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
    },
    /// Start no more work for a strategy, model or tenant; running work finishes
    Pause {
        #[command(flatten)]
        target: PauseTarget,
        /// Reason, shown in `queue pauses`
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Undo a pause
    Resume {
        #[command(flatten)]
        target: PauseTarget,
    },
    /// List active pauses
    Pauses,
    /// Enqueue every thread that has work but no job; workers also do this by themselves from time to time
    Rebuild {
        /// Count the threads without enqueuing them
        #[arg(long)]
        dry_run: bool,
    },
}

/// Target of a pause.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PauseTarget {
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
