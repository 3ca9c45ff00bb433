//! Settings of the process itself.

use rustix::process::{Resource, Rlimit};
use tracing::warn;

/// Closes the memory and the environment of this process to other processes of the same user, such as MCP servers, and
/// prevents core dumps: both hold secrets. Processes of root can still read them.
pub(crate) fn protect() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        crate::output::note(&format!(
            "warning: other processes of this user can read secrets of this one: {error}"
        ));
    }
}

/// Raises the limit of open files to the maximum that the system permits: each connection takes one.
pub(crate) fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        warn!(%error, current = limit.current, "cannot raise the limit of open files");
    }
}
