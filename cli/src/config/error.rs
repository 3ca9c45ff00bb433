//! Why a configuration was refused, in words that name the key, where it stands and the mend.

use std::io;

use thiserror::Error;

/// Why a configuration was refused.
///
/// **Invariant:** no message repeats a value, because any value may be a secret in the wrong place.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file that was asked for is not there, or may not be read.
    #[error("failed to read {file}, which {asked} asks for: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// Who asks for it.
        asked: String,
        /// What the system said.
        why: io::Error,
    },
    /// A file does not parse.
    #[error("{file}, line {line}: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the parser wanted.
        why: String,
    },
    /// A flag that sets a key does not say which, or not to what.
    #[error("{origin} wants section.key=value")]
    Shapeless {
        /// The flag.
        origin: String,
    },
    /// Nobody reads this key.
    #[error("unknown key {key} in {origin}: {hint}")]
    Unknown {
        /// The key, in full.
        key: String,
        /// Where it stands.
        origin: String,
        /// What was meant, or what there is.
        hint: String,
    },
    /// The key exists; its value does not do.
    #[error("{key} in {origin} {why}")]
    Refused {
        /// The key, in full.
        key: String,
        /// Where its value stands.
        origin: String,
        /// What it must be.
        why: String,
    },
}
