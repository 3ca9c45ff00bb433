//! All strategies at an endpoint of every dialect: each refuses what the real one refuses, and replies as the real one
//! replies.

mod endpoint;
mod replies;
mod strict;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use shared::{DynThread, Event, Graph, Next, PendingRequest, Reply, Request, Response, rerun, transcript};
use store::MemoryIndex;
use tokio::sync::Mutex;
use uuid::Uuid;
use worker::testing::{backends, fixtures, read, run_fixture};
use world::{
    Commands, DIALECTS, Dialect, DiscardDeltas, Index, LiveWorld, Models, OpenAi, Outcome, Provider,
    RecordedWorld, RequestContext, Servers, World,
};

use self::endpoint::Endpoint;

/// The strategies that call models.
const STRATEGIES: [&str; 5] = ["planner", "planner_with_prompts", "action_plan", "research", "retriever"];

/// Fixtures that also run with a worker, for each strategy: one for each dialect in turn.
const RUNS: [(&str, [&str; 3]); 5] = [
    ("planner", ["calls_side_by_side", "tool_error_then_success", "asks_for_a_value"]),
    ("planner_with_prompts", ["arguments_filled_by_the_model", "missing_arguments_asked", "clarification"]),
    ("action_plan", ["two_steps", "person_changes_a_payload", "policy_retry"]),
    ("research", ["the_whole_way", "a_provider_cites_what_it_read", "two_plans_are_one"]),
    ("retriever", ["first_turn", "calls_side_by_side", "hands_over_in_the_same_turn"]),
];

fn graphs() -> impl Iterator<Item = &'static dyn Graph> {
    strategies::all().into_iter().filter(|graph| STRATEGIES.contains(&graph.name()))
}

/// Every request of recorded threads is taken by every dialect, and every reply arrives as it was recorded.
///
/// Each dialect gets every fourth thread, or all of them with `TURNFOLD_ALL_DIALECTS=1`.
#[expect(clippy::print_stdout, reason = "the table of the suite is for people")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_request_and_reply_survives_every_dialect() {
    let scripts: Vec<(&'static dyn Graph, Vec<Event>)> = graphs()
        .flat_map(|graph| fixtures(graph).into_iter().map(move |path| (graph, read(&path))))
        .collect();
    println!("{:<12} {:>8} {:>8}  {}", "dialect", "replies", "refused", STRATEGIES.join("  "));
    let step = if std::env::var_os("TURNFOLD_ALL_DIALECTS").is_some() { 1 } else { 4 };
    for (nth, row) in DIALECTS.iter().enumerate() {
        let endpoint = Endpoint::serve(row.dialect).await;
        let world = live(&endpoint, row.dialect, scripts.iter().map(|(graph, script)| (*graph, &script[..])));
        let mut replies: BTreeMap<&str, usize> = BTreeMap::new();
        for (graph, script) in scripts.iter().skip(nth % step).step_by(step) {
            *replies.entry(graph.name()).or_default() += replay(&endpoint, &world, *graph, script).await;
        }
        let refused = endpoint.refused();
        let counts: Vec<String> =
            STRATEGIES.iter().map(|name| format!("{:>width$}", replies[name], width = name.len())).collect();
        let all: usize = replies.values().sum();
        println!("{:<12} {all:>8} {:>8}  {}", row.dialect.as_str(), refused.len(), counts.join("  "));
        assert!(replies.values().all(|count| 20 < *count), "{replies:?}");
        // What is refused is learned: a refusal is an exception.
        assert!(refused.len() < 40, "{}: {refused:#?}", row.dialect);
    }
}

/// Sends every request of a recorded thread to which a model replied, and compares the replies. Returns their number.
async fn replay(
    endpoint: &Endpoint,
    world: &LiveWorld,
    graph: &'static dyn Graph,
    script: &[Event],
) -> usize {
    let mut thread = graph.begin();
    let mut replies = 0;
    for event in rerun(graph, script).unwrap().log {
        if let Event::Answered(answered) = &event
            && let Response::Reply(recorded) = &answered.response
            && let Some(due) = due(&*thread, answered.slot)
        {
            let node = thread.node().unwrap_or_default();
            let context = RequestContext {
                thread: Uuid::nil(),
                due: &due,
                key: "",
                node: &node,
                deltas: &DiscardDeltas,
            };
            endpoint.will_reply(recorded);
            let reply = received(world.perform(&*thread, &context).await, recorded, endpoint);
            assert_eq!(&reply, recorded, "{} {}", graph.name(), node);
            replies += 1;
        }
        thread.apply(&event).unwrap();
    }
    replies
}

/// Returns the pending request of a slot, if it is a request to a model without attachments.
fn due(thread: &dyn DynThread, slot: usize) -> Option<PendingRequest> {
    let Ok(Next::Perform(due)) = thread.next() else { return None };
    let due = due.into_iter().find(|due| due.slot == slot)?;
    let is_plain = thread.messages_of(&due.request).iter().all(|message| message.attachments.is_empty());
    (matches!(due.request, Request::Chat { .. }) && is_plain).then_some(due)
}

