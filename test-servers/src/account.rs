//! The account that a server runs as: the test's own, except that PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user created by Debian's package.
const POSTGRES: &str = "postgres";

/// A user and group that a server runs as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Account {
    /// The user who runs the test.
    Own,
    /// Another user, by number. Only root can change to it.
    Other { user: u32, group: u32 },
}

impl Account {
    /// Returns the account for PostgreSQL on this machine.
    pub(crate) fn for_postgres() -> Self {
        if !is_root() {
            return Self::Own;
        }
        let users = fs::read_to_string("/etc/passwd").expect("failed to read /etc/passwd");
        let entry =
            users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|entry| entry[0] == POSTGRES);
        let number = |at: usize| entry.as_ref()?.get(at)?.parse().ok();
        match (number(2), number(3)) {
            (Some(user), Some(group)) => Self::Other { user, group },
            _ => panic!(
                "PostgreSQL refuses to run as root and there is no user `{POSTGRES}` to run it as: \
                 run the tests as another user, or create it with `useradd --system {POSTGRES}`"
            ),
        }
    }

    /// Arguments by which `setpriv` changes to this account.
    pub(crate) fn words(self) -> Vec<String> {
        match self {
            Self::Own => Vec::new(),
            Self::Other { user, group } => {
                vec![format!("--reuid={user}"), format!("--regid={group}"), "--init-groups".to_owned()]
            }
        }
    }

    /// Changes the owner of a folder to this account.
    pub(crate) fn own(self, folder: &Path) {
        if let Self::Other { user, group } = self {
            std::os::unix::fs::chown(folder, Some(user), Some(group)).unwrap_or_else(|error| {
                panic!("failed to give {} to user {user}: {error}", folder.display())
            });
        }
    }
}

/// Reports whether this process runs as root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").expect("failed to read /proc/self").uid() == 0
}
