//! The web console: a page, its script and its style, embedded in the binary.
//!
//! `npm run build` in `console/` writes the files and their list. The page needs no key; its requests to the API do.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::server::state::AppState;

/// A file of the console.
struct Asset {
    path: &'static str,
    media_type: &'static str,
    /// True if the path contains a hash of the content, so the content never changes.
    is_immutable: bool,
    /// SHA-256 of the content, shortened, in hexadecimal.
    hash: &'static str,
    content: &'static [u8],
    brotli: &'static [u8],
}

/// All files of the console.
static ASSETS: &[Asset] = include!("../../../console/dist/assets.rs");

/// Content security policy: nothing from other hosts, no inline script, no inline style, no frame around the page.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      img-src 'self' data: blob:; object-src 'none'";

/// Headers of every response.
const HEADERS: [(header::HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::VARY, HeaderValue::from_static("accept-encoding")),
];

/// Routes of the console's files.
pub(super) fn page() -> Router<Arc<AppState>> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        router.route(asset.path, get(async move |headers: HeaderMap| serve(asset, &headers)))
    })
}

fn serve(asset: &Asset, request: &HeaderMap) -> Response {
    let is_brotli = accepts_brotli(request);
    // A weak tag names the content in any encoding: plain, with brotli, or with gzip, which another layer applies.
    let quoted = format!("\"{}\"", asset.hash);
    let tag = format!("W/{quoted}");
    let is_known =
        is_listed(request, header::IF_NONE_MATCH, |tag| tag == "*" || tag.trim_start_matches("W/") == quoted);
    let caching = if asset.is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let validators = [(header::CACHE_CONTROL, caching), (header::ETAG, tag.as_str())];
    if is_known {
        return (StatusCode::NOT_MODIFIED, HEADERS, validators).into_response();
    }
    let media_type = [(header::CONTENT_TYPE, asset.media_type)];
    if is_brotli {
        let encoding = [(header::CONTENT_ENCODING, "br")];
        return (HEADERS, validators, media_type, encoding, asset.brotli).into_response();
    }
    (HEADERS, validators, media_type, asset.content).into_response()
}

fn accepts_brotli(request: &HeaderMap) -> bool {
    is_listed(request, header::ACCEPT_ENCODING, |coding| match coding.split_once(';') {
        None => coding == "br",
        Some((name, quality)) => {
            let quality = quality.trim().trim_start_matches("q=").parse::<f32>();
            name.trim() == "br" && quality.is_ok_and(|quality| 0.0 < quality)
        }
    })
}

/// Reports whether an item of a header's comma-separated list fulfils the condition.
fn is_listed(request: &HeaderMap, name: header::HeaderName, condition: impl Fn(&str) -> bool) -> bool {
    let values = request.get_all(name);
    values
        .iter()
        .filter_map(|header| header.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|entry| condition(entry.trim()))
}
