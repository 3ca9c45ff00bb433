//! The tool index: what is written, what is found, and how many searches succeed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::{Json, Router, http::StatusCode, response::IntoResponse, routing::post};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{Description, FaultKind, Hit, Metric, Request, Response, SearchOptions};
use store::{MemoryIndex, VectorIndex};
use world::{Index, LiveWorld, Script};

use super::{Outcome, Stage, commands, due, endpoint, fault, models, nobody, perform};

/// Minimum number of questions whose server must be among the first three results.
///
/// Two more were found before words were compared whole: `paged` by `changed`, and `Thursday` by `day`.
const FOUND_MIN: usize = 15;

/// Minimum for the fresh questions, which were written after the ranking.
const FRESH_FOUND_MIN: usize = 7;

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
        servers: servers
            .into_iter()
            .map(|(name, description)| (name.to_owned(), description.map(offer)))
            .collect(),
        held: BTreeMap::new(),
    }
}

async fn indexed(world: &LiveWorld, request: Request) -> [Vec<String>; 3] {
    match ask(world, request).await {
        Ok((Response::Indexed { written, unchanged, removed }, None)) => [written, unchanged, removed],
        other => panic!("an index was expected: {other:?}"),
    }
}

async fn found(world: &LiveWorld, query: &str, limit: usize) -> (Vec<Hit>, String) {
    found_with(world, &Stage::default(), query, limit, SearchOptions::default()).await
}

async fn found_with(
    world: &LiveWorld,
    stage: &Stage,
    query: &str,
    limit: usize,
    options: SearchOptions,
) -> (Vec<Hit>, String) {
    let request = Request::Search { query: query.to_owned(), limit, options };
    match perform(world, stage, &due(request)).await.0 {
        Ok((Response::SearchResults { hits, ranking: by }, None)) => (hits, by),
        other => panic!("servers were expected: {other:?}"),
    }
}

fn names(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.server.as_str()).collect()
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
    let names = |name: &str| vec![name.to_owned()];
    assert_eq!(indexed(&world, second).await, [names("news"), names("mail"), names("maps")]);
    let third = offers([("mail", Some("sends letters")), ("news", Some("reads all papers"))]);
    assert_eq!(indexed(&world, third).await, [names("news"), names("mail"), vec![]]);
    let after = entries.all().await.unwrap();
    assert_eq!(after[0], before[0], "what is unchanged is not written again");
    // Another process indexed another text of `mail` meanwhile, perhaps with another limit of its length.
    let held = [("mail", "sends letters"), ("news", "reads")]
        .map(|(name, description)| (name.to_owned(), description.to_owned()));
    let Request::Index { servers, .. } = offers([("mail", None), ("news", None)]) else { panic!("no index") };
    let fourth = Request::Index { servers, held: held.into() };
    assert_eq!(indexed(&world, fourth).await, [vec![], names("mail"), vec![]], "it is not what was held");
    assert_eq!(after[1].text, "reads all papers");
}

#[tokio::test]
async fn the_best_come_first_and_who_does_not_fit_stays_away() {
    let world = world(Index::lexical(Arc::new(MemoryIndex::default())));
    let empty = fault(
        ask(&world, Request::Search { query: "letters".to_owned(), limit: 3, options: Default::default() })
            .await,
    );
    assert_eq!(empty, shared::Fault::permanent("the index is empty; hint: run: turnfold index build"));
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
    indexed(
        &world,
        offers(routing.servers.iter().map(|(name, description)| (name.as_str(), Some(description.as_str())))),
    )
    .await;
    assert!(among_three(&world, &routing.questions).await >= FOUND_MIN);
    assert!(among_three(&world, &routing.fresh).await >= FRESH_FOUND_MIN);
}

/// Servers and questions written before the ranking, and never used to choose it. A paraphrase shares no word with its
/// server.
#[derive(Deserialize)]
struct Forty {
    servers: BTreeMap<String, String>,
    plain: Vec<Question>,
    inflected: Vec<Question>,
    paraphrased: Vec<Question>,
    unrelated: Vec<String>,
}

#[tokio::test]
async fn words_alone_among_forty_servers() {
    let forty: Forty = serde_json::from_str(include_str!("../../../../fixtures/index/forty.json")).unwrap();
    assert_eq!(forty.servers.len(), 40);
    let world = world(Index::lexical(Arc::new(MemoryIndex::default())));
    indexed(
        &world,
        offers(forty.servers.iter().map(|(name, description)| (name.as_str(), Some(description.as_str())))),
    )
    .await;
    assert_eq!(placed(&world, &forty.plain).await, (10, 10));
    assert_eq!(placed(&world, &forty.inflected).await, (10, 10));
    // Honest: words cannot find what shares no word. A model that searches once more in other words can.
    assert_eq!(placed(&world, &forty.paraphrased).await, (0, 0));
    let mut silent = 0;
    for asks in &forty.unrelated {
        silent += usize::from(found(&world, asks, 3).await.0.is_empty());
    }
    assert_eq!(
        (silent, forty.unrelated.len()),
        (2, 5),
        "requests that no server fits, for which none is offered"
    );
}

#[test]
fn a_paraphrase_shares_no_word_with_its_server() {
    let forty: Forty = serde_json::from_str(include_str!("../../../../fixtures/index/forty.json")).unwrap();
    // Shorter words are articles and the like.
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| 3 < word.len());
        words.map(str::to_lowercase).collect()
    };
    for Question { asks, wants } in &forty.paraphrased {
        let server = words(&format!("{wants} {}", forty.servers[wants]));
        assert!(words(asks).is_disjoint(&server), "{asks}");
    }
}

