//! The tool index: what is written, what is found, and how many searches succeed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Json, Router, http::StatusCode, response::IntoResponse, routing::post};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{Description, FaultKind, Hit, Request, Response};
use store::{MemoryIndex, VectorIndex};
use worker::world::{Index, LiveWorld, Script};

use super::{Outcome, Stage, commands, due, endpoint, fault, models, nobody, perform};

/// Minimum number of questions whose server must be among the first three results.
const FOUND_MIN: usize = 17;

/// Minimum for the fresh questions, which were written after the ranking.
const FRESH_FOUND_MIN: usize = 6;

#[derive(Deserialize)]
struct Routing {
    servers: BTreeMap<String, String>,
    questions: Vec<Question>,
    fresh: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    asks: String,
    wants: String,
}

fn world(index: Index) -> LiveWorld {
    LiveWorld::new(models([]), nobody(), commands([]), index)
}

async fn ask(world: &LiveWorld, request: Request) -> Outcome {
    perform(world, &Stage::default(), &due(request)).await.0
}

fn offers<'a>(servers: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Request {
    // The text also serves as its hash.
    let offer = |text: &str| Description { text: text.to_owned(), hash: text.to_owned() };
    Request::Index {
        servers: servers.into_iter().map(|(name, it)| (name.to_owned(), it.map(offer))).collect(),
    }
}

async fn indexed(world: &LiveWorld, request: Request) -> [Vec<String>; 3] {
    match ask(world, request).await {
        Ok((Response::Indexed { written, unchanged, removed }, None)) => [written, unchanged, removed],
        other => panic!("an index was expected: {other:?}"),
    }
}

async fn found(world: &LiveWorld, query: &str, limit: usize) -> (Vec<Hit>, String) {
    match ask(world, Request::Search { query: query.to_owned(), limit }).await {
        Ok((Response::SearchResults { hits, ranking: by }, None)) => (hits, by),
        other => panic!("servers were expected: {other:?}"),
    }
}

fn names(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|it| it.server.as_str()).collect()
}

#[tokio::test]
async fn the_index_takes_what_changed_and_keeps_the_rest() {
    let entries = Arc::new(MemoryIndex::default());
    let world = world(Index::lexical(entries.clone()));
    let first = offers([("mail", Some("sends letters")), ("maps", Some("finds ways")), ("till", None)]);
    // The tools of `till` are unknown, so nothing is kept for it.
    assert_eq!(indexed(&world, first).await, [vec!["mail".to_owned(), "maps".to_owned()], vec![], vec![]]);
    let before = entries.all().await.unwrap();
    let second = offers([("mail", None), ("news", Some("reads papers")), ("till", None)]);
    let names = |it: &str| vec![it.to_owned()];
    assert_eq!(indexed(&world, second).await, [names("news"), names("mail"), names("maps")]);
    let third = offers([("mail", Some("sends letters")), ("news", Some("reads all papers"))]);
    assert_eq!(indexed(&world, third).await, [names("news"), names("mail"), vec![]]);
    let after = entries.all().await.unwrap();
    assert_eq!(after[0], before[0], "what is unchanged is not written again");
    assert_eq!(after[1].text, "reads all papers");
}

#[tokio::test]
async fn the_best_come_first_and_who_does_not_fit_stays_away() {
    let world = world(Index::lexical(Arc::new(MemoryIndex::default())));
    assert_eq!(found(&world, "letters", 3).await, (vec![], "lexical".to_owned()), "nothing is there yet");
    let texts = [
        ("b", "letters and papers"),
        ("a", "letters and papers"),
        ("mail", "letters, letters"),
        ("maps", "ways"),
    ];
    indexed(&world, offers(texts.map(|(name, text)| (name, Some(text))))).await;
    let (hits, by) = found(&world, "letter", 9).await;
    assert_eq!((names(&hits), by.as_str()), (vec!["mail", "a", "b"], "lexical"));
    assert_eq!(hits[0].text, "letters, letters");
    assert_eq!(names(&found(&world, "letter", 1).await.0), ["mail"]);
    assert!(found(&world, "letter", 0).await.0.is_empty());
}

/// The questions were written before the ranking, in words that differ from the servers'. The fresh ones were written
/// after it, and the ranking was not adjusted to them, so their figure is the one to expect in use.
#[tokio::test]
async fn words_alone_find_most_servers() {
    let routing: Routing =
        serde_json::from_str(include_str!("../../../../fixtures/index/routing.json")).unwrap();
    assert_eq!((routing.servers.len(), routing.questions.len(), routing.fresh.len()), (12, 20, 12));
    let world = world(Index::lexical(Arc::new(MemoryIndex::default())));
    indexed(&world, offers(routing.servers.iter().map(|(name, it)| (name.as_str(), Some(it.as_str())))))
        .await;
    assert!(among_three(&world, &routing.questions).await >= FOUND_MIN);
    assert!(among_three(&world, &routing.fresh).await >= FRESH_FOUND_MIN);
}

/// Counts the questions whose server is among the first three results, and prints each result.
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
async fn among_three(world: &LiveWorld, questions: &[Question]) -> usize {
    let (mut first, mut among_three) = (0, 0);
    for Question { asks, wants } in questions {
        let hits = found(world, asks, 3).await.0;
        let place = hits.iter().position(|it| it.server == *wants);
        first += usize::from(place == Some(0));
        among_three += usize::from(place.is_some());
        let told = place.map_or("-".to_owned(), |it| (it + 1).to_string());
        println!("{told} {asks} -> {wants}: {:?}", names(&hits));
    }
    println!("lexical: {among_three} of {} among the first three, {first} the first", questions.len());
    among_three
}

