//! The standard error of MCP servers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{io::AsyncReadExt, process::ChildStderr, task::JoinHandle};

/// Maximum bytes kept of a child's standard error.
const MAX_TAIL_BYTES: usize = 2_000;

/// Maximum time to wait for the last output of a child.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(300);

/// Bytes that are read at once, and the pause after as many: a child that writes without end finds its pipe full.
const CHUNK_BYTES: usize = 1 << 16;
const PAUSE: Duration = Duration::from_millis(20);

/// Logs a child's standard error and keeps its end.
#[derive(Default)]
pub(super) struct StderrTail {
    end: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl StderrTail {
    pub(super) fn start(
        name: &str,
        stderr: ChildStderr,
        redact: impl Fn(&str) -> String + Send + 'static,
    ) -> Self {
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
        let lines: Vec<&str> =
            valid_text(&end).lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join(" / ")
    }
}

async fn read_stderr(
    name: String,
    mut stderr: ChildStderr,
    redact: impl Fn(&str) -> String,
    end: Arc<Mutex<Vec<u8>>>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut read_at_once = 0;
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let chunk = &chunk[..read];
        tracing::debug!(server = name, "{}", redact(String::from_utf8_lossy(chunk).trim_end()));
        {
            let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
            end.extend_from_slice(&chunk[read.saturating_sub(MAX_TAIL_BYTES)..]);
            let surplus = end.len().saturating_sub(MAX_TAIL_BYTES);
            end.drain(..surplus);
        }
        read_at_once += read;
        if CHUNK_BYTES <= read_at_once {
            read_at_once = 0;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Decodes the longest valid text from the first whole character on.
fn valid_text(bytes: &[u8]) -> &str {
    let start = bytes.iter().position(|byte| *byte & 0xC0 != 0x80).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    std::str::from_utf8(bytes)
        .unwrap_or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default())
}
