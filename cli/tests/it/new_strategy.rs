//! A strategy of one's own, made by `turnfold strategy new`: it is tested, built and served at once.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;
use test_servers::free_port;

use crate::engine::{Process, TURNFOLD, log, turnfold};

fn new(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = turnfold(folder).args(["strategy", "new"]).args(args).output().unwrap();
    (output.status.code().unwrap(), text(&output))
}

fn text(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap()
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
        let (exit, told) = new(folder, args);
        assert!(exit == 2 && told.contains(why), "{args:?}: {exit} {told}");
    }
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["there"], "a refusal writes nothing");
}

#[test]
fn real_a_new_strategy_is_green_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (exit, told) = new(folder, &["my_agent"]);
    assert!(exit == 0 && told.contains("cargo test"), "{exit} {told}");
    let made = folder.join("my_agent");
    assert!(!fs::read_to_string(made.join("src/main.rs")).unwrap().to_lowercase().contains("greeter"));

    let tested = cargo(&made, &["test"]);
    assert!(tested.contains("4 passed; 0 failed"), "{tested}");
    cargo(&made, &["build"]);

    let binary = target().join("debug/my_agent");
    let own = |args: &[&str]| Command::new(&binary).args(args).current_dir(&made).output().unwrap();
    let list: Value = serde_json::from_slice(&own(&["strategy", "list", "-o", "json"]).stdout).unwrap();
    let names: Vec<_> = list.as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
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

/// Runs cargo in the new crate, without the network, with the dependencies that the workspace has compiled already.
fn cargo(folder: &Path, args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).arg("--offline").current_dir(folder).env("CARGO_TARGET_DIR", target());
    let output = command.env("INSTA_UPDATE", "no").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    text(&output)
}

fn target() -> &'static Path {
    Path::new(TURNFOLD).parent().and_then(Path::parent).unwrap()
}
