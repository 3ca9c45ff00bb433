//! Messages in the forms in which published clients send them.

use async_openai::types::responses::{ConversationItemList, ResponseItemList};
use serde_json::{Value, json};

use crate::{
    openai::answered,
    test_api::{Reply, TestApi},
};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

/// A picture of 1 × 1 pixels.
const PIXEL: &str = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

async fn input_of(api: &TestApi, reply: &Reply) -> Vec<Value> {
    let reply = reply.json();
    let turn = reply["turnfold"]["turn_id"].as_str().unwrap_or_else(|| panic!("{reply}"));
    let turn = api.get(&format!("/v1/turns/{turn}")).await.json();
    turn["input"].as_array().unwrap().clone()
}

/// pydantic-ai and LangChain return what a tool drew as the result of its call.
#[tokio::test]
async fn results_of_tools_have_images() {
    let api = TestApi::new().await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "draw", "arguments": "{}"}});
    let image = json!({"type": "image_url", "image_url": {"url": PIXEL}});
    let messages = json!([
        {"role": "user", "content": "Draw."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Here."}, image]},
        {"role": "user", "content": "echo seen"},
    ]);
    let body = json!({"model": "turnfold/probe", "messages": messages});
    let chat = input_of(&api, &answered(&api, CHAT, &[], body).await).await;
    let image = json!({"type": "input_image", "image_url": PIXEL, "detail": "auto"});
    let input = json!([
        {"role": "user", "content": "Draw."},
        {"type": "function_call", "call_id": "c1", "name": "draw", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "Here."}, image]},
        {"role": "user", "content": "echo seen"},
    ]);
    let reply = answered(&api, RESPONSES, &[], json!({"model": "turnfold/probe", "input": input})).await;
    let response = input_of(&api, &reply).await;
    for input in [&chat, &response] {
        let result = &input[2];
        assert_eq!((&result["role"], &result["content"]), (&json!("tool"), &json!("Here.")));
        assert_eq!(result["attachments"][0]["media_type"], "image/gif", "{result}");
    }
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    let items = api.get(&format!("{RESPONSES}/{id}/input_items?order=asc")).await.json();
    let _: ResponseItemList = serde_json::from_value(items.clone()).unwrap();
    let [_, call, result, _] = &items["data"].as_array().unwrap()[..] else { panic!("{items}") };
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("draw")));
    assert_eq!(result["output"][1]["type"], "input_image", "{result}");
}

/// Clients repeat an empty answer as it was, and send a prompt that is not set.
#[tokio::test]
async fn empty_prompts_and_answers_are_left_out() {
    let api = TestApi::new().await;
    let messages = json!([
        {"role": "system", "content": ""},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Still there?"},
        {"role": "assistant", "content": null, "refusal": "No."},
        {"role": "user", "content": "echo hi"},
    ]);
    for (path, name) in [(CHAT, "messages"), (RESPONSES, "input")] {
        let mut messages = messages.clone();
        if path == RESPONSES {
            messages[4] = json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]});
        }
        let reply = answered(&api, path, &[], json!({"model": "turnfold/probe", name: messages})).await;
        let input = input_of(&api, &reply).await;
        let texts: Vec<&str> = input.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(texts, ["Hello.", "Still there?", "No.", "echo hi"]);
    }
    let empty = json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": ""}]});
    assert!(api.post(CHAT, empty).await.openai_error(400, "invalid").contains("it is empty"));
}