/// Maximum length of a text that the model below accepts, in characters.
const TAKEN_MAX: usize = 1_000;

/// Returns vectors of two numbers: how often a text means `letter`, and how often `way`.
async fn embed(Json(body): Json<Value>) -> axum::response::Response {
    if body["model"] == "broken" {
        return Json(json!({ "data": [{ "index": 0, "embedding": [1.0] }] })).into_response();
    }
    if body["model"] != "small" && body["model"] != "other" {
        return (StatusCode::NOT_FOUND, Json(json!({ "error": { "message": "no such model" } })))
            .into_response();
    }
    let input = body["input"].as_array().unwrap();
    if input.iter().any(|it| TAKEN_MAX < it.as_str().unwrap().chars().count()) {
        let words = "input (517 tokens) is too large to process. increase the physical batch size";
        let error = json!({ "error": { "code": 500, "message": words, "type": "server_error" } });
        return (StatusCode::INTERNAL_SERVER_ERROR, Json(error)).into_response();
    }
    let vector = |it: &Value| {
        let text = it.as_str().unwrap();
        json!([text.matches("letter").count() + text.matches("epistle").count(), text.matches("way").count()])
    };
    let mut data: Vec<Value> =
        input.iter().enumerate().map(|(n, it)| json!({ "index": n, "embedding": vector(it) })).collect();
    data.reverse();
    Json(json!({ "data": data })).into_response()
}

async fn embedder(entries: Arc<MemoryIndex>, model: &str) -> LiveWorld {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/embeddings", post(embed));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    let script = worker::world::Provider::Scripted(Script::parse("s", "").unwrap());
    let local = endpoint::provider(&base_url, Duration::from_secs(20));
    world(Index::embedded(entries, models([("local", local), ("file", script)]), model.to_owned()))
}

#[tokio::test]
async fn a_model_finds_by_angle_and_by_words_and_another_model_begins_anew() {
    let entries = Arc::new(MemoryIndex::default());
    let small = embedder(entries.clone(), "local/small").await;
    let texts = [("mail", "letter letter letter way"), ("maps", "way"), ("post", "letter")];
    // More texts than fit in one request.
    let many: Vec<String> = (0..70).map(|n| format!("x{n:02}")).collect();
    let all = texts.iter().copied().chain(many.iter().map(|it| (it.as_str(), "way way")));
    indexed(&small, offers(all.map(|(name, text)| (name, Some(text))))).await;
    let (hits, by) = found(&small, "an epistle", 3).await;
    assert_eq!((names(&hits), by.as_str()), (vec!["post", "mail"], "local/small and words"));
    assert!((hits[0].score - 1.0).abs() < 1e-9 && (hits[1].score - 0.9f64.sqrt()).abs() < 1e-6, "{hits:?}");
    // The best match by words gains as much as the whole spread of the vectors' scores, which is 1.
    let hits = found(&small, "a letter", 1).await.0;
    assert_eq!(names(&hits), ["mail"]);
    assert!((hits[0].score - 1.0 - 0.9f64.sqrt()).abs() < 1e-6, "{hits:?}");

    let other = embedder(entries.clone(), "local/other").await;
    assert_eq!(found(&other, "letter", 1).await.1, "lexical", "vectors of two models cannot be compared");
    let keep = offers(texts.map(|(name, _)| (name, None)));
    let [written, unchanged, removed] = indexed(&other, keep).await;
    assert_eq!((written.len(), unchanged.len(), removed.len()), (0, 3, 70));
    assert_eq!(found(&other, "letter", 1).await.1, "local/other and words");
    let all = entries.all().await.unwrap();
    assert!(all.iter().all(|it| it.embedded.as_ref().unwrap().model == "local/other"), "{all:?}");
}

#[tokio::test]
async fn a_text_that_is_too_long_for_a_small_model_is_shortened() {
    let world = embedder(Arc::new(MemoryIndex::default()), "local/small").await;
    let long = format!("letter {}", "and so on ".repeat(400));
    indexed(&world, offers([("mail", Some(long.as_str())), ("maps", Some("way"))])).await;
    let (hits, by) = found(&world, "letter", 1).await;
    assert_eq!((names(&hits), by.as_str()), (vec!["mail"], "local/small and words"));
    assert_eq!(hits[0].text, long, "the text itself is kept whole");
}

#[tokio::test]
async fn a_model_that_makes_no_vectors_is_the_operators_to_change() {
    let entries = Arc::new(MemoryIndex::default());
    for (model, words) in [
        ("local/none", "no such model"),
        ("local/broken", "does not hold one embedding for each text"),
        ("file/any", "index.embedding_model"),
        ("nowhere/any", "provider \"nowhere\" is unknown"),
    ] {
        let world = embedder(entries.clone(), model).await;
        let refused = fault(ask(&world, offers([("mail", Some("letter")), ("maps", Some("way"))])).await);
        assert_eq!(refused.kind, FaultKind::Permanent, "{refused:?}");
        assert!(refused.error.contains(words), "{refused:?}");
        assert!(entries.all().await.unwrap().is_empty(), "all of it is written or nothing");
    }
}
