//! Arguments of `turnfold index`.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Index {
    /// Ask every server for its tools, and update the index; this is a turn of the strategy index_builder
    Build,
    /// Compare the index with the configured servers
    Status,
    /// Rank the servers by how well they match a text
    Search {
        /// Text to match
        query: String,
        /// Maximum number of servers
        #[arg(long, value_name = "N", default_value_t = 5)]
        limit: usize,
    },
}
