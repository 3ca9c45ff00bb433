//! Errors of checkpoints, by what the reader can do about them.

use std::{io, path::Path};

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// An argument or file is unusable; the caller must correct it.
    #[error("{0}")]
    Given(String),
    /// A file outside of the store is damaged; a person must look at it.
    #[error("{0}")]
    Damaged(String),
}

impl Error {
    /// An error for a file that cannot be read or written.
    pub(super) fn file(verb: &str, path: &Path, error: &io::Error) -> Self {
        Error::Given(format!("cannot {verb} {}: {error}", path.display()))
    }
}
