//! How much of each model, provider and MCP server all workers together may take, as the operator says it.

use std::collections::BTreeMap;

use shared::Request;
use store::limits::{Cap, Subject};

/// How much may be taken of whom; as much as is wanted of whoever is not named.
#[derive(Clone, Debug, Default)]
pub struct Caps {
    /// Of a model, by `provider/model`.
    pub models: BTreeMap<String, Cap>,
    /// Of all models of a provider, by its name.
    pub providers: BTreeMap<String, Cap>,
    /// Of an MCP server, by its name.
    pub servers: BTreeMap<String, Cap>,
}

impl Caps {
    /// What limits there are for a request.
    pub(super) fn of(&self, request: &Request) -> Vec<(Subject, Cap)> {
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
            Request::Search { .. } | Request::Index { .. } | Request::Rehearse(_) => Vec::new(),
        }
    }
}
