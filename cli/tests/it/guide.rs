//! Runs every command of `docs/testing.md`, in order, in a folder that is a user's own crate. Then captures a thread of each
//! strategy as a fixture, from the store of the demo.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    engine::{TURNFOLD, turnfold},
    own_crate::{OwnCrate, cargo},
};

/// Replaces `cargo insta review`, which asks a person, by a command that accepts everything. With `COMPILE`, the tests of the
/// crate are compiled by that command.
const PREAMBLE: &str = r#"
set -euo pipefail
cargo() {
  if [ "$1" = insta ]; then
    find . -name '*.snap.new' -not -path './target/*' | while read -r snap; do echo "accepted $snap"; mv "$snap" "${snap%.new}"; done
  elif [ "$1 $2" = "test --offline" ] && [ -n "${COMPILE-}" ]; then
    shift 2
    eval "$COMPILE" && target/tests "$@"
  else
    command cargo "$@"
  fi
}
"#;

#[test]
fn the_commands_of_the_guide_to_testing_work() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let guide = fs::read_to_string(workspace.join("docs/testing.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let blocks = |language: &str| {
        let begin = format!("```{language}\n");
        let all = guide.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next());
        all.collect::<Vec<_>>().join("\n")
    };

    let path = |name: &str| format!("{{ path = {:?} }}", workspace.join(name));
    let manifest = format!(
        "[package]\nname = \"mine\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\nstrategies = {}\n\n{}\n",
        path("strategies"),
        blocks("toml").replace("{ path = \"../turnfold/strategy-tests\" }", &path("strategy-tests"))
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    fs::create_dir(folder.join("src")).unwrap();
    let tests = blocks("rust");
    fs::write(folder.join("src/lib.rs"), format!("#[cfg(test)]\nmod fixtures {{\n{tests}\n}}\n")).unwrap();

    let bin = Path::new(TURNFOLD).parent().unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{PREAMBLE}{}", blocks("sh"))]).current_dir(folder);
    bash.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    bash.envs(cargo(folder, &[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let own = OwnCrate::of(folder, "mine", &["strategies", "strategy_tests"]);
    if let Some(compiler) = own.compiler("src/lib.rs", &["--test", "-o", "target/tests"]) {
        fs::create_dir(folder.join("target")).unwrap();
        bash.env("COMPILE", quoted(&compiler)).env("CARGO_MANIFEST_DIR", folder);
    }
    let output = bash.output().unwrap();
    let (stdout, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let all = format!("{stdout}\n{errors}");
    assert!(output.status.success(), "{all}");
    for expected in [
        "threads (",
        "made the test fail",
        "accepted ./fixtures/planner/mine.snap",
        "mine.jsonl:",
        "FOUND: 1",
        "exit code 1\n",
        "test result: FAILED",
        "exit code 101\n",
        "changed:\n",
        "test result: ok. 1 passed",
        "planner does not cover",
    ] {
        assert!(all.contains(expected), "{expected:?} is not printed: {all}");
    }

    // The last test of the page passed with the accepted snapshot.
    let fixture = fs::read_to_string(folder.join("fixtures/planner/mine.jsonl")).unwrap();
    assert!(fixture.contains("otherwise"), "{fixture}");

    for strategy in ["planner", "planner_with_prompts", "action_plan", "research", "retriever"] {
        captures_one_of(folder, strategy);
    }
    let checked = fixtures(folder, &["check"]);
    assert_eq!((checked.0, &checked.1["fixtures"]), (0, &serde_json::json!(6)), "{checked:?}");
}

/// Returns a command as a shell reads it.
fn quoted(command: &Command) -> String {
    let expected = [command.get_program()].into_iter().chain(command.get_args());
    let quoted = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
    expected.map(quoted).collect::<Vec<_>>().join(" ")
}

fn fixtures(folder: &Path, args: &[&str]) -> (i32, Value, String) {
    let output = turnfold(folder)
        .env("TURNFOLD__STORE__URL", "sqlite:.turnfold/demo/turnfold.db")
        .args(["-o", "json", "fixture"])
        .args(args)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default(), printed)
}

/// Captures the thread that covers most of a strategy.
fn captures_one_of(folder: &Path, strategy: &str) {
    fs::create_dir_all(folder.join("fixtures").join(strategy)).unwrap();
    let of = format!("strategy = {strategy}");
    let (exit, suggested, printed) = fixtures(folder, &["suggest", "--where", &of]);
    assert_eq!(exit, 0, "{printed}");
    let first = &suggested["threads"][0];
    assert_eq!((&first["strategy"], &first["refused"]), (&strategy.into(), &Value::Null), "{suggested:#}");
    let thread = first["thread"].as_str().unwrap();
    let (exit, captured, printed) = fixtures(folder, &["capture", thread, "--name", "of_the_demo"]);
    assert_eq!(exit, 0, "{printed}");
    assert!(captured["changed_answers"].as_u64() > Some(1), "{captured:#}");
    let snapshot = folder.join(format!("fixtures/{strategy}/of_the_demo.snap.new"));
    assert!(fs::read_to_string(&snapshot).unwrap().contains("opened"), "{}", snapshot.display());
}
