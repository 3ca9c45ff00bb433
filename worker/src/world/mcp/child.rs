//! An MCP server as a child process: what it may see, and what it murmurs.

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

/// What a child sees of our environment; the rest may hold secrets.
const SEEN: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// How much of what a child says on its standard error is kept, in bytes.
const KEPT: usize = 2_000;

/// How long the last words of a child are waited for.
const GASP: Duration = Duration::from_millis(300);

/// Starts a server; `hide` strikes out what nobody may read of what it murmurs.
pub(super) fn spawn(
    name: &str,
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
    hide: impl Fn(&str) -> String + Send + 'static,
) -> std::io::Result<(TokioChildProcess, Murmur)> {
    let mut child = Command::new(command);
    let seen = SEEN.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    child.args(args).env_clear().envs(seen).envs(env).kill_on_drop(true);
    if let Some(cwd) = cwd {
        child.current_dir(cwd);
    }
    // In a group of its own: a Ctrl-C at the terminal must not end the servers of calls that are still under way.
    #[cfg(unix)]
    child.process_group(0);
    let (child, stderr) = TokioChildProcess::builder(child).stderr(Stdio::piped()).spawn()?;
    let murmur = stderr.map(|it| Murmur::listen(name, it, hide)).unwrap_or_default();
    Ok((child, murmur))
}

/// What a child says on its standard error: logged, and the end of it kept.
#[derive(Default)]
pub(super) struct Murmur {
    end: Arc<Mutex<Vec<u8>>>,
    listener: Option<JoinHandle<()>>,
}

impl Murmur {
    fn listen(name: &str, stderr: ChildStderr, hide: impl Fn(&str) -> String + Send + 'static) -> Self {
        let end = Arc::default();
        let listener = tokio::spawn(listen(name.to_owned(), stderr, hide, Arc::clone(&end)));
        Self { end, listener: Some(listener) }
    }

    /// The last lines, once the child has had the time to say them.
    pub(super) async fn last_words(self) -> String {
        if let Some(listener) = self.listener {
            let _ = tokio::time::timeout(GASP, listener).await;
        }
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = str_of(&end).lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        lines.join(" / ")
    }
}

async fn listen(
    name: String,
    mut stderr: ChildStderr,
    hide: impl Fn(&str) -> String,
    end: Arc<Mutex<Vec<u8>>>,
) {
    let mut piece = [0; 4_096];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let piece = &piece[..read];
        tracing::debug!(server = name, "{}", hide(String::from_utf8_lossy(piece).trim_end()));
        let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
        end.extend_from_slice(piece);
        let surplus = end.len().saturating_sub(KEPT);
        end.drain(..surplus);
    }
}

/// The text from the first whole character on, as far as it is one.
fn str_of(bytes: &[u8]) -> &str {
    let start = bytes.iter().position(|it| *it & 0xC0 != 0x80).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    std::str::from_utf8(bytes)
        .unwrap_or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default())
}
