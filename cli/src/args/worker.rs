//! Arguments of `turnfold worker`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Worker {
    /// List the workers that run, through the API; one that has not reported for 30 s is marked
    #[command(name = "list", visible_alias = "ls")]
    List,
}
