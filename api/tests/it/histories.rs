//! Conversations that clients send whole: each continues its thread.

use axum::http::header;
use serde_json::{Value, json};
use store::{Differs, DryRun, ThreadScan};
use threads::StrategyRegistry;

use crate::{
    approval_strategy::Approval,
    openai::answered,
    test_api::{Reply, TestApi, key_ring},
};

const CHAT: &str = "/v1/chat/completions";

/// A client that keeps the whole conversation and no id, as frameworks with memory do.
#[derive(Clone)]
struct Client {
    headers: Vec<(&'static str, &'static str)>,
    request: Value,
}

impl Client {
    fn of(model: &str) -> Self {
        Self { headers: Vec::new(), request: json!({"model": model, "messages": []}) }
    }

    fn key(mut self, bearer: &'static str) -> Self {
        self.headers.push(("authorization", bearer));
        self
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.request[name] = value;
        self
    }

    fn add(&mut self, role: &str, content: impl Into<Value>) {
        self.request["messages"]
            .as_array_mut()
            .unwrap()
            .push(json!({"role": role, "content": content.into()}));
    }

    /// Sends a message with all earlier ones, keeps the answer, and returns it with the thread.
    async fn say(&mut self, api: &TestApi, message: impl Into<Value>) -> (String, String) {
        self.add("user", message);
        let reply = answered(api, CHAT, &self.headers, self.request.clone()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let text = text_of(&reply);
        self.add("assistant", text.trim());
        (text, reply.headers["x-turnfold-thread"].to_str().unwrap().to_owned())
    }
}

/// Returns the text of a completion, whole or streamed.
fn text_of(reply: &Reply) -> String {
    if reply.headers[header::CONTENT_TYPE] != "text/event-stream" {
        return reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    }
    let data = reply.text().lines().filter_map(|line| line.strip_prefix("data: {"));
    let chunk = |data: &str| serde_json::from_str::<Value>(&format!("{{{data}")).unwrap();
    data.map(|data| chunk(data)["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

const ASK: &str = "ask Which colour? | red | green";

#[tokio::test]
async fn an_answer_with_the_whole_conversation_continues_its_thread() {
    let api = TestApi::new().await;
    for stream in [false, true] {
        let mut client = Client::of("turnfold/probe").with("stream", json!(stream));
        client.add("system", "Be brief.");
        let (question, thread) = client.say(&api, ASK).await;
        assert!(question.contains("Which colour?"), "{question}");
        assert_eq!(client.say(&api, "green").await, ("Done: answered \"green\".".to_owned(), thread.clone()));
        let (_, third) = client.say(&api, json!([{"type": "text", "text": "echo more"}])).await;
        assert_eq!(third, thread);
        let messages = api.get(&format!("/v1/threads/{thread}")).await.json()["messages"].clone();
        assert_eq!(messages.as_array().unwrap().len(), 7, "each message is in the thread once: {messages}");
    }
}

#[tokio::test]
async fn answers_may_come_back_in_parts_and_with_other_spaces() {
    let api = TestApi::new().await;
    let mut client = Client::of("probe");
    let (question, thread) = client.say(&api, ASK).await;
    let (first, rest) = question.split_once('\n').unwrap();
    client.request["messages"][1]["content"] =
        json!([{"type": "text", "text": first}, {"type": "text", "text": rest}]);
    assert_eq!(client.say(&api, "green").await.1, thread);
}

#[tokio::test]
async fn responses_find_the_thread_by_their_input() {
    let api = TestApi::new().await;
    let ask = |input: Value| {
        answered(
            &api,
            "/v1/responses",
            &[],
            json!({"model": "probe", "instructions": "Be brief.", "input": input}),
        )
    };
    let question = json!([{"role": "user", "content": ASK}]);
    let asked = ask(question.clone()).await.json();
    let mut input = vec![question[0].clone()];
    input.extend(asked["output"].as_array().unwrap().clone());
    input.push(json!({"role": "user", "content": "red"}));
    let reply = ask(json!(input)).await.json();
    assert_eq!(reply["output"][0]["content"][0]["text"], "Done: answered \"red\".", "{reply}");
    let turn = |response: &Value| response["turnfold"]["thread_id"].clone();
    assert_eq!(turn(&reply), turn(&asked), "{reply}");
}

#[tokio::test]
async fn an_earlier_point_is_continued_in_a_fork() {
    let api = TestApi::new().await;
    let mut client = Client::of("probe");
    let (_, thread) = client.say(&api, "echo one").await;
    let mut other = client.clone();
    assert_eq!(client.say(&api, "echo two").await.1, thread);
    let (text, fork) = other.say(&api, "echo three").await;
    assert_eq!(text, "Done: three.");
    assert_ne!(fork, thread);
    let events = api.get(&format!("/v1/threads/{fork}/events")).await.json();
    assert!(events.to_string().contains("forked"), "{events}");
    for client in [&mut client, &mut other] {
        let before = client.request["messages"].as_array().unwrap().len();
        let (_, same) = client.say(&api, "echo four").await;
        assert_eq!(same == thread, client.request["messages"][2]["content"] == "echo two", "{before}");
        assert!([&thread, &fork].contains(&&same));
    }
}

#[tokio::test]
async fn a_thread_is_found_after_its_rows_were_lost() {
    let api = TestApi::new().await;
    let mut client = Client::of("probe");
    let (_, thread) = client.say(&api, ASK).await;
    store::testing::corrupt_read_models(&api.backends.store).await.unwrap();
    let all = ThreadScan::of_all(1);
    let strategies = StrategyRegistry::new(strategies::all());
    let rebuilt = threads::rebuild(&api.backends.store, &strategies, &all, DryRun::No).await.unwrap();
    assert_eq!(rebuilt.found.get(&Differs::TurnMissing), Some(&1), "{rebuilt:?}");
    assert_eq!(client.say(&api, "green").await, ("Done: answered \"green\".".to_owned(), thread));
}

#[tokio::test]
async fn an_approval_is_given_once() {
    let api = TestApi::with(|config| config.strategies = config.strategies.clone().with(&Approval)).await;
    let mut client = Client::of("approval");
    let (_, thread) = client.say(&api, "book lunch?").await;
    let mut again = client.clone();
    assert_eq!(client.say(&api, "yes").await, ("answered \"yes\"".to_owned(), thread.clone()));
    let (text, fork) = again.say(&api, "yes").await;
    assert_ne!(fork, thread);
    assert!(!text.contains("answered"), "the fork asks again: {text}");
}

#[tokio::test]
async fn another_key_user_model_or_parameter_starts_a_thread() {
    let api = TestApi::with(|config| config.keys = key_ring(&["one"], &[("acme", &["two", "three"])])).await;
    let begin = || Client::of("probe").key("Bearer two").with("user", json!("ada"));
    let mut client = begin();
    let (_, thread) = client.say(&api, ASK).await;
    let messages = client.request["messages"].clone();
    for other in [
        Client::of("probe").key("Bearer three").with("user", json!("ada")),
        Client::of("probe").key("Bearer one").with("user", json!("ada")),
        begin().with("user", json!("grace")),
        begin().with("turnfold", json!({"config": {"padding": 3}})),
    ] {
        let mut other = other.with("messages", messages.clone());
        assert_ne!(other.say(&api, "green").await.1, thread, "{}", other.request);
    }
    let mut edited = client.clone();
    edited.request["messages"][1]["content"] = json!("Which shape?");
    assert_ne!(edited.say(&api, "green").await.1, thread);
    let by_header = {
        let mut named = client.clone();
        let other = Client::of("probe").key("Bearer two").say(&api, "echo other").await.1;
        named.request["metadata"] = json!({"thread_id": other});
        (named.say(&api, "echo named").await.1, other)
    };
    assert_eq!(by_header.0, by_header.1, "metadata come first");
    assert_eq!(client.say(&api, "green").await.1, thread);
}

#[tokio::test]
async fn it_can_be_switched_off() {
    let api = TestApi::with(|config| config.finds_threads = false).await;
    let mut client = Client::of("probe");
    let (_, thread) = client.say(&api, ASK).await;
    assert_ne!(client.say(&api, "green").await.1, thread);
}

#[tokio::test]
async fn while_a_turn_is_running_the_policy_of_the_thread_applies() {
    let api = TestApi::with(|config| config.chat_wait = std::time::Duration::ZERO).await;
    let mut client = Client::of("probe").with("turnfold", json!({"multitask_strategy": "reject"}));
    client.add("user", "echo one");
    let first = api.post(CHAT, client.request.clone()).await;
    let thread = first.headers["x-turnfold-thread"].to_str().unwrap();
    api.run_until_idle(thread.parse().unwrap()).await;
    client.add("assistant", "Done: one.");
    client.add("user", "echo two");
    let second = api.post(CHAT, client.request.clone()).await;
    assert_eq!(second.headers["x-turnfold-thread"], thread, "{second:?}");
    client.request["messages"][2]["content"] = json!("echo three");
    let third = api.post(CHAT, client.request.clone()).await;
    assert_eq!(third.status, 409, "{third:?}");
}
