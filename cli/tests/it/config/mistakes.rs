//! Messages about mistakes.

use turnfold::config::Sources;

use super::{error_of, refusal, sources, variable};

#[test]
fn a_typo_is_reported_with_its_origin_and_a_suggestion_in_every_layer() {
    assert_eq!(
        error_of("[store]\nulr = 'sqlite:x'"),
        "unknown key store.ulr in turnfold.toml: did you mean store.url?"
    );
    let (_folder, sources) = sources(&[("turnfold.tuned.toml", "wroker.slots = 1")]);
    let layered = Sources { env: Some("tuned".into()), ..sources.clone() };
    assert_eq!(refusal(layered), "unknown key wroker in turnfold.tuned.toml: did you mean worker?");
    assert_eq!(
        refusal(variable(sources.clone(), "TURNFOLD__QUEUE__LEASE_SECOND", "1")),
        "unknown key queue.lease_second in TURNFOLD__QUEUE__LEASE_SECOND: did you mean queue.lease_seconds?"
    );
    assert_eq!(
        refusal(sources.clone().set("log.fromat=json")),
        "unknown key log.fromat in --set: did you mean log.format?"
    );
    assert_eq!(
        refusal(sources.clone().flag("--quiet", "log.levels", "off")),
        "unknown key log.levels in --quiet: available keys: filter, format"
    );
    assert_eq!(refusal(sources.set("log.format")), "--set needs section.key=value");
}

#[test]
fn a_typo_below_a_chosen_name_is_found() {
    assert_eq!(
        error_of("[providers.local]\nbase_ulr = 'http://x'"),
        "unknown key providers.local.base_ulr in turnfold.toml: did you mean providers.local.base_url?"
    );
    assert_eq!(
        error_of("[worker]\nlease_seconds = 3"),
        "unknown key worker.lease_seconds in turnfold.toml: did you mean queue.lease_seconds?"
    );
    assert_eq!(
        error_of("[log]\ncall_timeout_seconds = 3"),
        "unknown key log.call_timeout_seconds in turnfold.toml: did you mean mcp.NAME.call_timeout_seconds?"
    );
}

#[test]
fn strategies_accept_only_their_own_keys() {
    assert_eq!(
        error_of("[strategies.planer]\nmodel = 'a/b'"),
        "unknown key strategies.planer in turnfold.toml: did you mean strategies.planner?"
    );
    assert_eq!(
        error_of("[strategies.planner]\nmodle = 'a/b'"),
        "unknown key strategies.planner.modle in turnfold.toml: did you mean strategies.planner.model?"
    );
    assert_eq!(
        error_of("[strategies.planner]\nconfidence = 'high'"),
        "strategies.planner.confidence in turnfold.toml must be a number"
    );
    assert_eq!(
        error_of("[strategies.planner]\nrounds = 5_000_000_000"),
        "strategies.planner.rounds in turnfold.toml must be at most 1000"
    );
}

#[test]
fn a_wrong_type_is_reported_and_never_converted() {
    let refused = |text: &str, why: &str| assert_eq!(error_of(text), why);
    refused("worker.slots = 'many'", "worker.slots in turnfold.toml must be an integer");
    refused("worker.slots = '3'", "worker.slots in turnfold.toml must be an integer");
    refused("worker.slots = 1.5", "worker.slots in turnfold.toml must be an integer");
    refused("worker.slots = true", "worker.slots in turnfold.toml must be an integer");
    refused("worker.slots = 0", "worker.slots in turnfold.toml must be at least 1");
    refused("worker.drain_seconds = -1", "worker.drain_seconds in turnfold.toml must be at least 0");
    refused("worker.name = 7", "worker.name in turnfold.toml must be a string");
    refused("worker = 7", "worker in turnfold.toml must be a table");
    refused("log.format = 'xml'", "log.format in turnfold.toml must be one of text, json");
    refused("api.keys = 'env:A'", "api.keys in turnfold.toml must be a list");
    refused(
        "api.listen = 'everywhere'",
        "api.listen in turnfold.toml must be an address and a port, such as 127.0.0.1:2026",
    );
    let (_folder, sources) = sources(&[]);
    assert_eq!(
        refusal(variable(sources.clone(), "TURNFOLD__WORKER__SLOTS", "many")),
        "worker.slots in TURNFOLD__WORKER__SLOTS must be an integer"
    );
    assert_eq!(
        refusal(variable(sources, "TURNFOLD__API__KEYS", "env:A")),
        "api.keys in TURNFOLD__API__KEYS must be a list, written as JSON"
    );
}

#[test]
fn a_syntax_error_names_the_line_and_does_not_quote_it() {
    let message = error_of("[providers.openai]\n\napi_key = sk-123\n");
    assert!(message.starts_with("turnfold.toml, line 3: "), "{message}");
    assert!(!message.contains("sk-123"), "{message}");
    let (_folder, sources) = sources(&[("mcp.json", "{\n\"calendar\": sk-123}")]);
    assert_eq!(refusal(sources.set("mcp_file=mcp.json")), "mcp.json, line 2: this is not a JSON object");
}
