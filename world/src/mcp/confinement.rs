//! Confinement of children: a sandbox made by bubblewrap, and another user.
//!
//! ## Why an allow list
//!
//! The folder of turnfold holds its configuration and perhaps its database, and the home of its user holds keys. A sandbox that
//! hides some folders forgets others, so it shows only what every program needs and what is listed.

use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, geteuid};
use tokio::process::Command;

use super::stdio::ChildConfig;

/// Program that makes sandboxes.
const BUBBLEWRAP: &str = "bwrap";

/// Parts of the system that every sandbox sees, if they exist: programs, libraries, certificates and name resolution.
const SYSTEM: [&str; 20] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
];

/// Confinement of a child.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// Sandbox of the child; none if absent.
    pub sandbox: Option<Sandbox>,
    /// Name or number of the user that runs the child; that of this process if absent.
    pub user: Option<String>,
}

/// A sandbox: no other processes, no network unless allowed, a private `/tmp`, and of the file system only the programs and
/// libraries of the system, the working directory if one is set, and the listed folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// True if the child may use the network.
    pub network: bool,
    /// Files and folders that the child may read.
    pub read: Vec<PathBuf>,
    /// Files and folders that the child may read and change.
    pub write: Vec<PathBuf>,
}

impl Confinement {
    /// Checks that this process can confine a child so.
    ///
    /// # Errors
    ///
    /// The reason why it cannot. The child is then not started.
    pub fn check(&self) -> Result<(), String> {
        if self.sandbox.is_some() && !is_installed(BUBBLEWRAP) {
            return Err(format!(
                "its sandbox needs {BUBBLEWRAP}, which is not installed; hint: install the package bubblewrap"
            ));
        }
        self.user().map(drop)
    }

    /// Returns the user that runs the child, if it is another.
    fn user(&self) -> Result<Option<User>, String> {
        let Some(name) = &self.user else { return Ok(None) };
        let found = match name.parse() {
            Ok(id) => User::from_uid(Uid::from_raw(id)),
            Err(_) => User::from_name(name),
        };
        let user = found.ok().flatten().ok_or_else(|| format!("the user {name:?} does not exist"))?;
        if user.uid == geteuid() {
            return Ok(None);
        }
        if !geteuid().is_root() {
            return Err(format!("only a process of root can start it as user {name:?}"));
        }
        Ok(Some(user))
    }

    /// Returns the command of a child with this confinement, and the environment variables in `inherited` unless the
    /// configuration sets them.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub(super) fn command(&self, config: &ChildConfig<'_>, inherited: &[&str]) -> Result<Command, String> {
        self.check()?;
        let mut command = match &self.sandbox {
            None => Command::new(config.command),
            Some(sandbox) => {
                let mut command = Command::new(BUBBLEWRAP);
                command.args(sandbox.arguments(config.cwd)).arg("--").arg(config.command);
                command
            }
        };
        let inherited = inherited.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.args(config.args).env_clear().envs(inherited);
        if let Some(User { uid, gid, dir, .. }) = self.user()? {
            command.uid(Uid::as_raw(uid)).gid(Gid::as_raw(gid)).env("HOME", dir);
        }
        if self.sandbox.is_some() {
            command.envs([("HOME", "/tmp"), ("TMPDIR", "/tmp")]);
        }
        // The lists of some servers in Python depend on the order of a set, and would differ from their pin at every start.
        command.env("PYTHONHASHSEED", "0").envs(config.env);
        if let Some(cwd) = config.cwd {
            command.current_dir(cwd);
        }
        Ok(command)
    }
}

impl Sandbox {
    /// Arguments of bubblewrap.
    fn arguments(&self, cwd: Option<&Path>) -> Vec<PathBuf> {
        let mut arguments: Vec<PathBuf> =
            ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
                .map(Into::into)
                .into();
        if self.network {
            arguments.push("--share-net".into());
        }
        let mut bind =
            |how: &str, path: &Path| arguments.extend([how.into(), absolute(path), absolute(path)]);
        SYSTEM.iter().for_each(|path| bind("--ro-bind-try", Path::new(path)));
        cwd.into_iter().for_each(|path| bind("--ro-bind", path));
        self.read.iter().for_each(|path| bind("--ro-bind", path));
        self.write.iter().for_each(|path| bind("--bind", path));
        arguments.extend(["--proc", "/proc", "--dev", "/dev"].map(Into::into));
        // Folders below /tmp that are listed stay visible.
        arguments.splice(0..0, ["--tmpfs", "/tmp"].map(Into::into));
        arguments.extend(["--chdir".into(), cwd.map_or_else(|| "/tmp".into(), absolute)]);
        arguments
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns true if a program is in one of the folders of `PATH`.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
