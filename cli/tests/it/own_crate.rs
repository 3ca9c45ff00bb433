//! A user's own crate, outside the workspace. It is built with the libraries that this test binary was linked with, which takes
//! seconds. With `TURNFOLD_LONG=1`, cargo builds it with all its dependencies, as it does for a user.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::engine::{TURNFOLD, is_long};

/// A crate with a manifest in this folder.
pub(crate) struct OwnCrate<'a> {
    folder: &'a Path,
    name: &'a str,
    /// Names and files of its dependencies. `None` if cargo builds them.
    libraries: Option<Vec<(&'a str, PathBuf)>>,
}

impl<'a> OwnCrate<'a> {
    pub(crate) fn of(folder: &'a Path, name: &'a str, dependencies: &[&'a str]) -> Self {
        let libraries = || dependencies.iter().map(|name| Some((*name, library(name)?))).collect();
        Self { folder, name, libraries: if is_long() { None } else { libraries() } }
    }

    /// Returns the command that compiles the crate, or its tests, from one source file. `None` if cargo does.
    pub(crate) fn compiler(&self, source: &str, flags: &[&str]) -> Option<Command> {
        let libraries = self.libraries.as_ref()?;
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args([source, "--crate-name", self.name, "--edition", "2024"]).args(flags);
        for (name, file) in libraries {
            command.arg("--extern").arg(format!("{name}={}", file.display()));
            command.arg("-L").arg(format!("dependency={}", file.parent().unwrap().display()));
        }
        command.current_dir(self.folder).env("CARGO_MANIFEST_DIR", self.folder);
        Some(command)
    }

    /// Runs the tests in `src/main.rs` and returns their output.
    pub(crate) fn test(&self) -> String {
        let tests = self.folder.join("target/tests");
        match self.compiler("src/main.rs", &["--test", "-o", "target/tests"]) {
            Some(compiler) => {
                fs::create_dir_all(tests.parent().unwrap()).unwrap();
                succeed(compiler);
                let mut command = Command::new(tests);
                command.current_dir(self.folder).env("CARGO_MANIFEST_DIR", self.folder);
                command.env("INSTA_UPDATE", "no");
                succeed(command)
            }
            None => self.cargo("test"),
        }
    }

    /// Builds `src/main.rs` and returns the program.
    pub(crate) fn build(&self) -> PathBuf {
        let program = self.folder.join("target").join(self.name);
        match self.compiler("src/main.rs", &["-o", program.to_str().unwrap()]) {
            Some(compiler) => drop(succeed(compiler)),
            None => {
                self.cargo("build");
                fs::copy(target().join("debug").join(self.name), &program).unwrap();
                succeed(cargo(self.folder, &["clean", "-p", self.name]));
            }
        }
        program
    }

    /// Runs cargo with the features of this test binary, so that dependencies outside the workspace are compiled once.
    fn cargo(&self, command: &str) -> String {
        let features: &[&str] =
            if cfg!(feature = "milvus") { &["--features", "turnfold/milvus"] } else { &[] };
        succeed(cargo(self.folder, &[&[command], features].concat()))
    }
}

/// Returns the command `cargo` in a user's crate: without the network, and with the target folder and the configuration of
/// the workspace.
pub(crate) fn cargo(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).arg("--offline").current_dir(folder);
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cargo/config.toml");
    if config.exists() {
        command.arg("--config").arg(config);
    }
    command.env("CARGO_TARGET_DIR", target()).env("INSTA_UPDATE", "no");
    command
}

/// Runs a command that must succeed. Returns its output.
pub(crate) fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap()
}

fn target() -> &'static Path {
    Path::new(TURNFOLD).parent().and_then(Path::parent).unwrap()
}

/// Returns the file of a library that this test binary is linked with: the folder `deps` may contain several builds of it.
/// `None` if cargo's record of the build is not found.
///
/// The record names each dependency with the hash of its own record.
fn library(name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let deps = tests.parent()?;
    let records = deps.parent()?.join(".fingerprint");
    let id = |path: &Path| Some(path.file_name()?.to_str()?.rsplit_once('-')?.1.to_owned());
    let own = records.join(format!("turnfold-{}", id(&tests)?)).join("test-integration-test-it.json");
    let own: Value = serde_json::from_str(&fs::read_to_string(own).ok()?).ok()?;
    let dependency = own["deps"].as_array()?.iter().find(|dependency| dependency[1] == name)?;
    let hash = dependency[3].as_u64()?.to_le_bytes().map(|byte| format!("{byte:02x}")).concat();
    let record = fs::read_dir(records).ok()?.find_map(|record| {
        let record = record.ok()?.path();
        (fs::read_to_string(record.join(format!("lib-{name}"))).ok()? == hash).then_some(record)
    })?;
    let file = deps.join(format!("lib{name}-{}.rlib", id(&record)?));
    file.exists().then_some(file)
}
