//! Sender of the request that caused an event.

use serde::{Deserialize, Serialize};

/// Authenticated sender of the request that caused an event: its key proves it, while the `actor` beside it is what the
/// client claims. Absent if the API required no key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerId {
    /// Id of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name of the key, or subject of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}
