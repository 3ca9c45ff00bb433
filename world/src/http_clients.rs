//! HTTP clients of models and HTTP commands.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use reqwest::{Client, Url, redirect::Policy};

/// Maximum duration of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Error of building an HTTP client.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot build an HTTP client: {0}; hint: check the certificates and the proxy settings of this machine"
)]
pub struct HttpClientError(#[from] reqwest::Error);

/// HTTP clients that never follow a redirect: a redirected POST would become a GET, or send a key to another host.
///
/// ## Why there are two
///
/// `HTTP_PROXY` and `NO_PROXY` apply to other machines only. A proxy would look for a loopback address on its own
/// machine, and receive the key that is meant for a local server.
pub(super) struct HttpClients {
    proxied: Client,
    direct: Client,
}

impl HttpClients {
    /// Creates the clients.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`] if no HTTP client can be built.
    pub(super) fn new() -> Result<Self, HttpClientError> {
        let client = || Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(Policy::none());
        Ok(Self { proxied: client().build()?, direct: client().no_proxy().build()? })
    }

    /// Returns the client for requests to a URL.
    pub(super) fn of(&self, url: &str) -> &Client {
        if is_loopback(url) { &self.direct } else { &self.proxied }
    }
}

/// Returns true if a URL is on this machine.
fn is_loopback(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let Some(host) = url.host_str() else { return false };
    let is_name = host == "localhost" || host.ends_with(".localhost");
    let v4 = host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    let v6 = host.trim_matches(['[', ']']).parse::<Ipv6Addr>();
    is_name || v4 || v6.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[test]
fn addresses_of_this_machine_are_recognized() {
    for (url, is_local) in [
        ("http://127.0.0.1:8080/v1", true),
        ("http://127.8.9.10/v1", true),
        ("http://localhost:1/v1", true),
        ("http://LOCALHOST/v1", true),
        ("http://a.localhost/v1", true),
        ("http://[::1]:8080/v1", true),
        ("http://[::ffff:127.0.0.1]/v1", true),
        ("http://localhost.example.com/v1", false),
        ("http://10.0.0.1/v1", false),
        ("https://api.openai.com/v1", false),
        ("no address", false),
    ] {
        assert_eq!(is_loopback(url), is_local, "{url}");
    }
}
