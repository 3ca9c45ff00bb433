//! Providers, MCP servers, commands and embedding models, each under a name of its own.

use std::fs;

use serde_json::json;
use shared::Safety;
use turnfold::config::{ProviderSettings, Settings};
use world::{Method, Structured};

use super::{error_of, refusal, shown, sources, toml};

#[test]
fn a_provider_may_choose_its_method_for_structured_answers() {
    let chosen = |text: &str| {
        let (_folder, sources) = sources(&[("turnfold.toml", text)]);
        match &Settings::load(sources).unwrap().0.providers["x"] {
            ProviderSettings::Http(http) => http.structured,
            ProviderSettings::Script { .. } => panic!("an endpoint was expected"),
        }
    };
    assert_eq!(chosen("providers.x.base_url = 'http://x'"), Structured::Auto);
    for (word, form) in [
        ("auto", Structured::Auto),
        ("json_schema", Structured::JsonSchema),
        ("tool", Structured::Tool),
        ("json", Structured::Json),
    ] {
        assert_eq!(
            chosen(&format!("providers.x = {{ base_url = 'http://x', structured = '{word}' }}")),
            form
        );
    }
    assert_eq!(
        error_of("providers.x = { script = 'y', structured = 'tool' }"),
        "providers.x in turnfold.toml has a script, so it can have no other key"
    );
    let wrong = error_of("providers.x = { base_url = 'http://x', structured = 'yaml' }");
    assert!(wrong.starts_with("providers.x.structured in turnfold.toml "), "{wrong}");
}

#[test]
fn keys_of_different_kinds_exclude_each_other() {
    let refused = |text: &str, why: &str| assert_eq!(error_of(text), why);
    refused(
        "providers.x = { base_url = 'http://x', script = 'y' }",
        "providers.x in turnfold.toml has both a base_url and a script; remove one",
    );
    refused("providers.x.api_key = 'env:A'", "providers.x in turnfold.toml needs a base_url or a script");
    refused(
        "providers.x.base_url = 'x/v1'",
        "providers.x in turnfold.toml needs a base_url that starts with http:// or https://",
    );
    refused("mcp.x.description = 'x'", "mcp.x in turnfold.toml needs a command or a url");
    refused(
        "mcp.x = { description = 'x', url = 'http://x', args = [] }",
        "mcp.x in turnfold.toml has a url, so args, env, cwd, sandbox and user are not allowed",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', sandbox = 'yes' }",
        "mcp.x.sandbox in turnfold.toml must be true or false or a table",
    );
    refused(
        "mcp.x.command = 'x'",
        "mcp.x in turnfold.toml needs a description: one line that tells the planner when to use the server",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', tools = { y = 'safe' } }",
        "mcp.x.tools.y in turnfold.toml must be one of read, idempotent, write",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', tools = { y = { safety = 'safe' } } }",
        "mcp.x.tools.y.safety in turnfold.toml must be one of read, idempotent, write",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', tools = { y = { timeout_seconds = 0 } } }",
        "mcp.x.tools.y.timeout_seconds in turnfold.toml must be at least 1",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', tools = { y = { max_repeats = -1 } } }",
        "mcp.x.tools.y.max_repeats in turnfold.toml must be at least 0",
    );
    let nodes = |what: &str| format!("mcp.x = {{ description = 'x', command = 'x', nodes.{what} }}");
    refused(
        &nodes("planner.plan = { allow = ['z'], deny = ['z'] }"),
        "mcp.x in turnfold.toml allows and denies the same tool; remove one",
    );
    for (what, message) in [
        (
            "plannet.orchestrate.deny = ['z']",
            "mcp.x.nodes.plannet in turnfold.toml is not a strategy (available: ",
        ),
        (
            "planner.orchestra.deny = ['z']",
            "mcp.x.nodes.planner.orchestra in turnfold.toml is not a node of planner (available: plan, ",
        ),
    ] {
        let (_folder, sources) = sources(&[("turnfold.toml", &nodes(what))]);
        let actual = refusal(sources);
        assert!(actual.starts_with(message), "{actual}");
    }
    refused(
        "mcp.x = { description = 'x', command = 'x', tools = { y = 3 } }",
        "mcp.x.tools.y in turnfold.toml must be a string or a table",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', allow = ['y', 'z'], deny = ['z'] }",
        "mcp.x in turnfold.toml allows and denies the same tool; remove one",
    );
}

