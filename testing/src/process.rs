//! Child processes that die with us.
//!
//! The kernel sends a child its death signal when the *thread* that started it ends, not the process. Tests
//! have short threads (one a test in libtest, idle ones of a blocking pool), so one thread that never ends
//! starts every child.
//!
//! The signal is set by `setpriv` after it has become another user, because becoming one clears it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::thread;

use crate::account::Account;

/// Starts the program, unless the parent that it should die with has died before the death signal was set.
const UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;

/// What to start, and where to answer.
type Order = (Command, Sender<io::Result<Child>>);

static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (orders, received) = channel::<Order>();
    let starter = thread::Builder::new().name("starter".to_owned()).spawn(move || {
        for (mut command, answer) in received {
            // Nobody waits for the answer any more only when the test has panicked.
            let _ = answer.send(command.spawn());
        }
    });
    starter.expect("failed to start a thread");
    Mutex::new(orders)
});

/// A command that will die with us, run as `account` in `folder`, in a plain environment and a process group
/// of its own (Ctrl-C and a test runner's signals are for us; we then stop it).
pub(crate) fn mortal(program: &Path, account: Account, folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).args(account.words());
    command.args(["sh", "-c", UNLESS_ORPHANED, "sh"]).arg(std::process::id().to_string()).arg(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    command.current_dir(folder).stdin(Stdio::null()).process_group(0);
    command
}

/// Starts it from the thread that never ends.
pub(crate) fn start(command: Command) -> Child {
    let (answer, answered) = channel();
    let program = command.get_program().to_owned();
    STARTER.lock().expect("no panic while held").send((command, answer)).expect("the starter never ends");
    let started = answered.recv().expect("the starter answers every order");
    started.unwrap_or_else(|error| panic!("failed to start {}: {error}", program.display()))
}

/// Sends a signal that `std` has no word for.
pub(crate) fn signal(child: &Child, name: &str) {
    // The shell's own `kill`: a small Debian has no other.
    let words = ["-c", r#"kill -s "$1" "$2""#, "sh", name].map(OsStr::new);
    let _ = Command::new("sh").args(words).arg(child.id().to_string()).stderr(Stdio::null()).status();
}
