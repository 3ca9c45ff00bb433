//! Usage of models and tools, summed from the logs of threads.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::{Event, Request, Usage};
use uuid::Uuid;

/// Summed usage of some answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Took {
    /// Number of model responses, unusable ones included.
    pub model_calls: u64,
    /// Number of tool results.
    pub tool_calls: u64,
    /// Tokens read by models.
    pub input_tokens: u64,
    /// Tokens written by models.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar.
    pub micro_usd: u64,
    /// The part of the cost without a recorded price, computed by today's prices.
    pub micro_usd_by_todays_prices: u64,
    /// Total time of the calls in milliseconds.
    pub ms: u64,
    /// Number of model responses without token counts.
    pub responses_without_usage: u64,
    /// Number of model responses without a price, recorded or today.
    pub responses_without_price: u64,
}

impl Took {
    /// Adds the usage of other answers.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.model_calls, other.model_calls),
            (&mut self.tool_calls, other.tool_calls),
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.micro_usd, other.micro_usd),
            (&mut self.micro_usd_by_todays_prices, other.micro_usd_by_todays_prices),
            (&mut self.ms, other.ms),
            (&mut self.responses_without_usage, other.responses_without_usage),
            (&mut self.responses_without_price, other.responses_without_price),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The group of answers that are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Turn of the requests.
    pub turn: Uuid,
    /// Node that made the requests.
    pub node: String,
    /// The model as `provider/model`; empty if no model was asked.
    pub model: String,
    /// Hash of the configured prompt; empty if the prompt was the node's own or no model was asked.
    pub prompt: String,
}

/// Today's cost of a model's tokens in millionths of a US dollar, if the model has a price.
pub type Price<'a> = &'a dyn Fn(&str, &Usage) -> Option<u64>;

/// Usage of one thread, summed event by event. Answers that a fork copied are counted in the original thread only.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    at: Share,
    requests: Vec<Request>,
    shares: BTreeMap<Share, Took>,
}

impl Spending {
    /// Reads the next event.
    pub fn see(&mut self, event: &Event, price: Price<'_>) {
        match event {
            Event::TurnStarted(started) => self.at.turn = started.turn,
            Event::InputProvided(provided) => self.at.turn = provided.turn,
            Event::Asked(asked) => {
                self.at.node.clone_from(&asked.node);
                self.requests.clone_from(&asked.requests);
            }
            Event::Answered(answered) => {
                self.count(answered.slot, &answered.usage.clone().unwrap_or_default(), price)
            }
            Event::AttemptFailed(failed) => {
                if let Some(meter) = &failed.usage {
                    self.count(failed.slot, meter, price);
                }
            }
            Event::Forked(_) => self.shares.clear(),
            Event::Opened(_)
            | Event::Attempted(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::Summarised(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_) => (),
        }
    }

    /// Usage by group.
    pub fn shares(&self) -> &BTreeMap<Share, Took> {
        &self.shares
    }

    fn count(&mut self, slot: usize, meter: &Usage, price: Price<'_>) {
        let Usage { model: _, input_tokens, output_tokens, micro_usd, duration_ms: ms, response_format: _ } =
            meter;
        let mut took = Took {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            micro_usd: micro_usd.unwrap_or_default(),
            ms: *ms,
            ..Took::default()
        };
        let mut share = self.at.clone();
        match self.requests.get(slot) {
            Some(Request::Chat { model, prompt, .. }) => {
                took.model_calls = 1;
                took.responses_without_usage = u64::from(*input_tokens == 0 && *output_tokens == 0);
                match (micro_usd, price(model, meter)) {
                    (Some(_), _) => (),
                    (None, Some(today)) => {
                        (took.micro_usd, took.micro_usd_by_todays_prices) = (today, today);
                    }
                    (None, None) => took.responses_without_price = 1,
                }
                share.model.clone_from(model);
                share.prompt = prompt.clone().unwrap_or_default();
            }
            Some(Request::CallTool { .. }) => took.tool_calls = 1,
            Some(
                Request::ListTools { .. }
                | Request::ReadMore { .. }
                | Request::ListPrompts { .. }
                | Request::GetPrompt { .. }
                | Request::Describe { .. }
                | Request::Search { .. }
                | Request::Index { .. }
                | Request::Simulate(_),
            )
            | None => (),
        }
        self.shares.entry(share).or_default().add(&took);
    }
}
