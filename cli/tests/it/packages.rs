//! The wheel and the npm package of a release install a binary that runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::engine::TURNFOLD;

/// Returns a Python with the version of hatchling that the wheel's project names.
fn python() -> PathBuf {
    let project = fs::read_to_string(release().join("pypi/pyproject.toml")).unwrap();
    let (_, version) = project.split_once("hatchling==").unwrap();
    test_servers::pip(&[("hatchling", version.split('"').next().unwrap())]).join("bin/python")
}

fn release() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/release")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the file in a folder whose name ends so.
fn file(folder: &Path, ending: &str) -> PathBuf {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
}

#[test]
fn real_packages_install_the_binary() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let (binary, packages) = (folder.path().join("turnfold"), folder.path().join("packages"));
    run(Command::new("strip").arg("-o").arg(&binary).arg(TURNFOLD));
    run(Command::new(release().join("packages.sh")).env("PYTHON", &python).args([&binary, &packages]));
    let version = run(Command::new(TURNFOLD).arg("--version"));

    let venv = folder.path().join("venv");
    run(Command::new(&python).args(["-m", "venv"]).arg(&venv));
    let pip = ["install", "--quiet", "--no-index", "--disable-pip-version-check"];
    run(Command::new(venv.join("bin/pip")).args(pip).arg(file(&packages, ".whl")));
    assert_eq!(run(Command::new(venv.join("bin/turnfold")).arg("--version")), version);

    let npm = ["install", "--offline", "--no-audit", "--no-fund", "--prefix"];
    run(Command::new("npm")
        .current_dir(test_servers::npm(&[]))
        .args(npm)
        .arg(folder.path())
        .arg(file(&packages, ".tgz")));
    assert_eq!(run(Command::new(folder.path().join("node_modules/.bin/turnfold")).arg("--version")), version);
}
