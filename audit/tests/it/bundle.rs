//! A bundle is checked by its own script, with a real Python and without turnfold.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use audit::checkpoints::{Gone, Key, Place, checkpoint, export};
use serde_json::{Value, json};
use store::testing::tamper::rehash;

use crate::audit_test::{AuditTest, scan};

/// Pinned, so that the test does not change with a release.
pub(crate) const PACKAGES: [(&str, &str); 1] = [("cryptography", "50.0.2")];

struct Bundle {
    folder: PathBuf,
    python: PathBuf,
}

impl Bundle {
    /// Runs the script. Returns its exit code and its output.
    fn verify(&self, arguments: &[&str]) -> (Option<i32>, String) {
        self.run(Command::new(&self.python).arg(self.folder.join("verify.py")).args(arguments))
    }

    fn run(&self, command: &mut Command) -> (Option<i32>, String) {
        let output = command.output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.code(), text)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Changes a file, runs the script, and restores the file.
    fn with(&self, name: &str, change: impl FnOnce(String) -> String, vkey: &str) -> (Option<i32>, String) {
        let before = fs::read_to_string(self.file(name)).unwrap();
        let changed = change(before.clone());
        assert_ne!(changed, before, "{name} was to be changed");
        fs::write(self.file(name), changed).unwrap();
        let output = self.verify(&[vkey]);
        fs::write(self.file(name), before).unwrap();
        output
    }
}

fn lines(text: &str, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    change(&mut all);
    all.iter().map(|line| format!("{line}\n")).collect()
}

fn proof(text: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut proof = serde_json::from_str(text).unwrap();
    change(&mut proof);
    proof.to_string()
}

#[tokio::test]
async fn real_python_checks_a_bundle() {
    let test = AuditTest::new("sqlite::memory:").await;
    let python = test_servers::pip(&PACKAGES).join("bin/python");
    for (nth, thread) in test.threads.iter().enumerate() {
        let folder = test.folder.path().join(format!("bundle-{nth}"));
        export(&test.store, *thread, Some(&test.place), &folder).await.unwrap();
        let bundle = Bundle { folder, python: python.clone() };
        let (exit, output) = bundle.verify(&[test.key.vkey()]);
        assert!(exit == Some(0) && output.starts_with("intact: events 0 to "), "{output}");
        assert_eq!(
            output.contains("not checked against it"),
            nth == 0,
            "the first thread has grown: {output}"
        );
        if nth == 0 {
            assert_tampering_is_found(&bundle, &test).await;
            assert_obstacles_are_not_tampering(&bundle, test.key.vkey());
        }
    }
    // A name with letters that the terminal cannot show.
    let key = Key::make(&test.folder.path().join("foreign"), "ключ.org/turnfold").unwrap();
    let place = Place::of(&test.folder.path().join("foreign.note"));
    checkpoint(&test.store, &scan(None), &place, &key, Gone::Found).await.unwrap();
    let foreign = Bundle { folder: test.folder.path().join("foreign-bundle"), python: python.clone() };
    export(&test.store, test.threads[0], Some(&place), &foreign.folder).await.unwrap();
    let mut command = Command::new(&foreign.python);
    command.env("PYTHONIOENCODING", "ascii").arg(foreign.file("verify.py")).arg(key.vkey());
    let (exit, output) = foreign.run(&mut command);
    assert!(exit == Some(0) && output.starts_with("intact: "), "{output}");
    let alone = Bundle { folder: test.folder.path().join("alone"), python };
    export(&test.store, test.threads[0], None, &alone.folder).await.unwrap();
    let (exit, output) = alone.verify(&[test.key.vkey()]);
    assert!(exit == Some(6) && output.contains("nothing here attests"), "{output}");
}

