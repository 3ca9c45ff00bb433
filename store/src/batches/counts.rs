//! The number of a batch's items in each state. The counts are stored with the batch and updated with its items.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::ItemState;

/// Number of a batch's items in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<ItemState, u64>);

impl Counts {
    /// Returns the number of items in this state.
    pub fn of(&self, state: ItemState) -> u64 {
        self.0.get(&state).copied().unwrap_or_default()
    }

    /// Returns the number of items that have not ended.
    pub fn open(&self) -> u64 {
        self.0.iter().filter(|(state, _)| !state.is_over()).map(|(_, count)| count).sum()
    }

    /// Returns the number of items that ended with a reply.
    pub fn good(&self) -> u64 {
        self.0.iter().filter(|(state, _)| state.is_good()).map(|(_, count)| count).sum()
    }

    /// Returns the number of items that failed, without the cancelled ones.
    pub fn failed(&self) -> u64 {
        self.of(ItemState::Failed) + self.of(ItemState::Invalid) + self.of(ItemState::Expired)
    }

    /// Adds new items in this state.
    pub(crate) fn add(&mut self, state: ItemState, items: u64) {
        *self.0.entry(state).or_default() += items;
    }

    /// Moves a number of items from one state to another.
    pub(crate) fn shift(&mut self, from: ItemState, to: ItemState, items: u64) {
        if let Some(count) = self.0.get_mut(&from) {
            *count = count.saturating_sub(items);
        }
        self.add(to, items);
    }
}

/// Formats the counts as they are stored.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Counts {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self)
    }
}
