//! Requests that a node issues, or the engine for it.

use crate::{
    context::read_more,
    event::Asked,
    progress::{
        Progress,
        phase::{Phase, Place, SUMMARISE_NODE, is_node},
        slot::{ATTEMPTS_MAX, ReadAttempts, Slot, SlotState},
    },
    request::{Request, Response},
    strategy::Strategy,
};

impl<S: Strategy> Progress<S> {
    pub(super) fn fold_asked(&mut self, Asked { node, requests }: &Asked) -> bool {
        let Phase::Ready(place) = self.at else { return false };
        let place = match requests.as_slice() {
            _ if is_node(&place, node) => Place::Node(place),
            [Request::Chat { .. }] if node == SUMMARISE_NODE => Place::Summarise(place),
            _ => return false,
        };
        self.abandoned_tasks.clear();
        for request in requests {
            match request {
                // The limits of a strategy are for its own calls. Those of the engine count against budgets.
                Request::Chat { tool_result_tokens, .. } if matches!(place, Place::Node(_)) => {
                    self.thread.turn.model_calls += 1;
                    self.window.shown_tokens = tool_result_tokens.or(self.window.shown_tokens);
                }
                Request::Chat { .. } => (),
                Request::CallTool { .. } | Request::ReadMore { .. } => self.thread.turn.tool_calls += 1,
                Request::ListTools { .. }
                | Request::ListPrompts { .. }
                | Request::GetPrompt { .. }
                | Request::Describe { .. }
                | Request::Search { .. }
                | Request::Index { .. }
                | Request::Simulate(_) => (),
            }
        }
        let slot = |(nth, request): (usize, &Request)| Slot {
            request: request.clone(),
            failures: 0,
            attempts: 0,
            attempts_max: ATTEMPTS_MAX,
            error: None,
            rounds: 0,
            input_responses: None,
            in_doubt: false,
            pin_changed: false,
            reading: ReadAttempts::default(),
            was_unmade: false,
            attempted_seq: None,
            task: None,
            images: Vec::new(),
            state: match (request, self.window.kept(nth)) {
                (_, Some(answer)) if matches!(place, Place::Node(_)) => SlotState::Answered(answer.clone()),
                (Request::ReadMore { call, tokens }, _) => {
                    let output = read_more(&self.thread.messages, call, *tokens);
                    SlotState::Answered(Response::Output(output))
                }
                _ => SlotState::Open,
            },
        };
        let slots = requests.iter().enumerate().map(slot).collect();
        self.at = Phase::AwaitingResponses(place, self.seq, slots);
        true
    }
}
