//! Precedence of the layers, and the files that are read.

use std::{fs, path::Path};

use secrecy::ExposeSecret as _;
use serde_json::json;
use turnfold::config::{LogFormat, McpTransport, ProviderSettings, Settings, Sources};

use super::{refusal, shown, sources, variable};

#[test]
fn each_layer_overrides_the_one_before() {
    let slots = |sources: &Sources| {
        let (settings, origins) = Settings::load(sources.clone()).unwrap();
        (settings.worker.slots, shown(&origins, "worker.slots").1)
    };
    let (folder, sources) = sources(&[]);
    assert_eq!(slots(&sources), (256, "default".into()));

    fs::write(folder.path().join("turnfold.toml"), "worker.slots = 2\nworker.name = \"two\"").unwrap();
    assert_eq!(slots(&sources), (2, "turnfold.toml".into()));

    fs::write(folder.path().join("turnfold.tuned.toml"), "[worker]\nslots = 3").unwrap();
    let sources = variable(sources, "TURNFOLD_ENV", "tuned");
    assert_eq!(slots(&sources), (3, "turnfold.tuned.toml".into()));

    let sources = variable(sources, "TURNFOLD__WORKER__SLOTS", "4");
    assert_eq!(slots(&sources), (4, "TURNFOLD__WORKER__SLOTS".into()));

    let sources = sources.set("worker.slots=5");
    assert_eq!(slots(&sources), (5, "--set".into()));

    let sources = sources.flag("--slots", "worker.slots", 6);
    assert_eq!(slots(&sources), (6, "--slots".into()));

    // A stronger layer changes only the keys that it names.
    let (settings, _) = Settings::load(sources).unwrap();
    assert_eq!(settings.worker.name, "two");
    assert_eq!(settings.worker.drain_seconds, 30);
}

#[test]
fn the_env_flag_overrides_the_env_variable() {
    let files = [("turnfold.one.toml", "worker.slots = 1"), ("turnfold.two.toml", "worker.slots = 2")];
    let (_folder, sources) = sources(&files);
    let mut sources = variable(sources, "TURNFOLD_ENV", "one");
    sources.env = Some("two".into());
    assert_eq!(Settings::load(sources).unwrap().0.worker.slots, 2);
}

#[test]
fn a_named_file_replaces_the_default_and_the_env_file_is_next_to_it() {
    let files = [
        ("turnfold.toml", "worker.slots = 1"),
        ("etc/mine.toml", "worker.slots = 2"),
        ("etc/turnfold.tuned.toml", "worker.drain_seconds = 3"),
    ];
    let (_folder, mut sources) = sources(&files);
    sources.config = Some("etc/mine.toml".into());
    sources.env = Some("tuned".into());
    let (settings, origins) = Settings::load(sources).unwrap();
    assert_eq!((settings.worker.slots, settings.worker.drain_seconds), (2, 3));
    assert_eq!(shown(&origins, "worker.drain_seconds").1, "etc/turnfold.tuned.toml");
}

#[test]
fn a_requested_file_must_exist() {
    let (_folder, sources) = sources(&[]);
    let by_config = Sources { config: Some("none.toml".into()), ..sources.clone() };
    assert!(refusal(by_config).starts_with("cannot read none.toml, which --config names: "));
    let by_env = Sources { env: Some("none".into()), ..sources.clone() };
    assert!(refusal(by_env).starts_with("cannot read turnfold.none.toml, which --env names: "));
    let by_variable = variable(sources.clone(), "TURNFOLD_ENV", "none");
    assert!(refusal(by_variable).starts_with("cannot read turnfold.none.toml, which TURNFOLD_ENV names: "));
    let outside = Sources { env: Some("../none".into()), ..sources.clone() };
    assert_eq!(refusal(outside), "the environment's name in --env may contain only letters, digits, - and _");
    let by_key = sources.set("mcp_file=none.json");
    assert!(refusal(by_key).starts_with("cannot read none.json, which mcp_file in --set names: "));
}

