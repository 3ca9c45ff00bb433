//! A program that a flag names.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// An executable file, and the hash of its content: another content is another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Executable {
    path: PathBuf,
    sha256: String,
}

impl Executable {
    /// Reads the file at this path.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let about = fs::metadata(&path)?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not an executable file"));
        }
        let mut hash = Sha256::new();
        io::copy(&mut File::open(&path)?, &mut hash)?;
        Ok(Self { path, sha256: hex::encode(hash.finalize()) })
    }

    /// Finds the program as a shell does: a name without a slash is looked up in `PATH`.
    pub(super) fn named(name: &Path) -> io::Result<Self> {
        if name.components().count() != 1 {
            return Self::at(name);
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&folders).find_map(|folder| Self::at(&folder.join(name)).ok());
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no folder of PATH has it"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }
}
