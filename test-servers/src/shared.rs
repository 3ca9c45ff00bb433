//! A PostgreSQL server that all tests of one run share.
//!
//! A test run is identified by the parent of the test process: `cargo nextest` starts every test as a process of its own, and
//! `cargo test` every test binary. The first test that asks starts the server and leaves it to an owner, a shell that waits
//! for the end of the run, stops the server and removes its folder.
//!
//! ## Why
//!
//! A private server costs a second of CPU time, most of it for `initdb`; a database in a running server costs a
//! twentieth.
//!
//! **Invariant:** the server ends with the run, however the run ends: the owner polls the runner's process, and the kernel
//! kills the server if the owner dies.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::account::Account;
use crate::port::free_port;
use crate::server::started_at;

/// Maximum time for the server to answer; the machine may be busy compiling.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Interval between two attempts to reach a server that is starting.
const POLL: Duration = Duration::from_millis(10);

/// Runs the server, waits until the runner or the server has ended, then stops the server and removes the folder.
///
/// Arguments: the runner's process id, the folder, the command. `QUIT` is PostgreSQL's immediate shutdown: it frees shared
/// memory and waits for no client.
const OWNER: &str = r#"
runner=$1 folder=$2
shift 2
"$@" &
server=$!
while kill -0 "$runner" && kill -0 "$server"; do sleep 0.5; done 2>/dev/null
kill -s QUIT "$server" 2>/dev/null
wait "$server"
rm -rf -- "$folder"
"#;

/// Folder of this run's server, with the files `lock`, `port` (once the server answers) and `log`.
pub(crate) fn folder(name: &str) -> PathBuf {
    let runner = parent_id();
    let started = started_at(runner).unwrap_or_default();
    env::temp_dir().join(format!("turnfold-shared-{name}-{runner}-{started}"))
}

/// Locks the folder of this run's server until the file is dropped; the kernel also releases it if this process dies.
pub(crate) fn lock(name: &str) -> File {
    let folder = folder(name);
    fs::create_dir_all(&folder).expect("failed to create the folder of the shared server");
    let lock = File::create(folder.join("lock")).and_then(|file| file.lock().map(|()| file));
    lock.expect("failed to lock the folder of the shared server")
}

/// Returns the port of this run's server; starts the server if it does not run yet.
///
/// `command` prepares the data in the folder and returns the server's command line for a port.
///
/// # Panics
///
/// If the server cannot be started. The message ends with the path of its log.
pub(crate) fn port(
    name: &str,
    account: Account,
    command: impl FnOnce(&Path, u16) -> Vec<String>,
    ready: impl Fn(u16) -> Result<(), String>,
) -> u16 {
    let _lock = lock(name);
    let folder = folder(name);
    let port_file = folder.join("port");
    let known = fs::read_to_string(&port_file).ok().and_then(|text| text.parse().ok());
    if let Some(port) = known.filter(|port| ready(*port).is_ok()) {
        return port;
    }
    let data = folder.join("data");
    // Left by a test that was killed while it prepared the server.
    let _ = fs::remove_dir_all(&data);
    fs::create_dir(&data).expect("failed to create a folder");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("failed to restrict a folder");
    account.own(&data);
    let port = free_port();
    let command = command(&data, port);
    start(&folder, account, &command);
    wait_until_ready(&folder, port, ready);
    fs::write(&port_file, port.to_string()).expect("failed to write the port of the shared server");
    port
}

#[expect(
    clippy::zombie_processes,
    reason = "the owner outlives the test that starts it, and ends with the test run"
)]
fn start(folder: &Path, account: Account, command: &[String]) {
    let log =
        File::options().create(true).append(true).open(folder.join("log")).expect("failed to open a log");
    let mut owner = Command::new("sh");
    owner.args(["-c", OWNER, "owner"]).arg(parent_id().to_string()).arg(folder);
    owner.args(["setpriv", "--pdeathsig", "KILL"]).args(account.words()).args(command);
    owner.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    // A process group of its own: the end of one test must not end the server.
    owner.current_dir("/").process_group(0).stdin(Stdio::null());
    owner.stdout(log.try_clone().expect("failed to share a log")).stderr(log);
    owner.spawn().expect("failed to start `sh`");
}

fn wait_until_ready(folder: &Path, port: u16, ready: impl Fn(u16) -> Result<(), String>) {
    let started = Instant::now();
    while let Err(reason) = ready(port) {
        assert!(
            started.elapsed() < READY_WITHIN,
            "the shared server was not ready within {READY_WITHIN:?}: {reason}; see {}",
            folder.join("log").display()
        );
        thread::sleep(POLL);
    }
}
