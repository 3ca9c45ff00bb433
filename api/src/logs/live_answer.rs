//! An answer while a model writes it, assembled from notifications.

use std::collections::VecDeque;

use queue::Delta;

/// Maximum number of past attempts whose late pieces are recognized.
const PAST_ATTEMPTS: usize = 8;

/// The answer that a model is writing, as far as it has arrived. Its length is limited by the worker.
#[derive(Debug, Default)]
pub(crate) struct LiveAnswer {
    attempt: Option<u64>,
    text: String,
    /// Attempts that are over. A worker that lost its lease may still send pieces of one.
    past: VecDeque<u64>,
}

/// Effect of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing new: the piece is late, or pieces before it are missing.
    None,
    /// The answer grew. It had this many bytes before.
    Grew(usize),
    /// Another attempt began. Its text replaces that of the attempt before.
    Restarted,
}

impl LiveAnswer {
    /// Adds a piece.
    pub(crate) fn add(&mut self, delta: &Delta) -> Change {
        if self.past.contains(&delta.attempt) {
            return Change::None;
        }
        if self.attempt != Some(delta.attempt) {
            // The pieces before this one are missing, until one repeats them.
            if delta.offset != 0 {
                return Change::None;
            }
            let is_first = self.text.is_empty();
            self.end();
            self.attempt = Some(delta.attempt);
            self.text.clone_from(&delta.text);
            return if is_first { Change::Grew(0) } else { Change::Restarted };
        }
        let known = self.text.len();
        let new = known.checked_sub(delta.offset).and_then(|from| delta.text.get(from..));
        match new {
            Some(new) if !new.is_empty() => {
                self.text.push_str(new);
                Change::Grew(known)
            }
            Some(_) | None => Change::None,
        }
    }

    /// Returns the text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Ends the attempt: late pieces of it are ignored, and the text is empty again.
    pub(crate) fn end(&mut self) {
        self.text.clear();
        let Some(attempt) = self.attempt.take() else { return };
        self.past.push_back(attempt);
        if PAST_ATTEMPTS < self.past.len() {
            self.past.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn piece(attempt: u64, offset: usize, text: &str) -> Delta {
        Delta {
            turn: Uuid::nil(),
            node: "respond".to_owned(),
            seq: 3,
            attempt,
            offset,
            text: text.to_owned(),
        }
    }

    #[test]
    fn pieces_add_up_and_what_is_known_is_not_added_again() {
        let mut answer = LiveAnswer::default();
        assert_eq!(answer.add(&piece(1, 0, "Grü")), Change::Grew(0));
        assert_eq!(answer.add(&piece(1, 4, "ß ")), Change::Grew(4));
        assert_eq!(answer.add(&piece(1, 0, "Grüß ")), Change::None);
        assert_eq!(answer.add(&piece(1, 0, "Grüß Gott")), Change::Grew(7));
        assert_eq!(answer.text(), "Grüß Gott");
    }

    #[test]
    fn a_listener_that_missed_a_piece_waits_until_the_text_is_repeated() {
        let mut answer = LiveAnswer::default();
        assert_eq!(answer.add(&piece(1, 4, "late")), Change::None);
        assert_eq!(answer.add(&piece(1, 0, "one late and")), Change::Grew(0));
        assert_eq!(answer.add(&piece(1, 20, "far")), Change::None);
        assert_eq!(answer.text(), "one late and");
        assert_eq!(answer.add(&piece(1, 0, "one late and more of it far")), Change::Grew(12));
    }

    #[test]
    fn another_attempt_begins_again_and_the_first_is_not_heard_any_more() {
        let mut answer = LiveAnswer::default();
        answer.add(&piece(1, 0, "Hello wor"));
        assert_eq!(answer.add(&piece(2, 3, "th")), Change::None, "its beginning is missing");
        assert_eq!(answer.add(&piece(2, 0, "Hi")), Change::Restarted);
        assert_eq!(answer.add(&piece(1, 0, "Hello world, it is late")), Change::None);
        assert_eq!(answer.add(&piece(2, 2, " there")), Change::Grew(2));
        assert_eq!(answer.text(), "Hi there");
        answer.end();
        assert_eq!(answer.add(&piece(2, 0, "Hi there, and more")), Change::None);
        assert_eq!(answer.add(&piece(3, 0, "Well")), Change::Grew(0), "nothing was shown of the one before");
    }
}
