//! States of a thread in its page: those that differ from the one before, up to a number of bytes.

use serde_json::{Value, json};

/// Largest sum of the states in a page, in bytes.
pub(super) const STATES_BYTES: usize = 32 << 20;

/// Each state with the event after which it is new. An entry without a state: those from here on are left out.
pub(super) struct States {
    entries: Vec<Vec<Value>>,
    bytes_left: usize,
}

impl States {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { entries: Vec::new(), bytes_left: max_bytes }
    }

    /// Adds the state after an event, if it is new and there is room for it.
    pub(super) fn add(&mut self, seq: u64, state: Value) {
        let last = self.entries.last().and_then(|entry| entry.get(1));
        if self.is_full() || last == Some(&state) {
            return;
        }
        match self.bytes_left.checked_sub(state.to_string().len()) {
            Some(left) => {
                self.bytes_left = left;
                self.entries.push(vec![json!(seq), state]);
            }
            None => self.end(seq),
        }
    }

    /// Leaves out the states from this event on.
    pub(super) fn end(&mut self, seq: u64) {
        if !self.is_full() {
            self.entries.push(vec![json!(seq)]);
        }
    }

    /// Returns true if the last entry has no state.
    fn is_full(&self) -> bool {
        self.entries.last().is_some_and(|entry| entry.len() == 1)
    }

    pub(super) fn into_entries(self) -> Vec<Vec<Value>> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_beyond_the_bytes_are_left_out() {
        let mut states = States::new(10);
        for (seq, state) in (0..).zip(["aa", "aa", "bb", "cc", "d"]) {
            states.add(seq, json!(state));
        }
        states.end(9);
        assert_eq!(
            states.into_entries(),
            [vec![json!(0), json!("aa")], vec![json!(2), json!("bb")], vec![json!(3)]]
        );
    }

    #[test]
    fn states_after_the_last_event_shown_are_left_out() {
        let mut states = States::new(10);
        states.add(0, json!("aa"));
        states.end(9);
        assert_eq!(states.into_entries(), [vec![json!(0), json!("aa")], vec![json!(9)]]);
    }
}
