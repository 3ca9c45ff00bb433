//! The process group of a child: a server behind `sh -c` or `npx` ends together with the processes that it started.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{ChildStdin, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::process::{Child, Command};

/// Time that a child has to end after its input was closed, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

/// Interval at which the rest of a group is looked for.
const POLL: Duration = Duration::from_millis(20);

/// Time that the rest of a group has to end after its first process.
const REST_PATIENCE: Duration = Duration::from_secs(1);

/// A child and all processes of its group. Dropping it ends them at once.
pub(super) struct ProcessGroup {
    child: Child,
    id: Option<Pid>,
}

impl ProcessGroup {
    /// Starts a command in a group of its own: a Ctrl-C at the terminal must not end servers with calls in flight.
    pub(super) fn spawn(mut command: Command) -> std::io::Result<Self> {
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        id.inspect(|group| guard(&format!("+ {group}")));
        Ok(Self { child, id })
    }

    /// The first process.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends the group: waits for the child, whose input was closed, then asks all to end, then ends them.
    pub(super) async fn end(&mut self) {
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.signal(Signal::SIGTERM);
            let _ = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        }
        if self.signal(Signal::SIGTERM) {
            let gone = async {
                while self.is_alive() {
                    tokio::time::sleep(POLL).await;
                }
            };
            let _ = tokio::time::timeout(REST_PATIENCE, gone).await;
        }
        self.kill();
        let _ = self.child.wait().await;
    }

    fn is_alive(&self) -> bool {
        self.id.is_some_and(|group| killpg(group, None).is_ok())
    }

    /// Sends a signal to the group, and returns true if there was a process to receive it.
    fn signal(&self, signal: Signal) -> bool {
        self.id.is_some_and(|group| killpg(group, signal).is_ok())
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(id) = self.id.take() {
            guard(&format!("- {id}"));
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads the groups that live, one a line, and ends them when its input ends: then this process is gone.
const GUARD: &str = r#"
groups=' '
while read -r verb group; do
  case $verb in
    +) groups="$groups$group " ;;
    -) case $groups in *" $group "*) groups="${groups%% "$group" *} ${groups#* "$group" }" ;; esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// Tells the guard about a group.
///
/// ## Why another process
///
/// Nothing in this process can act once it is killed. A server that does not end with its input, or that a shell
/// started, would live on. `PR_SET_PDEATHSIG` reaches only the first process of a group, and only on Linux.
fn guard(line: &str) {
    static INPUT: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| Mutex::new(start_guard()));
    let mut input = INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    let written = input.as_mut().map(|input| writeln!(input, "{line}"));
    if let Some(Err(error)) = written {
        tracing::warn!(%error, "the guard of MCP servers has ended; if this process is killed, they may live on");
        *input = None;
    }
}

fn start_guard() -> Option<ChildStdin> {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", GUARD]).env_clear().process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut child) => child.stdin.take(),
        Err(error) => {
            tracing::warn!(%error, "cannot start the guard of MCP servers; if this process is killed, they may live on");
            None
        }
    }
}
