//! The configuration: which layer wins, what a mistake is told, and that the manual knows every key.

use std::{collections::BTreeSet, fs, path::Path};

use secrecy::ExposeSecret as _;
use serde_json::{Value as Json, json};
use shared::{Budget, Limits, Safety, strategies};
use tempfile::TempDir;
use turnfold::config::{
    CommandMethod, LogFormat, MANUAL, McpTransport, ModelLimits, Origins, PriceSettings, ProviderSettings,
    SecretError, SecretRef, Settings, Sources, StructuredForm,
};

/// A folder with these files, and nothing of this process's environment.
fn sources(files: &[(&str, &str)]) -> (TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let sources =
        Sources { folder: folder.path().into(), strategies: strategies::all(), ..Sources::default() };
    (folder, sources)
}

fn variable(mut sources: Sources, name: &str, value: &str) -> Sources {
    sources.environment.insert(name.into(), value.into());
    sources
}

/// The settings of a `turnfold.toml` of this text.
fn toml(text: &str) -> (Settings, Origins) {
    let (_folder, sources) = sources(&[("turnfold.toml", text)]);
    Settings::load(sources).unwrap()
}

/// The complaint about a `turnfold.toml` of this text.
fn complaint(text: &str) -> String {
    let (_folder, sources) = sources(&[("turnfold.toml", text)]);
    refusal(sources)
}

fn refusal(sources: Sources) -> String {
    Settings::load(sources).unwrap_err().to_string()
}

fn shown(origins: &Origins, key: &str) -> (String, String) {
    let all = origins.shown();
    let found = all.into_iter().find(|(it, ..)| it == key);
    let (_, value, origin) = found.unwrap_or_else(|| panic!("{key} is not shown"));
    (value, origin)
}

#[test]
fn each_layer_goes_over_the_one_before() {
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

    // What a stronger layer does not name stays.
    let (settings, _) = Settings::load(sources).unwrap();
    assert_eq!(settings.worker.name, "two");
    assert_eq!(settings.worker.drain_seconds, 30);
}

#[test]
fn the_flag_goes_over_the_variable_for_the_environments_name() {
    let files = [("turnfold.one.toml", "worker.slots = 1"), ("turnfold.two.toml", "worker.slots = 2")];
    let (_folder, sources) = sources(&files);
    let mut sources = variable(sources, "TURNFOLD_ENV", "one");
    sources.env = Some("two".into());
    assert_eq!(Settings::load(sources).unwrap().0.worker.slots, 2);
}

