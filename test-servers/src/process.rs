//! Child processes that die with the test.
//!
//! The kernel sends a child its death signal when the *thread* that started it ends, not the process. Tests have
//! short-lived threads (one per test in libtest, idle ones of a blocking pool), so one thread that never ends starts
//! every child.
//!
//! `setpriv` sets the signal after it has changed the user, because changing the user clears it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::thread;

use crate::account::Account;

/// Starts the program, unless the parent died before the death signal was set.
const UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;

/// A command, and the channel for the started child.
type Order = (Command, Sender<io::Result<Child>>);

static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (orders, received) = channel::<Order>();
    let starter = thread::Builder::new().name("starter".to_owned()).spawn(move || {
        for (mut command, answer) in received {
            // The receiver is gone only if the test has panicked.
            let _ = answer.send(command.spawn());
        }
    });
    starter.expect("failed to start a thread");
    Mutex::new(orders)
});

/// Builds a command that dies with the test and runs as `account` in `folder`, with a minimal environment and its own
/// process group. Ctrl-C and signals of a test runner go to the test, which then stops the server.
pub(crate) fn mortal(program: &Path, account: Account, folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).args(account.words());
    command.args(["sh", "-c", UNLESS_ORPHANED, "sh"]).arg(std::process::id().to_string()).arg(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    command.current_dir(folder).stdin(Stdio::null()).process_group(0);
    command
}

/// Starts a command from the thread that never ends.
pub(crate) fn start(command: Command) -> Child {
    let (answer, answered) = channel();
    let program = command.get_program().to_owned();
    STARTER.lock().expect("no panic while held").send((command, answer)).expect("the starter never ends");
    let started = answered.recv().expect("the starter answers every order");
    started.unwrap_or_else(|error| panic!("failed to start {}: {error}", program.display()))
}

/// Sends a signal for which `std` has no function.
pub(crate) fn signal(child: &Child, name: &str) {
    // The shell's built-in `kill`: a minimal Debian has no other.
    let words = ["-c", r#"kill -s "$1" "$2""#, "sh", name].map(OsStr::new);
    let _ = Command::new("sh").args(words).arg(child.id().to_string()).stderr(Stdio::null()).status();
}