async fn assert_tampering_is_found(bundle: &Bundle, test: &AuditTest) {
    let vkey = test.key.vkey();
    let (exit, output) = bundle.verify(&[]);
    assert!(exit == Some(6) && output.contains("who signed it"), "{output}");
    let (exit, output) = bundle.verify(&["nonsense"]);
    assert!(exit == Some(6) && output.contains("NAME+ID+KEY"), "{output}");

    let attested = usize::try_from(test.lengths_at_checkpoints[1][0]).unwrap();
    let rehashed = rehashed_log(test).await;
    let cut = |many: usize| move |file: String| lines(&file, |all| all.truncate(many));
    let found = |found: (Option<i32>, String), message: &str| {
        assert!(
            found.0 == Some(1) && found.1.starts_with("tampered: ") && found.1.contains(message),
            "{found:?}"
        );
    };
    let events = "events.jsonl";
    let edit = |file: String| lines(&file, |all| all[3]["payload"] = json!("{}"));
    found(bundle.with(events, edit, vkey), "event 3 does not fit the events before it");
    let delete = |file: String| lines(&file, |all| drop(all.remove(4)));
    found(bundle.with(events, delete, vkey), "event 4 is missing");
    let swap = |file: String| lines(&file, |all| all.swap(2, 3));
    found(bundle.with(events, swap, vkey), "event 2 is missing");
    found(bundle.with(events, cut(attested - 1), vkey), "are cut off");
    found(bundle.with(events, |_| rehashed, vkey), "changed, and hashed anew");
    let codec = |file: String| lines(&file, |all| all[1]["codec"] = json!("zstd"));
    found(bundle.with(events, codec, vkey), "not stored as json");
    found(bundle.with(events, |file| file[..file.len() / 2].to_owned(), vkey), "not as it was exported");
    for (field, value) in
        [("payload", json!(5)), ("at", json!(1e30)), ("at", json!(u64::MAX)), ("kind", json!(null))]
    {
        let change = |file: String| lines(&file, |all| all[3][field] = value);
        found(bundle.with(events, change, vkey), " is no ");
    }
    // The first value is the recorded one, and the last what many readers take.
    let twice = |file: String| file.replacen("\"payload\":", "\"payload\":\"{}\",\"payload\":", 1);
    found(bundle.with(events, twice, vkey), "the same key twice");
    let twice = |file: String| file.replacen('{', "{\"events\":1,", 1);
    found(bundle.with("proof.json", twice, vkey), "the same key twice");
    let deep = |file: String| format!("{}\n{file}", "[".repeat(100_000));
    found(bundle.with(events, deep, vkey), "not as it was exported");
    // Events that no checkpoint attests may be missing.
    assert_eq!(bundle.with(events, cut(attested), vkey).0, Some(0));

    let other = test.threads[1].to_string();
    let thread = |file: String| proof(&file, |proof| proof["thread"] = json!(other));
    found(bundle.with("proof.json", thread, vkey), "is of another thread");
    let leaf = |file: String| proof(&file, |proof| proof["leaf"] = json!(1));
    found(bundle.with("proof.json", leaf, vkey), "");
    let path = |file: String| proof(&file, |proof| drop(proof["path"].as_array_mut().unwrap().pop()));
    found(bundle.with("proof.json", path, vkey), "");
    let size = |note: String| note.replace("\n5\n", "\n6\n");
    found(bundle.with("checkpoint", size, vkey), "");
    let origin = |note: String| note.replacen("example.org/turnfold", "example.org/another", 1);
    found(bundle.with("checkpoint", origin, vkey), "not signed by that key");

    let thief = Key::make(&test.folder.path().join("thief"), "example.org/turnfold").unwrap();
    let (exit, output) = bundle.verify(&[thief.vkey()]);
    assert!(exit == Some(1) && output.contains("not signed by that key"), "{output}");
}

/// An obstacle to the script is not reported as tampering.
fn assert_obstacles_are_not_tampering(bundle: &Bundle, vkey: &str) {
    let not_checked = |(exit, output): (Option<i32>, String), message: &str| {
        assert!(
            exit == Some(6) && output.starts_with("not checked: ") && output.contains(message),
            "{exit:?} {output}"
        );
    };
    let script = bundle.file("verify.py");
    // Without site packages, the package is missing.
    let bare = bundle.run(Command::new(&bundle.python).arg("-S").arg(&script).arg(vkey));
    not_checked(bare, "the package `cryptography`");
    for name in ["checkpoint", "events.jsonl"] {
        let (file, moved) = (bundle.file(name), bundle.file("away"));
        fs::rename(&file, &moved).unwrap();
        std::os::unix::fs::symlink(&file, &file).unwrap();
        not_checked(bundle.verify(&[vkey]), "cannot be read");
        fs::remove_file(&file).unwrap();
        let (exit, output) = bundle.verify(&[vkey]);
        assert!(exit == Some(1) && output.contains("not as it was exported"), "{name} is missing: {output}");
        fs::rename(&moved, &file).unwrap();
    }
}

/// The events with one changed, and all hashes recomputed.
async fn rehashed_log(test: &AuditTest) -> String {
    let mut log = test.log(0).await;
    log[2].at += 1;
    rehash(&mut log);
    let line = |event: &store::Stored| {
        let hash: String = event.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "thread": test.threads[0], "seq": event.seq, "at": event.at, "kind": event.kind, "codec": event.codec, "payload": event.payload, "hash": hash,
        })
    };
    log.iter().map(|event| format!("{}\n", line(event))).collect()
}

#[test]
fn the_script_is_short_and_needs_one_package() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/checkpoints/verify.py");
    let script = fs::read_to_string(script).unwrap();
    assert!(script.lines().count() < 270, "the script is short enough to be read");
    let imports: Vec<&str> = script
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("import ") || line.starts_with("from "))
        .collect();
    let foreign = imports
        .iter()
        .filter(|import| import.starts_with("from "))
        .all(|import| import.starts_with("from cryptography."));
    assert!(foreign, "{imports:?}");
}