/// Returns the reply as it arrived. An endpoint that sends no ids gets those of the recording.
fn received(outcome: Outcome, recorded: &Reply, endpoint: &Endpoint) -> Reply {
    let Ok((Response::Reply(mut reply), _)) = outcome else {
        panic!("{:?}: {recorded:?} became {outcome:?}\n{:#?}", endpoint.dialect, endpoint.refused())
    };
    assert_eq!(reply.reasoning.is_empty(), !endpoint.reasons(), "reasoning is kept apart");
    let is_kept = reply.reasoning.is_empty() || !reply.content.contains(&reply.reasoning);
    assert!(is_kept, "reasoning is in no answer");
    reply.reasoning.clone_from(&recorded.reasoning);
    // White space around an answer after reasoning belongs to neither.
    if endpoint.reasons() && reply.content == recorded.content.trim_start() {
        reply.content.clone_from(&recorded.content);
    }
    for (call, recorded) in reply.tool_calls.iter_mut().zip(&recorded.tool_calls) {
        call.id.clone_from(&recorded.id);
    }
    reply
}

/// All strategies come to the end that was accepted, with a worker, whatever the dialect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_strategy_comes_to_its_end_at_every_dialect() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (nth, row) in DIALECTS.iter().enumerate() {
        for graph in graphs() {
            let (_, names) = RUNS.iter().find(|(name, _)| *name == graph.name()).unwrap();
            let path = format!("../fixtures/{}/{}.jsonl", graph.name(), names[nth % names.len()]);
            comes_to_its_end(
                row.dialect,
                graph,
                &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path),
            )
            .await;
        }
    }
}

/// Runs a fixture with a worker and compares its transcript with the accepted one.
async fn comes_to_its_end(dialect: Dialect, graph: &'static dyn Graph, path: &std::path::Path) {
    let script = read(path);
    let endpoint = Endpoint::serve(dialect).await;
    let recorded = RecordedWorld::new(graph, &script).unwrap();
    let live = live(&endpoint, dialect, [(graph, &script[..])]);
    let world = DialectWorld { live, endpoint, recorded, turn: Mutex::default() };
    let backends = backends().await;
    let run = run_fixture(&backends, graph, &script, Arc::new(world));
    let run = tokio::time::timeout(Duration::from_secs(60), run)
        .await
        .unwrap_or_else(|_| panic!("{} at {dialect:?} does not come to its end", path.display()));
    let accepted = std::fs::read_to_string(path.with_extension("snap")).unwrap();
    let accepted = accepted.splitn(3, "---\n").nth(2).unwrap().trim_end();
    let transcript = format!("{}\nstate {:#}", transcript(&run.log), run.state);
    assert_eq!(transcript, accepted, "{dialect:?} {}", path.display());
}

/// A recorded world whose models are behind an endpoint.
struct DialectWorld {
    live: LiveWorld,
    endpoint: Endpoint,
    recorded: RecordedWorld,
    /// One request at a time, so that the endpoint knows its reply.
    turn: Mutex<()>,
}

#[async_trait]
impl World for DialectWorld {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let silent = RequestContext { deltas: &DiscardDeltas, ..*context };
        let outcome = self.recorded.perform(thread, &silent).await;
        let Ok((Response::Reply(recorded), usage)) = &outcome else { return outcome };
        let _turn = self.turn.lock().await;
        self.endpoint.will_reply(recorded);
        let reply = received(self.live.perform(thread, context).await, recorded, &self.endpoint);
        Ok((Response::Reply(reply), usage.clone()))
    }
}

/// A world in which all providers of these threads are this endpoint.
fn live<'a>(
    endpoint: &Endpoint,
    dialect: Dialect,
    scripts: impl IntoIterator<Item = (&'static dyn Graph, &'a [Event])>,
) -> LiveWorld {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let provider = || {
        let settings = OpenAi::new(&endpoint.base_url, Duration::from_secs(20));
        Provider::OpenAi(OpenAi { dialect: Some(dialect), ..settings })
    };
    let models = Models::new(
        scripts
            .into_iter()
            .flat_map(|(graph, script)| providers(graph, script))
            .map(|name| (name, provider()))
            .collect(),
    );
    let servers = Servers::new(BTreeMap::new());
    let commands = Commands::new(BTreeMap::new()).unwrap();
    LiveWorld::new(
        Arc::new(models.unwrap()),
        servers,
        commands,
        Index::lexical(Arc::new(MemoryIndex::default())),
    )
}

/// Returns the providers whose models a thread uses.
fn providers(graph: &'static dyn Graph, script: &[Event]) -> Vec<String> {
    let requests = rerun(graph, script).unwrap().log.into_iter().filter_map(|event| match event {
        Event::Asked(asked) => Some(asked.requests),
        _ => None,
    });
    let models = requests.flatten().filter_map(|request| match request {
        Request::Chat { model, .. } => Some(model),
        _ => None,
    });
    models.filter_map(|model| Some(model.split_once('/')?.0.to_owned())).collect()
}
