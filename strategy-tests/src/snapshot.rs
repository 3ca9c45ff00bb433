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
        if self.accepted()?.is_some_and(|accepted| accepted == self.contents.trim_end()) {
            self.withdraw()?;
            return Ok(None);
        }
        self.write(self.path("snap.new"), about).map(Some)
    }

    /// Writes the snapshot as accepted, in place of an earlier one and of a proposal. Returns the path.
    ///
    /// # Errors
    ///
    /// The folder cannot be written to.
    pub fn accept(&self, about: &str) -> io::Result<PathBuf> {
        let path = self.write(self.path("snap"), about)?;
        self.withdraw()?;
        Ok(path)
    }

    /// Reads the accepted text, without spaces at its end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn accepted(&self) -> io::Result<Option<String>> {
        let text = match fs::read_to_string(self.path("snap")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let body = text.strip_prefix("---\n").and_then(|text| text.split_once("\n---\n"));
        Ok(body.map(|(_, body)| body.trim_end().to_owned()))
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    fn write(&self, path: PathBuf, about: &str) -> io::Result<PathBuf> {
        let about = serde_json::to_string(about)?;
        fs::write(&path, format!("---\ndescription: {about}\n---\n{}\n", self.contents.trim_end()))?;
        Ok(path)
    }

    /// Removes a proposal.
    fn withdraw(&self) -> io::Result<()> {
        match fs::remove_file(self.path("snap.new")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
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
