//! Tools of clients: calls end the request, and their results continue its thread.

use std::time::Duration;

use axum::http::header;
use serde_json::{Value, json};
use shared::{PendingRequest, Reply as ModelReply, Request, Response, Role, ToolCall};
use store::ThreadId;

use crate::test_api::{Reply, TestApi, thread_of};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn weather() -> Value {
    json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "required": ["city"]}}}])
}

/// A model that asks for the weather until it has a result.
fn answer(request: &PendingRequest, has_result: bool) -> Response {
    let Request::Chat { tools, .. } = &request.request else { panic!("{request:?}") };
    assert_eq!(tools, &["weather"]);
    let call =
        ToolCall { id: "m1".to_owned(), name: "weather".to_owned(), arguments: json!({"city": "Rome"}) };
    Response::Reply(match has_result {
        true => ModelReply { content: "Sunny.".to_owned(), ..ModelReply::default() },
        false => {
            ModelReply { content: "I look.".to_owned(), tool_calls: vec![call], ..ModelReply::default() }
        }
    })
}

/// Sends a request, runs all threads, and returns the completion.
async fn complete(api: &TestApi, headers: &[(&str, &str)], body: &Value) -> Reply {
    answered(api, CHAT, headers, body).await
}

/// Sends a request to a path, runs all threads, and returns the response.
async fn answered(api: &TestApi, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    let work = async {
        loop {
            for thread in api.enqueued().await {
                run(api, thread).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(30), api.post_with(path, headers, body.clone()));
    tokio::select! {
        reply = asked => reply.unwrap(),
        () = work => panic!("the worker does not stop"),
    }
}

async fn run(api: &TestApi, thread: ThreadId) {
    while api.start_turn(thread).await {
        let log = api.log(thread).await;
        let has_result = log.thread().messages().iter().any(|message| message.role == Role::Tool);
        while api.step_with(thread, |request| Ok((answer(request, has_result), None))).await {}
    }
}

#[tokio::test]
async fn a_call_ends_the_request_and_its_result_continues_the_thread() {
    let api = TestApi::new().await;
    let asked = json!({"role": "user", "content": "How is the weather in Rome?"});
    let mut body = json!({"model": "turnfold/chat", "messages": [asked], "tools": weather()});
    let first = complete(&api, &[], &body).await;
    let choice = &first.json()["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("I look."))
    );
    let [call] = &choice["message"]["tool_calls"].as_array().unwrap()[..] else { panic!("{choice}") };
    assert_eq!(call["function"], json!({"name": "weather", "arguments": "{\"city\":\"Rome\"}"}));
    let id = call["id"].as_str().unwrap();
    assert!(call["type"] == "function" && id.len() <= 40);

    // Clients send the whole conversation, and no thread.
    let result = json!({"role": "tool", "tool_call_id": id, "content": "sunny"});
    body["messages"] = json!([asked, choice["message"], result]);
    let second = complete(&api, &[], &body).await;
    assert_eq!(second.headers["x-turnfold-thread"], first.headers["x-turnfold-thread"]);
    let choice = &second.json()["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("stop"), &json!("Sunny.")));
    assert_eq!(choice["message"].get("tool_calls"), None);

    // The result is known by now, so the conversation starts a thread of its own.
    let third = complete(&api, &[], &body).await;
    assert_ne!(third.headers["x-turnfold-thread"], first.headers["x-turnfold-thread"]);
    assert_eq!(third.json()["choices"][0]["message"]["content"], "Sunny.");
}

#[tokio::test]
async fn calls_are_streamed_and_found_by_the_thread_that_a_header_names() {
    let api = TestApi::new().await;
    let body = json!({"model": "turnfold/chat", "tools": weather(), "messages": [{"role": "user", "content": "Rome?"}]});
    let first = complete(&api, &[], &body).await;
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let text = String::from_utf8(complete(&api, &[], &streamed).await.body.to_vec()).unwrap();
    let data =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let choices: Vec<Value> = data.map(|chunk| chunk["choices"][0].clone()).collect();
    let calls = choices.iter().find_map(|choice| choice["delta"]["tool_calls"][0].as_object()).unwrap();
    assert_eq!((&calls["index"], &calls["type"]), (&json!(0), &json!("function")), "{calls:?}");
    assert_eq!(calls["function"], json!({"name": "weather", "arguments": "{\"city\":\"Rome\"}"}));
    assert_eq!(choices.last().unwrap()["finish_reason"], "tool_calls");
    let id = first.json()["choices"][0]["message"]["tool_calls"][0]["id"].clone();
    let result = |id: &Value| json!({"model": "turnfold/chat", "messages": [{"role": "tool", "tool_call_id": id, "content": "sunny"}]});
    let thread = first.headers["x-turnfold-thread"].to_str().unwrap().to_owned();
    let wrong = api.post_with(CHAT, &[("x-turnfold-thread", &thread)], result(&json!("other"))).await;
    assert_eq!((wrong.status.as_u16(), &wrong.json()["error"]["param"]), (400, &json!("messages")));
    let orphan = api.post(CHAT, result(&json!("other"))).await;
    assert_eq!(orphan.json()["error"]["param"], "messages[0].tool_call_id", "{orphan:?}");
    let mut named = result(&id);
    named["tools"] = weather();
    let second = complete(&api, &[("x-turnfold-thread", &thread)], &named).await;
    assert_eq!(second.headers["x-turnfold-thread"], first.headers["x-turnfold-thread"]);

    let turn =
        api.post("/v1/turns", json!({"strategy": "chat", "input": "Rome?", "tools": weather()})).await.json();
    let thread = thread_of(&turn);
    assert!(api.start_turn(thread).await);
    while api.step_with(thread, |request| Ok((answer(request, false), None))).await {}
    let shown = api.get(&format!("/v1/turns/{}", turn["id"].as_str().unwrap())).await.json();
    assert_eq!(
        (&shown["status"], &shown["output"]["tool_calls"][0]["id"]),
        (&json!("completed"), &json!("m1"))
    );
    let result = json!({"thread_id": thread, "input": {"messages": [{"role": "tool", "tool_call_id": "m1", "content": "sunny"}]}, "tools": weather()});
    api.post("/v1/turns", result).await;
    assert!(api.start_turn(thread).await);
    while api.step_with(thread, |request| Ok((answer(request, true), None))).await {}
    assert_eq!(api.log(thread).await.thread().reply(), Some("Sunny."));
}

/// A client either names the response before, or sends the whole conversation.
#[tokio::test]
async fn a_response_carries_the_calls_and_its_results_continue_the_thread() {
    let api = TestApi::new().await;
    let tools = json!([{"type": "function", "name": "weather", "strict": false,
        "parameters": {"type": "object", "required": ["city"]}}]);
    let asked = json!({"role": "user", "content": "How is the weather in Rome?"});
    let body = json!({"model": "turnfold/chat", "input": [asked], "tools": tools});
    for names_the_response in [true, false] {
        let first = answered(&api, RESPONSES, &[], &body).await;
        let response = first.json();
        let [said, call] = &response["output"].as_array().unwrap()[..] else { panic!("{response}") };
        assert_eq!((&said["type"], &said["content"][0]["text"]), (&json!("message"), &json!("I look.")));
        assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("weather")));
        assert_eq!(
            (&call["arguments"], &call["status"]),
            (&json!("{\"city\":\"Rome\"}"), &json!("completed"))
        );
        serde_json::from_value::<async_openai::types::responses::Response>(response.clone()).unwrap();
        let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
        let mut next = body.clone();
        if names_the_response {
            next["previous_response_id"] = response["id"].clone();
            next["input"] = json!([result]);
        } else {
            next["input"] = json!([asked, said, call, result]);
        }
        let second = answered(&api, RESPONSES, &[], &next).await;
        assert_eq!(second.headers["x-turnfold-thread"], first.headers["x-turnfold-thread"], "{second:?}");
        assert_eq!(second.json()["output"][0]["content"][0]["text"], "Sunny.");
    }
}

/// Parameters and items of a request are found again: in the response, in its input and in the conversation.
#[tokio::test]
async fn a_response_that_is_retrieved_has_the_parameters_of_its_request() {
    let api = TestApi::new().await;
    let tools = json!([{"type": "function", "name": "weather", "strict": true, "description": "Tells the weather.",
        "parameters": {"type": "object", "required": ["city"]}}]);
    let format = json!({"type": "json_schema", "name": "city", "strict": true, "schema": {"type": "object"}});
    let conversation = api.post("/v1/conversations", json!({})).await.json();
    let mut body = json!({
        "model": "turnfold/chat", "input": "Rome?", "instructions": "Be brief.", "tools": tools, "user": "ada",
        "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 77, "metadata": {"order": "17"},
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "parallel_tool_calls": false,
        "tool_choice": {"type": "function", "name": "weather"}, "conversation": conversation["id"],
    });
    let first = answered(&api, RESPONSES, &[], &body).await.json();
    let read = async |first: &Value| {
        let again = api.get(&format!("{RESPONSES}/{}", first["id"].as_str().unwrap())).await.json();
        serde_json::from_value::<async_openai::types::responses::Response>(again.clone()).unwrap();
        again
    };
    let again = read(&first).await;
    for name in
        ["temperature", "top_p", "max_output_tokens", "metadata", "reasoning", "text", "tools", "tool_choice"]
    {
        assert_eq!(again[name], first[name], "{name}");
    }
    for name in ["parallel_tool_calls", "instructions", "user", "conversation", "output", "usage"] {
        assert_eq!(again[name], first[name], "{name}");
    }

    let call =
        first["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call").unwrap();
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="});
    let seen = json!({"role": "user", "content": [{"type": "input_text", "text": "And this?"}, picture]});
    body["input"] = json!([result, seen]);
    body["tool_choice"] = json!("auto");
    let second = answered(&api, RESPONSES, &[], &body).await;
    assert_eq!(second.status, 200, "{second:?}");
    let second = read(&second.json()).await;
    assert_eq!(second["tools"], tools);
    let items = api
        .get(&format!("{RESPONSES}/{}/input_items?order=asc", second["id"].as_str().unwrap()))
        .await
        .json();
    let sent = |item: &Value| [item["type"].clone(), item["call_id"].clone(), item["output"].clone()];
    assert_eq!(sent(&items["data"][0]), sent(&result), "{items}");
    assert_eq!(items["data"][1]["content"][1]["type"], "input_image", "{items}");
    let items = format!("/v1/conversations/{}/items?order=asc", conversation["id"].as_str().unwrap());
    let items = api.get(&items).await.json();
    let kinds: Vec<&str> =
        items["data"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    let all =
        ["message", "message", "message", "function_call", "function_call_output", "message", "message"];
    assert_eq!(kinds, all, "{items}");
    let made = &items["data"][3];
    assert_eq!((&made["name"], &made["arguments"]), (&call["name"], &call["arguments"]));
    let told = &items["data"][4];
    assert_eq!((&told["call_id"], &told["output"]), (&made["call_id"], &result["output"]), "{items}");

    let mut next = json!({"model": "turnfold/chat", "input": "Rome?", "tools": body["tools"]});
    let first = answered(&api, RESPONSES, &[], &next).await.json();
    next["previous_response_id"] = first["id"].clone();
    let second = answered(&api, RESPONSES, &[], &next).await.json();
    assert_eq!(read(&second).await["previous_response_id"], first["id"]);

    // The model's words do not fit the format.
    let asked = json!({"model": "turnfold/chat", "input": "Rome?", "tools": tools});
    let first = answered(&api, RESPONSES, &[], &asked).await.json();
    let call = &first["output"][1];
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
    let typed = json!({"model": "turnfold/chat", "input": [result], "tools": tools, "text": {"format": format}, "previous_response_id": first["id"]});
    let failed = answered(&api, RESPONSES, &[], &typed).await;
    let failed = read(&json!({"id": failed.headers["x-turnfold-turn"].to_str().unwrap()})).await;
    assert_eq!((&failed["status"], &failed["text"]["format"]), (&json!("failed"), &format), "{failed}");
}

/// Clients send their tools with every request.
#[tokio::test]
async fn equal_tools_are_written_once() {
    let api = TestApi::new().await;
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object", "required": ["city"]}}]);
    let mut body = json!({"model": "turnfold/chat", "tools": tools, "input": "Rome?"});
    for _ in 0..3 {
        let reply = answered(&api, RESPONSES, &[], &body).await;
        body["previous_response_id"] = reply.json()["id"].clone();
        body["input"] = json!("And Oslo?");
        let thread = reply.headers["x-turnfold-thread"].to_str().unwrap().to_owned();
        let events = api.get(&format!("/v1/threads/{thread}/events")).await.json();
        let written = events.to_string().matches("\"parameters\"").count();
        assert_eq!(written, 1, "{events}");
        assert_eq!(reply.json()["tools"][0]["name"], "weather");
    }
}

#[tokio::test]
async fn calls_are_streamed_as_events_of_a_response() {
    let api = TestApi::new().await;
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object", "required": ["city"]}}]);
    let body = json!({"model": "turnfold/chat", "input": "Rome?", "tools": tools, "stream": true});
    let reply = answered(&api, RESPONSES, &[], &body).await;
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    for event in &events {
        serde_json::from_value::<async_openai::types::responses::ResponseStreamEvent>(event.clone())
            .unwrap_or_else(|error| panic!("{error}: {event}"));
    }
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let done = of("response.function_call_arguments.done");
    assert_eq!((&done["name"], &done["arguments"]), (&json!("weather"), &json!("{\"city\":\"Rome\"}")));
    assert_eq!(done["output_index"], 1);
    assert_eq!(of("response.function_call_arguments.delta")["delta"], done["arguments"]);
    let whole = &of("response.completed")["response"]["output"];
    assert_eq!((&whole[1]["type"], &whole[1]["id"]), (&json!("function_call"), &done["item_id"]));
}

#[tokio::test]
async fn strategies_without_tools_of_clients_refuse_them_by_name() {
    let api = TestApi::new().await;
    for model in ["probe", "planner", "research"] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Hi"}], "tools": weather(), "tool_choice": "required"});
        let reply = api.post(CHAT, body).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status.as_u16(), &error["param"]), (400, &json!("tools")), "{error}");
        assert_eq!(reply.headers[header::CONTENT_TYPE], "application/json");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(model) && message.contains("chat"), "{message}");
    }
    let choice =
        json!({"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "tool_choice": "required"});
    assert_eq!(api.post(CHAT, choice).await.json()["error"]["param"], "tool_choice");
}
