//! Order of a list of turns or threads.

use clap::ValueEnum;

/// Order of a list of turns or threads, as the API names it.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ListOrder {
    /// Newest first
    Newest,
    /// Oldest first
    Oldest,
    /// Last changed first
    Updated,
    /// Longest unchanged first
    UpdatedAsc,
    /// Dearest first; a thread with all its turns
    Usd,
    /// Cheapest first; no known cost counts as zero
    UsdAsc,
    /// Most tokens first; a thread with all its turns
    Tokens,
    /// Fewest tokens first
    TokensAsc,
    /// Longest first: a turn from its submission to its end, or until now; a thread from its first event to the last change
    Took,
    /// Shortest first
    TookAsc,
}
