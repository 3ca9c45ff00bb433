//! Requests to the issuer of tokens: direct, bounded in time and size.

use std::time::Duration;

use reqwest::{Client, Response, redirect::Policy};

/// Maximum time for a reply to arrive.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Creates a client. The server is asked directly: a redirect could lead to any other.
pub(super) fn client() -> Client {
    Client::builder().redirect(Policy::none()).timeout(TIMEOUT).build().unwrap_or_default()
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