#[test]
fn strategies_are_configured_from_every_layer_and_completed_with_defaults() {
    let (_folder, sources) = sources(&[(
        "turnfold.toml",
        "strategies.planner.confidence = 1\nproviders.local.base_url = 'http://x'",
    )]);
    let sources = variable(sources, "TURNFOLD__STRATEGIES__PLANNER__MODEL", "local/007");
    let sources = sources.set("strategies.planner.rounds=3");
    let (settings, origins) = Settings::load(sources).unwrap();
    let planner = strategies::find("planner").unwrap();
    let mut expected = planner.defaults();
    expected["confidence"] = json!(1);
    expected["model"] = json!("local/007");
    expected["rounds"] = json!(3);
    assert_eq!(settings.strategies["planner"], expected);
    assert_eq!(shown(&origins, "strategies.planner.rounds"), ("3".into(), "--set".into()));
    assert_eq!(shown(&origins, "strategies.probe.padding"), ("0".into(), "default".into()));
}

#[test]
fn strings_stay_strings_and_numbers_are_parsed() {
    let (_folder, sources) = sources(&[]);
    let sources = variable(sources, "TURNFOLD__WORKER__NAME", "007");
    let sources = variable(sources, "TURNFOLD__WORKER__SLOTS", "7");
    let sources = variable(sources, "TURNFOLD__LOG__FORMAT", "json");
    let sources = variable(sources, "TURNFOLD__API__KEYS", r#"["env:A", "file:b"]"#);
    let sources = variable(sources, "TURNFOLD__MCP__VAULT__COMMAND", "true");
    let sources = variable(sources, "TURNFOLD__MCP__VAULT__DESCRIPTION", "1e3");
    let sources = variable(sources, "TURNFOLD__MCP__VAULT__ENV__PIN", "007");
    let (settings, _) = Settings::load(sources).unwrap();
    assert_eq!(settings.worker.name, "007");
    assert_eq!(settings.worker.slots, 7);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.api.keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ["env:A", "file:b"]);
    let vault = &settings.mcp["vault"];
    assert_eq!(vault.description, "1e3");
    let McpTransport::Child { command, env, .. } = &vault.transport else { panic!("{vault:?}") };
    assert_eq!(command, "true");
    assert_eq!(env["PIN"].resolve().unwrap().expose_secret(), "007");
}

#[test]
fn variables_with_one_underscore_set_no_key() {
    let (_folder, sources) = sources(&[]);
    let sources = variable(sources, "TURNFOLD_LOG", "x");
    let sources = variable(sources, "TURNFOLD_ENV", "");
    let sources = variable(sources, "turnfold__worker__slots", "x");
    Settings::load(sources).unwrap();
}

#[test]
fn a_stronger_layer_may_change_the_kind_of_a_provider() {
    let (_folder, sources) = sources(&[("turnfold.toml", "providers.openai.script = 'a.json'")]);
    let (settings, origins) = Settings::load(sources.clone()).unwrap();
    let openai = &settings.providers["openai"];
    assert!(
        matches!(openai, ProviderSettings::Script { script } if script == Path::new("a.json")),
        "{openai:?}"
    );
    assert!(!origins.shown().iter().any(|(key, ..)| key == "providers.openai.api_key"));

    let (settings, _) = Settings::load(sources.set("providers.openai.base_url=http://x/v1")).unwrap();
    let openai = &settings.providers["openai"];
    assert!(matches!(openai, ProviderSettings::Http(it) if it.timeout_seconds == 120), "{openai:?}");
}

#[test]
fn every_default_is_shown() {
    let (_folder, sources) = sources(&[]);
    let (_, origins) = Settings::load(sources).unwrap();
    assert_eq!(shown(&origins, "store.url"), (r#""sqlite:.turnfold/turnfold.db""#.into(), "default".into()));
    assert_eq!(shown(&origins, "api.keys"), ("[]".into(), "default".into()));
    assert!(origins.shown().iter().all(|(.., origin)| origin == "default"));
}
