//! Label values that come from tenants, configurations and servers.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Maximum values of a label.
const MAX_VALUES: usize = 100;

/// Label of all further values.
const OTHER: &str = "other";

/// The values of a label: the first 100. All others are counted as `other`.
#[derive(Debug, Default)]
pub(crate) struct Bounded(Mutex<BTreeSet<String>>);

impl Bounded {
    /// Gives these values a place before any other.
    pub(crate) fn reserve<'a>(&self, values: impl IntoIterator<Item = &'a str>) {
        values.into_iter().for_each(|value| drop(self.label(value)));
    }

    /// Returns the label of a value.
    pub(crate) fn label(&self, value: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(value) {
            if known.len() >= MAX_VALUES {
                return OTHER.to_owned();
            }
            known.insert(value.to_owned());
        }
        value.to_owned()
    }
}
