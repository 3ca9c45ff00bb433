//! How many items of a batch stand where: kept in its row, and changed with them.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::ItemState;

/// How many items of a batch stand where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<ItemState, u64>);

impl Counts {
    /// How many stand so.
    pub fn of(&self, state: ItemState) -> u64 {
        self.0.get(&state).copied().unwrap_or_default()
    }

    /// How many have not ended.
    pub fn open(&self) -> u64 {
        self.0.iter().filter(|(state, _)| !state.is_over()).map(|(_, count)| count).sum()
    }

    /// How many ended well.
    pub fn good(&self) -> u64 {
        self.0.iter().filter(|(state, _)| state.is_good()).map(|(_, count)| count).sum()
    }

    /// How many ended badly, and were not called off.
    pub fn failed(&self) -> u64 {
        self.of(ItemState::Failed) + self.of(ItemState::Bad) + self.of(ItemState::Expired)
    }

    /// So many more stand so.
    pub(super) fn add(&mut self, state: ItemState, items: u64) {
        *self.0.entry(state).or_default() += items;
    }

    /// So many that stood the one way stand the other.
    pub(super) fn shift(&mut self, from: ItemState, to: ItemState, items: u64) {
        if let Some(count) = self.0.get_mut(&from) {
            *count = count.saturating_sub(items);
        }
        self.add(to, items);
    }
}

/// As the row has it.
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
