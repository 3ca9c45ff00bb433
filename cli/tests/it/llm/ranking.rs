//! Hybrid ranking with an embedding model and words: checks how often it finds the right server, with the 12
//! descriptions and 20 questions of the test of word ranking, and its 12 fresh questions.
//!
//! For the 20 questions, words rank 17 servers among the first three, and so does MiniLM; both together rank 19. For
//! the 12 fresh questions, words find 6; MiniLM finds 9, of which 6 rank first; both together find 9, of which 4 rank
//! first. The constants of word ranking were chosen with the 20 questions; the fusion has no constants.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize;
use shared::{Description, PendingRequest, Request, Response, Safety};
use store::MemoryIndex;
use test_servers::Llama;
use uuid::Uuid;
use world::{
    Commands, DiscardDeltas, Index, LiveWorld, Models, OpenAi, Provider, RequestContext, Servers, World,
};

/// Minimum number of questions whose server must be among the first three results.
const FOUND_MIN: usize = 19;

/// Minimum for the fresh questions, which were written after the ranking.
const FRESH_FOUND_MIN: usize = 9;

/// Name of the embedding model in the configuration.
const MODEL: &str = "vectors/minilm";

/// Name of the ranking in the log.
const BY: &str = "vectors/minilm and words";

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

#[tokio::test]
async fn real_vectors_find_the_server() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let model = Llama::embeddings();
    let routing: Routing =
        serde_json::from_str(include_str!("../../../../fixtures/index/routing.json")).unwrap();
    assert_eq!((routing.servers.len(), routing.questions.len(), routing.fresh.len()), (12, 20, 12));
    let world = world(&model);
    // The text also serves as its hash.
    let offer = |text: String| Description { hash: text.clone(), text };
    let servers: BTreeMap<_, _> =
        routing.servers.into_iter().map(|(name, server)| (name, Some(offer(server)))).collect();
    match ask(&world, Request::Index { servers, held: BTreeMap::new() }).await {
        Response::Indexed { written, .. } => assert_eq!(written.len(), 12),
        other => panic!("an index was expected: {other:?}"),
    }
    assert!(among_three(&world, "questions", &routing.questions).await >= FOUND_MIN);
    assert!(among_three(&world, "fresh", &routing.fresh).await >= FRESH_FOUND_MIN);
}

/// Returns a worker's world, with an index over the vectors of the model.
fn world(model: &Llama) -> LiveWorld {
    let provider = Provider::OpenAi(OpenAi::new(&model.base_url(), Duration::from_mins(2)));
    let models = Arc::new(Models::new([("vectors".to_owned(), provider)].into()).unwrap());
    let index = Index::embedded(Arc::new(MemoryIndex::default()), Arc::clone(&models), MODEL.to_owned());
    LiveWorld::new(models, Servers::new([].into()), Commands::new([].into()).unwrap(), index)
}

async fn ask(world: &LiveWorld, request: Request) -> Response {
    let thread = strategies::find("index_builder").unwrap().fold(&[]).unwrap();
    let due = PendingRequest {
        slot: 0,
        asked_seq: 0,
        request,
        safety: Safety::Read,
        failures: 0,
        attempts: 0,
        previous_error: None,
        task: None,
        input_responses: None,
        is_read_back: false,
    };
    let ask = RequestContext {
        thread: Uuid::nil(),
        due: &due,
        key: "thread:0:0",
        node: "index",
        deltas: &DiscardDeltas,
    };
    world.perform(&*thread, &ask).await.unwrap().0
}

/// Counts the questions whose server is among the first three results, and prints each result.
#[expect(clippy::print_stdout, reason = "the figure is the result of the test")]
async fn among_three(world: &LiveWorld, which: &str, questions: &[Question]) -> usize {
    let (mut first, mut among_three) = (0, 0);
    for Question { asks, wants } in questions {
        let hits = match ask(
            world,
            Request::Search { query: asks.clone(), limit: 3, options: shared::SearchOptions::default() },
        )
        .await
        {
            Response::SearchResults { hits, ranking: by } if by == BY => hits,
            other => panic!("servers were expected, ranked by {BY}: {other:?}"),
        };
        let place = hits.iter().position(|hit| hit.server == *wants);
        first += usize::from(place == Some(0));
        among_three += usize::from(place.is_some());
        let printed = place.map_or("-".to_owned(), |place| (place + 1).to_string());
        let names: Vec<&str> = hits.iter().map(|hit| hit.server.as_str()).collect();
        println!("{printed} {asks} -> {wants}: {names:?}");
    }
    println!("{BY}, {which}: {among_three} of {} among the first three, {first} the first", questions.len());
    among_three
}
