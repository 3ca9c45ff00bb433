//! Counts requests for the metrics.

use std::time::Duration;

use metrics::{ModelRequest, RequestKind, metrics};
use shared::{FaultKind, Oversize, Request, Usage};

use world::Outcome;

/// Counts a request that ended. A request that the log answers, and one of the strategy `probe`, are not counted.
pub(crate) fn count(tenant: &str, request: &Request, duration: Duration, outcome: &Outcome) {
    let kind = match request {
        Request::Chat { model, .. } => {
            count_model(tenant, model, duration, outcome);
            RequestKind::Model
        }
        Request::ListTools { server }
        | Request::CallTool { server, .. }
        | Request::ListPrompts { server }
        | Request::GetPrompt { server, .. }
        | Request::Describe { server } => {
            metrics().requests.tool(server, duration);
            RequestKind::Tool
        }
        Request::Search { .. } | Request::Index { .. } => RequestKind::Other,
        Request::ReadMore { .. } | Request::Simulate(_) => return,
    };
    if let Err(fault) = outcome {
        metrics().requests.failed(kind, cause(&fault.kind));
    }
}

fn count_model(tenant: &str, model: &str, duration: Duration, outcome: &Outcome) {
    let usage = match outcome {
        Ok((_, usage)) => usage.as_ref(),
        Err(fault) => fault.usage.as_deref(),
    };
    let Usage { input_tokens, output_tokens, micro_usd, .. } = usage.cloned().unwrap_or_default();
    let micro_usd = micro_usd.unwrap_or_default();
    let request = ModelRequest { model, tenant, duration, input_tokens, output_tokens, micro_usd };
    metrics().requests.model(&request, &metrics().turns);
}

/// Returns the label of an error.
fn cause(kind: &FaultKind) -> &'static str {
    match kind {
        FaultKind::Transient { .. } => "transient",
        FaultKind::Unavailable { .. } => "unavailable",
        FaultKind::Permanent => "permanent",
        FaultKind::ContextExceeded { .. } => "context_exceeded",
        FaultKind::Oversized(Oversize::Attachments { .. } | Oversize::Status) => "too_large",
        FaultKind::Oversized(Oversize::Unknown) => "permanent",
        FaultKind::InDoubt { .. } => "in_doubt",
    }
}
