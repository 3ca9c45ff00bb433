//! Results of ended turns, kept between lists.
//!
//! A list of a thousand turns folds as many logs, which takes 0.1 s. The result of a turn that is over does not change, so the next
//! list reads one hash for each. The cache may be dropped at any time. It is never wrong: the hash of the event that ended the turn
//! covers the log up to there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use store::TurnId;

use super::folded::EndedTurn;

/// Maximum size of each of both parts in bytes, approximately.
const MAX_BYTES: usize = 16 << 20;

/// Size of a result without its messages in bytes, approximately.
const RESULT_BYTES: usize = 512;

/// Kept results, by turn.
#[derive(Default)]
pub(crate) struct EndCache(Mutex<Kept>);

/// The part in use, and the one before it, which is dropped when the first is full.
#[derive(Default)]
struct Kept {
    recent: HashMap<TurnId, Arc<KeptEnd>>,
    bytes: usize,
    older: HashMap<TurnId, Arc<KeptEnd>>,
}

/// An ended turn.
pub(crate) struct KeptEnd {
    /// Strategy of its thread.
    pub(crate) strategy: String,
    /// Result of the turn.
    pub(crate) ended: EndedTurn,
    /// Hash of the event that ended it.
    pub(crate) hash: Vec<u8>,
}

impl KeptEnd {
    fn bytes(&self) -> usize {
        let messages = self.ended.result.messages.iter().map(shared::Message::retained_bytes).sum::<usize>();
        let reply = self.ended.result.reply.as_ref().map_or(0, String::len);
        RESULT_BYTES + messages + reply
    }
}

impl EndCache {
    /// Returns the result of a turn that ended with the event of this hash.
    pub(crate) fn get(&self, turn: TurnId, hash: &[u8]) -> Option<Arc<KeptEnd>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.recent.get(&turn) {
            return (found.hash == hash).then(|| Arc::clone(found));
        }
        let found = kept.older.remove(&turn).filter(|found| found.hash == hash)?;
        kept.add(turn, Arc::clone(&found));
        Some(found)
    }

    /// Keeps the result of a turn.
    pub(crate) fn keep(&self, turn: TurnId, end: KeptEnd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(turn, Arc::new(end));
    }
}

impl Kept {
    fn add(&mut self, turn: TurnId, end: Arc<KeptEnd>) {
        self.bytes += end.bytes();
        if let Some(replaced) = self.recent.insert(turn, end) {
            self.bytes -= replaced.bytes();
        }
        if MAX_BYTES < self.bytes {
            (self.older, self.bytes) = (std::mem::take(&mut self.recent), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use shared::Message;
    use uuid::Uuid;

    use super::*;

    fn end(hash: u8, text: usize) -> KeptEnd {
        let result =
            threads::TurnResult { messages: vec![Message::user("x".repeat(text))], ..Default::default() };
        KeptEnd {
            strategy: "probe".to_owned(),
            ended: EndedTurn { result, interrupt: None },
            hash: vec![hash; 32],
        }
    }

    #[test]
    fn a_result_is_kept_until_its_log_differs_or_others_need_the_room() {
        let (cache, [first, second]) = (EndCache::default(), [1, 2].map(Uuid::from_u128));
        cache.keep(first, end(1, 10));
        assert!(cache.get(first, &[1; 32]).is_some() && cache.get(second, &[1; 32]).is_none());
        assert!(cache.get(first, &[2; 32]).is_none(), "another log");
        for nth in 0..3 {
            cache.keep(Uuid::from_u128(10 + nth), end(1, MAX_BYTES / 2));
            assert!(cache.get(first, &[1; 32]).is_some(), "used again");
        }
        for nth in 0..6 {
            cache.keep(Uuid::from_u128(20 + nth), end(1, MAX_BYTES / 2));
        }
        assert!(cache.get(first, &[1; 32]).is_none());
        let kept = cache.0.lock().unwrap();
        assert!(kept.bytes <= MAX_BYTES && kept.recent.len() + kept.older.len() < 6);
    }
}
