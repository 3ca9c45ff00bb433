//! The turns and their expected results: one row for every strategy and every server.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Row,
    model::{Rule, matching, shaped},
};

/// Parts of each strategy's system prompts, by which rules recognize its requests.
const RESPOND: &str = "You tell the person how their request was met";
const REPORT: &str = "You tell the person what became of their request";
const ORCHESTRATE: &str = "You meet a person's request with the tools of the server";
const RESEARCH: &str = "You prepare research on the web";
const ANSWER: &str = "You answer a question from what was found";

/// Returns all rows in the order in which they run: a later one finds data left by an earlier one.
pub(super) fn rows(home: &Path) -> Vec<Row> {
    let repo = json!(home.join("repo"));
    let poem = json!(home.join("files/poem.txt"));
    vec![
        planner(
            "files",
            &[
                (
                    "files",
                    "write it down",
                    &[("write_file", json!({"path": poem, "content": "Roses are red\n"}))],
                ),
                ("files", "read it back", &[("read_text_file", json!({"path": poem}))]),
            ],
            &["Successfully wrote", "Roses are red"],
        ),
        planner(
            "memory",
            &[
                ("memory", "remember her", &[("create_entities", json!({"entities": [ada()]}))]),
                ("memory", "look her up", &[("search_nodes", json!({"query": "engine"}))]),
            ],
            &["Ada Lovelace", "https://example.org/engine"],
        ),
        planner(
            "time",
            &[(
                "time",
                "convert it",
                &[(
                    "convert_time",
                    json!({"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
                )],
            )],
            &["Asia/Tokyo"],
        ),
        planner(
            "git",
            &[(
                "git",
                "look at it",
                &[("git_status", json!({"repo_path": repo})), ("git_log", json!({"repo_path": repo}))],
            )],
            &["stray.txt", "Keep what is worth it"],
        ),
        planner(
            "everything",
            &[(
                "everything",
                "echo and add",
                &[("echo", json!({"message": "to and fro"})), ("get-sum", json!({"a": 19, "b": 23}))],
            )],
            &["Echo: to and fro", "42"],
        ),
        with_prompts(),
        action_plan(home),
        index_builder(),
        retriever(),
        chat(),
        research(&repo),
    ]
}

fn ada() -> Value {
    let observations = ["wrote of the engine at https://example.org/engine"];
    json!({"name": "Ada Lovelace", "entityType": "person", "observations": observations})
}

fn row(name: &'static str, strategy: &'static str, input: &str, rules: Vec<Rule>, logged: &[&str]) -> Row {
    let logged: Vec<String> = logged.iter().map(|text| (*text).to_owned()).collect();
    let reply = logged.clone();
    Row { name, strategy, config: json!({}), input: input.to_owned(), rules, answers: &[], logged, reply }
}

/// A task: its server, its description and its calls.
pub(super) type Task<'a> = (&'a str, &'a str, &'a [(&'a str, Value)]);

/// Returns the rules of a planner's model that performs these tasks and finally repeats the tool results.
fn planned(tasks: &[Task<'_>]) -> Vec<Rule> {
    let plan: Vec<Value> =
        tasks.iter().map(|(expert, task, _)| json!({"expert": expert, "task": task})).collect();
    let plan = json!({"decision": "replace", "plan": plan, "next_task": 0, "clarification": null});
    let done = json!({"is_completed": true, "explanation": "it is there", "confidence": 0.9});
    let work = tasks
        .iter()
        .map(|(_, task, calls)| matching(&format!("The task: {task}"), "").calls(calls.iter().cloned()));
    let frame =
        [shaped("PlanReply", &plan), shaped("Assessment", &done), matching(RESPOND, "").replies("{results}")];
    frame.into_iter().chain(work).collect()
}

pub(super) fn planner(name: &'static str, tasks: &[Task<'_>], logged: &[&str]) -> Row {
    row(name, "planner", "Please see to it", planned(tasks), logged)
}

/// The matching prompt is chosen without a question and guides the work.
fn with_prompts() -> Row {
    let city = json!([{"name": "city", "value": "Oslo"}]);
    let ratings = json!({"ratings": [
        {"name": "simple-prompt", "confidence": 0.1, "reason": "too simple", "arguments": []},
        {"name": "args-prompt", "confidence": 0.9, "reason": "it is about a city", "arguments": city},
    ]});
    let mut rules = planned(&[("everything", "how is the weather", &[])]);
    // Only a model that receives the text of the prompt makes the call.
    rules.pop();
    rules.push(shaped("Ratings", &ratings));
    let guided = matching("The task: how is the weather", "").with_system("weather in Oslo");
    rules.push(guided.calls([("echo", json!({"message": "it rains"}))]));
    let texts = ["What's weather in Oslo?", "Echo: it rains"];
    Row {
        reply: vec![texts[1].to_owned()],
        ..row("prompts", "planner_with_prompts", "How is it in Oslo?", rules, &texts)
    }
}

/// A known payload is approved with the plan; an unknown one is requested later.
fn action_plan(home: &Path) -> Row {
    let path = json!(home.join("files/plan.txt"));
    let commands = [("files.write_file", "write the plan"), ("files.read_text_file", "read the plan")];
    let steps: Vec<Value> =
        commands.iter().map(|(command, what)| json!({"command": command, "description": what})).collect();
    let mut detailed = steps.clone();
    detailed[0]["payload"] = json!({"path": path, "content": "first things first\n"});
    detailed[1]["payload"] = Value::Null;
    let confirmed =
        json!({"response_text": "This is how.", "action_plan": detailed, "missing_information": []});
    let rules = vec![
        shaped("Gathered", &json!({"action_plan": steps, "missing_information": []})),
        shaped("Confirmation", &confirmed),
        shaped("Prepared", &json!({"payload": {"path": path}, "obstacle": null})),
        matching(REPORT, "").replies("{results}"),
    ];
    let logged = ["Successfully wrote", "first things first"];
    Row { answers: &["yes"], ..row("action", "action_plan", "Write the plan down", rules, &logged) }
}

fn index_builder() -> Row {
    let logged = ["convert_time", "git_log", "search_nodes", "args-prompt", "write_file"];
    Row {
        reply: vec!["5 ok, 0 unchanged, 0 failed, 0 removed".to_owned()],
        ..row("index", "index_builder", "Bring it up to date", Vec::new(), &logged)
    }
}

/// The model chooses from the results of the index.
fn retriever() -> Row {
    let time = json!({"outcome": "server", "server": "time", "question": null, "between": []});
    let convert = json!({"source_timezone": "UTC", "time": "06:30", "target_timezone": "Asia/Kolkata"});
    let rules = vec![
        shaped("Routing", &time).with_system("convert_time"),
        matching(ORCHESTRATE, "user").calls([("convert_time", convert)]),
        matching(ORCHESTRATE, "tool").replies("{results}"),
    ];
    row("retriever", "retriever", "Convert a time to another timezone", rules, &["Asia/Kolkata", "12:00"])
}

/// The model is offered the tools of the server that the configuration names, and those of no other.
fn chat() -> Row {
    let convert = json!({"source_timezone": "UTC", "time": "06:30", "target_timezone": "Asia/Kolkata"});
    let rules = vec![
        matching("", "user").calls([("convert_time", convert)]),
        matching("", "tool").replies("{results}"),
    ];
    let row = row("chat", "chat", "Convert a time to another timezone", rules, &["Asia/Kolkata", "12:00"]);
    Row { config: json!({"servers": ["time"]}), ..row }
}

/// The memory server is searched, and two servers help to plan: a request offers the tools of both.
fn research(repo: &Value) -> Row {
    let plan = json!({"queries": ["engine"], "rationale": "that is what she wrote of"});
    let rules = vec![
        matching(RESEARCH, "user").calls([
            ("everything__echo", json!({"message": "hm"})),
            ("git__git_status", json!({"repo_path": repo})),
        ]),
        matching(RESEARCH, "tool").calls([("submit_plan", plan)]),
        shaped("Reflection", &json!({"is_sufficient": true, "knowledge_gap": "", "follow_up_queries": []})),
        matching(ANSWER, "").replies("She wrote of it [s1]."),
    ];
    let search = json!({"server": "memory", "tool": "search_nodes", "argument": "query"});
    Row {
        config: json!({"search": search}),
        reply: vec!["She wrote of it".to_owned(), "https://example.org/engine".to_owned()],
        ..row("research", "research", "What did Ada write of?", rules, &["Echo: hm", "Ada Lovelace"])
    }
}
