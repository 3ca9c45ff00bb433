//! Usage of models and tools, summed from the logs of threads.

use std::collections::BTreeMap;

use shared::{Event, InputProvided, Request, SUMMARISE_NODE, TurnStarted, Usage, UsageTotal};
use uuid::Uuid;

/// Summed usage of some answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostTotal {
    /// Number of model responses, unusable ones included.
    pub model_calls: u64,
    /// Number of tool results.
    pub tool_calls: u64,
    /// Tokens, cost and time. The cost includes that by today's prices.
    pub usage: UsageTotal,
    /// The part of the cost without a recorded price, computed by today's prices, in millionths of a US dollar.
    pub micro_usd_by_todays_prices: u64,
}

impl CostTotal {
    /// Adds the usage of other answers.
    pub fn add(&mut self, other: &Self) {
        self.usage.add_total(&other.usage);
        for (sum, more) in [
            (&mut self.model_calls, other.model_calls),
            (&mut self.tool_calls, other.tool_calls),
            (&mut self.micro_usd_by_todays_prices, other.micro_usd_by_todays_prices),
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
    /// Name of the prompt; empty if it has none, no model was asked, or an earlier version did not record that of a built-in one.
    pub prompt: String,
    /// The tool as `server.tool`; empty if no tool was called.
    pub tool: String,
    /// Use of the answers.
    pub purpose: Purpose,
    /// Day of the answers in UTC, in days since the Unix epoch.
    pub day: i64,
}

/// Use of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The node used it.
    #[default]
    Answer,
    /// It did not fit or broke off, and the request was repeated or given up.
    Unusable,
    /// It summarises a conversation that does not fit into the model's context window.
    Summary,
}

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Today's cost of a model's tokens in millionths of a US dollar, if the model has a price.
pub type Price<'a> = &'a dyn Fn(&str, &Usage) -> Option<u64>;

/// Usage of one thread, summed event by event. Answers that a fork copied are counted in the original thread only.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    at: Share,
    requests: Vec<Request>,
    shares: BTreeMap<Share, CostTotal>,
}

impl Spending {
    /// Reads the next event, which was recorded at this time, in microseconds since the Unix epoch.
    pub fn apply(&mut self, event: &Event, at: i64, price: Price<'_>) {
        if let Event::TurnStarted(TurnStarted { turn, .. })
        | Event::InputProvided(InputProvided { turn, .. }) = event
        {
            self.at.turn = *turn;
        } else if let Event::Asked(asked) = event {
            self.at.node.clone_from(&asked.node);
            self.requests.clone_from(&asked.requests);
        } else if let Event::Forked(_) = event {
            self.shares.clear();
        } else if let Some((slot, usage)) = event.spent() {
            self.at.day = at.div_euclid(MICROS_PER_DAY);
            self.at.purpose = if let Event::AttemptFailed(_) = event {
                Purpose::Unusable
            } else if self.at.node == SUMMARISE_NODE {
                Purpose::Summary
            } else {
                Purpose::Answer
            };
            self.count(slot, &usage, price);
        }
    }

    /// Forgets what was spent before the next event.
    pub(crate) fn forget(&mut self) {
        self.shares.clear();
    }

    /// Usage by group.
    pub fn shares(&self) -> &BTreeMap<Share, CostTotal> {
        &self.shares
    }

    fn count(&mut self, slot: usize, meter: &Usage, price: Price<'_>) {
        let mut total = CostTotal::default();
        let mut share = self.at.clone();
        match self.requests.get(slot) {
            Some(Request::Chat { model, prompt, .. }) => {
                total.model_calls = 1;
                let today = meter.micro_usd.is_none().then(|| price(model, meter)).flatten();
                total.micro_usd_by_todays_prices = today.unwrap_or_default();
                total.usage.add_of_model(&Usage { micro_usd: meter.micro_usd.or(today), ..meter.clone() });
                share.model.clone_from(model);
                share.prompt = prompt.clone().unwrap_or_default();
            }
            Some(Request::CallTool { server, call }) => {
                total.tool_calls = 1;
                total.usage.add(meter);
                share.tool = format!("{server}.{}", call.name);
            }
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
            | None => total.usage.add(meter),
        }
        self.shares.entry(share).or_default().add(&total);
    }
}
