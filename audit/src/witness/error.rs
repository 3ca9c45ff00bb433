//! What can go wrong with a checkpoint, named by what the reader can do about it.

use std::{io, path::Path};

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store did not do as asked.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// What was given cannot be used: whoever gave it must mend it.
    #[error("{0}")]
    Given(String),
    /// What is kept outside is not whole: a person must look.
    #[error("{0}")]
    Damaged(String),
}

impl Error {
    /// A file that cannot be read or written.
    pub(super) fn file(verb: &str, path: &Path, error: &io::Error) -> Self {
        Error::Given(format!("cannot {verb} {}: {error}", path.display()))
    }
}
