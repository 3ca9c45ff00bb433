//! Rate limits of models, providers and MCP servers, as configured by the operator and shared by all workers.

use std::collections::BTreeMap;

use queue::rate_limits::{RateLimit, Subject};
use shared::Request;

use super::http_commands::COMMANDS;

/// Maximum bytes of a model's or server's name whose availability is recorded. Tenants may name any model.
const MAX_NAME_BYTES: usize = 256;

/// Returns the model or server to which a request goes. The HTTP commands are many servers and therefore none.
pub(super) fn subject(request: &Request) -> Option<Subject> {
    let subject = match request {
        Request::Chat { model, .. } => Subject::Model(model.clone()),
        Request::ListTools { server }
        | Request::CallTool { server, .. }
        | Request::ListPrompts { server }
        | Request::GetPrompt { server, .. }
        | Request::Describe { server } => Subject::Server(server.clone()),
        Request::ReadMore { .. } | Request::Search { .. } | Request::Index { .. } | Request::Simulate(_) => {
            return None;
        }
    };
    let (Subject::Model(name) | Subject::Provider(name) | Subject::Server(name)) = &subject;
    (name != COMMANDS && name.len() <= MAX_NAME_BYTES).then_some(subject)
}

/// Configured rate limits. Anything not named is unlimited.
#[derive(Clone, Debug, Default)]
pub struct RateLimitConfig {
    /// Limits of models, by `provider/model`.
    pub models: BTreeMap<String, RateLimit>,
    /// Limits of a provider's models together, by provider name.
    pub providers: BTreeMap<String, RateLimit>,
    /// Limits of MCP servers, by name.
    pub servers: BTreeMap<String, RateLimit>,
}

impl RateLimitConfig {
    /// Returns the limits that apply to a request.
    pub(super) fn of(&self, request: &Request) -> Vec<(Subject, RateLimit)> {
        match request {
            Request::Chat { model, .. } => {
                let provider = model.split_once('/').map_or(model.as_str(), |(provider, _)| provider);
                let of_model = self.models.get(model).map(|it| (Subject::Model(model.clone()), *it));
                let of_provider =
                    self.providers.get(provider).map(|it| (Subject::Provider(provider.to_owned()), *it));
                of_model.into_iter().chain(of_provider).collect()
            }
            Request::ListTools { server }
            | Request::CallTool { server, .. }
            | Request::ListPrompts { server }
            | Request::GetPrompt { server, .. }
            | Request::Describe { server } => {
                let of_server = self.servers.get(server).map(|it| (Subject::Server(server.clone()), *it));
                of_server.into_iter().collect()
            }
            Request::ReadMore { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => Vec::new(),
        }
    }
}
