//! Ratings of answers, and the prompts that made them.

use serde_json::{Value, json};
use shared::{Event, Rating, Reply, Request, Response, Usage, prompt_hash};

use crate::test_api::{TestApi, id_of, thread_of};

const CONFIGURED: &str = "{prompt} Answer in one word.";

/// Submits a turn of `chat` and answers its request as a model would. Returns the turn and the name of its prompt.
async fn answered(api: &TestApi, config: Value) -> (Value, String) {
    let body = json!({"strategy": "chat", "config": config, "input": "Which colour?"});
    let turn = api.post("/v1/turns", body).await.json();
    let thread = thread_of(&turn);
    assert!(api.start_turn(thread).await);
    let reply = || Response::Reply(Reply { content: "Red.".to_owned(), ..Reply::default() });
    let usage = Usage { input_tokens: 40, output_tokens: 2, micro_usd: Some(1_000_000), ..Usage::default() };
    while api.step_with(thread, |_| Ok((reply(), Some(usage.clone())))).await {}
    let name = api.log_of(thread).await.iter().find_map(|event| {
        let Event::Asked(asked) = event else { return None };
        let Request::Chat { prompt, .. } = &asked.requests[0] else { return None };
        prompt.clone()
    });
    (turn, name.unwrap())
}

/// Writes the counts, and returns the use of a prompt.
async fn use_of(api: &TestApi, name: &str) -> Value {
    api.backends.store.write_counts().await.unwrap();
    api.get(&format!("/v1/prompts/{name}")).await.json()
}

