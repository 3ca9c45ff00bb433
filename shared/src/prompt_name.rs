//! Names of prompts: hashes of their texts, as requests in the log carry them.
//!
//! ## Why the two kinds of prompts have names of different lengths
//!
//! A request carries one name, and a reader of a log must see whether the operator wrote the prompt or the strategy did. The
//! name of a configured prompt is the whole hash. The name of a built-in template has 16 digits, which tell all templates of all
//! versions apart and keep the log small, because almost every request has one.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, PoisonError, RwLock},
};

use sha2::{Digest as _, Sha256};

/// Number of hexadecimal digits of the name of a built-in template, and of the hash of what a request offers.
pub const SHORT_HASH_LENGTH: usize = 16;

/// Maximum number of templates whose names are kept in memory.
const KEPT_MAX: usize = 10_000;

/// Names of templates, by the address and the length of the text.
static KEPT: LazyLock<RwLock<BTreeMap<(usize, usize), String>>> = LazyLock::new(RwLock::default);

/// Returns the name of a configured prompt: the SHA-256 hash of its text, in hex.
pub fn prompt_hash(prompt: &str) -> String {
    hex::encode(Sha256::digest(prompt))
}

/// Returns the name of a built-in template: the first 16 digits of the SHA-256 hash of its text, in hex.
pub fn template_hash(template: &str) -> String {
    let mut hash = prompt_hash(template);
    hash.truncate(SHORT_HASH_LENGTH);
    hash
}

/// Returns true for the name of a built-in template, and false for that of a configured prompt.
pub fn is_template_hash(name: &str) -> bool {
    name.len() == SHORT_HASH_LENGTH
}

/// Returns the name of a template that lives as long as the process. It is computed once, because every request needs it.
pub(crate) fn kept_template_hash(template: &'static str) -> String {
    let key = (template.as_ptr().addr(), template.len());
    if let Some(name) = KEPT.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return name.clone();
    }
    let name = template_hash(template);
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < KEPT_MAX {
        kept.insert(key, name.clone());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_a_short_name_and_a_configured_prompt_the_whole_hash() {
        let text = "Plan {task}.\n";
        assert!(prompt_hash(text).starts_with(&template_hash(text)));
        assert!(is_template_hash(&template_hash(text)) && !is_template_hash(&prompt_hash(text)));
        assert_eq!(
            [kept_template_hash(text), kept_template_hash(text)],
            [(); 2].map(|()| template_hash(text))
        );
        assert_ne!(kept_template_hash(&text[..4]), template_hash(text), "the same address, another text");
    }
}