#[tokio::test]
async fn a_word_is_found_in_its_forms_and_not_within_another_word() {
    let world = world(Index::lexical(Arc::new(MemoryIndex::default())));
    let texts =
        [("railway", "train timetables"), ("sky", "forecasts of rain and snow"), ("desk", "books rooms")];
    indexed(&world, offers(texts.map(|(name, text)| (name, Some(text))))).await;
    for (asks, wants) in [
        ("Is it raining?", vec!["sky"]),
        ("the trains", vec!["railway"]),
        ("I would like to be booking", vec!["desk"]),
        ("tell me a joke", vec![]),
    ] {
        assert_eq!(names(&found(&world, asks, 9).await.0), wants, "{asks}");
    }
}

/// Counts the questions whose server is among the first three results.
async fn among_three(world: &LiveWorld, questions: &[Question]) -> usize {
    placed(world, questions).await.1
}

/// Counts the questions whose server is the first result, and among the first three, and prints each result.
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
async fn placed(world: &LiveWorld, questions: &[Question]) -> (usize, usize) {
    let (mut first, mut among_three) = (0, 0);
    for Question { asks, wants } in questions {
        let hits = found(world, asks, 3).await.0;
        let place = hits.iter().position(|hit| hit.server == *wants);
        first += usize::from(place == Some(0));
        among_three += usize::from(place.is_some());
        let rank = place.map_or("-".to_owned(), |place| (place + 1).to_string());
        println!("{rank} {asks} -> {wants}: {:?}", names(&hits));
    }
    println!("lexical: {among_three} of {} among the first three, {first} the first", questions.len());
    (first, among_three)
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
    if input.iter().any(|text| TAKEN_MAX < text.as_str().unwrap().chars().count()) {
        let words = "input (517 tokens) is too large to process. increase the physical batch size";
        let error = json!({ "error": { "code": 500, "message": words, "type": "server_error" } });
        return (StatusCode::INTERNAL_SERVER_ERROR, Json(error)).into_response();
    }
    let vector = |text: &Value| {
        let text = text.as_str().unwrap();
        json!([text.matches("letter").count() + text.matches("epistle").count(), text.matches("way").count()])
    };
    let mut data: Vec<Value> =
        input.iter().enumerate().map(|(n, text)| json!({ "index": n, "embedding": vector(text) })).collect();
    data.reverse();
    Json(json!({ "data": data })).into_response()
}

async fn embedder(entries: Arc<MemoryIndex>, model: &str) -> LiveWorld {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/embeddings", post(embed));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    let script = world::Provider::Scripted(Script::parse("s", "").unwrap());
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
    let all = texts.iter().copied().chain(many.iter().map(|name| (name.as_str(), "way way")));
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
    assert!(all.iter().all(|entry| entry.embedded.as_ref().unwrap().model == "local/other"), "{all:?}");
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

/// The filter, the minimum score and the thread's servers apply before the limit, with and without vectors.
#[tokio::test]
async fn a_search_keeps_to_its_options() {
    let world = world(Index::lexical(Arc::new(MemoryIndex::default())));
    let all = ["github", "gitlab", "mail", "notes"].map(|name| (name, Some("keeps and finds reports")));
    indexed(&world, offers(all)).await;
    let with = |options: Value| serde_json::from_value::<SearchOptions>(options).unwrap();
    let nobody = Stage::default();
    for (options, limit, expected) in [
        (json!({}), 9, vec!["github", "gitlab", "mail", "notes"]),
        (json!({"filter": ["*l*", "notes"]}), 9, vec!["gitlab", "mail", "notes"]),
        (json!({"filter": ["mail", "notes"]}), 1, vec!["mail"]),
        (json!({"filter": ["nothing"]}), 9, vec![]),
        (json!({"min_score": 1000.0}), 9, vec![]),
        (json!({"metric": "dot"}), 2, vec!["github", "gitlab"]),
    ] {
        let (hits, _) = found_with(&world, &nobody, "reports", limit, with(options.clone())).await;
        assert_eq!(names(&hits), expected, "{options}");
    }
    let mut stage = Stage::default();
    stage.tool_servers.insert("notes".to_owned(), Vec::new());
    let (hits, _) = found_with(&world, &stage, "reports", 1, SearchOptions::default()).await;
    assert_eq!(names(&hits), ["notes"], "the servers of others do not count against the limit");
}

/// The embedding model of these tests gives every text a vector; the metrics order the same vectors differently.
#[tokio::test]
async fn the_metric_decides_by_vectors() {
    let entries = Arc::new(MemoryIndex::default());
    let vector = |server: &str, vector: Vec<f32>| store::Entry {
        server: server.to_owned(),
        hash: String::new(),
        text: String::new(),
        embedded: Some(store::Embedded { model: "m/m".to_owned(), vector }),
        updated_at: 0,
    };
    let all = [("near", vec![1.0, 0.2]), ("far_same_angle", vec![50.0, 0.0]), ("other", vec![0.0, 1.0])];
    entries.upsert(all.map(|(name, place)| vector(name, place)).to_vec()).await.unwrap();
    let to = store::Embedded { model: "m/m".to_owned(), vector: vec![1.0, 0.0] };
    let mut first = Vec::new();
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        let near = entries.nearest(&to, metric, 1).await.unwrap().remove(0);
        first.push((near.server, near.score));
    }
    let expected =
        [("far_same_angle", 1.0), ("far_same_angle", 50.0)].map(|(name, score)| (name.to_owned(), score));
    assert_eq!(first[..2], expected);
    assert_eq!(first[2].0, "near");
}
