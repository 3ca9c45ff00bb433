//! Errors of a configuration. Each names the key, its origin (file, variable or flag) and the remedy.

use std::io;

use thiserror::Error;

/// The reason why a configuration was refused.
///
/// **Invariant:** no message contains a value, because any value may be a secret in the wrong place.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A requested file does not exist or cannot be read.
    #[error("cannot read {file}, which {asked} names: {why}")]
    Unreadable {
        /// The path of the file.
        file: String,
        /// The flag, variable or key that names the file.
        asked: String,
        /// The error of the operating system.
        why: io::Error,
    },
    /// A file is not valid TOML or JSON.
    #[error("{file}, line {line}: {why}")]
    Syntax {
        /// The path of the file.
        file: String,
        /// The line number, from 1.
        line: usize,
        /// The error of the parser, without the text of the line.
        why: String,
    },
    /// A flag such as `--set` without a key or a value.
    #[error("{origin} needs section.key=value")]
    Shapeless {
        /// Name of the flag.
        origin: String,
    },
    /// A key that does not exist.
    #[error("unknown key {key} in {origin}: {hint}")]
    Unknown {
        /// The full key.
        key: String,
        /// The file, variable or flag that holds it.
        origin: String,
        /// The nearest key, or the keys that exist.
        hint: String,
    },
    /// A key with an invalid value.
    #[error("{key} in {origin} {why}")]
    Refused {
        /// The full key.
        key: String,
        /// The file, variable or flag that holds the value.
        origin: String,
        /// The requirement that the value does not meet.
        why: String,
    },
}
