//! MCP servers as child processes: their environment and their standard error.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::transport::TokioChildProcess;
use tokio::{
    io::AsyncReadExt,
    process::{ChildStderr, Command},
    task::JoinHandle,
};

/// Environment variables passed to a child; the others may hold secrets.
const INHERITED_ENV: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Maximum bytes kept of a child's standard error.
const MAX_TAIL_BYTES: usize = 2_000;

/// Maximum time to wait for the last output of a child.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(300);

/// Starts a server. `redact` removes secrets from its standard error.
pub(super) fn spawn(
    name: &str,
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
    redact: impl Fn(&str) -> String + Send + 'static,
) -> std::io::Result<(TokioChildProcess, StderrTail)> {
    let mut child = Command::new(command);
    let inherited = INHERITED_ENV.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    child.args(args).env_clear().envs(inherited).envs(env).kill_on_drop(true);
    if let Some(cwd) = cwd {
        child.current_dir(cwd);
    }
    // In a process group of its own: a Ctrl-C at the terminal must not end servers with calls in flight.
    #[cfg(unix)]
    child.process_group(0);
    let (child, stderr) = TokioChildProcess::builder(child).stderr(Stdio::piped()).spawn()?;
    let stderr_tail = stderr.map(|it| StderrTail::start(name, it, redact)).unwrap_or_default();
    Ok((child, stderr_tail))
}

/// Logs a child's standard error and keeps its end.
#[derive(Default)]
pub(super) struct StderrTail {
    end: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl StderrTail {
    fn start(name: &str, stderr: ChildStderr, redact: impl Fn(&str) -> String + Send + 'static) -> Self {
        let end = Arc::default();
        let reader = tokio::spawn(read_stderr(name.to_owned(), stderr, redact, Arc::clone(&end)));
        Self { end, reader: Some(reader) }
    }

    /// Returns the last lines, after giving the child time to write them.
    pub(super) async fn last_lines(self) -> String {
        if let Some(reader) = self.reader {
            let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, reader).await;
        }
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = valid_text(&end).lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        lines.join(" / ")
    }
}

async fn read_stderr(
    name: String,
    mut stderr: ChildStderr,
    redact: impl Fn(&str) -> String,
    end: Arc<Mutex<Vec<u8>>>,
) {
    let mut chunk = [0; 4_096];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let chunk = &chunk[..read];
        tracing::debug!(server = name, "{}", redact(String::from_utf8_lossy(chunk).trim_end()));
        let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
        end.extend_from_slice(chunk);
        let surplus = end.len().saturating_sub(MAX_TAIL_BYTES);
        end.drain(..surplus);
    }
}

/// Decodes the longest valid text from the first whole character on.
fn valid_text(bytes: &[u8]) -> &str {
    let start = bytes.iter().position(|it| *it & 0xC0 != 0x80).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    std::str::from_utf8(bytes)
        .unwrap_or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default())
}
