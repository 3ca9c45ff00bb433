//! A strategy of one's own, made by `turnfold strategy new`: it is tested, built and served at once.

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::Value;
use test_servers::free_port;

use crate::{
    engine::{Process, log, turnfold},
    own_crate::{OwnCrate, cargo, succeed, text},
};

fn new(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = turnfold(folder).args(["strategy", "new"]).args(args).output().unwrap();
    (output.status.code().unwrap(), text(&output))
}

#[test]
fn a_name_that_cannot_be_used_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("there")).unwrap();
    let long = "a".repeat(41);
    for (args, why) in [
        (&["My-Agent"][..], "\"My-Agent\" is not a valid name of a strategy"),
        (&["7up"], "start with a lower-case letter"),
        (&["../up"], "is not a valid name"),
        (&[""], "is not a valid name"),
        (&[&long], "at most 40"),
        (&["planner"], "\"planner\" is already a strategy of this binary"),
        (&["match"], "has a meaning in Rust"),
        (&["serde"], "has a meaning in Rust or in the new crate"),
        (&["state"], "choose another name, such as state_agent"),
        (&["there"], "there already exists"),
        (&["mine", "--path", "there"], "choose another folder with --path"),
        (&["mine", "--turnfold", "there"], "there is not a checkout of turnfold"),
    ] {
        let (exit, printed) = new(folder, args);
        assert!(exit == 2 && printed.contains(why), "{args:?}: {exit} {printed}");
    }
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["there"], "a refusal writes nothing");
}

#[test]
fn real_a_new_strategy_passes_its_tests_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (exit, printed) = new(folder, &["my_agent"]);
    assert!(exit == 0 && printed.contains("cargo test"), "{exit} {printed}");
    let made = folder.join("my_agent");
    assert!(!fs::read_to_string(made.join("src/main.rs")).unwrap().to_lowercase().contains("greeter"));
    manifest_is_that_of_the_workspace(&made);

    let own = OwnCrate::of(&made, "my_agent", &["schemars", "serde", "turnfold"]);
    let tested = own.test();
    assert!(tested.contains("4 passed; 0 failed"), "{tested}");

    let binary = own.build();
    let own = |args: &[&str]| Command::new(&binary).args(args).current_dir(&made).output().unwrap();
    let list: Value = serde_json::from_slice(&own(&["strategy", "list", "-o", "json"]).stdout).unwrap();
    let names: Vec<_> = list.as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names.len(), strategies::all().len() + 1, "{names:?}");
    assert!(names.contains(&"my_agent") && names.contains(&"planner"), "{names:?}");

    let listen = format!("127.0.0.1:{}", free_port());
    let mut dev = Command::new(&binary);
    dev.args(["dev", "--listen", &listen]).current_dir(&made).stderr(log(&made, "dev"));
    let _engine = Process::start(&mut dev);
    let url = format!("http://{listen}");
    let ready = || own(&["queue", "list", "--url", &url]).status.success();
    let mut tries = 0..200;
    while !ready() {
        assert!(tries.next().is_some(), "{}", fs::read_to_string(made.join("dev.log")).unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
    let asked = own(&["turn", "send", "-g", "my_agent", "Hello", "--wait", "--url", &url]);
    assert_eq!(asked.status.code(), Some(3), "the turn waits for a person: {}", text(&asked));
    assert!(text(&asked).contains("Who are you?"), "{}", text(&asked));
}

/// Checks that cargo resolves the manifest without the network, and that its versions and its profile are those of the workspace.
fn manifest_is_that_of_the_workspace(made: &Path) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let toml = |file: &Path| fs::read_to_string(file).unwrap().parse::<toml::Table>().unwrap();
    let (own, all) = (toml(&made.join("Cargo.toml")), toml(&workspace.join("Cargo.toml")));
    let profile = |toml: &toml::Table| toml["profile"]["dev"]["package"].as_table().unwrap().clone();
    let (of_own, of_all) = (profile(&own), profile(&all));
    for (package, settings) in &of_own {
        assert_eq!(of_all.get(package), Some(settings), "{package}");
    }
    assert_eq!(own["profile"]["dev"]["debug"], all["profile"]["dev"]["debug"]);
    assert_eq!(own["package"]["edition"], all["workspace"]["package"]["edition"]);
    let names: Vec<_> = own["dependencies"].as_table().unwrap().keys().collect();
    assert_eq!(names, ["schemars", "serde", "turnfold"]);

    succeed(cargo(made, &["metadata", "--format-version", "1"]));
    let locked = |file: &Path| {
        let packages = toml(file)["package"].as_array().unwrap().clone();
        let packages = packages.into_iter().filter(|package| package.get("checksum").is_some());
        packages
            .map(|package| ["name", "version", "checksum"].map(|key| package[key].clone()))
            .collect::<Vec<_>>()
    };
    let known = locked(&workspace.join("Cargo.lock"));
    let used = locked(&made.join("Cargo.lock"));
    assert!(!used.is_empty() && used.iter().all(|package| known.contains(package)));
}
