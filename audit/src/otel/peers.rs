//! Addresses of the servers that requests are sent to, as they are configured today. The log holds their names only.

use std::collections::BTreeMap;

use shared::Request;

use super::attributes::Attribute;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name or number of the host.
    pub host: String,
    /// Port, if it is known.
    pub port: Option<u16>,
}

/// Addresses of servers, by their names in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Endpoints of models, by provider.
    pub providers: BTreeMap<String, Peer>,
    /// MCP servers over HTTP.
    pub servers: BTreeMap<String, Peer>,
}

impl Peers {
    /// Returns the attributes with the address that a request is sent to, if it is known.
    pub(super) fn of_request(&self, request: &Request) -> Vec<Attribute> {
        let peer = match request {
            Request::Chat { model, .. } => self.providers.get(model.split('/').next().unwrap_or_default()),
            Request::CallTool { server, .. }
            | Request::ListTools { server }
            | Request::ListPrompts { server }
            | Request::GetPrompt { server, .. }
            | Request::Describe { server } => self.servers.get(server),
            Request::ReadMore { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => None,
        };
        let Some(Peer { host, port }) = peer else { return Vec::new() };
        let port = port.map(|port| ("server.port", u64::from(port).into()));
        [("server.address", host.as_str().into())].into_iter().chain(port).collect()
    }
}
