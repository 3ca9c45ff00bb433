//! Requests to models, MCP servers and other parts of the world.

use std::time::Duration;

use prometheus_client::metrics::{family::Family, histogram::Histogram};

use crate::{
    bounded::Bounded,
    catalog::Catalog,
    labels::{CounterFamily, HistogramFamily, Labels},
    turns::{Turns, UsdCounter},
};

/// Upper bounds of the durations of model requests, in seconds.
const MODEL_SECONDS: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Upper bounds of the durations of tool calls, in seconds.
const TOOL_SECONDS: [f64; 11] = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// To a model.
    Model,
    /// To an MCP server.
    Tool,
    /// To anything else: commands, the index.
    Other,
}

impl RequestKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Other => "other",
        }
    }
}

/// An ended request to a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelRequest<'a> {
    /// Model, as `provider/model`.
    pub model: &'a str,
    /// Tenant of the thread.
    pub tenant: &'a str,
    /// Duration of the request.
    pub duration: Duration,
    /// Tokens read, as reported.
    pub input_tokens: u64,
    /// Tokens written, as reported.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar, as far as a price is known.
    pub micro_usd: u64,
}

/// Requests that ended.
#[derive(Debug)]
pub struct Requests {
    models: Bounded,
    servers: Bounded,
    model_duration: HistogramFamily<1>,
    tool_duration: HistogramFamily<1>,
    tokens: CounterFamily<2>,
    cost: Family<Labels<1>, UsdCounter>,
    errors: CounterFamily<2>,
}

impl Requests {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self {
            models: Bounded::default(),
            servers: Bounded::default(),
            model_duration: of.histogram(
                "model_request_duration_seconds",
                &["model"],
                "Duration of requests to models, also of those that failed.",
                HistogramFamily::new_with_constructor(|| Histogram::new(MODEL_SECONDS)),
            ),
            tokens: of.counter(
                "model_tokens_total",
                &["model", "direction"],
                "Tokens that models read (`input`) and wrote (`output`), as they reported them.",
                Family::default(),
            ),
            cost: of.counter(
                "model_cost_usd_total",
                &["model"],
                "Cost of requests to models in US dollars, by the configured prices.",
                Family::default(),
            ),
            tool_duration: of.histogram(
                "tool_call_duration_seconds",
                &["server"],
                "Duration of requests to MCP servers, also of those that failed.",
                HistogramFamily::new_with_constructor(|| Histogram::new(TOOL_SECONDS)),
            ),
            errors: of.counter(
                "request_errors_total",
                &["kind", "cause"],
                "Requests to a `model`, a `tool` or an `other` service that failed, by the kind of the error.",
                Family::default(),
            ),
        }
    }

    /// Counts a request to a model, and its usage for the tenant.
    pub fn model(&self, request: &ModelRequest<'_>, turns: &Turns) {
        let ModelRequest { model, tenant, duration, input_tokens, output_tokens, micro_usd } = *request;
        let model = self.models.label(model);
        let of_model: Labels<1> = [("model", model.clone().into())];
        self.model_duration.get_or_create(&of_model).observe(duration.as_secs_f64());
        for (direction, tokens) in [("input", input_tokens), ("output", output_tokens)] {
            if 0 < tokens {
                let labels = [("model", model.clone().into()), ("direction", direction.into())];
                self.tokens.get_or_create(&labels).inc_by(tokens);
                turns.add_tokens(tenant, direction, tokens);
            }
        }
        if 0 < micro_usd {
            self.cost.get_or_create(&of_model).inc_by(usd(micro_usd));
            turns.add_cost(tenant, usd(micro_usd));
        }
    }

    /// Counts a request to an MCP server.
    pub fn tool(&self, server: &str, duration: Duration) {
        let labels = [("server", self.servers.label(server).into())];
        self.tool_duration.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    /// Counts a request that failed.
    pub fn failed(&self, kind: RequestKind, cause: &'static str) {
        self.errors.get_or_create(&[("kind", kind.as_str().into()), ("cause", cause.into())]).inc();
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
fn usd(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}
