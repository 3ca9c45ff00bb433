//! The test vectors of `docs/proofs.md`: three verifiers, in Rust, Python and JavaScript, answer each of them as expected.

use std::{fs, path::Path, process::Command};

use audit::checkpoints::{Checked, Verdict, check_folder};
use serde_json::Value;

use crate::bundle::PACKAGES;

const SCRIPTS: [&str; 2] = ["verify.py", "verify.mjs"];

#[test]
fn real_verifiers_agree_on_every_vector() {
    let python = test_servers::pip(&PACKAGES).join("bin/python");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (vectors, scripts) = (root.join("../fixtures/proofs"), root.join("src/checkpoints"));
    let copy = tempfile::tempdir().unwrap();
    let (mut found, mut wrong) = (0, Vec::new());
    for vector in fs::read_dir(&vectors).unwrap().map(|entry| entry.unwrap().path()) {
        if !vector.is_dir() {
            continue;
        }
        found += 1;
        let name = vector.file_name().unwrap().to_string_lossy().into_owned();
        let expected: Value =
            serde_json::from_str(&fs::read_to_string(vector.join("expected.json")).unwrap()).unwrap();
        let vkeys: Vec<String> = serde_json::from_value(expected["vkeys"].clone()).unwrap();
        let Checked { verdict, what } = check_folder(&vector, &vkeys);
        if serde_json::to_value(verdict).unwrap() != expected["verdict"] {
            wrong.push(format!("{name}: Rust says {verdict:?}: {what}"));
        }
        let folder = copy.path().join(&name);
        copy_folder(&vector, &folder);
        for script in SCRIPTS {
            fs::copy(scripts.join(script), folder.join(script)).unwrap();
            let program = if script == SCRIPTS[0] { python.as_path() } else { Path::new("node") };
            let output = Command::new(program).arg(folder.join(script)).args(&vkeys).output().unwrap();
            let said = match output.status.code() {
                Some(0) => Some(Verdict::Intact),
                Some(1) => Some(Verdict::Tampered),
                Some(6) => Some(Verdict::NotChecked),
                _ => None,
            };
            if said.is_none_or(|said| serde_json::to_value(said).unwrap() != expected["verdict"]) {
                wrong.push(format!("{name}: {script} says {}", String::from_utf8_lossy(&output.stdout)));
            }
        }
    }
    assert!(100 < found && wrong.is_empty(), "{found} vectors:\n{}", wrong.join("\n"));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
