//! The requests that wait for an answer on one connection, so that an answer without an id finds its request.
//!
//! ## Why it may wait
//!
//! A server that cannot read a request answers with `id: null`. If it is the only request in flight, the answer is
//! its. Of several, all that were sent before may be meant; the answer waits until only as many are left as there
//! are such answers.

use std::collections::BTreeMap;

use rmcp::model::{RequestId, ServerJsonRpcMessage};

use super::{Answer, Payload};

/// Maximum answers without an id that wait for their request.
const MAX_UNCLAIMED: usize = 64;

/// The requests in flight.
#[derive(Default)]
pub(in crate::mcp) struct Waiting {
    server: String,
    /// By the order in which they were sent.
    requests: BTreeMap<u64, RequestId>,
    /// Requests that are answered when they end, and refused with their id.
    subscriptions: BTreeMap<u64, RequestId>,
    sent: u64,
    /// Answers without an id, with the number of requests that were sent before.
    unclaimed: Vec<(u64, Payload)>,
}

impl Waiting {
    pub(in crate::mcp) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), ..Self::default() }
    }

    /// Adds a request that is about to be sent.
    pub(in crate::mcp) fn add(&mut self, id: RequestId, is_subscription: bool) {
        let to = if is_subscription { &mut self.subscriptions } else { &mut self.requests };
        to.insert(self.sent, id);
        self.sent += 1;
    }

    /// Removes a request whose answer is no longer needed, and returns the answers whose requests this settles.
    pub(in crate::mcp) fn remove(&mut self, id: &RequestId) -> Vec<ServerJsonRpcMessage> {
        self.take(id);
        self.settle()
    }

    /// Takes an answer, and returns the messages for rmcp. An answer to an unknown request has none.
    pub(in crate::mcp) fn answer(&mut self, answer: Answer) -> Vec<ServerJsonRpcMessage> {
        let Some(id) = answer.id else {
            if self.unclaimed.len() < MAX_UNCLAIMED {
                self.unclaimed.push((self.sent, answer.payload));
            }
            return self.settle();
        };
        if !self.take(&id) {
            return Vec::new();
        }
        let mut messages = vec![answer.payload.into_message(id, &self.server)];
        messages.extend(self.settle());
        messages
    }

    /// Removes a request, and returns true if it was there.
    fn take(&mut self, id: &RequestId) -> bool {
        let before = self.requests.len() + self.subscriptions.len();
        self.requests.retain(|_, known| known != id);
        self.subscriptions.retain(|_, known| known != id);
        self.requests.len() + self.subscriptions.len() < before
    }

    fn settle(&mut self) -> Vec<ServerJsonRpcMessage> {
        let Some(last) = self.unclaimed.iter().map(|(sent, _)| *sent).max() else { return Vec::new() };
        let candidates: Vec<u64> = self.requests.range(..last).map(|(order, _)| *order).collect();
        if self.unclaimed.len() < candidates.len() {
            return Vec::new();
        }
        let unclaimed = std::mem::take(&mut self.unclaimed).into_iter();
        let claimed = candidates.into_iter().filter_map(|order| self.requests.remove(&order));
        claimed.zip(unclaimed).map(|(id, (_, payload))| payload.into_message(id, &self.server)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mcp::wire::{Inbound, Line, decode};

    fn waiting(ids: impl IntoIterator<Item = i64>) -> Waiting {
        let mut waiting = Waiting::new("desk");
        ids.into_iter().for_each(|id| waiting.add(RequestId::Number(id), false));
        waiting
    }

    fn answer(waiting: &mut Waiting, message: &Value) -> Vec<Value> {
        let mut decoded = decode(&Line::Whole(message.to_string().into_bytes()));
        let Some(Inbound::Answer(answer)) = decoded.pop() else { panic!("{message} is an answer") };
        waiting.answer(answer).iter().map(|reply| json!(reply)["id"].clone()).collect()
    }

    fn refusal() -> Value {
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "parse error" } })
    }

    fn result(id: i64) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "result": {} })
    }

    #[test]
    fn a_refusal_without_an_id_is_the_only_requests() {
        assert_eq!(answer(&mut waiting([7]), &refusal()), [7]);
        assert_eq!(answer(&mut waiting([]), &refusal()), Vec::<Value>::new());
    }

    #[test]
    fn of_several_it_is_the_one_that_is_left() {
        let mut waiting = waiting([1, 2, 3]);
        assert_eq!(answer(&mut waiting, &refusal()), Vec::<Value>::new());
        waiting.add(RequestId::Number(4), false);
        waiting.add(RequestId::Number(5), true);
        assert_eq!(answer(&mut waiting, &result(3)), [3]);
        assert_eq!(answer(&mut waiting, &result(1)), [1, 2], "the fourth was sent later");
        assert_eq!(answer(&mut waiting, &result(4)), [4]);
    }

    #[test]
    fn as_many_refusals_as_requests_settle_all() {
        let mut waiting = waiting([1, 2]);
        assert_eq!(answer(&mut waiting, &refusal()), Vec::<Value>::new());
        assert_eq!(answer(&mut waiting, &refusal()), [1, 2]);
    }

    #[test]
    fn a_cancelled_request_claims_nothing_and_its_answer_is_dropped() {
        let mut waiting = waiting([1, 2]);
        answer(&mut waiting, &refusal());
        assert_eq!(waiting.remove(&RequestId::Number(1)).len(), 1, "the other is meant");
        assert_eq!(answer(&mut waiting, &result(1)), Vec::<Value>::new());
    }

    #[test]
    fn unclaimed_answers_are_bounded() {
        let mut waiting = waiting(0..1_000);
        (0..100_000).for_each(|_| drop(answer(&mut waiting, &refusal())));
        assert_eq!(waiting.unclaimed.len(), MAX_UNCLAIMED);
    }
}
