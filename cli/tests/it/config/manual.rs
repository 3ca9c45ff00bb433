//! `turnfold.default.toml` documents every key.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use turnfold::config::{MANUAL, Settings};

use super::sources;

/// The reference with every commented-out key enabled.
fn reference_enabled() -> String {
    let example = |line: &str| {
        line.strip_prefix('#')
            .filter(|line| line.starts_with(|c: char| c.is_alphabetic() || c == '['))
            .map(str::to_owned)
    };
    MANUAL.lines().map(|line| example(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_reference_names_every_key_and_its_examples_load() {
    let text = reference_enabled();
    let (_folder, sources) =
        sources(&[("turnfold.toml", &text), (".mcp.json", "{}"), ("prompts/plan.md", "{prompt} Be brief.")]);
    let (settings, origins) = Settings::load(sources).unwrap();
    assert_eq!((settings.mcp.len(), settings.commands.len()), (2, 2));

    // Keys as in the schema: `*` for a chosen name, and one key for a map of plain values.
    let known: BTreeSet<String> =
        Settings::keys(&strategies::all()).iter().map(|key| of_every_strategy(key)).collect();
    let starred = |key: &str| {
        let mut parts: Vec<&str> = key.split('.').collect();
        if parts.len() > 2 && ["providers", "mcp", "commands", "tenants"].contains(&parts[0]) {
            parts[1] = "*";
            match (parts[2], parts.len()) {
                // A tool may have a string instead of a table.
                ("tools", 4) => return None,
                ("tools" | "prices", 5) => parts[3] = "*",
                ("tools", 6..) if parts[4] == "verify" => parts[3] = "*",
                ("verify", 4..) => {}
                ("nodes", 6) => (parts[3], parts[4]) = ("*", "*"),
                ("retry" | "sandbox", 4) => {}
                _ => parts.truncate(3),
            }
        }
        if let Some(at) = parts.iter().position(|part| *part == "verify") {
            // An argument has a name of its own.
            parts.truncate(if parts.get(at + 1) == Some(&"arguments") { at + 2 } else { parts.len() });
        }
        if parts.len() > 3 && parts[0] == "limits" {
            parts[2] = "*";
        }
        if parts[0] == "context" {
            parts.truncate(2);
        }
        // Names of headers.
        if parts[0] == "telemetry" {
            parts.truncate(2);
        }
        // Names of strategies.
        if parts[0] == "api" && parts[1] == "multitask_strategy" {
            parts.truncate(2);
        }
        if parts.get(2) == Some(&"on_failure_of") {
            parts.truncate(3);
        }
        if parts.get(4) == Some(&"extra") {
            parts.truncate(5);
        }
        Some(of_every_strategy(&parts.join(".")))
    };
    let written: BTreeSet<String> = origins
        .shown()
        .into_iter()
        .filter(|(.., origin)| origin == "turnfold.toml")
        .filter_map(|(key, ..)| starred(&key))
        .collect();
    assert_eq!(written, known);
}

/// The keys that every strategy has: those of its nodes, and `servers`.
fn of_every_strategy(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["strategies", _, "servers"] => "strategies.*.servers".to_owned(),
        ["strategies", _, "nodes", _, key] => format!("strategies.*.nodes.*.{key}"),
        ["tenants", _, "config", ..] => "tenants.*.config".to_owned(),
        _ => key.to_owned(),
    }
}

#[test]
fn the_reference_states_the_defaults_of_the_strategies() {
    let text: toml::Table = reference_enabled().parse().unwrap();
    let mut actual = serde_json::to_value(&text["strategies"]).unwrap();
    let own: Json = strategies::all()
        .iter()
        .map(|strategy| (strategy.name().to_owned(), strategy.defaults()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (strategy, section) in actual.as_object_mut().unwrap() {
        // A key without a default is an example.
        section.as_object_mut().unwrap().retain(|key, _| own[strategy].get(key).is_some());
    }
    assert_eq!(actual, own);
}

#[test]
fn the_reference_explains_every_key() {
    let lines: Vec<&str> = MANUAL.lines().collect();
    let block = |i: usize| {
        lines[..i].iter().rev().take_while(|line| !line.is_empty()).any(|line| line.starts_with("# "))
    };
    for (i, line) in lines.iter().enumerate() {
        let active = line.starts_with(|c: char| c.is_alphabetic());
        assert!(!active || block(i), "line {} of the reference sets {line} without an explanation", i + 1);
    }
}
