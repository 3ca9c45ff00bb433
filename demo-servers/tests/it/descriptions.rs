//! The servers describe themselves: names, tools with annotations, prompts.

use std::path::PathBuf;

use demo_servers::Expert;
use rmcp::{
    model::{GetPromptRequestParams, ProtocolVersion, Tool},
    service::ServiceError,
};
use serde_json::json;

use crate::{Client, call, connect, text_of};

#[test]
fn an_expert_is_called_by_its_name() {
    for expert in Expert::ALL {
        assert_eq!(expert.to_string().parse::<Expert>().expect("a name"), expert);
        assert!(!expert.description().contains('\n'));
    }
    let error = "clock".parse::<Expert>().expect_err("no such expert").to_string();
    assert_eq!(error, r#"no expert is called "clock", there are calendar, contacts, notes"#);
}

#[tokio::test]
async fn every_tool_declares_its_effects() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = [
        (Expert::Calendar, "book once, cancel destroys, free_hours reads, list_events reads"),
        (Expert::Contacts, "add once, find reads, list reads, remove destroys"),
        (Expert::Notes, "append adds, delete destroys, read reads, search reads, write once"),
    ];
    for (expert, tools) in expected {
        let client = connect(expert, &folder.path().join("data.json")).await;
        assert_eq!(
            client.peer_info().expect("the server's information").protocol_version,
            ProtocolVersion::V_2026_07_28
        );
        let listed = client.list_all_tools().await.expect("tools");
        assert_eq!(listed.iter().map(kind).collect::<Vec<_>>().join(", "), tools);
        for tool in listed {
            assert!(
                tool.description.is_some_and(|text| text.ends_with('.')),
                "{} has no description",
                tool.name
            );
            let fields = tool.input_schema.get("properties").and_then(|fields| fields.as_object());
            for (name, field) in fields.expect("an object") {
                assert!(field.get("description").is_some(), "{}.{name} has no description", tool.name);
            }
        }
    }
}

fn kind(tool: &Tool) -> String {
    let hints = tool.annotations.as_ref().expect("annotations");
    assert_eq!(hints.open_world_hint, Some(false));
    let kind = match (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) {
        (Some(true), Some(false), Some(true)) => "reads",
        (Some(false), Some(true), Some(false)) => "destroys",
        (Some(false), Some(false), Some(true)) => "once",
        (Some(false), Some(false), Some(false)) => "adds",
        _ => panic!("{} contradicts itself: {hints:?}", tool.name),
    };
    format!("{} {kind}", tool.name)
}

#[tokio::test]
async fn prompts_contain_the_stored_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name| -> PathBuf { folder.path().join(name) };

    let calendar = connect(Expert::Calendar, &at("calendar.json")).await;
    call(&calendar, "book", json!({"day": "Friday", "hour": 9, "title": "dentist"})).await.expect("booked");
    let text = prompt(&calendar, "plan_my_day", "day", "friday ").await.expect("a prompt");
    assert!(text.contains("- 9:00 dentist (id e1)\nfree on friday: 10:00, "), "{text}");

    let contacts = connect(Expert::Contacts, &at("contacts.json")).await;
    call(&contacts, "add", json!({"name": "Ada Lovelace", "email": "ada@example.org"})).await.expect("added");
    let text = prompt(&contacts, "introduce", "name", "ada").await.expect("a prompt");
    assert!(text.ends_with("- Ada Lovelace <ada@example.org>"), "{text}");

    let notes = connect(Expert::Notes, &at("notes.json")).await;
    call(&notes, "write", json!({"title": "Trip", "text": "Pack the tent."})).await.expect("written");
    let text = prompt(&notes, "summarise", "title", "trip").await.expect("a prompt");
    assert!(text.ends_with("Trip\n\nPack the tent."), "{text}");
    let error = prompt(&notes, "summarise", "title", "trap").await.expect_err("no such note");
    assert!(error.to_string().contains(r#"no note is called "trap", the nearest are: Trip"#), "{error}");
}

async fn prompt(client: &Client, name: &str, key: &str, value: &str) -> Result<String, ServiceError> {
    let listed = client.list_all_prompts().await?;
    let [only] = &listed[..] else { panic!("not one prompt: {listed:?}") };
    assert_eq!(only.name, name);
    let arguments = only.arguments.as_ref().expect("arguments");
    assert_eq!((arguments.len(), arguments[0].name.as_str(), arguments[0].required), (1, key, Some(true)));
    let mut params = GetPromptRequestParams::new(name);
    params.arguments = json!({ key: value }).as_object().cloned();
    Ok(text_of(&client.get_prompt(params).await?.messages[0].content))
}
