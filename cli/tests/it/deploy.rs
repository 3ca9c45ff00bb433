//! The files in `deploy/` name commands, settings and variables that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

use crate::engine::turnfold;

/// Variables of the services beside turnfold.
const OF_OTHERS: [&str; 4] =
    ["POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "GF_AUTH_ANONYMOUS_ENABLED"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// Returns the files by path, with their text.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// Returns the first group of every match.
fn matches(pattern: &str, text: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn every_command_of_the_deployments_exists() {
    let empty = tempfile::tempdir().unwrap();
    let mut commands = BTreeSet::new();
    for (path, text) in files(&folder()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ["compose.yaml", "turnfold.yaml"].contains(&name.as_str()) {
            // Images of others have commands of their own, which begin in another way.
            commands.extend(matches(r#"(?m)^ +(?:command|args): \["([a-z]+)"\]"#, &text));
        }
        commands.extend(matches(r"(?m)^ExecStart=/usr/local/bin/turnfold .*?([a-z]+)$", &text));
        commands.extend(matches(r"turnfold (config default)\b", &text));
    }
    let wanted = ["api", "config default", "migrate", "worker"];
    assert_eq!(commands.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    for command in commands {
        let output = turnfold(empty.path()).args(command.split(' ')).arg("--help").output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

#[test]
fn the_configuration_of_the_deployments_is_valid() {
    let empty = tempfile::tempdir().unwrap();
    let file = folder().join("turnfold.toml");
    let set = ["--set", "worker.metrics_listen=127.0.0.1:9461"];
    let mut command = turnfold(empty.path());
    command.arg("--config").arg(&file).args(set).args(["config", "show"]);
    for variable in matches("env:([A-Z_]+)", &fs::read_to_string(&file).unwrap()) {
        command.env(variable, "a-value-of-a-test-that-is-long-enough");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).is_empty(), "{output:?}");
}

/// A variable that nothing reads, or that no deployment sets, is a mistake.
#[test]
fn the_deployments_set_the_variables_that_their_configuration_reads() {
    let read: BTreeSet<String> =
        matches("env:([A-Z_]+)", &fs::read_to_string(folder().join("turnfold.toml")).unwrap())
            .into_iter()
            .collect();
    let text = |name: &str| fs::read_to_string(folder().join(name)).unwrap();
    let compose: BTreeSet<String> =
        matches(r"(?m)^ +([A-Z_]+): ", &text("compose.yaml")).into_iter().collect();
    let of_others = OF_OTHERS.map(str::to_owned).into();
    assert_eq!(compose.difference(&of_others).cloned().collect::<BTreeSet<_>>(), read);
    let secret = matches("--from-literal=([A-Z_]+)=", &text("kubernetes/turnfold.yaml"));
    assert_eq!(secret.into_iter().collect::<BTreeSet<_>>(), read);
    for unit in ["migrate", "api", "worker@"] {
        let named = matches(r"\b([A-Z]+_[A-Z_]+)\b", &text(&format!("systemd/turnfold-{unit}.service")));
        assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), read, "{unit}");
    }
    for (path, text) in files(&folder()) {
        // The commit of an image is set when it is built.
        let set = matches(r"(TURNFOLD_[A-Z_]+)", &text).into_iter().filter(|name| name != "TURNFOLD_COMMIT");
        assert_eq!(set.collect::<Vec<_>>(), [""; 0], "{}", path.display());
    }
}

#[test]
fn the_deployments_measure_what_the_program_measures() {
    let known = fs::read_to_string(folder().join("../docs/operating.md")).unwrap();
    let text = fs::read_to_string(folder().join("kubernetes/scaling.yaml")).unwrap();
    for metric in matches(r"(turnfold_turns_waiting)\{", &text) {
        assert!(known.contains(&format!("| `{metric}` |")), "{metric}");
    }
    assert!(known.contains("turnfold_turns_waiting"));
}
