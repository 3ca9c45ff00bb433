//! What may be said to `turnfold queue`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// Tells why turns do not run right now: counted by what they wait for, then one by one
    Ls {
        /// At most so many turns
        #[arg(long, default_value_t = 50)]
        limit: u64,
    },
    /// Rings for every thread that can move and that nobody has rung for, as the workers' sweep does
    Rebuild {
        /// Only say how many
        #[arg(long)]
        dry_run: bool,
    },
    /// Lists what is paused
    Pauses,
    /// Has nothing new begun of a strategy or a tenant, or with a model; what is under way is finished
    Pause {
        #[command(flatten)]
        what: Paused,
        /// Why, for whoever wonders
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Lets what was paused go on
    Resume {
        #[command(flatten)]
        what: Paused,
    },
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Paused {
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
