//! Finds a server's binary, and installs it if it is missing.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::account::is_root;
use crate::port::reserve;

/// Maximum wait for another test that installs packages.
const INSTALLED_WITHIN: Duration = Duration::from_mins(10);

/// A server, and its Debian package.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// A folder with one folder per version, each with a `bin`.
    pub(crate) versions: Option<&'static str>,
    pub(crate) at_least: (u32, u32),
}

/// Returns the path of the binary, in a version that is new enough.
pub(crate) fn find(program: &Program) -> PathBuf {
    require_setpriv();
    let found = installed(program).unwrap_or_else(|| {
        let _alone = wait_for_turn();
        // Another test may have installed it meanwhile.
        installed(program).unwrap_or_else(|| {
            let refused = install(program.package).err();
            installed(program).unwrap_or_else(|| panic!("{}", missing(program, refused)))
        })
    });
    let version = version(&found);
    assert!(
        version >= program.at_least,
        "{} is version {version:?}, but the tests need {:?} or newer: install a newer package `{}`",
        found.display(),
        program.at_least,
        program.package
    );
    found
}

/// The newest version in Debian's separate folders, else the first in PATH.
fn installed(program: &Program) -> Option<PathBuf> {
    let apart = program.versions.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = apart
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin").join(program.name)))
        })
        .filter(|(_, binary)| binary.is_file())
        .collect();
    versions.sort();
    versions.pop().map(|(_, binary)| binary).or_else(|| in_path(program.name))
}

pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|binary| binary.is_file())
}

/// The first two numbers printed by `--version`.
pub(crate) fn version(binary: &Path) -> (u32, u32) {
    let output = Command::new(binary).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("failed to run {}: {error}", binary.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    let mut numbers =
        said.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Waits for a lock that one process at a time holds. It is released when dropped, or when the process dies.
pub(crate) fn wait_for_turn() -> UnixListener {
    let asked = Instant::now();
    loop {
        if let Some(turn) = reserve("turnfold-test-install") {
            return turn;
        }
        assert!(
            asked.elapsed() < INSTALLED_WITHIN,
            "another test has been installing for {INSTALLED_WITHIN:?}"
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// Installs a package as root, or through `sudo` without a password.
pub(crate) fn install(package: &str) -> Result<(), String> {
    update()?;
    apt_get(&["install", "--yes", "--no-install-recommends", package])
}

/// Reads the lists of packages again, as root or through `sudo` without a password.
pub(crate) fn update() -> Result<(), String> {
    apt_get(&["update"])
}

fn apt_get(words: &[&str]) -> Result<(), String> {
    let prefix: &[&str] = if is_root() { &[] } else { &["sudo", "-n"] };
    let line = [
        prefix,
        // Through `env`, because sudo clears the environment.
        &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"],
        words,
    ]
    .concat();
    let output = Command::new(line[0]).args(&line[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{}`: {error}", line.join(" ")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{}`: {}\n{}", line.join(" "), output.status, String::from_utf8_lossy(&output.stderr)))
}

fn missing(program: &Program, refused: Option<String>) -> String {
    let package = program.package;
    let refused = refused.map_or_else(String::new, |words| format!("\ninstalling it failed: {words}"));
    format!(
        "`{}` is missing, and the tests run against a real one: install it with \
         `apt-get update && apt-get install -y {package}` as root, or put it into PATH{refused}",
        program.name
    )
}

fn require_setpriv() {
    assert!(
        in_path("setpriv").is_some(),
        "`setpriv` is missing, without which servers would outlive a killed test: install `util-linux`"
    );
}
