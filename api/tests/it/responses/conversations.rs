//! Conversations: created, begun by a response, read, changed and deleted.

use async_openai::types::responses::{
    ConversationItemList, ConversationResource, DeleteConversationResponse,
};
use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use super::{RESPONSES, ask, respond, text, turn_of, typed, with};
use crate::{openai::answered, test_api::TestApi};

const CONVERSATIONS: &str = "/v1/conversations";

#[tokio::test]
async fn a_conversation_is_a_thread_that_its_first_response_begins() {
    let api = TestApi::new().await;
    let items =
        json!([{"role": "user", "content": "echo before"}, {"role": "assistant", "content": "before"}]);
    let body = json!({"metadata": {"topic": "demo"}, "items": items});
    let created = api.post(CONVERSATIONS, body).await.json();
    let conversation: ConversationResource = typed(&created);
    assert_eq!(
        (conversation.object.as_str(), &created["metadata"]["topic"]),
        ("conversation", &json!("demo"))
    );
    let place = format!("{CONVERSATIONS}/{}", conversation.id);
    assert_eq!(api.get(&place).await.json(), created);
    let said = async || -> Vec<String> {
        let list: Value = api.get(&format!("{place}/items?order=asc")).await.json();
        let _: ConversationItemList = typed(&list);
        let items = list["data"].as_array().unwrap();
        items.iter().map(|item| item["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(said().await, ["echo before", "before"]);
    let more = json!({"items": [{"role": "user", "content": "echo between"}]});
    let added = api.post(&format!("{place}/items"), more).await.json();
    assert_eq!(added["data"][0]["content"][0]["text"], "echo between", "{added}");

    let in_it = json!({"conversation": conversation.id, "instructions": "Be brief."});
    let first = respond(&api, with(ask("echo one"), in_it)).await.json();
    assert_eq!(
        (text(&first), &first["conversation"]["id"]),
        ("Done: one.".to_owned(), &json!(conversation.id))
    );
    let thread = first["turnfold"]["thread_id"].as_str().unwrap();
    assert_eq!(format!("conv_{}", thread.replace('-', "")), conversation.id);
    let all = ["Be brief.", "echo before", "before", "echo between", "echo one", "Done: one."];
    assert_eq!(said().await, all);
    let in_it = json!({"conversation": {"id": conversation.id}});
    let second = respond(&api, with(ask("echo two"), in_it.clone())).await.json();
    assert_eq!((&second["turnfold"]["thread_id"], said().await.len()), (&json!(thread), 8));
    let other = respond(&api, with(ask("hello"), with(in_it.clone(), json!({"model": "planner"})))).await;
    assert!(other.openai_error(400, "invalid").contains("turnfold/probe"));
    let both = with(ask("x"), with(in_it, json!({"previous_response_id": second["id"]})));
    respond(&api, both).await.openai_error(400, "invalid");

    let changed = api.post(&place, json!({"metadata": {"topic": "other"}})).await.json();
    assert_eq!(changed["metadata"], json!({"topic": "other"}));
    let deleted = api.send(Request::delete(&place).body(Body::empty()).unwrap()).await.json();
    let _: DeleteConversationResponse = typed(&deleted);
    api.get(&place).await.openai_error(404, "unknown_thread");
    api.get(&format!("/v1/threads/{thread}")).await.problem(404, "unknown-thread");

    for (body, param) in [
        (json!({"metadata": {"n": 1}}), "metadata.n"),
        (json!({"items": [{"role": "king", "content": "x"}]}), "items[0].role"),
        (json!({"items": "x"}), "items"),
        (json!({"itmes": []}), "itmes"),
    ] {
        let reply = api.post(CONVERSATIONS, body).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(param)),
            "{reply:?}"
        );
    }
    let none = with(ask("x"), json!({"conversation": "conv_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"}));
    let reply = api.post(RESPONSES, none).await;
    reply.openai_error(404, "unknown_thread");
    assert_eq!(reply.json()["error"]["param"], "conversation");
}

#[tokio::test]
async fn a_thread_that_was_not_created_as_a_conversation_takes_no_metadata() {
    let api = TestApi::new().await;
    let response = respond(&api, ask("echo hello")).await.json();
    let place = format!("{CONVERSATIONS}/{}", response["turnfold"]["thread_id"].as_str().unwrap());
    assert_eq!(api.get(&place).await.status, 200);
    let refused = api.post(&place, json!({"metadata": {"topic": "other"}})).await;
    assert!(refused.openai_error(404, "unknown_thread").contains("not created as a conversation"));
}

/// A conversation that a lost answer began has one turn, and its items come once.
#[tokio::test]
async fn a_repeated_first_response_begins_a_conversation_once() {
    let api = TestApi::new().await;
    let items = json!({"items": [{"role": "user", "content": "echo before"}]});
    let conversation = api.post(CONVERSATIONS, items).await.json()["id"].clone();
    let body = with(ask("echo one"), json!({"conversation": conversation}));
    let key = [("idempotency-key", "once")];
    let first = answered(&api, RESPONSES, &key, body.clone()).await.json();
    let again = answered(&api, RESPONSES, &key, body).await;
    assert_eq!(again.json()["id"], first["id"]);
    let turn = turn_of(&api, &first).await;
    assert_eq!(turn["input"].as_array().unwrap().len(), 2, "{turn}");
}
