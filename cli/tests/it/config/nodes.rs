//! Configuration of single nodes: models, prompts from text and files, parameters, servers.

use serde_json::json;
use turnfold::config::Settings;

use super::{error_of, refusal, shown, sources, toml, variable};

/// Every kind of layer sets every kind of key, and the stronger one wins key by key.
#[test]
fn layers_configure_nodes_key_by_key() {
    let (_folder, sources) = sources(&[
        (
            "turnfold.toml",
            "[strategies.planner.nodes.plan]\nmodel = 'openai/a'\nprompt_file = 'plan.md'\ntemperature = 0\n\
             [strategies.planner.nodes.respond]\nprompt = 'Text.'",
        ),
        (
            "turnfold.prod.toml",
            "strategies.planner.nodes = { plan.model = 'openai/b', respond.prompt_file = 'r.md' }",
        ),
        ("plan.md", "From the file: {prompt}\n"),
        ("r.md", "Answer.\n"),
    ]);
    let sources = variable(sources, "TURNFOLD__STRATEGIES__PLANNER__NODES__PLAN__MAX_TOKENS", "70");
    let sources = turnfold::config::Sources { env: Some("prod".to_owned()), ..sources };
    let sources = sources.set("strategies.planner.nodes.assess.extra={\"seed\": 7}");
    let (settings, origins) = Settings::load(sources.clone()).unwrap();
    assert_eq!(
        settings.strategies["planner"]["nodes"],
        json!({
            "plan": {"model": "openai/b", "prompt": "From the file: {prompt}\n", "temperature": 0, "max_tokens": 70},
            "respond": {"prompt": "Answer.\n"},
            "assess": {"extra": {"seed": 7}},
        })
    );
    let (file, origin) = shown(&origins, "strategies.planner.nodes.plan.prompt_file");
    assert_eq!((file.as_str(), origin.as_str()), ("\"plan.md\"", "turnfold.toml"), "the text is not shown");
    assert_eq!(
        shown(&origins, "strategies.planner.nodes.plan.max_tokens").1,
        "TURNFOLD__STRATEGIES__PLANNER__NODES__PLAN__MAX_TOKENS"
    );
    // A text of a stronger layer takes the place of a file.
    let sources = sources.set("strategies.planner.nodes.plan.prompt=Plan.");
    let (settings, origins) = Settings::load(sources).unwrap();
    assert_eq!(settings.strategies["planner"]["nodes"]["plan"]["prompt"], "Plan.");
    assert!(!origins.shown().iter().any(|(key, ..)| key == "strategies.planner.nodes.plan.prompt_file"));
}

#[test]
fn mistakes_in_nodes_are_named_with_a_hint() {
    let node = |text: &str| error_of(&format!("[strategies.planner.nodes.plan]\n{text}"));
    let cases = [
        (
            error_of("strategies.planner.nodes.pln.model = 'openai/a'"),
            "did you mean strategies.planner.nodes.plan?",
        ),
        (
            error_of("strategies.planner.nodes.equip.model = 'openai/a'"),
            "unknown key strategies.planner.nodes.equip",
        ),
        (error_of("strategies.probe.nodes.read.model = 'openai/a'"), "unknown key strategies.probe.nodes"),
        (node("modle = 'openai/a'"), "did you mean strategies.planner.nodes.plan.model?"),
        (
            node("temperature = 3"),
            "strategies.planner.nodes.plan.temperature in turnfold.toml must be at most 2",
        ),
        (
            node("max_tokens = 0"),
            "strategies.planner.nodes.plan.max_tokens in turnfold.toml must be at least 1",
        ),
        (
            node("prompt = '{expert}'"),
            "nodes.plan.prompt: there is no placeholder {expert}; did you mean \"experts\"?",
        ),
        (node("extra = { stream = true }"), "nodes.plan.extra: \"stream\" cannot be set here"),
        (
            node("model = 'nobody/a'"),
            "strategies.planner.nodes.plan.model in turnfold.toml does not begin with the name of a provider",
        ),
        (
            node("prompt_file = 'none.md'"),
            "cannot read none.md, which strategies.planner.nodes.plan.prompt_file in turnfold.toml names",
        ),
        (
            node("prompt_file = 'none.md'\nprompt = 'x'"),
            "strategies.planner.nodes.plan in turnfold.toml has both a prompt and a prompt_file",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error}");
    }
    let long = "x".repeat(70_000);
    let (_folder, sources) = sources(&[
        ("turnfold.toml", "strategies.planner.nodes.plan.prompt_file = 'long.md'"),
        ("long.md", &long),
    ]);
    let error = refusal(sources);
    assert!(error.contains("nodes.plan.prompt: it has 65537 bytes, and may have 65536"), "{error}");
}

#[test]
fn servers_must_exist() {
    let mcp = "[mcp.calendar]\ndescription = 'x'\ncommand = 'x'\n[strategies.planner]\nservers = ";
    let (settings, _) = toml(&format!("{mcp}['calendar']"));
    assert_eq!(settings.strategies["planner"]["servers"], json!(["calendar"]));
    assert_eq!(
        error_of(&format!("{mcp}['calendar', 'calender']")),
        "strategies.planner.servers[1] in turnfold.toml is not an MCP server (did you mean \"calendar\"?)"
    );
    assert_eq!(
        error_of("tenants.acme.servers = ['mail']"),
        "tenants.acme.servers[0] in turnfold.toml is not an MCP server (none is configured)"
    );
}

#[test]
fn headers_and_query_of_a_provider_are_secrets() {
    let azure = "[providers.azure]\nbase_url = 'https://x.example/openai/v1?api-version=1'\n";
    let (_, origins) = toml(&format!(
        "{azure}headers = {{ api-key = 'env:AZURE_KEY', X = 'plain' }}\nquery = {{ v = 'q' }}\nstream = false"
    ));
    let value = |key: &str| shown(&origins, &format!("providers.azure.{key}")).0;
    assert_eq!(
        (value("headers.api-key"), value("headers.X")),
        ("\"env:AZURE_KEY\"".to_owned(), "\"***\"".to_owned())
    );
    assert_eq!((value("query.v"), value("stream")), ("\"***\"".to_owned(), "false".to_owned()));
    for (keys, why) in [
        ("headers = { 'a b' = 'x' }", "has a name in headers that HTTP does not allow"),
        (
            "headers = { Host = 'x' }",
            "sets a header that the engine sets: content-type, content-length or host",
        ),
        (
            "api_key = 'env:A'\nheaders = { Authorization = 'x' }",
            "has both an api_key and the header authorization; remove one",
        ),
    ] {
        assert_eq!(error_of(&format!("{azure}{keys}")), format!("providers.azure in turnfold.toml {why}"));
    }
    let script = error_of("providers.x = { script = 'y', stream = true }");
    assert_eq!(script, "providers.x in turnfold.toml has a script, so it can have no other key");
}
