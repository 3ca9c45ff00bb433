//! The messages of the person for each strategy, and the servers that each strategy uses.

use serde_json::{Value, json};

use crate::engine::TURNFOLD;

/// The messages of a person on one thread, one for each turn.
pub(super) struct Conversation {
    pub(super) strategy: &'static str,
    /// Configuration with low limits, so that a model that makes no progress ends soon.
    pub(super) config: Value,
    pub(super) messages: &'static [&'static str],
}

/// Parts of error messages by which faults of the model are recognized.
pub(super) const FAILURES: [&str; 6] = [
    "cut off at the length limit",
    "does not fit its schema",
    "a function other than the required one",
    "exceeds the available context size",
    "did not respond within",
    "was interrupted",
];

/// Returns the configuration of the providers, the index, and three servers of this project.
pub(super) fn config(chat: &str, vectors: &str) -> String {
    let providers = format!(
        "[providers.local]\nbase_url = {}\ntimeout_seconds = 600\n\
         [providers.forced]\nbase_url = {0}\ntimeout_seconds = 600\nstructured = \"tool\"\n\
         [providers.vectors]\nbase_url = {}\n[index]\nembedding_model = \"vectors/minilm\"\n",
        json!(chat),
        json!(vectors)
    );
    let experts = demo_servers::Expert::ALL.iter().map(|expert| {
        format!(
            "[mcp.{0}]\ndescription = {1}\ncommand = {2}\nargs = [\"expert\", \"{0}\", \"--data\", \"{0}.json\"]\n\
             connect_timeout_seconds = 60\n",
            expert.name(),
            json!(expert.description()),
            json!(TURNFOLD)
        )
    });
    providers + &experts.collect::<String>()
}

/// Returns all conversations; the index is built before the conversations that search it. One of them forces structured
/// output through a function, which is not the default for this model's endpoint.
pub(super) fn conversations() -> Vec<Conversation> {
    let conversation = |strategy, config, messages| Conversation { strategy, config, messages };
    let search = json!({"server": "notes", "tool": "search", "argument": "query"});
    vec![
        conversation("probe", json!({}), &["echo hello", "call 2; echo done"]),
        conversation("index_builder", json!({}), &["Bring it up to date", "Once more"]),
        conversation(
            "planner",
            planner("local"),
            &["What time is it in Tokyo?", "Add Ada, ada@example.org, to my contacts."],
        ),
        conversation("planner", planner("forced"), &["Write a note called shopping: milk and bread."]),
        conversation(
            "chat",
            json!({"model": "local/smollm2", "servers": ["calendar"], "rounds": 2}),
            &["What is the capital of France?", "When am I free on 2026-12-01?"],
        ),
        conversation(
            "planner_with_prompts",
            planner("local"),
            &["How is the weather in Oslo?", "Plan my day in the calendar."],
        ),
        conversation(
            "action_plan",
            json!({"model": "local/smollm2", "model_calls": 6, "steps_max": 3}),
            &["Write a note called plan that says: first things first.", "Cancel everything on Friday."],
        ),
        conversation(
            "research",
            json!({
                "model": "local/smollm2", "search": search, "effort": "low", "iterations": 3, "model_calls": 6,
                "tool_calls": 6,
            }),
            &["What did Ada Lovelace write of?", "And where did she live?"],
        ),
        conversation(
            "retriever",
            json!({"model": "local/smollm2", "reroutes": 1, "rounds": 3}),
            &["What time is it in Tokyo?", "And in Oslo?"],
        ),
    ]
}

fn planner(provider: &str) -> Value {
    json!({"model": format!("{provider}/smollm2"), "rounds": 2, "model_calls": 6})
}
