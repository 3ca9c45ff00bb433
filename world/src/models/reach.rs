//! Reaches a provider with the cheapest request.

use std::time::Duration;

use shared::Fault;

use super::{Models, Source, unavailable};

/// Answer of a provider to the request for its list of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// It takes the key.
    Ok,
    /// It refuses the key, with this status.
    KeyRefused(u16),
    /// It answers, but has no list of models.
    NoList(u16),
    /// It is overloaded or broken, with this status.
    Failing(u16),
    /// It is a script, which needs no server.
    Script,
}

impl Models {
    /// Requests the list of a provider's models, which costs nothing.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the provider is unknown, lacks its key or cannot be reached.
    pub async fn reach(&self, provider: &str, timeout: Duration) -> Result<ProviderAnswer, Fault> {
        let endpoint = match self.source_of(provider)? {
            Source::Endpoint(endpoint) => endpoint,
            Source::Script(_) => return Ok(ProviderAnswer::Script),
            Source::Unavailable(why) => return Err(unavailable(provider, &why)),
        };
        Ok(match endpoint.list_models(timeout).await? {
            200..=299 => ProviderAnswer::Ok,
            status @ (401 | 403) => ProviderAnswer::KeyRefused(status),
            status @ (429 | 500..) => ProviderAnswer::Failing(status),
            status => ProviderAnswer::NoList(status),
        })
    }
}
