//! Arguments of `turnfold schema`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Schema {
    /// Read logs that all released versions wrote; exit with 1 if an event or a field is lost or read differently
    Check,
}