#[test]
fn mcp_servers_are_read_from_a_file_of_another_program() {
    let file = r#"{"mcpServers": {
        "calendar": {"type": "stdio", "command": "cal", "args": ["a"], "env": {"TOKEN": "${CAL}", "TZ": "UTC"}},
        "old": {"command": "x", "disabled": true},
        "git": {"type": "http", "url": "http://h/mcp", "description": "from the file"}
    }}"#;
    let toml = "mcp_file = 'mcp.json'\nmcp.calendar.description = 'days'\nmcp.git.description = 'from above'";
    let (_folder, sources) = sources(&[("mcp.json", file), ("turnfold.toml", toml)]);
    let (settings, origins) = Settings::load(sources.clone()).unwrap();
    assert_eq!(settings.mcp.keys().collect::<Vec<_>>(), ["calendar", "git"]);
    assert_eq!(settings.mcp["git"].description, "from above");
    assert_eq!(shown(&origins, "mcp.calendar.command"), (r#""cal""#.into(), "mcp.json".into()));
    assert_eq!(shown(&origins, "mcp.calendar.env.TOKEN").0, r#""env:CAL""#);
    assert_eq!(shown(&origins, "mcp.calendar.description").1, "turnfold.toml");

    let foreign = r#"{"mcpServers": {"calendar": {
        "command": "${NO_SUCH_VARIABLE:-cal}", "args": ["--to=${NO_SUCH_VARIABLE:-here}"], "autoApprove": [], "timeout": 5,
        "alwaysAllow": ["x"], "disabledTools": ["y"], "env": {"A": "Bearer ${CAL}", "B": "${CAL:-x}"}}}}"#;
    fs::write(sources.folder.join("mcp.json"), format!("\u{FEFF}{foreign}")).unwrap();
    fs::write(
        sources.folder.join("turnfold.toml"),
        "mcp_file = 'mcp.json'\nmcp.calendar.description = 'days'",
    )
    .unwrap();
    let (_, origins) = Settings::load(sources.clone()).unwrap();
    assert_eq!(shown(&origins, "mcp.calendar.command").0, r#""cal""#);
    assert_eq!(shown(&origins, "mcp.calendar.args").0, r#"["--to=here"]"#);
    assert_eq!(shown(&origins, "mcp.calendar.env.A").0, r#""template:Bearer ${CAL}""#);
    for (text, why) in [
        ("${NO_SUCH_VARIABLE}", "needs the environment variable NO_SUCH_VARIABLE, which is not set"),
        ("${input:key}", "has ${input:key}, which is not ${NAME} or ${NAME:-default}, in command"),
    ] {
        let file = json!({"calendar": {"command": text}}).to_string();
        fs::write(sources.folder.join("mcp.json"), file).unwrap();
        let refused = refusal(sources.clone());
        assert!(refused.starts_with("mcp.calendar in mcp.json ") && refused.contains(why), "{refused}");
    }
    fs::write(sources.folder.join("turnfold.toml"), toml).unwrap();

    let flat = r#"{"calendar": {"comand": "cal"}}"#;
    fs::write(sources.folder.join("mcp.json"), flat).unwrap();
    assert_eq!(
        refusal(sources.clone()),
        "unknown key mcp.calendar.comand in mcp.json: did you mean mcp.calendar.command?"
    );
    fs::write(sources.folder.join("mcp.json"), r#"{"git": {"type": "sse", "url": "http://h"}}"#).unwrap();
    assert!(
        refusal(sources).starts_with("mcp.git in mcp.json uses the SSE transport, which MCP has removed")
    );
}

#[test]
fn a_plain_command_is_read_and_its_mistakes_are_reported() {
    let (settings, origins) = toml(
        "[commands.page]\ndescription = 'pages somebody'\nurl = 'http://x/?key=hunter2'\nheaders = { A = 'hunter2' }\nmax_repeats = 2\n\
         [commands.page.parameters]\ntype = 'object'\nrequired = ['whoIs']\nproperties.whoIs.maxLength = 5",
    );
    let page = &settings.commands["page"];
    let parameters =
        json!({"type": "object", "required": ["whoIs"], "properties": {"whoIs": {"maxLength": 5}}});
    assert_eq!(page.parameters, parameters);
    assert_eq!((page.method, page.safety, page.timeout_seconds), (Method::Post, Safety::Write, 60));
    assert_eq!(page.max_repeats, Some(2));
    assert!(!format!("{:?} {page:?}", origins.shown()).contains("hunter2"), "{:?}", origins.shown());

    let refused = |text: &str, why: &str| assert_eq!(error_of(text), why);
    refused(
        "commands.x.url = 'http://x'",
        "commands.x in turnfold.toml needs a description: one line that tells the model what the command does",
    );
    refused("commands.x.description = 'x'", "commands.x in turnfold.toml needs a url");
    refused(
        "commands.x = { description = 'x', url = 'http://x', method = 'GET' }",
        "commands.x.method in turnfold.toml must be one of POST, PUT, PATCH, DELETE",
    );
    refused(
        "commands.x.timeout_seconds = 0",
        "commands.x.timeout_seconds in turnfold.toml must be at least 1",
    );
    let message =
        error_of("commands.x = { description = 'x', url = 'http://x', parameters = { type = 'thing' } }");
    assert!(
        message
            .starts_with("commands.x in turnfold.toml has parameters that are not a JSON Schema: at /type: "),
        "{message}"
    );
}

#[test]
fn no_server_may_use_the_name_of_the_plain_commands() {
    let server = "[mcp.commands]\ndescription = 'x'\ncommand = 'x'\n";
    assert_eq!(toml(server).0.mcp.len(), 1, "where there are no commands, the name is free");
    assert_eq!(
        error_of(&format!("{server}[commands.page]\ndescription = 'x'\nurl = 'http://x'")),
        "mcp.commands in turnfold.toml uses the name that is reserved for the commands of [commands.NAME]: rename the \
         server"
    );
}

#[test]
fn every_model_has_a_provider() {
    assert_eq!(toml("").0.index.embedding_model, None);
    assert_eq!(toml("index.embedding_model = 'openai/b'").0.index.embedding_model.unwrap(), "openai/b");
    toml(
        "providers.x.base_url = 'http://x'\nstrategies.research = { model = 'x/a/b', search_model = 'x/c' }",
    );
    let refused = |text: &str, why: &str| assert_eq!(error_of(text), why);
    for key in ["index.embedding_model", "strategies.planner.model", "strategies.research.search_model"] {
        refused(
            &format!("{key} = 'b'"),
            &format!("{key} in turnfold.toml must be written as provider/model"),
        );
        refused(
            &format!("{key} = 'opnai/b'"),
            &format!(
                "{key} in turnfold.toml does not begin with the name of a provider (configured: openai); use one of \
                 them, or add [providers.NAME]"
            ),
        );
    }
}
