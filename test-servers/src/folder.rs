//! A server's temporary folder, removed when the test ends or is killed.
//!
//! A destructor does not run in a killed process, and a PostgreSQL cluster takes 39 MB. A shell therefore waits for
//! the end of a pipe that only the test holds open, and then removes the folder. Both endings take this way, so every
//! test exercises it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, frees the shared memory of a PostgreSQL that could not, and removes the folder.
/// Retries for ten seconds, because a dying server may still write.
const SWEEP: &str = r#"
read -r _
memory=$(sed -n 7p "$1/data/postmaster.pid" | { read -r _ id; echo "$id"; })
[ -n "$memory" ] && ipcrm --shmem-id "$memory"
for _ in $(seq 100); do
  rm -rf -- "$1" && exit
  sleep 0.1
done
"#;

/// A temporary folder of one server.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    sweeper: Child,
}

impl Folder {
    pub(crate) fn new(prefix: &str) -> Self {
        let path = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir()
            .expect("failed to create a temporary folder")
            .keep();
        let sweeper = Command::new("sh")
            .args(["-c", SWEEP, "sweeper"])
            .arg(&path)
            .current_dir("/")
            // A process group of its own: a signal to the test's group must not end the clean-up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("failed to start `sh`");
        Self { path, sweeper }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        // A failure is ignored: a destructor must not panic, and the folder is temporary.
        let _ = self.sweeper.wait();
    }
}
