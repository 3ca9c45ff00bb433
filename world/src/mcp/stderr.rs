//! The standard error of MCP servers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{io::AsyncReadExt, process::ChildStderr, sync::watch, time::timeout};

/// Maximum bytes kept of a child's standard error.
const MAX_TAIL_BYTES: usize = 2_000;

/// Maximum time to wait for the last output of a child.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(300);

/// Maximum time to wait for the first output beside an answer, and the time without more after which it is whole.
const FIRST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_millis(30);

/// Bytes that are read at once, and the pause after as many: a child that writes without end finds its pipe full.
const CHUNK_BYTES: usize = 1 << 16;
const PAUSE: Duration = Duration::from_millis(20);

/// Logs a child's standard error and keeps its end.
#[derive(Clone)]
pub(super) struct StderrTail {
    end: Arc<Mutex<Vec<u8>>>,
    /// Number of bytes that were read. The sender ends with the standard error.
    written: watch::Receiver<u64>,
}

impl StderrTail {
    /// Reads the standard error of a child until its end. `redact` removes secrets.
    pub(super) fn start(
        name: &str,
        stderr: ChildStderr,
        redact: impl Fn(&str) -> String + Send + 'static,
    ) -> Self {
        let end = Arc::default();
        let (sender, written) = watch::channel(0);
        let reader = StderrReader { name: name.to_owned(), redact, end: Arc::clone(&end), written: sender };
        tokio::spawn(reader.run(stderr));
        Self { end, written }
    }

    /// Returns the number of bytes that were written.
    pub(super) fn written(&self) -> u64 {
        *self.written.borrow()
    }

    /// Returns the last lines, after giving the child time to write them.
    pub(super) async fn last_lines(&self) -> String {
        let mut written = self.written.clone();
        let ended = async { while written.changed().await.is_ok() {} };
        let _ = timeout(LAST_OUTPUT_TIMEOUT, ended).await;
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> =
            valid_text(&end).lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join(" / ")
    }

    /// Returns the end of the text that was written after `mark` bytes. Gives the child a little time to begin and to end it: its
    /// answer comes by another pipe.
    pub(super) async fn since(&self, mark: u64) -> String {
        let mut written = self.written.clone();
        let first = timeout(FIRST_OUTPUT_TIMEOUT, written.wait_for(|written| mark < *written)).await;
        let has_begun = first.is_ok_and(|written| written.is_ok());
        if has_begun {
            let settled = async { while let Ok(Ok(())) = timeout(QUIET, written.changed()).await {} };
            let _ = timeout(LAST_OUTPUT_TIMEOUT, settled).await;
        }
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let new = usize::try_from(self.written().saturating_sub(mark)).unwrap_or(usize::MAX);
        valid_text(&end[end.len().saturating_sub(new)..]).to_owned()
    }
}

/// Reads the standard error of a child.
struct StderrReader<R> {
    name: String,
    redact: R,
    end: Arc<Mutex<Vec<u8>>>,
    written: watch::Sender<u64>,
}

impl<R: Fn(&str) -> String> StderrReader<R> {
    async fn run(self, mut stderr: ChildStderr) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut read_at_once = 0;
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            let chunk = &chunk[..read];
            let (server, redact) = (&self.name, &self.redact);
            tracing::debug!(server, "{}", redact(String::from_utf8_lossy(chunk).trim_end()));
            self.keep(chunk);
            read_at_once += read;
            if CHUNK_BYTES <= read_at_once {
                read_at_once = 0;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Keeps the end of the output. Secrets are removed before it is cut: a part of a secret would not be recognized.
    fn keep(&self, chunk: &[u8]) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.extend_from_slice(chunk);
        if MAX_TAIL_BYTES < end.len() {
            *end = (self.redact)(&String::from_utf8_lossy(&end)).into_bytes();
            let surplus = end.len().saturating_sub(MAX_TAIL_BYTES);
            end.drain(..surplus);
        }
        drop(end);
        self.written.send_modify(|written| *written += chunk.len() as u64);
    }
}

/// Decodes the longest valid text from the first whole character on.
fn valid_text(bytes: &[u8]) -> &str {
    let start = bytes.iter().position(|byte| *byte & 0xC0 != 0x80).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    std::str::from_utf8(bytes)
        .unwrap_or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default())
}
