//! Arguments of `turnfold config`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Config {
    /// Print the configuration as it is in effect; secrets appear only as references
    Show {
        /// Add the origin of each value: file, variable, flag or default
        #[arg(long)]
        origin: bool,
    },
    /// Print the reference of all keys with their defaults, as a configuration file
    Default,
}
