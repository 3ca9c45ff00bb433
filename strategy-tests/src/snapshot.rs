//! Contents of `.snap` files, and proposals to change them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Output of today's code for a fixture, or for all fixtures of a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Folder of the snapshot.
    pub folder: PathBuf,
    /// Name within the folder.
    pub name: String,
    /// Text of the snapshot.
    pub contents: String,
}

impl Snapshot {
    /// Writes a changed snapshot to `NAME.snap.new` for `cargo insta review` and returns the path. If nothing
    /// changed, removes an earlier proposal.
    ///
    /// # Errors
    ///
    /// The folder cannot be written to.
    pub fn propose(&self, about: &str) -> io::Result<Option<PathBuf>> {
        let accepted = self.folder.join(format!("{}.snap", self.name));
        let proposed = self.folder.join(format!("{}.snap.new", self.name));
        if self.is_accepted(&accepted)? {
            return match fs::remove_file(&proposed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(None),
            };
        }
        let about = serde_json::to_string(about)?;
        let text = format!("---\ndescription: {about}\n---\n{}\n", self.contents.trim_end());
        fs::write(&proposed, text)?;
        Ok(Some(proposed))
    }

    fn is_accepted(&self, path: &Path) -> io::Result<bool> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let body =
            text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map(|(_, body)| body);
        Ok(body.is_some_and(|it| it.trim_end() == self.contents.trim_end()))
    }
}

/// Settings for snapshots beside their fixtures.
pub fn beside(folder: &Path) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}
