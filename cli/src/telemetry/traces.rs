//! Traces of turns, read from the log.

use std::collections::{BTreeMap, BTreeSet};

use audit::otel::{Content, Peer, Peers, Span, TraceParent, turn_spans};
use reqwest::Url;
use store::{Store, ThreadId, TurnId};

use crate::config::{McpTransport, ProviderSettings, Settings};

/// Maximum spans of one request.
pub(crate) const SPANS_MAX: usize = 500;

/// Reads the traces of turns.
pub(crate) struct Traces {
    pub(crate) store: Store,
    pub(crate) content: Content,
    pub(crate) peers: Peers,
}

impl Traces {
    /// Returns the spans of these turns of a thread, as far as they have ended.
    ///
    /// # Errors
    ///
    /// [`store::Error`] if the log cannot be read.
    pub(crate) async fn of(
        &self,
        thread: ThreadId,
        turns: &BTreeSet<TurnId>,
    ) -> Result<Vec<Span>, store::Error> {
        let (_, log) = self.store.load(thread).await?;
        let headers = self.store.trace_parents(thread).await?;
        let parents: BTreeMap<TurnId, TraceParent> =
            headers.into_iter().filter_map(|(turn, header)| Some((turn, header.parse().ok()?))).collect();
        let spans = turn_spans(thread, &log, &parents, self.content, &self.peers);
        Ok(spans.into_iter().filter(|span| turns.contains(&span.turn)).collect())
    }
}

/// Returns the addresses of the configured endpoints and MCP servers. An address that is a secret is left out.
pub(crate) fn peers(settings: &Settings) -> Peers {
    let providers = settings.providers.iter().filter_map(|(name, provider)| match provider {
        ProviderSettings::Http(http) => Some((name.clone(), peer(&http.base_url)?)),
        ProviderSettings::Script { .. } => None,
    });
    let servers = settings.mcp.iter().filter_map(|(name, server)| match &server.transport {
        McpTransport::Http { url, .. } => Some((name.clone(), peer(url.literal()?)?)),
        McpTransport::Child { .. } => None,
    });
    Peers { providers: providers.collect(), servers: servers.collect() }
}

/// Returns the host and the port of an address.
fn peer(url: &str) -> Option<Peer> {
    let url = Url::parse(url).ok()?;
    Some(Peer { host: url.host_str()?.to_owned(), port: url.port_or_known_default() })
}
