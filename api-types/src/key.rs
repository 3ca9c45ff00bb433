//! API keys and their scopes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use shared::MultitaskStrategy;
use utoipa::ToSchema;

/// Permission of a key. Each route needs exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Submit, cancel, retry and fork turns, and manage files and batches.
    Submit,
    /// Read everything of the tenant.
    Read,
    /// Answer questions, approve calls, and settle calls in doubt.
    Answer,
    /// Manage webhooks; for operators, pauses and metrics.
    Operate,
    /// Manage keys; delete, hold and release threads.
    Admin,
}

/// Error for an unknown scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScope {
    /// Text that could not be parsed.
    pub text: String,
}

impl Scope {
    /// All scopes, in order of declaration.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Read, Self::Answer, Self::Operate, Self::Admin];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Answer => "answer",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let unknown = || UnknownScope { text: text.to_owned() };
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(unknown)
    }
}

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Scope::ALL.map(Scope::as_str).join(", ");
        write!(f, "{:?} is not a scope; hint: use one of {known}", self.text)
    }
}

impl std::error::Error for UnknownScope {}

/// Request to create a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"name": "web shop", "scopes": ["submit", "read"], "expires_in_seconds": 7_776_000})))]
pub struct NewKey {
    /// Name for people, at most 100 characters. Default: empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Scopes of the key; at least one, and none that the creating key lacks.
    pub scopes: Vec<Scope>,
    /// Seconds until the key expires, at most ten years. A key never expires later than the one that creates it.
    /// Default: the expiry of the creating key, or never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 316_224_000)]
    pub expires_in_seconds: Option<u64>,
    /// Treatment of a turn of the key while another one of its thread is running, in doubt or queued, if the turn names none.
    /// Default: that of the tenant, or else that of the strategy, or else `enqueue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitask_strategy: Option<MultitaskStrategy>,
}

/// Request to replace a key by a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// Seconds for which the old key remains valid, at most 30 days. Default: 0.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2_592_000)]
    pub overlap_seconds: u64,
}

/// An API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Id of the key, with which the key begins. It is not secret.
    #[schema(examples("tf_5d0f6a2b9c1e4873"))]
    pub id: String,
    /// Name for people; may be empty.
    pub name: String,
    /// Tenant for which the key acts; null for an operator's key.
    pub tenant: Option<String>,
    /// Scopes of the key.
    pub scopes: Vec<Scope>,
    /// Current state of the key.
    pub status: KeyStatus,
    /// User who created the key.
    pub created_by: String,
    /// Time of creation (RFC 3339).
    pub created_at: String,
    /// End of validity (RFC 3339); null if the key does not expire.
    pub expires_at: Option<String>,
    /// Time of the revocation (RFC 3339).
    pub revoked_at: Option<String>,
    /// Time of the last use (RFC 3339), up to a minute late; null if the key was never used.
    pub last_used_at: Option<String>,
    /// Treatment of its turns on a busy thread, if they name none; null if the key sets none.
    pub multitask_strategy: Option<MultitaskStrategy>,
    /// The key itself: `tf_…_…`. Returned only when the key is created or rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// State of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// The key is accepted.
    Valid,
    /// The key has expired.
    Expired,
    /// The key was revoked.
    Revoked,
}

/// A session of a browser, which it has in a cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// End of the session (RFC 3339): 12 hours after its start, or when its key expires.
    #[schema(example = "2026-11-21T22:57:00.000000Z")]
    pub expires_at: String,
}

/// Ways to sign in to the console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInWays {
    /// Host of the issuer whose pages sign people in; null if only keys do.
    #[schema(example = "login.example.org")]
    pub issuer: Option<String>,
    /// URL of this API that leads to the pages of the issuer; null without an issuer. A browser that used another name of the API comes
    /// back to this one.
    #[schema(example = "https://turnfold.example.org/v1/session/oidc")]
    pub url: Option<String>,
    /// URL of the issuer that ends the session of a browser there, after `DELETE /v1/session` ended the one here, and leads back to the
    /// console; null if the issuer has no page for it, or none is known.
    #[schema(example = "https://login.example.org/logout?client_id=turnfold")]
    pub sign_out_url: Option<String>,
}

/// The sender of a request, as the API knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Caller {
    /// Id of the key; none if the API requires no key.
    #[schema(example = "tf_0123456789abcdef")]
    pub key: Option<String>,
    /// Name of the key, or subject of the token; none if it has no name.
    pub subject: Option<String>,
    /// Tenant whose data the request sees; none for an operator who names no tenant, and sees everything.
    #[schema(example = "acme")]
    pub tenant: Option<String>,
    /// Scopes of the key. All of them if the API requires no key.
    pub scopes: Vec<Scope>,
    /// End of validity of the key (RFC 3339); none if it does not expire.
    #[schema(example = "2026-11-21T22:57:00.000000Z")]
    pub expires_at: Option<String>,
    /// Treatment of its turns on a busy thread, if they name none; null if the key sets none.
    pub multitask_strategy: Option<MultitaskStrategy>,
}
