//! Reasons for which a sign-in fails.

use crate::server::{
    problem::{ApiError, Kind},
    session::KEY_MAX,
};

/// Reason for which a sign-in failed. It contains nothing that the browser or the issuer sent.
pub(crate) enum Failure {
    /// The browser did not begin this sign-in, or used it already.
    Lost,
    /// The person or the issuer did not agree.
    Denied,
    /// The reply of the issuer is not accepted: its code is used or expired, or another issuer sent it.
    Reply,
    /// The token of the issuer is not valid here.
    Token,
    /// The token names no tenant in this claim.
    NoTenant(String),
    /// The token has this number of bytes, and a cookie has room for fewer.
    TooLong(usize),
    /// The issuer does not answer.
    Unavailable,
    /// The document of the issuer, which names its addresses, cannot be read.
    Undiscovered,
    /// The issuer does not accept this API as a client.
    Client,
    /// Any other reason.
    Other(ApiError),
}

impl Failure {
    /// Reports whether the request may be a guess.
    pub(crate) fn is_guess(&self) -> bool {
        match self {
            Self::Lost | Self::Reply | Self::Token => true,
            Self::Denied
            | Self::NoTenant(_)
            | Self::TooLong(_)
            | Self::Unavailable
            | Self::Undiscovered
            | Self::Client
            | Self::Other(_) => false,
        }
    }

    /// Returns the word by which the console knows the reason.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Denied => "denied",
            Self::Reply => "reply",
            Self::Token => "token",
            Self::NoTenant(_) => "no-tenant",
            Self::TooLong(_) => "too-long",
            Self::Unavailable => "unavailable",
            Self::Undiscovered => "addresses",
            Self::Client => "client",
            Self::Other(error) if error.kind == Kind::Unavailable => "unavailable",
            Self::Other(error) if error.kind == Kind::TooManyWrongKeys => "too-many",
            Self::Other(_) => "failed",
        }
    }

    /// Returns the response for clients other than browsers.
    pub(crate) fn error(self) -> ApiError {
        match self {
            Self::Lost => Kind::Unauthorized
                .because("this browser did not begin the sign-in, used it already, or took more than ten minutes")
                .hint("begin again at the console"),
            Self::Denied => Kind::Forbidden
                .because("the issuer reports that the sign-in was denied")
                .hint("begin again at the console, and agree to it"),
            Self::Reply => Kind::Unauthorized
                .because("the reply of the issuer is not accepted: its code is used or expired, or another issuer sent it")
                .hint("begin again at the console"),
            Self::Token => Kind::Unauthorized
                .because("the token of the issuer is not valid here")
                .hint("its signature, its time, or the claim `iss`, `aud`, `azp` or `nonce` is wrong: compare `[api.oidc]` with the issuer"),
            Self::NoTenant(claim) => Kind::Forbidden
                .because(format!("the token of the issuer names no tenant in its claim {claim:?}, or no usable subject"))
                .hint("add the claim to the user or the client at the issuer"),
            Self::TooLong(bytes) => Kind::Invalid
                .because(format!("the token of the issuer has {bytes} bytes, and a cookie has room for {KEY_MAX}"))
                .hint("leave claims out of it at the issuer, or choose the other one with `token` in `[api.oidc.sign_in]`"),
            Self::Unavailable => Kind::Unavailable
                .because("the issuer does not answer")
                .hint("begin again at the console in a moment"),
            Self::Undiscovered => Kind::Unavailable
                .because("the addresses of the issuer cannot be read from its `/.well-known/openid-configuration`")
                .hint("begin again at the console in a moment; the cause is in the API's own log"),
            Self::Client => Kind::Refused
                .because("the issuer does not accept this API as a client")
                .hint("the cause is in the API's own log"),
            Self::Other(error) => error,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Other(error)
    }
}