/// The sessions of OpenAI's Agents SDK keep whole turns in a conversation, and read them again.
#[tokio::test]
async fn a_conversation_keeps_calls_and_their_results() {
    let api = TestApi::new().await;
    let items = json!([
        {"role": "user", "content": "How much rain?"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
        {"type": "function_call_output", "call_id": "c1", "output": "4711 mm"},
        {"role": "assistant", "content": "4711 mm."},
    ]);
    let made = api.post("/v1/conversations", json!({"metadata": {}})).await.json();
    let place = format!("/v1/conversations/{}", made["id"].as_str().unwrap());
    let added = api.post(&format!("{place}/items"), json!({"items": items})).await.json();
    assert_eq!(added["data"].as_array().unwrap().len(), 4, "{added}");
    let body = json!({"model": "turnfold/probe", "conversation": made["id"], "input": "echo hi"});
    for begun in [false, true] {
        if begun {
            answered(&api, RESPONSES, &[], body.clone()).await;
        }
        let list = api.get(&format!("{place}/items?order=asc")).await.json();
        let _: ConversationItemList = serde_json::from_value(list.clone()).unwrap();
        let data = list["data"].as_array().unwrap();
        let kinds: Vec<&str> = data.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(kinds[..4], ["message", "function_call", "function_call_output", "message"]);
        assert_eq!(data[1]["arguments"], "{\"city\":\"Oslo\"}");
        assert_eq!((&data[2]["call_id"], &data[2]["output"]), (&json!("c1"), &json!("4711 mm")));
        assert_eq!(data.len(), if begun { 6 } else { 4 });
    }
}

#[tokio::test]
async fn a_message_of_the_system_alone_is_answered_by_chat() {
    let api = TestApi::with(|config| config.chat_wait = std::time::Duration::ZERO).await;
    for role in ["system", "developer"] {
        let message = json!([{"role": role, "content": "Say hello in French."}]);
        for (path, name) in [(CHAT, "messages"), (RESPONSES, "input")] {
            let submitted = api.post(path, json!({"model": "gpt-4o-mini", name: message})).await;
            assert_eq!(submitted.status, 504, "{submitted:?}");
            let turn = submitted.headers["x-turnfold-turn"].to_str().unwrap();
            let input = api.get(&format!("/v1/turns/{turn}")).await.json()["input"].clone();
            assert_eq!(input, json!([{"role": "system", "content": "Say hello in French."}]));

            let refused = api.post(path, json!({"model": "turnfold/probe", name: message})).await;
            assert!(refused.openai_error(400, "invalid").contains("probe"), "{refused:?}");
            assert_eq!(refused.json()["error"]["param"], name);
            let thread = submitted.headers["x-turnfold-thread"].to_str().unwrap();
            let body = json!({"model": "chat", "metadata": {"thread_id": thread}, name: message});
            assert!(api.post(path, body).await.openai_error(400, "invalid").contains(thread));
        }
    }
}

#[tokio::test]
async fn tools_of_other_servers_are_refused_with_the_way_out() {
    let api = TestApi::new().await;
    let function = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    for (kind, way_out) in [
        ("web_search", "turnfold/research"),
        ("web_search_preview", "turnfold/research"),
        ("file_search", "turnfold/retriever"),
        ("code_interpreter", "[mcp.NAME]"),
        ("computer_use_preview", "[mcp.NAME]"),
        ("image_generation", "[mcp.NAME]"),
        ("mcp", "[mcp.NAME]"),
        ("custom", "type string"),
    ] {
        let tools = json!([function, {"type": kind}]);
        for (path, body) in [
            (CHAT, json!({"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "tools": tools})),
            (RESPONSES, json!({"model": "chat", "input": "Hi", "tools": tools})),
            ("/v1/turns", json!({"strategy": "chat", "input": "Hi", "tools": tools})),
        ] {
            let refused = api.post(path, body).await;
            let message = refused.openai_error(400, "unsupported_parameter");
            assert!(message.contains(&format!("{kind:?}")) && message.contains(way_out), "{path}: {message}");
            assert_eq!(refused.json()["error"]["param"], "tools[1]", "{path}");
        }
        let choice =
            json!({"model": "chat", "input": "Hi", "tools": [function], "tool_choice": {"type": kind}});
        assert_eq!(api.post(RESPONSES, choice).await.json()["error"]["param"], "tool_choice");
    }
}

#[tokio::test]
async fn items_of_a_conversation_have_images() {
    let api = TestApi::new().await;
    let image = json!({"type": "input_image", "image_url": PIXEL});
    let item = json!({"role": "user", "content": [{"type": "input_text", "text": "Look."}, image]});
    let made = api.post("/v1/conversations", json!({"items": [item]})).await.json();
    let place = format!("/v1/conversations/{}/items", made["id"].as_str().unwrap());
    let added = api.post(&place, json!({"items": [item]})).await.json();
    assert_eq!(added["data"][0]["content"][1]["type"], "input_image", "{added}");

    let many = json!({"items": [{"role": "user", "content": vec![image.clone(); 20]}, {"role": "user", "content": "hi"}]});
    assert_eq!(api.post(&place, many).await.status, 200, "equal images are one");
    let pixel = |nth: u8| {
        format!(
            "data:image/gif;base64,{}",
            ["R0lGODlh", "AQ", "AB"].concat().replace("AQ", &format!("A{}", char::from(b'A' + nth)))
        )
    };
    let others: Vec<Value> =
        (0..12).map(|nth| json!({"type": "input_image", "image_url": pixel(nth)})).collect();
    let full = api.post(&place, json!({"items": [{"role": "user", "content": others}]})).await;
    assert!(full.openai_error(400, "invalid").contains("32 images"), "{full:?}");

    let body = json!({"model": "turnfold/probe", "conversation": made["id"], "input": "echo seen"});
    let reply = answered(&api, RESPONSES, &[], body).await;
    let input = input_of(&api, &reply).await;
    let sha256 = input[0]["attachments"][0]["sha256"].as_str().unwrap();
    let thread = reply.headers["x-turnfold-thread"].to_str().unwrap();
    let content = api.get(&format!("/v1/threads/{thread}/attachments/{sha256}")).await;
    assert_eq!((content.status.as_u16(), &content.body[..6]), (200, &b"GIF89a"[..]), "{content:?}");

    let verify = format!("/v1/threads/{thread}/verify");
    let verified = api.get(&verify).await.json();
    assert_eq!((&verified["ok"], &verified["attachments"]["differences"]), (&json!(true), &json!([])));
    let change = "UPDATE attachments SET content = CAST('another' AS BLOB)";
    store::testing::tamper::execute_with(&api.backends.store, change, []).await.unwrap();
    let verified = api.get(&verify).await.json();
    assert_eq!((&verified["ok"], &verified["chain"]["intact"]), (&json!(false), &json!(true)), "{verified}");
    let differences = verified["attachments"]["differences"].as_array().unwrap();
    assert!(differences.iter().any(|it| it.as_str().unwrap().contains(sha256)), "{verified}");
}