#[tokio::test]
async fn a_prompt_shows_its_text_and_its_use_and_how_its_answers_were_rated() {
    let api = TestApi::new().await;
    let (first, built_in) = answered(&api, json!({})).await;
    let (second, configured) = answered(&api, json!({"nodes": {"reply": {"prompt": CONFIGURED}}})).await;
    assert_eq!((built_in.len(), &configured), (16, &prompt_hash(CONFIGURED)));
    let nodes = strategies::find("chat").unwrap().nodes();
    let template = nodes.into_iter().find_map(|node| node.prompt).unwrap();
    api.backends.store.keep_templates(&[(built_in.clone(), template)].into()).await.unwrap();

    let shown = use_of(&api, &built_in).await;
    assert_eq!((&shown["origin"], &shown["text"]), (&json!("built-in"), &json!(template)));
    let used = &shown["uses"][0];
    assert_eq!(
        (&used["strategy"], &used["node"], &used["usd"]),
        (&json!("chat"), &json!("reply"), &json!(1.0))
    );
    assert_eq!((&used["responses"], &used["turns"]["answered"]), (&json!(1), &json!(1)));
    let shown = use_of(&api, &configured[..8]).await;
    assert_eq!((&shown["origin"], &shown["text"]), (&json!("configured"), &json!(CONFIGURED)));

    let rate =
        async |turn: &Value, body: Value| api.post(&format!("/v1/turns/{}/rating", id_of(turn)), body).await;
    let rated = rate(&first, json!({"rating": "good", "note": " Right. "})).await.json();
    assert_eq!(
        (&rated["rating"], &rated["note"], &rated["author"]),
        (&json!("good"), &json!("Right."), &json!("api"))
    );
    rate(&second, json!({"rating": "bad"})).await.json();
    assert_eq!(use_of(&api, &built_in).await["uses"][0]["ratings"], json!({"good": 1, "bad": 0}));
    // The last rating of a turn counts, and the log keeps all.
    rate(&first, json!({"rating": "bad"})).await.json();
    rate(&first, json!({"rating": "bad", "note": "It was blue."})).await.json();
    assert_eq!(use_of(&api, &built_in).await["uses"][0]["ratings"], json!({"good": 0, "bad": 1}));
    assert_eq!(use_of(&api, &configured).await["uses"][0]["ratings"], json!({"good": 0, "bad": 1}));
    let list = api.get("/v1/prompts").await.json();
    assert_eq!(list["ratings"], json!([{"strategy": "chat", "ratings": {"good": 0, "bad": 2}}]));
    assert_eq!(list["prompts"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(list["prompts"][0]["text"], Value::Null, "lists have no texts");
    let log = api.log_of(thread_of(&first)).await;
    let ratings: Vec<Rating> = log
        .iter()
        .filter_map(|event| if let Event::Rated(rated) = event { Some(rated.rating) } else { None })
        .collect();
    assert_eq!(ratings, [Rating::Good, Rating::Bad, Rating::Bad]);

    // A rating changes nothing else: replay agrees, and the thread takes another turn.
    let replay = api.get(&format!("/v1/threads/{}/replay", thread_of(&first))).await.json();
    assert_eq!(
        (&replay["ok"], &replay["reworded"], &replay["redescribed"]),
        (&json!(true), &json!(0), &json!(0))
    );
    let next = api.post("/v1/turns", json!({"thread_id": thread_of(&first), "input": "Sure?"})).await.json();
    assert!(api.start_turn(thread_of(&first)).await);
    rate(&first, json!({"rating": "good"})).await.problem(409, "thread-busy");
    rate(&next, json!({"rating": "good"})).await.problem(409, "not-now");
}

#[tokio::test]
async fn what_cannot_be_rated_or_shown_is_refused() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let path = format!("/v1/turns/{}/rating", id_of(&turn));
    let long = "x".repeat(2_001);
    api.post(&path, json!({"rating": "good", "note": long})).await.problem(422, "invalid");
    api.post(&path, json!({"rating": "fine"})).await.problem(422, "invalid");
    let unknown = "/v1/turns/019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d/rating";
    api.post(unknown, json!({"rating": "good"})).await.problem(404, "unknown-turn");
    api.post(&path, json!({"rating": "good", "note": &long[1..]})).await.json();
    api.backends.store.write_counts().await.unwrap();
    let list = api.get("/v1/prompts").await.json();
    assert_eq!(list["ratings"][0]["strategy"], "probe", "also without a model: {list}");
    assert_eq!(list["prompts"], json!([]));
    for name in ["short", "no hash at all"] {
        api.get(&format!("/v1/prompts/{}", name.replace(' ', "%20"))).await.problem(422, "invalid");
    }
    api.get("/v1/prompts/0123456789abcdef").await.problem(404, "unknown-prompt");
}

/// A question and a queued answer name the head of the log, which a rating would move.
#[tokio::test]
async fn while_a_person_is_asked_nothing_is_rated() {
    let api = TestApi::new().await;
    let first = api.run_turn("echo hi").await;
    let thread = thread_of(&first);
    let asking = json!({"thread_id": thread, "input": "ask Which one?"});
    api.post("/v1/turns", asking).await.json();
    api.run_until_idle(thread).await;
    let path = format!("/v1/turns/{}/rating", id_of(&first));
    let rate = async || api.post(&path, json!({"rating": "good"})).await;
    rate().await.problem(409, "thread-busy");
    assert!(rate().await.json()["hint"].as_str().unwrap().contains("answer the question first"));
    api.post(&format!("/v1/threads/{thread}/answer"), json!({"text": "this one"})).await.json();
    rate().await.problem(409, "thread-busy");
    api.run_until_idle(thread).await;
    rate().await.json();
}

#[tokio::test]
async fn ratings_of_a_turn_are_bounded_and_not_repeated() {
    let api = TestApi::new().await;
    let turn = api.run_turn("echo hi").await;
    let path = format!("/v1/turns/{}/rating", id_of(&turn));
    let rate = async |rating: &str| api.post(&path, json!({"rating": rating, "note": "So."})).await;
    let once = rate("good").await.json();
    assert_eq!(rate("good").await.json(), once, "no event is added");
    for nth in 1..100 {
        rate(if nth % 2 == 0 { "good" } else { "bad" }).await.json();
    }
    assert!(rate("good").await.problem(409, "not-now").contains("100"));
    rate("bad").await.json();
    let log = api.log_of(thread_of(&turn)).await;
    assert_eq!(log.iter().filter(|event| matches!(event, Event::Rated(_))).count(), 100);
}

#[tokio::test]
async fn another_tenants_prompts_do_not_exist() {
    let api = TestApi::new().await;
    let (_, name) = answered(&api, json!({"nodes": {"reply": {"prompt": CONFIGURED}}})).await;
    api.backends.store.write_counts().await.unwrap();
    let get = async |path: &str| {
        let request = axum::http::Request::get(path).header("x-turnfold-tenant", "acme");
        api.send(request.body(axum::body::Body::empty()).unwrap()).await
    };
    assert_eq!(get("/v1/prompts").await.json(), json!({"prompts": [], "ratings": [], "has_more": false}));
    get(&format!("/v1/prompts/{name}")).await.problem(404, "unknown-prompt");
}
