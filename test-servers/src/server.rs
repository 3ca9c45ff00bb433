//! One server process that is started, waited for, killed, and started again on the same port.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::folder::Folder;
use crate::port::free_port;
use crate::process;

/// Maximum time until a server answers. Generous, because the machine may be compiling; an idle one needs 0.1 s.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time for an orderly shutdown before the server is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// Interval between two checks.
const POLL: Duration = Duration::from_millis(10);
/// Maximum bytes of a server's log that a panic shows.
const LOG_SHOWN: usize = 4096;

/// A process, its port and its folder.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    port: u16,
    // Before the folder: the process must be gone when the folder is removed.
    child: Option<Child>,
    folder: Folder,
}

impl Server {
    /// Creates a server that is not started yet.
    pub(crate) fn new(name: &'static str) -> Self {
        let folder = Folder::new(&format!("turnfold-{name}-"));
        Self { name, port: free_port(), child: None, folder }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command and waits for its end.
    pub(crate) fn prepare(&self, command: Command) {
        let mut child = process::start(self.logged(command));
        let status = child.wait().expect("failed to wait for a child");
        assert!(status.success(), "failed to prepare {}: {status}{}", self.name, self.log());
    }

    /// Starts the server and waits until `ready` succeeds.
    pub(crate) fn start(&mut self, command: Command, ready: impl Fn(u16) -> Result<(), String>) {
        let started = Instant::now();
        let mut child = process::start(self.logged(command));
        loop {
            if let Some(status) = child.try_wait().expect("failed to wait for a child") {
                panic!("{} did not start on port {}: {status}{}", self.name, self.port, self.log());
            }
            let Err(reason) = ready(self.port) else { break };
            if started.elapsed() > READY_WITHIN {
                let _ = child.kill();
                panic!("{} was not ready within {READY_WITHIN:?}: {reason}{}", self.name, self.log());
            }
            thread::sleep(POLL);
        }
        self.child = Some(child);
    }

    /// Sends SIGKILL, and waits until the server and its child processes are gone.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let family = children(child.id());
        let _ = child.kill();
        let _ = child.wait();
        let killed = Instant::now();
        // Child processes notice on their own; until they end, PostgreSQL refuses to start again.
        while family.iter().any(|child| lives(*child)) && killed.elapsed() < STOPPED_WITHIN {
            thread::sleep(POLL);
        }
    }

    /// Limits files of the server, which runs as `account`, and of its child processes to this many bytes.
    pub(crate) fn limit_files(&self, account: Account, bytes: u64) {
        let Some(server) = self.child.as_ref().map(Child::id) else { return };
        let limit = |process: u32| {
            let mut prlimit = process::mortal(Path::new("prlimit"), account, self.folder());
            prlimit.args(["--pid", &process.to_string(), &format!("--fsize={bytes}:")]);
            process::start(self.logged(prlimit)).wait().expect("failed to wait for a child").success()
        };
        assert!(limit(server), "failed to limit the files of {}{}", self.name, self.log());
        // A process that has ended has no files.
        for child in children(server) {
            limit(child);
        }
    }

    /// Sends a signal that asks for an orderly shutdown; kills the server if it does not end.
    pub(crate) fn stop(&mut self, signal: &str) {
        let Some(child) = self.child.as_mut() else { return };
        process::signal(child, signal);
        let asked = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if asked.elapsed() > STOPPED_WITHIN {
                return self.kill();
            }
            thread::sleep(POLL);
        }
        self.child = None;
    }

    fn logged(&self, mut command: Command) -> Command {
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("failed to open a log");
        command.stdout(log.try_clone().expect("failed to share a log")).stderr(log);
        command
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// The end of the server's log, for a panic message.
    fn log(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let shown = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_SHOWN)..]);
        format!("\n--- log of {} ---\n{shown}", self.name)
    }
}

/// Child processes of a process.
fn children(of: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("failed to list /proc").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|number| stat(*number).is_some_and(|(_, parent)| parent == of)).collect()
}

/// Start time of a process, in clock ticks since the machine started.
pub(crate) fn started_at(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The 22nd field; the second, the name, is in parentheses and may contain blanks.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Reports whether a process runs. A zombie (`Z`) does not.
fn lives(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state != "Z")
}

/// A process's state and parent.
fn stat(process: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may contain anything, so read from behind the last one.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}
