//! The query of an engine for entries with all words of a search.

use sea_orm::DbBackend;
use sha2::{Digest as _, Sha256};

use super::words::QueryWords;

/// Returns the word that each entry of a tenant has. No text contains it. Two tenants may share it, so a query compares the tenant too.
pub(crate) fn tenant_word(tenant: &str) -> String {
    format!("={}", hex::encode(&Sha256::digest(tenant)[..8]))
}

/// Returns the query of the engine for entries with all of these words, of one tenant if it is given.
pub(crate) fn matching(backend: DbBackend, words: &QueryWords, tenant: Option<&str>) -> String {
    let tenant = tenant.map(tenant_word);
    let words = words.0.iter().chain(&tenant);
    if backend == DbBackend::Postgres {
        let quoted = |word: &String| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"));
        return words.map(quoted).collect::<Vec<_>>().join(" & ");
    }
    let quoted = |word: &String| format!("\"{}\"", word.replace('"', "\"\""));
    words.map(quoted).collect::<Vec<_>>().join(" AND ")
}