#[test]
fn a_file_by_name_replaces_the_usual_one_and_has_the_environments_beside_it() {
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
fn a_file_that_was_asked_for_must_be_there() {
    let (_folder, sources) = sources(&[]);
    let by_config = Sources { config: Some("none.toml".into()), ..sources.clone() };
    assert!(refusal(by_config).starts_with("failed to read none.toml, which --config asks for: "));
    let by_env = Sources { env: Some("none".into()), ..sources.clone() };
    assert!(refusal(by_env).starts_with("failed to read turnfold.none.toml, which --env asks for: "));
    let by_variable = variable(sources.clone(), "TURNFOLD_ENV", "none");
    assert!(
        refusal(by_variable).starts_with("failed to read turnfold.none.toml, which TURNFOLD_ENV asks for: ")
    );
    let outside = Sources { env: Some("../none".into()), ..sources.clone() };
    assert_eq!(refusal(outside), "the environment's name in --env may hold only letters, digits, - and _");
    let by_key = sources.set("mcp_file=none.json");
    assert!(refusal(by_key).starts_with("failed to read none.json, which mcp_file in --set asks for: "));
}

#[test]
fn a_typo_is_told_with_its_place_and_its_mend_in_every_layer() {
    assert_eq!(
        complaint("[store]\nulr = 'sqlite:x'"),
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
        "unknown key log.levels in --quiet: there are filter, format"
    );
    assert_eq!(refusal(sources.set("log.format")), "--set wants section.key=value");
}

#[test]
fn a_typo_is_found_under_a_name_and_in_a_section_of_its_own() {
    assert_eq!(
        complaint("[providers.local]\nbase_ulr = 'http://x'"),
        "unknown key providers.local.base_ulr in turnfold.toml: did you mean providers.local.base_url?"
    );
    assert_eq!(
        complaint("[worker]\nlease_seconds = 3"),
        "unknown key worker.lease_seconds in turnfold.toml: did you mean queue.lease_seconds?"
    );
    assert_eq!(
        complaint("[log]\ncall_timeout_seconds = 3"),
        "unknown key log.call_timeout_seconds in turnfold.toml: did you mean mcp.NAME.call_timeout_seconds?"
    );
}

#[test]
fn strategies_have_the_keys_that_they_say() {
    assert_eq!(
        complaint("[strategies.planer]\nmodel = 'a/b'"),
        "unknown key strategies.planer in turnfold.toml: did you mean strategies.planner?"
    );
    assert_eq!(
        complaint("[strategies.planner]\nmodle = 'a/b'"),
        "unknown key strategies.planner.modle in turnfold.toml: did you mean strategies.planner.model?"
    );
    assert_eq!(
        complaint("[strategies.planner]\nconfidence = 'high'"),
        "strategies.planner.confidence in turnfold.toml must be a number"
    );
    // The schema knows no upper limit here; the strategy itself does.
    assert!(
        complaint("[strategies.planner]\nrounds = 5_000_000_000")
            .starts_with("strategies.planner in turnfold.toml does not suit the strategy: ")
    );
}

#[test]
fn strategies_are_tuned_from_every_layer_and_completed_by_their_own_defaults() {
    let (_folder, sources) = sources(&[("turnfold.toml", "strategies.planner.confidence = 1")]);
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
fn a_wrong_type_is_told_with_its_place_and_never_bent() {
    let refused = |text: &str, why: &str| assert_eq!(complaint(text), why);
    refused("worker.slots = 'many'", "worker.slots in turnfold.toml must be a whole number");
    refused("worker.slots = '3'", "worker.slots in turnfold.toml must be a whole number");
    refused("worker.slots = 1.5", "worker.slots in turnfold.toml must be a whole number");
    refused("worker.slots = true", "worker.slots in turnfold.toml must be a whole number");
    refused("worker.slots = 0", "worker.slots in turnfold.toml must be at least 1");
    refused("worker.drain_seconds = -1", "worker.drain_seconds in turnfold.toml must be at least 0");
    refused("worker.name = 7", "worker.name in turnfold.toml must be a text");
    refused("worker = 7", "worker in turnfold.toml must be a section");
    refused("log.format = 'xml'", "log.format in turnfold.toml must be one of text, json");
    refused("api.keys = 'env:A'", "api.keys in turnfold.toml must be a list");
    refused(
        "api.listen = 'everywhere'",
        "api.listen in turnfold.toml must be an address and a port, such as 127.0.0.1:2026",
    );
    let (_folder, sources) = sources(&[]);
    assert_eq!(
        refusal(variable(sources.clone(), "TURNFOLD__WORKER__SLOTS", "many")),
        "worker.slots in TURNFOLD__WORKER__SLOTS must be a whole number"
    );
    assert_eq!(
        refusal(variable(sources, "TURNFOLD__API__KEYS", "env:A")),
        "api.keys in TURNFOLD__API__KEYS must be a list, written as JSON"
    );
}

#[test]
fn a_file_that_does_not_parse_is_told_with_its_line_and_without_its_text() {
    let words = complaint("[providers.openai]\n\napi_key = sk-123\n");
    assert!(words.starts_with("turnfold.toml, line 3: "), "{words}");
    assert!(!words.contains("sk-123"), "{words}");
    let (_folder, sources) = sources(&[("mcp.json", "{\n\"calendar\": sk-123}")]);
    assert_eq!(refusal(sources.set("mcp_file=mcp.json")), "mcp.json, line 2: this is no JSON object");
}

#[test]
fn texts_stay_texts_and_numbers_become_numbers() {
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
fn names_with_one_underscore_are_none_of_ours() {
    let (_folder, sources) = sources(&[]);
    let sources = variable(sources, "TURNFOLD_LOG", "x");
    let sources = variable(sources, "TURNFOLD_ENV", "");
    let sources = variable(sources, "turnfold__worker__slots", "x");
    Settings::load(sources).unwrap();
}

#[test]
fn a_plain_secret_is_refused_and_not_repeated() {
    for text in [
        "providers.openai.api_key = 'sk-123'",
        "providers.openai.api_key = 'env:sk-123'",
        "providers.openai.api_key = ['sk-123']",
        "api.keys = ['env:GOOD', 'sk-123']",
    ] {
        let words = complaint(text);
        assert!(words.contains(" in turnfold.toml ") && !words.contains("sk-123"), "{words}");
    }
    assert_eq!(
        complaint("api.keys = ['env:GOOD', 'sk-123']"),
        "api.keys[1] in turnfold.toml must be env:NAME or file:PATH: a secret itself has no place here"
    );
    let (_folder, sources) = sources(&[]);
    let words = refusal(variable(sources, "TURNFOLD__PROVIDERS__OPENAI__API_KEY", "sk-123"));
    assert!(words.contains("TURNFOLD__PROVIDERS__OPENAI__API_KEY") && !words.contains("sk-123"), "{words}");
}

#[test]
fn a_secret_is_read_where_the_setting_says() {
    let (folder, sources) = sources(&[("key", "s3cret\n"), ("empty", "\n")]);
    let file = |name: &str| format!("file:{}", folder.path().join(name).display());
    let keys = json!([file("key"), file("empty"), file("none"), "env:TURNFOLD_TEST_NOT_SET"]).to_string();
    let (settings, _) = Settings::load(sources.set(&format!("api.keys={keys}"))).unwrap();
    let read: Vec<_> = settings.api.keys.iter().map(SecretRef::resolve).collect();
    assert_eq!(read[0].as_ref().unwrap().expose_secret(), "s3cret");
    assert!(matches!(&read[1], Err(SecretError::Empty { setting, .. }) if setting == "api.keys[1]"));
    assert!(matches!(&read[2], Err(SecretError::Unreadable { setting, .. }) if setting == "api.keys[2]"));
    assert_eq!(
        read[3].as_ref().unwrap_err().to_string(),
        "api.keys[3]: the environment variable TURNFOLD_TEST_NOT_SET is not set, or empty"
    );
    let variable = |name: &str| (name == "TURNFOLD_TEST_NOT_SET").then(|| "here".to_owned());
    assert_eq!(settings.api.keys[3].resolve_in(variable).unwrap().expose_secret(), "here");
}

#[test]
fn every_secret_knows_its_setting() {
    let (settings, _) = toml(
        "store.url = 'env:NOT_A'\nqueue.url = 'env:NOT_B'\nproviders.openai.api_key = 'env:NOT_C'\n\
         [mcp.one]\ndescription = 'x'\ncommand = 'x'\nenv = { 'D.D' = 'env:NOT_D' }\n\
         [mcp.two]\ndescription = 'x'\nurl = 'env:NOT_E'\nheaders = { F = 'env:NOT_F' }",
    );
    let ProviderSettings::Http { api_key: Some(api_key), .. } = &settings.providers["openai"] else {
        panic!()
    };
    let McpTransport::Child { env, .. } = &settings.mcp["one"].transport else { panic!() };
    let McpTransport::Http { url, headers } = &settings.mcp["two"].transport else { panic!() };
    let errors = [
        settings.store.url.resolve(),
        settings.queue.url.resolve(),
        api_key.resolve(),
        env["D.D"].resolve(),
        url.resolve(),
        headers["F"].resolve(),
    ];
    let settings: Vec<_> = errors
        .into_iter()
        .map(|it| it.unwrap_err().to_string().split(": ").next().unwrap().to_owned())
        .collect();
    let expected = [
        "store.url",
        "queue.url",
        "providers.openai.api_key",
        "mcp.one.env.\"D.D\"",
        "mcp.two.url",
        "mcp.two.headers.F",
    ];
    assert_eq!(settings, expected);
}

#[test]
fn nothing_secret_is_shown() {
    let (settings, origins) = toml(
        "store.url = 'postgres://ann:hunter2@db/x?sslmode=require&password=hunter2'\n\
         queue.url = 'redis://:hunter2@redis:6379'\nproviders.openai.base_url = 'https://x:hunter2@y/v1'\n\
         [mcp.one]\ndescription = 'x'\ncommand = 'x'\nenv = { TOKEN = 'hunter2', OTHER = 'env:OTHER' }\n\
         [mcp.two]\ndescription = 'x'\nurl = 'http://h/?api_key=hunter2'\nheaders = { Authorization = 'Bearer hunter2' }",
    );
    let all = origins.shown();
    assert!(!format!("{all:?}").contains("hunter2"), "{all:?}");
    let of = |key| shown(&origins, key).0;
    assert_eq!(of("store.url"), r#""postgres://ann:***@db/x?sslmode=require&password=***""#);
    assert_eq!(of("queue.url"), r#""redis://:***@redis:6379""#);
    assert_eq!(of("mcp.one.env.TOKEN"), r#""***""#);
    assert_eq!(of("mcp.one.env.OTHER"), r#""env:OTHER""#);
    assert_eq!(of("providers.openai.api_key"), r#""env:OPENAI_API_KEY""#);
    let debug = format!("{:?} {:?} {:?}", settings.store, settings.queue, settings.mcp);
    assert!(!debug.contains("hunter2"), "{debug}");
    assert_eq!(settings.queue.url.resolve().unwrap().expose_secret(), "redis://:hunter2@redis:6379");
}

#[test]
fn a_stronger_layer_may_make_a_provider_one_of_the_other_kind() {
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
    assert!(matches!(openai, ProviderSettings::Http { timeout_seconds: 120, .. }), "{openai:?}");
}

#[test]
fn a_provider_may_say_how_it_is_asked_for_a_shape() {
    let chosen = |text: &str| {
        let (_folder, sources) = sources(&[("turnfold.toml", text)]);
        match &Settings::load(sources).unwrap().0.providers["x"] {
            ProviderSettings::Http { structured, .. } => *structured,
            ProviderSettings::Script { .. } => panic!("an endpoint was expected"),
        }
    };
    assert_eq!(chosen("providers.x.base_url = 'http://x'"), StructuredForm::Auto);
    for (word, form) in [
        ("auto", StructuredForm::Auto),
        ("json_schema", StructuredForm::JsonSchema),
        ("tool", StructuredForm::Tool),
        ("json", StructuredForm::Json),
    ] {
        assert_eq!(
            chosen(&format!("providers.x = {{ base_url = 'http://x', structured = '{word}' }}")),
            form
        );
    }
    assert_eq!(
        complaint("providers.x = { script = 'y', structured = 'tool' }"),
        "providers.x in turnfold.toml has a script, which takes no api_key, timeout_seconds, structured or prices"
    );
    let wrong = complaint("providers.x = { base_url = 'http://x', structured = 'yaml' }");
    assert!(wrong.starts_with("providers.x.structured in turnfold.toml "), "{wrong}");
}

#[test]
fn an_entry_is_of_one_kind() {
    let refused = |text: &str, why: &str| assert_eq!(complaint(text), why);
    refused(
        "providers.x = { base_url = 'http://x', script = 'y' }",
        "providers.x in turnfold.toml has a base_url and a script, and can only have one of them",
    );
    refused("providers.x.api_key = 'env:A'", "providers.x in turnfold.toml wants a base_url or a script");
    refused(
        "providers.x.base_url = 'x/v1'",
        "providers.x in turnfold.toml wants a base_url that starts with http:// or https://",
    );
    refused("mcp.x.description = 'x'", "mcp.x in turnfold.toml wants a command or a url");
    refused(
        "mcp.x = { description = 'x', url = 'http://x', args = [] }",
        "mcp.x in turnfold.toml has a url, which takes no args, env or cwd",
    );
    refused(
        "mcp.x.command = 'x'",
        "mcp.x in turnfold.toml wants a description: one line by which a planner knows what the server is good for",
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
    let nodes = |what: &str| format!("mcp.x = {{ description = 'x', command = 'x', nodes.{what} }}");
    refused(
        &nodes("planner.plan = { allow = ['z'], deny = ['z'] }"),
        "mcp.x in turnfold.toml allows and denies the same tool, and can only do one of them",
    );
    for (what, words) in [
        (
            "plannet.orchestrate.deny = ['z']",
            "mcp.x.nodes.plannet in turnfold.toml names no strategy: there are ",
        ),
        (
            "planner.orchestra.deny = ['z']",
            "mcp.x.nodes.planner.orchestra in turnfold.toml names no node of planner: there are plan, ",
        ),
    ] {
        let (_folder, sources) = sources(&[("turnfold.toml", &nodes(what))]);
        let told = refusal(sources);
        assert!(told.starts_with(words), "{told}");
    }
    refused(
        "mcp.x = { description = 'x', command = 'x', tools = { y = 3 } }",
        "mcp.x.tools.y in turnfold.toml must be a text or a section",
    );
    refused(
        "mcp.x = { description = 'x', command = 'x', allow = ['y', 'z'], deny = ['z'] }",
        "mcp.x in turnfold.toml allows and denies the same tool, and can only do one of them",
    );
}

#[test]
fn a_file_of_other_programs_gives_mcp_servers() {
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

    let flat = r#"{"calendar": {"comand": "cal"}}"#;
    fs::write(sources.folder.join("mcp.json"), flat).unwrap();
    assert_eq!(
        refusal(sources.clone()),
        "unknown key mcp.calendar.comand in mcp.json: did you mean mcp.calendar.command?"
    );
    fs::write(sources.folder.join("mcp.json"), r#"{"git": {"type": "sse", "url": "http://h"}}"#).unwrap();
    assert!(refusal(sources).starts_with("mcp.git in mcp.json speaks HTTP with SSE, which MCP gave up"));
}

#[test]
fn a_plain_command_is_read_and_its_mistakes_are_told() {
    let (settings, origins) = toml(
        "[commands.page]\ndescription = 'pages somebody'\nurl = 'http://x/?key=hunter2'\nheaders = { A = 'hunter2' }\n\
         [commands.page.parameters]\ntype = 'object'\nrequired = ['whoIs']\nproperties.whoIs.maxLength = 5",
    );
    let page = &settings.commands["page"];
    let parameters =
        json!({"type": "object", "required": ["whoIs"], "properties": {"whoIs": {"maxLength": 5}}});
    assert_eq!(page.parameters, parameters);
    assert_eq!((page.method, page.safety, page.timeout_seconds), (CommandMethod::Post, Safety::Write, 60));
    assert!(!format!("{:?} {page:?}", origins.shown()).contains("hunter2"), "{:?}", origins.shown());

    let refused = |text: &str, why: &str| assert_eq!(complaint(text), why);
    refused(
        "commands.x.url = 'http://x'",
        "commands.x in turnfold.toml wants a description: one line by which a model knows what the command does",
    );
    refused("commands.x.description = 'x'", "commands.x in turnfold.toml wants a url");
    refused(
        "commands.x = { description = 'x', url = 'http://x', method = 'GET' }",
        "commands.x.method in turnfold.toml must be one of POST, PUT, PATCH, DELETE",
    );
    refused(
        "commands.x.timeout_seconds = 0",
        "commands.x.timeout_seconds in turnfold.toml must be at least 1",
    );
    let words =
        complaint("commands.x = { description = 'x', url = 'http://x', parameters = { type = 'thing' } }");
    assert!(
        words.starts_with("commands.x in turnfold.toml has parameters that are no JSON Schema: at /type, "),
        "{words}"
    );
}

#[test]
fn no_server_may_be_called_as_the_commands_are() {
    let server = "[mcp.commands]\ndescription = 'x'\ncommand = 'x'\n";
    assert_eq!(toml(server).0.mcp.len(), 1, "where there are no commands, the name is free");
    assert_eq!(
        complaint(&format!("{server}[commands.page]\ndescription = 'x'\nurl = 'http://x'")),
        "mcp.commands in turnfold.toml has the name under which the commands of [commands.NAME] are found: call the \
         server something else"
    );
}

#[test]
fn budgets_and_prices_are_read_and_held_to_sense() {
    let (settings, _) = toml(
        "budget.turn = { tokens = 9, usd = 0.5 }\nbudget.thread.seconds = 60\n\
         [providers.x]\nbase_url = 'http://x'\nprices = { 'a-1.5' = { input = 2.5, output = 10 } }",
    );
    let turn = Limits { tokens: Some(9), usd: Some(0.5), seconds: None };
    let thread = Limits { seconds: Some(60), ..Limits::default() };
    assert_eq!(settings.budget, Budget { turn, thread });
    let ProviderSettings::Http { prices, .. } = &settings.providers["x"] else { panic!("it has a base_url") };
    assert_eq!(prices["a-1.5"], PriceSettings { input: 2.5, output: 10.0 });
    assert!(toml("").0.budget.is_none());
    for (text, words) in [
        ("budget.turn.tokens = 0", "budget.turn.tokens in turnfold.toml must be at least 1"),
        ("budget.thread.usd = 0", "budget.thread.usd in turnfold.toml must be at least 0.000001"),
        (
            "budget.turn.minutes = 1",
            "unknown key budget.turn.minutes in turnfold.toml: there are seconds, tokens, usd",
        ),
    ] {
        assert_eq!(complaint(text), words);
    }
    let refused =
        complaint("providers.x = { base_url = 'http://x', prices = { m = { input = -1, output = 1 } } }");
    assert_eq!(refused, "providers.x.prices.m.input in turnfold.toml must be at least 0");
}

#[test]
fn limits_are_read_and_held_to_sense() {
    let (settings, _) = toml(
        "[limits.models.'x/a-1.5']\nconcurrency = 2\nrequests_per_minute = 3\ntokens_per_minute = 4\nusd_per_day = 0.5\n\
         [limits.providers.x]\nusd_per_day = 40\n[limits.servers]\nmail.concurrency = 5\ncommands.requests_per_minute = 6\n\
         [providers.x]\nbase_url = 'http://x'\nprices = { 'a-1.5' = { input = 2.5, output = 10 } }\n\
         [mcp.mail]\ndescription = 'x'\ncommand = 'x'\n[commands.page]\ndescription = 'x'\nurl = 'http://x'",
    );
    let model = ModelLimits {
        concurrency: Some(2),
        requests_per_minute: Some(3),
        tokens_per_minute: Some(4),
        usd_per_day: Some(0.5),
    };
    assert_eq!(settings.limits.models["x/a-1.5"], model);
    assert_eq!(settings.limits.providers["x"].usd_per_day, Some(40.0));
    assert_eq!(settings.limits.servers["mail"].concurrency, Some(5));
    assert_eq!(settings.limits.servers["commands"].requests_per_minute, Some(6));
    assert!(toml("").0.limits.is_none());
    for (text, words) in [
        (
            "limits.models.gpt.concurrency = 1",
            "limits.models.gpt in turnfold.toml must be written as provider/model",
        ),
        (
            "limits.models.'opnai/gpt'.concurrency = 1",
            "limits.models.\"opnai/gpt\" in turnfold.toml names no provider: there are openai; add [providers.opnai]",
        ),
        (
            "limits.models.'openai/gpt'.usd_per_day = 1",
            "limits.models.\"openai/gpt\" in turnfold.toml has a limit in US dollars and no price: set \
             providers.openai.prices for \"gpt\"",
        ),
        (
            "limits.providers.opnai.concurrency = 1",
            "limits.providers.opnai in turnfold.toml names no provider: there are openai; add [providers.opnai]",
        ),
        (
            "limits.providers.openai.usd_per_day = 1",
            "limits.providers.openai in turnfold.toml has a limit in US dollars and no prices: set \
             providers.openai.prices",
        ),
        (
            "limits.servers.mail.concurrency = 1",
            "limits.servers.mail in turnfold.toml names no MCP server: there are none; add [mcp.mail]",
        ),
        (
            "limits.servers.commands.concurrency = 1",
            "limits.servers.commands in turnfold.toml names no MCP server: there are none; add [mcp.commands]",
        ),
        (
            "limits.providers.openai.concurrency = 0",
            "limits.providers.openai.concurrency in turnfold.toml must be at least 1",
        ),
        (
            "limits.servers.mail.usd_per_day = 1",
            "unknown key limits.servers.mail.usd_per_day in turnfold.toml: did you mean limits.models.NAME.usd_per_day?",
        ),
    ] {
        assert_eq!(complaint(text), words);
    }
    assert_eq!(toml("").0.worker.node_timeout_seconds, None);
    assert_eq!(toml("worker.node_timeout_seconds = 9").0.worker.node_timeout_seconds, Some(9));
    assert_eq!(
        complaint("worker.node_timeout_seconds = 0"),
        "worker.node_timeout_seconds in turnfold.toml must be at least 1"
    );
}

#[test]
fn an_embedding_model_names_its_provider() {
    assert_eq!(toml("").0.index.embedding_model, None);
    assert_eq!(toml("index.embedding_model = 'a/b'").0.index.embedding_model.unwrap(), "a/b");
    assert_eq!(
        complaint("index.embedding_model = 'b'"),
        "index.embedding_model in turnfold.toml must be written as provider/model"
    );
}

/// The manual, each example line put into force.
fn manual_in_force() -> String {
    let example = |line: &str| {
        line.strip_prefix('#')
            .filter(|it| it.starts_with(|c: char| c.is_alphabetic() || c == '['))
            .map(str::to_owned)
    };
    MANUAL.lines().map(|line| example(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_manual_names_every_key_and_its_examples_load() {
    let text = manual_in_force();
    let (_folder, sources) = sources(&[("turnfold.toml", &text), (".mcp.json", "{}")]);
    let (settings, origins) = Settings::load(sources).unwrap();
    assert_eq!((settings.mcp.len(), settings.commands.len()), (2, 1));

    // Keys as the schema has them: a chosen name is a star, and what is below a map of plain values is the map.
    let known: BTreeSet<String> = Settings::keys(&strategies::all()).into_iter().collect();
    let starred = |key: &str| {
        let mut parts: Vec<&str> = key.split('.').collect();
        if parts.len() > 2 && ["providers", "mcp", "commands", "tenants"].contains(&parts[0]) {
            parts[1] = "*";
            match (parts[2], parts.len()) {
                // What is said of a tool may be said in one word.
                ("tools", 4) => return None,
                ("tools" | "prices", 5) => parts[3] = "*",
                ("nodes", 6) => (parts[3], parts[4]) = ("*", "*"),
                _ => parts.truncate(3),
            }
        }
        if parts.len() > 3 && parts[0] == "limits" {
            parts[2] = "*";
        }
        if parts.get(2) == Some(&"on_failure_of") {
            parts.truncate(3);
        }
        Some(parts.join("."))
    };
    let written: BTreeSet<String> = origins
        .shown()
        .into_iter()
        .filter(|(.., origin)| origin == "turnfold.toml")
        .filter_map(|(key, ..)| starred(&key))
        .collect();
    assert_eq!(written, known);
}

#[test]
fn the_manual_tells_the_strategies_own_defaults() {
    let text: toml::Table = manual_in_force().parse().unwrap();
    let mut told = serde_json::to_value(&text["strategies"]).unwrap();
    let own: Json = strategies::all()
        .iter()
        .map(|it| (it.name().to_owned(), it.defaults()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (strategy, section) in told.as_object_mut().unwrap() {
        // A key that has no default is there as an example.
        section.as_object_mut().unwrap().retain(|key, _| own[strategy].get(key).is_some());
    }
    assert_eq!(told, own);
}

#[test]
fn the_manual_explains_every_key() {
    let lines: Vec<&str> = MANUAL.lines().collect();
    let block =
        |i: usize| lines[..i].iter().rev().take_while(|it| !it.is_empty()).any(|it| it.starts_with("# "));
    for (i, line) in lines.iter().enumerate() {
        let active = line.starts_with(|c: char| c.is_alphabetic());
        assert!(!active || block(i), "line {} of the manual sets {line} and does not say what it is", i + 1);
    }
}

#[test]
fn every_default_is_shown() {
    let (_folder, sources) = sources(&[]);
    let (_, origins) = Settings::load(sources).unwrap();
    assert_eq!(shown(&origins, "store.url"), (r#""sqlite:.turnfold/turnfold.db""#.into(), "default".into()));
    assert_eq!(shown(&origins, "api.keys"), ("[]".into(), "default".into()));
    assert!(origins.shown().iter().all(|(.., origin)| origin == "default"));
}
