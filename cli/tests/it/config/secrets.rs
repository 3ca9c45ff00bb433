//! References to secrets, and that no output contains a secret.

use secrecy::ExposeSecret as _;
use serde_json::json;
use turnfold::config::{
    HttpProviderSettings, McpTransport, ProviderSettings, SecretError, SecretRef, Settings,
};

use super::{error_of, refusal, shown, sources, toml, variable};

#[test]
fn a_literal_secret_is_refused_and_not_quoted() {
    for text in [
        "providers.openai.api_key = 'sk-123'",
        "providers.openai.api_key = 'env:sk-123'",
        "providers.openai.api_key = ['sk-123']",
        "api.keys = ['env:GOOD', 'sk-123']",
    ] {
        let message = error_of(text);
        assert!(message.contains(" in turnfold.toml ") && !message.contains("sk-123"), "{message}");
    }
    assert_eq!(
        error_of("api.keys = ['env:GOOD', 'sk-123']"),
        "api.keys[1] in turnfold.toml must be env:NAME or file:PATH; a secret itself must not be in the configuration"
    );
    let (_folder, sources) = sources(&[]);
    let message = refusal(variable(sources, "TURNFOLD__PROVIDERS__OPENAI__API_KEY", "sk-123"));
    assert!(
        message.contains("TURNFOLD__PROVIDERS__OPENAI__API_KEY") && !message.contains("sk-123"),
        "{message}"
    );
}

#[test]
fn a_secret_is_read_from_its_reference() {
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
fn the_error_of_a_secret_names_its_setting() {
    let (settings, _) = toml(
        "store.url = 'env:NOT_A'\nqueue.url = 'env:NOT_B'\nproviders.openai.api_key = 'env:NOT_C'\n\
         [mcp.one]\ndescription = 'x'\ncommand = 'x'\nenv = { 'D.D' = 'env:NOT_D' }\n\
         [mcp.two]\ndescription = 'x'\nurl = 'env:NOT_E'\nheaders = { F = 'env:NOT_F' }",
    );
    let ProviderSettings::Http(HttpProviderSettings { api_key: Some(api_key), .. }) =
        &settings.providers["openai"]
    else {
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
        .map(|result| result.unwrap_err().to_string().split(": ").next().unwrap().to_owned())
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
fn secrets_are_never_shown() {
    let (settings, origins) = toml(
        "store.url = 'postgres://ann:hunter2@db/x?sslmode=require&password=hunter2'\n\
         queue.url = 'redis://:hunter2@redis:6379'\nproviders.openai.base_url = 'https://hunter2@y/v1?sig=hunter2&hunter2'\n\
         worker.name = 'https://h/npm/@scope'\n\
         [mcp.one]\ndescription = 'x'\ncommand = 'x'\nenv = { TOKEN = 'hunter2', OTHER = 'env:OTHER' }\n\
         [mcp.two]\ndescription = 'x'\nurl = 'http://h/?api_key=hunter2'\nheaders = { Authorization = 'Bearer hunter2' }",
    );
    let all = origins.shown();
    assert!(!format!("{all:?}").contains("hunter2"), "{all:?}");
    let of = |key| shown(&origins, key).0;
    assert_eq!(of("store.url"), r#""postgres://ann:***@db/x?sslmode=***&password=***""#);
    assert_eq!(of("queue.url"), r#""redis://:***@redis:6379""#);
    assert_eq!(of("providers.openai.base_url"), r#""https://***@y/v1?sig=***&***""#);
    assert_eq!(of("worker.name"), r#""https://h/npm/@scope""#);
    assert_eq!(of("mcp.one.env.TOKEN"), r#""***""#);
    assert_eq!(of("mcp.one.env.OTHER"), r#""env:OTHER""#);
    assert_eq!(of("providers.openai.api_key"), r#""env:OPENAI_API_KEY""#);
    let debug = format!("{:?} {:?} {:?}", settings.store, settings.queue, settings.mcp);
    assert!(!debug.contains("hunter2"), "{debug}");
    assert_eq!(settings.queue.url.resolve().unwrap().expose_secret(), "redis://:hunter2@redis:6379");
}

/// The owner of a key with two holders would be ambiguous.
#[test]
fn a_key_with_two_owners_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    for (name, key) in [("one", "sesame"), ("same", "sesame\n"), ("other", "open")] {
        std::fs::write(folder.path().join(name), key).unwrap();
    }
    let shared = [
        (
            "tenants.a.keys = ['file:one']\ntenants.b.keys = ['file:other', 'file:same']",
            "tenants.a",
            "tenants.b",
        ),
        ("api.keys = ['file:one']\ntenants.b.keys = ['file:same']", "api", "tenants.b"),
    ];
    for (config, one, other) in shared {
        let config = format!(
            "store.url = 'sqlite:log.db'\nqueue.url = 'memory:'\napi.listen = '127.0.0.1:0'\n{config}"
        );
        std::fs::write(folder.path().join("turnfold.toml"), config).unwrap();
        let mut dev = std::process::Command::new(crate::engine::TURNFOLD);
        let done = dev.current_dir(folder.path()).arg("dev").output().unwrap();
        let message = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{message}");
        let named = [one, other].map(|tenant| message.contains(&format!("{tenant}.keys")));
        assert!(
            named == [true; 2] && message.contains("a key of its own") && !message.contains("sesame"),
            "{message}"
        );
    }
}
