//! Reports about MCP servers: what a worker found is in the store, within bounds and without secrets.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use shared::{Request, Safety};
use store::{McpServerRecord, Store};
use world::{Redactor, Server, ToolRule, Transport, encode_tools};

use super::{
    Stage,
    child::{self, TOOLS},
    due, live, perform, servers,
};

fn tool(description: &str) -> Value {
    json!([{ "name": "pid", "description": description, "inputSchema": { "type": "object" } }])
}

async fn store() -> Store {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    store
}

/// Uses the server once, and returns the report about it.
async fn reported(store: &Store, server: Server, secret: &str) -> McpServerRecord {
    let secrets = [("keys.desk".to_owned(), SecretString::from(secret))];
    let world = live([], servers([("desk", server)]).with_pins(store.clone()));
    let world = world.with_redactor(Redactor::new(secrets));
    let before = store.mcp_server("desk").await.unwrap().map(|row| row.seen_at);
    let request = Request::ListTools { server: "desk".to_owned() };
    let _ = perform(&world, &Stage::default(), &due(request)).await.0;
    let changed = async {
        loop {
            match store.mcp_server("desk").await.unwrap() {
                Some(row) if Some(row.seen_at) != before => return row,
                Some(_) | None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let report = tokio::select! {
        () = world.keep_reporting_servers("w1") => unreachable!("it never ends"),
        it = tokio::time::timeout(Duration::from_secs(60), changed) => it.expect("no report within a minute"),
    };
    world.close().await;
    report
}

fn with_tools(folder: &tempfile::TempDir, tools: &Value) -> Server {
    let file = folder.path().join("tools.json");
    std::fs::write(&file, tools.to_string()).unwrap();
    let mut server = child::server([]);
    if let Transport::Stdio { env, .. } = &mut server.transport {
        env.insert(TOOLS.to_owned(), file.display().to_string());
    }
    server
}

#[tokio::test]
async fn a_used_server_is_reported_with_the_tools_that_would_be_pinned() {
    let (store, folder) = (store().await, tempfile::tempdir().unwrap());
    let found = reported(&store, with_tools(&folder, &tool("tells")), "none-of-these").await;
    let pin = store.pin("desk").await.unwrap().unwrap();
    assert_eq!((found.definitions.as_deref(), found.error), (Some(&*pin.definitions), None));
    assert_eq!((&*found.worker, found.offer.unwrap().tools_withheld), ("w1", None));

    let changed = reported(&store, with_tools(&folder, &tool("tells all")), "none-of-these").await;
    let definitions = changed.definitions.unwrap();
    assert!(definitions.contains("tells all"), "a server that is not used because of its pin is reported");
    let tools: Vec<shared::Tool> = serde_json::from_str(&definitions).unwrap();
    assert_eq!(encode_tools(&tools).unwrap(), definitions, "the form in which workers compare it");
}

#[tokio::test]
async fn tools_that_are_too_large_or_secret_are_withheld() {
    let (store, folder) = (store().await, tempfile::tempdir().unwrap());
    let secret = reported(&store, with_tools(&folder, &tool("my key is kluq-7731")), "kluq-7731").await;
    assert_eq!(secret.definitions, None);
    assert!(!format!("{secret:?}").contains("kluq-7731"), "{secret:?}");
    assert!(secret.offer.unwrap().tools_withheld.unwrap().contains("secret"));
    let large = reported(&store, with_tools(&folder, &tool(&"x".repeat(1024 * 1024))), "kluq-7731").await;
    assert_eq!(large.definitions, None);
    assert!(large.offer.unwrap().tools_withheld.unwrap().contains("bytes"));
}

#[tokio::test]
async fn a_server_that_does_not_start_is_reported() {
    let (store, mut server) = (store().await, child::server([]));
    if let Transport::Stdio { command, .. } = &mut server.transport {
        *command = "/nonexistent/server".to_owned();
    }
    let found = reported(&store, server, "nonexistent-secret").await;
    assert!(found.error.unwrap().contains("does not exist"));
    assert_eq!((found.offer, found.definitions), (None, None));
}

/// Hints that are known to be wrong are corrected, unless the operator decided.
#[tokio::test]
async fn wrong_hints_of_a_known_server_are_corrected() {
    let reads = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } });
    let tools = json!([reads("collection-schema"), reads("connect"), reads("export")]);
    let effects = |found: McpServerRecord| {
        let tools: Vec<shared::Tool> = serde_json::from_str(&found.definitions.unwrap()).unwrap();
        tools.iter().map(|tool| tool.safety).collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().unwrap();
    let found = reported(&store().await, with_tools(&folder, &tools), "none-of-these").await;
    assert_eq!(effects(found), [Safety::Read, Safety::Idempotent, Safety::Write]);

    let mut decided = with_tools(&folder, &tools);
    let rule = ToolRule { safety: Some(Safety::Read), ..ToolRule::default() };
    decided.tools.insert("export".to_owned(), rule);
    let found = reported(&store().await, decided, "none-of-these").await;
    assert_eq!(effects(found), [Safety::Read, Safety::Idempotent, Safety::Read]);
}
