//! Requests to the issuer of tokens: direct, bounded in time and size.

use std::time::Duration;

use reqwest::{Client, Response, Url, redirect::Policy};

/// Maximum time for a reply to arrive.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Creates a client. The server is asked directly: a redirect could lead to any other.
pub(super) fn client() -> Client {
    Client::builder().redirect(Policy::none()).timeout(TIMEOUT).build().unwrap_or_default()
}

/// Parses a URL to which nothing is sent in the clear: https, or http on this machine. It has no user, no password and no fragment.
pub fn private_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let is_private = url.scheme() == "https" || (url.scheme() == "http" && is_local);
    let is_plain = url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    (is_private && is_plain).then_some(url)
}

/// Fetches a document of this maximum size in bytes.
///
/// # Errors
///
/// The reason, without the URL, if the document does not arrive or is too long.
pub(super) async fn document(http: &Client, url: &str, size_max: usize) -> Result<Vec<u8>, String> {
    let response = http.get(url).send().await.map_err(|err| err.without_url().to_string())?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("status {}", status.as_u16()));
    }
    body(response, size_max).await
}

/// Reads the body of a reply with this maximum size in bytes.
///
/// # Errors
///
/// The reason, without the URL, if the reply does not arrive or is too long.
pub(super) async fn body(mut response: Response, size_max: usize) -> Result<Vec<u8>, String> {
    let failed = |err: reqwest::Error| err.without_url().to_string();
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if size_max < body.len() + piece.len() {
            return Err(format!("the document is longer than {size_max} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}
