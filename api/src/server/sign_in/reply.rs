//! The reply of the issuer, which it sends with the browser.

use serde::Deserialize;
use tracing::warn;
use utoipa::IntoParams;

use super::failure::Failure;

/// Maximum length of a code in bytes.
const CODE_MAX: usize = 4 << 10;

/// Errors of the page that asks people to sign in (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6). Only these are logged.
const ERRORS: [&str; 11] = [
    "account_selection_required",
    "consent_required",
    "interaction_required",
    "invalid_request",
    "invalid_request_object",
    "invalid_request_uri",
    "invalid_scope",
    "login_required",
    "request_not_supported",
    "unauthorized_client",
    "unsupported_response_type",
];

/// Query parameters with which the issuer sends the browser back. Others, which issuers add, are ignored.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct IssuerReply {
    /// Code that is exchanged for tokens.
    code: Option<String>,
    /// The text that the API gave to the issuer with the browser.
    pub(super) state: Option<String>,
    /// The issuer (RFC 9207), if it names itself.
    iss: Option<String>,
    /// Reason for which there is no code.
    error: Option<String>,
}

impl IssuerReply {
    /// Returns the code, if this issuer sent one.
    pub(super) fn code(&self, issuer: &str) -> Result<&str, Failure> {
        if self.iss.as_deref().is_some_and(|iss| iss != issuer) {
            return Err(Failure::Reply);
        }
        match self.error.as_deref() {
            None => {
                let code = self.code.as_deref().filter(|code| (1..=CODE_MAX).contains(&code.len()));
                code.ok_or(Failure::Reply)
            }
            Some("access_denied") => Err(Failure::Denied),
            Some("server_error" | "temporarily_unavailable") => Err(Failure::Unavailable),
            Some(other) => {
                let error = ERRORS.into_iter().find(|known| *known == other);
                warn!(error, "the issuer does not sign people in for this API");
                Err(Failure::Client)
            }
        }
    }
}
