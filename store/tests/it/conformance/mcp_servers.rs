//! Reports about MCP servers: each replaces the one before, and a failure keeps what was offered.

use shared::Prompt;
use store::{Error, McpOffer, McpResource, Store};

pub(super) async fn are_shown_as_last_reported(store: &Store) -> Result<(), Error> {
    assert_eq!(store.mcp_server("desk").await?, None);
    store.record_mcp_failure("desk", "w1", "it does not start").await?;
    let found = store.mcp_server("desk").await?.expect("a report");
    assert_eq!(
        (found.offer, found.definitions, found.error.as_deref()),
        (None, None, Some("it does not start"))
    );

    let offer = McpOffer {
        name: "desk 1.0".to_owned(),
        protocol: "2025-06-18".to_owned(),
        instructions: Some("ask\u{0}politely".to_owned()),
        prompts: vec![Prompt { name: "greet".to_owned(), description: String::new(), arguments: vec![] }],
        resources: vec![McpResource {
            name: "list".to_owned(),
            description: "all".to_owned(),
            uri: "desk://list".to_owned(),
            is_template: false,
        }],
        tools_withheld: None,
    };
    store.record_mcp_offer("desk", "w2", &offer, Some("[]")).await?;
    let found = store.mcp_server("desk").await?.expect("a report");
    assert_eq!((found.offer.as_ref(), found.definitions.as_deref()), (Some(&offer), Some("[]")));
    assert_eq!((found.error, &*found.worker), (None, "w2"), "the server answers again");

    store.record_mcp_failure("desk", "w1", "it is gone").await?;
    let found = store.mcp_server("desk").await?.expect("a report");
    assert_eq!(found.offer, Some(offer), "what it offered remains");
    assert_eq!((found.error.as_deref(), &*found.worker), (Some("it is gone"), "w1"));
    assert_eq!(store.mcp_server("other").await?, None);
    Ok(())
}

on_databases!(are_shown_as_last_reported);
