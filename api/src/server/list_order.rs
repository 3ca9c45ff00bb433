//! Orders of lists: by creation, or by a value.

use serde::Deserialize;
use store::{Order, Rank, RankOrder};
use utoipa::ToSchema;

/// Order of a list of turns or threads.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListOrder {
    /// Newest first.
    Newest,
    /// Oldest first.
    Oldest,
    /// Last changed first.
    Updated,
    /// Longest unchanged first.
    UpdatedAsc,
    /// Highest cost first: of a thread, that of all its turns.
    Usd,
    /// Lowest cost first; no known cost counts as zero.
    UsdAsc,
    /// Most tokens first: of a thread, those of all its turns.
    Tokens,
    /// Fewest tokens first.
    TokensAsc,
    /// Longest time first, as [`Rank::Took`] counts it.
    Took,
    /// Shortest time first, as [`Rank::Took`] counts it.
    TookAsc,
}

/// Order in which the store lists rows.
pub(crate) enum StoreOrder<R = Rank> {
    ByCreation(Order),
    ByValue(RankOrder<R>),
}

impl ListOrder {
    pub(crate) fn of_store(self) -> StoreOrder {
        StoreOrder::ByValue(match self {
            ListOrder::Newest => return StoreOrder::ByCreation(Order::NewestFirst),
            ListOrder::Oldest => return StoreOrder::ByCreation(Order::OldestFirst),
            ListOrder::Updated => RankOrder::highest_first(Rank::Updated),
            ListOrder::UpdatedAsc => RankOrder::lowest_first(Rank::Updated),
            ListOrder::Usd => RankOrder::highest_first(Rank::MicroUsd),
            ListOrder::UsdAsc => RankOrder::lowest_first(Rank::MicroUsd),
            ListOrder::Tokens => RankOrder::highest_first(Rank::Tokens),
            ListOrder::TokensAsc => RankOrder::lowest_first(Rank::Tokens),
            ListOrder::Took => RankOrder::highest_first(Rank::Took),
            ListOrder::TookAsc => RankOrder::lowest_first(Rank::Took),
        })
    }
}
