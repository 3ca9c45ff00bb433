//! A program that judges: JSON on stdin, a verdict on stdout.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

/// Maximum time of one question.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of the output, in bytes.
const OUTPUT_MAX: u64 = 64 * 1024;

/// Maximum length of the errors in a message, in bytes.
const ERRORS_MAX: usize = 300;

/// Beginning of the name that stands for a program in place of a model's.
const NAMED: &str = "program/";

/// Environment variables that the program gets: those of a local MCP server. The others may hold keys.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// An executable file, and the hash of its content: another content is another judge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::commands) struct Program {
    path: PathBuf,
    sha256: String,
}

impl Program {
    /// Finds the file and reads it.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let about = fs::metadata(&path)?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not an executable file"));
        }
        let mut hash = Sha256::new();
        io::copy(&mut File::open(&path)?, &mut hash)?;
        Ok(Self { path, sha256: hex::encode(hash.finalize()) })
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }

    /// The program in place of a model's name.
    pub(in crate::commands) fn model(&self) -> String {
        format!("{NAMED}{}", self.sha256)
    }

    /// Asks one question. Returns what the program prints, or the reason why that is no answer.
    pub(in crate::commands) async fn ask(&self, question: &str) -> Result<String, String> {
        let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let child = Command::new(&self.path)
            .env_clear()
            .envs(inherited)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the judge program cannot be started: {error}"))?;
        let late = |_| format!("the judge program did not end within {} s", TIMEOUT.as_secs());
        tokio::time::timeout(TIMEOUT, exchange(child, question)).await.map_err(late)?
    }
}

/// Returns true if the name of a model stands for a program.
pub(in crate::commands) fn is_program(model: &str) -> bool {
    // A provider may have the same name, and no model of it is named by a hash.
    model.strip_prefix(NAMED).is_some_and(|hash| hash.len() == 64)
}

/// Passes the question to the process, and returns its output. Dropping it ends the process.
async fn exchange(mut child: Child, question: &str) -> Result<String, String> {
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the judge program has no pipes".to_owned());
    };
    let write = async move {
        // A program may answer without reading.
        let _ = stdin.write_all(question.as_bytes()).await;
        Ok(())
    };
    let read = async {
        let mut output = Vec::new();
        stdout.take(OUTPUT_MAX + 1).read_to_end(&mut output).await.map_err(|error| error.to_string())?;
        match OUTPUT_MAX < output.len() as u64 {
            true => Err(format!("the judge program printed more than {OUTPUT_MAX} bytes")),
            false => Ok(output),
        }
    };
    let errors = async {
        let mut errors = Vec::new();
        let _ = (&mut stderr).take(OUTPUT_MAX).read_to_end(&mut errors).await;
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        Ok(errors)
    };
    let ((), output, errors) = tokio::try_join!(write, read, errors)?;
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the judge program ended with {status}{}", last_line(&errors)));
    }
    String::from_utf8(output).map_err(|_| "the judge program printed no UTF-8".to_owned())
}

/// Returns the last line of the errors, bounded.
fn last_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) else { return String::new() };
    format!(": {}", &line[..line.floor_char_boundary(ERRORS_MAX)])
}
