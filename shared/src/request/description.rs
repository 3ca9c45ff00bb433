//! Descriptions of servers, which the index holds and finds.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Searchable description of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The operator's description, with the names and descriptions of tools, prompts and resources.
    pub text: String,
    /// Hash of the text.
    pub hash: String,
}

impl Description {
    /// Length of the hash in characters; enough to tell a few thousand texts apart.
    const HASH_LENGTH: usize = 16;

    /// Creates the description with this text.
    pub fn new(text: String) -> Self {
        let mut hash = hex::encode(Sha256::digest(&text));
        hash.truncate(Self::HASH_LENGTH);
        Self { text, hash }
    }
}

/// Server that matches a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hit {
    /// Name of the server.
    pub server: String,
    /// Score of the match. Higher is better. Scores are comparable within one response only.
    pub score: f64,
    /// Description that matched.
    pub text: String,
}
