//! Who a server runs as: us, except that PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user that Debian's package creates.
const POSTGRES: &str = "postgres";

/// A user and group to become before a server starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Account {
    /// Whoever runs the test.
    Own,
    /// Another user, by number; only root can.
    Other { user: u32, group: u32 },
}

impl Account {
    /// Who may run PostgreSQL here.
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

    /// The words by which `setpriv` becomes this account.
    pub(crate) fn words(self) -> Vec<String> {
        match self {
            Self::Own => Vec::new(),
            Self::Other { user, group } => {
                vec![format!("--reuid={user}"), format!("--regid={group}"), "--init-groups".to_owned()]
            }
        }
    }

    /// Gives it a folder.
    pub(crate) fn own(self, folder: &Path) {
        if let Self::Other { user, group } = self {
            std::os::unix::fs::chown(folder, Some(user), Some(group)).unwrap_or_else(|error| {
                panic!("failed to give {} to user {user}: {error}", folder.display())
            });
        }
    }
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").expect("failed to read /proc/self").uid() == 0
}
