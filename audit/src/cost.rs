//! What threads took of the world, counted from their logs.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::{Event, Meter, Request};
use uuid::Uuid;

/// What some answers took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Took {
    /// How many answers of models, replies of no use among them.
    pub model_calls: u64,
    /// How many answers of tools.
    pub tool_calls: u64,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// What they cost, in millionths of a US dollar.
    pub micro_usd: u64,
    /// Of that, what had no price then, by the prices of today.
    pub micro_usd_by_todays_prices: u64,
    /// How long the world was at work, in milliseconds.
    pub ms: u64,
    /// How many answers of models came without their tokens.
    pub untold: u64,
    /// How many answers of models have no price, then or today.
    pub unpriced: u64,
}

impl Took {
    /// Adds what others took.
    pub fn add(&mut self, it: &Self) {
        for (sum, more) in [
            (&mut self.model_calls, it.model_calls),
            (&mut self.tool_calls, it.tool_calls),
            (&mut self.input_tokens, it.input_tokens),
            (&mut self.output_tokens, it.output_tokens),
            (&mut self.micro_usd, it.micro_usd),
            (&mut self.micro_usd_by_todays_prices, it.micro_usd_by_todays_prices),
            (&mut self.ms, it.ms),
            (&mut self.untold, it.untold),
            (&mut self.unpriced, it.unpriced),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Which answers are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// The turn that they were asked in.
    pub turn: Uuid,
    /// The node that asked.
    pub node: String,
    /// The model, as `provider/model`; empty where no model was asked.
    pub model: String,
}

/// What the tokens of a model cost today, in millionths of a US dollar, if it has a price.
pub type Price<'a> = &'a dyn Fn(&str, &Meter) -> Option<u64>;

/// What one thread took, event by event. What a fork was copied from took its answers itself, so they are not counted.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    at: Share,
    requests: Vec<Request>,
    shares: BTreeMap<Share, Took>,
}

impl Spending {
    /// Goes on by one event.
    pub fn see(&mut self, event: &Event, price: Price<'_>) {
        match event {
            Event::Heard(it) => self.at.turn = it.turn,
            Event::Supplied(it) => self.at.turn = it.turn,
            Event::Asked(it) => {
                self.at.node.clone_from(&it.node);
                self.requests.clone_from(&it.requests);
            }
            Event::Answered(it) => self.count(it.slot, &it.meter.clone().unwrap_or_default(), price),
            Event::Faltered(it) => {
                if let Some(meter) = &it.meter {
                    self.count(it.slot, meter, price);
                }
            }
            Event::Forked(_) => self.shares.clear(),
            Event::Opened(_)
            | Event::Attempted(_)
            | Event::GaveUp(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_) => (),
        }
    }

    /// What each share took.
    pub fn shares(&self) -> &BTreeMap<Share, Took> {
        &self.shares
    }

    fn count(&mut self, slot: usize, meter: &Meter, price: Price<'_>) {
        let Meter { by: _, input_tokens, output_tokens, micro_usd, ms, form: _ } = meter;
        let mut took = Took {
            input_tokens: *input_tokens,
            output_tokens: *output_tokens,
            micro_usd: micro_usd.unwrap_or_default(),
            ms: *ms,
            ..Took::default()
        };
        let mut share = self.at.clone();
        match self.requests.get(slot) {
            Some(Request::Chat { model, .. }) => {
                took.model_calls = 1;
                took.untold = u64::from(*input_tokens == 0 && *output_tokens == 0);
                match (micro_usd, price(model, meter)) {
                    (Some(_), _) => (),
                    (None, Some(today)) => {
                        (took.micro_usd, took.micro_usd_by_todays_prices) = (today, today);
                    }
                    (None, None) => took.unpriced = 1,
                }
                share.model.clone_from(model);
            }
            Some(Request::CallTool { .. }) => took.tool_calls = 1,
            Some(
                Request::ListTools { .. }
                | Request::ListPrompts { .. }
                | Request::GetPrompt { .. }
                | Request::Describe { .. }
                | Request::Search { .. }
                | Request::Index { .. }
                | Request::Rehearse(_),
            )
            | None => (),
        }
        self.shares.entry(share).or_default().add(&took);
    }
}
