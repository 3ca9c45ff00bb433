//! Analysis of threads from the command line: import, explanation, comparison, bisection, cost.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::engine::{TURNFOLD, fixtures, turnfold};

fn run(folder: &Path, args: &[&str]) -> (i32, Value) {
    let output = turnfold(folder).args(["-o", "json"]).args(args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed)))
}

/// Returns a folder with a database that holds the thread of a fixture.
fn imported(fixture: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["migrate"]).0, 0);
    let id = import(folder.path(), fixture);
    (folder, id)
}

fn import(folder: &Path, fixture: &str) -> String {
    let file = fixtures().join(fixture);
    let (exit, imported) = run(folder, &["thread", "import", file.to_str().unwrap()]);
    assert_eq!(exit, 0, "{imported}");
    imported["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_exported_log_is_imported_byte_for_byte() {
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let (folder, elsewhere) = (folder.path(), tempfile::tempdir().unwrap());
    let elsewhere = elsewhere.path();
    assert_eq!(run(elsewhere, &["migrate"]).0, 0);
    let export = |folder: &Path, id: &str| {
        let output = turnfold(folder).args(["thread", "export", id]).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let exported = export(folder, &id);
    let file = elsewhere.join("log.jsonl");
    fs::write(&file, &exported).unwrap();
    let import =
        |flags: &[&str]| run(elsewhere, &[&["thread", "import", file.to_str().unwrap()][..], flags].concat());
    assert_eq!(import(&[]).1["id"], json!(id));
    assert_eq!(export(elsewhere, &id), exported);
    for command in [
        &["store", "verify"][..],
        &["store", "rebuild", "--dry-run"],
        &["thread", "verify", &id],
        &["thread", "replay", &id],
    ] {
        assert_eq!(run(elsewhere, command).0, 0, "{command:?}");
    }
    let (exit, printed) = import(&[]);
    assert!(exit == 2 && printed.as_str().unwrap().contains("--new"), "{printed}");
    let (exit, other) = import(&["--new"]);
    assert!(exit == 0 && other["id"] != json!(id), "{other}");
    assert_eq!(run(elsewhere, &["thread", "diff", &id, "last"]).0, 0, "it differs only in its names");

    fs::write(&file, exported.replace("0.69", "0.96")).unwrap();
    let (exit, printed) = import(&["--new"]);
    assert!(
        exit == 2 && printed.as_str().unwrap().contains("line 17: the hash chain breaks here"),
        "{printed}"
    );
    // A log that ends within a turn is refused by default.
    let lines: Vec<&str> = exported.lines().collect();
    fs::write(&file, lines[..15].join("\n")).unwrap();
    let (exit, printed) = import(&["--new"]);
    assert!(exit == 2 && printed.as_str().unwrap().contains("--go-on"), "{printed}");
    assert_eq!(import(&["--new", "--go-on"]).0, 0);
    assert_eq!(run(elsewhere, &["thread", "show", "last"]).1["node"], "assess");
    fs::write(&file, "{}\n").unwrap();
    assert_eq!(import(&[]).0, 2);
}

#[test]
fn a_decision_is_explained() {
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let (exit, why) = run(folder.path(), &["thread", "why", &id, "--at", "17"]);
    assert_eq!((exit, &why["decision"]["reason"]), (0, &json!("done with confidence 0.69 < 0.7")));
    assert_eq!(run(folder.path(), &["thread", "why", &id]).1["status"], "idle");
    let (exit, printed) = run(folder.path(), &["thread", "why", &id, "--at", "99"]);
    assert!(
        exit == 2 && printed.as_str().unwrap().contains("event 99 does not exist yet: the last event is 27"),
        "{printed}"
    );
    assert_eq!(
        run(folder.path(), &["queue", "pause", "--strategy", "planner", "--reason", "rest"]).0,
        4,
        "needs an api"
    );
}

#[test]
fn a_prompt_is_shown_as_text() {
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let folder = folder.path();
    let (exit, sent) = run(folder, &["thread", "prompt", &id, "--at", "17"]);
    assert_eq!((exit, &sent["seq"], &sent["node"]), (0, &json!(15), &json!("assess")), "{sent}");
    let request = &sent["requests"][0];
    assert_eq!((&request["model"], &request["schema_name"]), (&json!("openai/gpt-4o"), &json!("Assessment")));
    assert_eq!((&request["first_message"], request["messages"].as_array().unwrap().len()), (&json!(1), 2));
    assert!(request["schema"]["properties"]["confidence"].is_object(), "{request}");
    let built_in = run(folder, &["strategy", "show", "planner"]).1;
    let assess = built_in["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "assess").unwrap();
    assert_eq!(request["prompt"], json!({"origin": "built-in", "hash": assess["prompt"]["hash"]}));
    let text = |args: &[&str]| {
        let shown = turnfold(folder).args(["thread", "prompt", &id]).args(args).output().unwrap();
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8(shown.stdout).unwrap()
    };
    let folded = text(&["--at", "17"]);
    assert!(folded.starts_with("event 15: assess asks openai/gpt-4o · prompt built-in "), "{folded}");
    for expected in
        ["── system\n", "── assistant · message 1\ncalls book {", "── answer as Assessment\na schema of "]
    {
        assert!(folded.contains(expected), "{expected:?} in {folded}");
    }
    assert!(text(&["--at", "17", "--full"]).contains("\"confidence\": {"));
    let (exit, printed) = run(folder, &["thread", "prompt", &id, "--at", "1"]);
    assert!(exit == 2 && printed.as_str().unwrap().contains("no model was asked up to event 1"), "{printed}");
}

#[test]
fn an_id_is_found_by_its_end_and_its_beginning() {
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let folder = folder.path();
    let other = import(folder, "planner/confidence_at_the_threshold.jsonl");
    let shown = |text: &str| run(folder, &["thread", "show", text]);
    let end = &id[id.len() - 8..];
    assert_eq!(shown(end).1["id"], json!(id), "the short form");
    assert_eq!(shown(&end.to_uppercase()).1["id"], json!(id));
    assert_eq!(shown(&id[24..]).1["id"], json!(id), "a longer end");
    let (exit, printed) = shown(&id[..6]);
    let printed = printed.as_str().unwrap();
    assert!(exit == 2 && printed.contains("ambiguous") && printed.contains(&other), "{printed}");
    assert_eq!(shown("00000000").0, 7, "no such thread");
    let (exit, printed) = shown("xyz");
    assert!(exit == 2 && printed.as_str().unwrap().contains("its last 8"), "{printed}");
    let listed = |filter: &str| run(folder, &["thread", "list", "--where", filter]);
    let (exit, threads) = listed(&format!("thread = {end}"));
    assert_eq!((exit, threads.as_array().unwrap().len(), &threads[0]["id"]), (0, 1, &json!(id)), "{threads}");
    let (exit, printed) = listed(&format!("thread = {}", &id[..6]));
    assert!(exit == 2 && printed.as_str().unwrap().contains(&other), "{printed}");
    let table = turnfold(folder).env("COLUMNS", "80").args(["thread", "list"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let has_age = table.contains(" s ago") || table.contains("now");
    assert!(table.contains(end) && !table.contains(&id) && has_age, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn bisect_finds_the_first_event() {
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let folder = folder.path();
    let (exit, found) = run(folder, &["thread", "bisect", &id, "--where", "state.plan.rounds > 0"]);
    assert_eq!((exit, &found["seq"]), (0, &json!(17)), "{found}");
    assert_eq!(run(folder, &["thread", "bisect", &id, "--where", "status = failed"]), (1, Value::Null));
    assert_eq!(run(folder, &["thread", "bisect", &id, "--diverges"]), (0, Value::Null));
    let printed = |filter: &str| {
        let output = turnfold(folder).args(["thread", "bisect", &id, "--where", filter]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        printed("state.plan.nope > 0").contains("state.plan.nope exists after no event"),
        "a typo is reported"
    );
    assert_eq!(printed("state.plan.rounds > 99"), "", "an existing field is no typo");
    let (exit, printed) = run(folder, &["thread", "bisect", &id, "--where", "standing = failed"]);
    assert!(exit == 2 && printed.as_str().unwrap().contains("there is no field standing"), "{printed}");
    assert_eq!(run(folder, &["thread", "bisect", &id]).0, 2, "a condition is required");
}

/// Scripts stand in for other builds; only their output of `thread replay` matters.
#[test]
fn bisect_finds_the_first_build_that_decides_differently() {
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let folder = folder.path();
    let build = |name: &str, script: &str| {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let difference = json!({"chain": "intact", "divergences": [
        {"seq": 17, "node": "assess", "field": "to", "then": "orchestrate", "today": "advance"}
    ]});
    let (b, c) = (build("b", &format!("echo '{difference}'; exit 1")), build("c", "touch asked; exit 1"));
    let (exit, found) = run(folder, &["thread", "bisect", &id, "--builds", TURNFOLD, &b, &c]);
    assert_eq!((exit, &found["first"]), (1, &json!(b)), "{found}");
    assert_eq!(found["builds"][0]["verdict"], "same");
    assert_eq!(found["builds"][1]["what"], "event 17, assess, to");
    assert!(!folder.join("asked").exists(), "no build after the first is asked");
    let broken = build("d", "echo 'no such strategy' >&2; exit 6");
    let (exit, found) = run(folder, &["thread", "bisect", &id, "--builds", &broken, TURNFOLD]);
    assert_eq!((exit, &found["first"]), (6, &Value::Null), "{found}");
    assert!(found["builds"][0]["what"].as_str().unwrap().contains("no such strategy"));
    assert_eq!(run(folder, &["thread", "bisect", &id, "--builds", "./nowhere"]).0, 2);
}

#[test]
fn tokens_and_cost_are_summed_up_by_every_grouping() {
    let (folder, id) = imported("planner/money_of_a_turn_is_spent.jsonl");
    let folder = folder.path();
    import(folder, "probe/all_words.jsonl");
    let of_thread = run(folder, &["thread", "show", &id]).1["usage"].clone();
    let (exit, cost) = run(folder, &["thread", "cost", "--thread", &id, "--by", "node"]);
    assert_eq!((exit, &cost["all"]["usd"]), (0, &of_thread["usd"]), "{cost}");
    assert!(cost["all"]["usd"].as_f64().unwrap() > 0.0, "{cost}");
    for by in ["node", "turn", "thread", "batch", "tenant", "strategy", "model", "tool", "day", "purpose"] {
        let (exit, cost) = run(folder, &["thread", "cost", "--by", by]);
        assert_eq!((exit, &cost["threads"], &cost["all"]["usd"]), (0, &json!(2), &of_thread["usd"]), "{by}");
        let groups = cost["groups"].as_array().unwrap();
        let sum: u64 = groups.iter().map(|group| group["input_tokens"].as_u64().unwrap()).sum();
        assert_eq!(json!(sum), of_thread["input_tokens"], "{by}: {cost}");
    }
    assert_eq!(run(folder, &["thread", "cost", "--by", "batch"]).1["groups"][0]["batch"], "(no batch)");
    let tools = run(folder, &["thread", "cost", "--by", "tool"]).1;
    assert!(tools["groups"].as_array().unwrap().iter().any(|group| group["tool"] != "(no tool)"), "{tools}");
    // The first group, and all others as one.
    for order in ["usd", "time", "tokens"] {
        let cost = run(folder, &["thread", "cost", "--by", "node", "--top", "1", "--order", order]).1;
        let groups = cost["groups"].as_array().unwrap();
        assert_eq!((groups.len(), &groups[1]["node"]), (2, &json!("(others)")), "{cost}");
        let sum: u64 = groups.iter().map(|group| group["input_tokens"].as_u64().unwrap()).sum();
        assert_eq!(json!(sum), of_thread["input_tokens"], "{cost}");
    }
    let of = |filter: &str| run(folder, &["thread", "cost", "--where", filter]).1;
    assert_eq!(of("strategy = probe")["all"]["usd"], 0.0);
    assert_eq!(of("strategy = planner")["all"]["usd"], of_thread["usd"]);
    assert_eq!(of("created > 2099-01-01")["threads"], 0);
    assert_eq!(run(folder, &["thread", "cost", "--since", "7d"]).1["threads"], 2);
    assert_eq!(run(folder, &["--tenant", "acme", "thread", "cost"]).1["threads"], 0);
    assert_eq!(run(folder, &["--tenant", "default", "thread", "cost"]).1["threads"], 2);
    // Only the matching turns of a thread are counted.
    let id = import(folder, "action_plan/a_command_that_was_withheld_runs_later.jsonl");
    let calls = |cost: &Value| cost["all"]["model_calls"].as_u64().unwrap();
    let all = calls(&run(folder, &["thread", "cost", "--thread", &id]).1);
    let [asked, done] = ["interrupted", "completed"]
        .map(|status| calls(&of(&format!("thread = {id} and status = {status}"))));
    assert!(0 < asked && 0 < done && asked + done == all, "{asked} and {done} of {all}");
    let (exit, printed) = run(folder, &["thread", "cost", "--where", "nonsense"]);
    assert!(exit == 2 && printed.as_str().unwrap().contains("operators are"), "{printed}");
}

#[test]
fn what_if_tells_which_threads_another_threshold_prompt_or_model_changes() {
    // Done was said with confidence 0.69, below the threshold of 0.7.
    let (folder, id) = imported("planner/confidence_at_the_threshold.jsonl");
    let folder = folder.path();
    import(folder, "probe/all_words.jsonl");
    let what_if = |more: &[&str]| run(folder, &[&["whatif"][..], more].concat());
    let first = |report: &Value| report["clusters"][0].clone();

    let (exit, lower) = what_if(&["--set", "strategies.planner.confidence=0.6"]);
    assert_eq!(
        (exit, &lower["threads"], &lower["others"], &lower["changed"]),
        (0, &json!(1), &json!(1), &json!(1))
    );
    let place = first(&lower);
    assert_eq!(
        (&place["effect"], &place["node"], &place["field"]),
        (&json!("route"), &json!("assess"), &json!("to"))
    );
    assert_eq!(place["threads"], json!([id]), "{place}");
    // After event 17, the log has the answers 19, 22 and 26; before it, three more and that of the tool.
    assert_eq!(
        (&place["rest"]["model_calls"], &place["rest"]["tool_calls"]),
        (&json!(3), &json!(0)),
        "{place}"
    );

    let [xml, json] = ["whatif.xml", "whatif.json"].map(|name| folder.join(name));
    what_if(&[
        "--set",
        "planner.confidence=0.6",
        "--junit",
        xml.to_str().unwrap(),
        "--sarif",
        json.to_str().unwrap(),
    ]);
    let xml = fs::read_to_string(xml).unwrap();
    assert!(
        xml.contains(r#"name="planner/assess/to" classname="what if""#)
            && xml.contains(r#"type="another route""#),
        "{xml}"
    );
    let sarif: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["occurrenceCount"]), (&json!("planner/assess/to"), &json!(1)));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], format!("threads/{id}.jsonl"), "{sarif}");
    assert_eq!(place["region"]["startLine"], 18, "event 17 is the eighteenth line");
    let missing = folder.join("missing/whatif.xml");
    let (exit, printed) = what_if(&["--set", "planner.confidence=0.6", "--junit", missing.to_str().unwrap()]);
    assert!(exit == 2 && printed.as_str().unwrap().contains("--junit"), "{printed}");

    // As it was: the thread goes as it went.
    let (exit, same) = what_if(&["--set", "planner.confidence=0.7"]);
    assert_eq!((exit, &same["same"], &same["changed"]), (0, &json!(1), &json!(0)), "{same}");

    fs::write(folder.join("new.md"), "{prompt} Be strict.").unwrap();
    let (exit, prompt) = what_if(&["--prompt", "planner/assess=@new.md"]);
    assert_eq!(
        (exit, &first(&prompt)["effect"], &first(&prompt)["node"]),
        (0, &json!("prompt"), &json!("assess"))
    );
    let (exit, model) = what_if(&["--model", "planner/assess=openai/other"]);
    assert_eq!((exit, &first(&model)["effect"]), (0, &json!("request")), "{model}");
    assert_eq!(first(&model)["example"]["changed"], json!("“openai/other”"), "{model}");

    for (flags, hint) in [
        (&[][..], "no change is given"),
        (&["--model", "assess=x/y"], "names no node"),
        (&["--set", "strategies.planner.confidenc=0.6"], "confidence"),
        (&["--prompt", "planner/asess=short"], "assess"),
        (&["--prompt", "planner/assess=@missing.md"], "missing.md"),
        (&["--set", "strategies.planner={}"], "is no single key"),
    ] {
        let (exit, printed) = what_if(flags);
        assert!(exit == 2 && printed.as_str().unwrap().contains(hint), "{flags:?}: {printed}");
    }
    // What replays a log as recorded does not pretend to obey.
    for command in [&["audit", "replay"][..], &["thread", "replay", &id]] {
        let (exit, printed) =
            run(folder, &[command, &["--set", "strategies.planner.confidence=0.6"]].concat());
        assert!(exit == 2 && printed.as_str().unwrap().contains("turnfold whatif"), "{printed}");
    }
    assert_eq!(run(folder, &["store", "verify"]).0, 0, "nothing was written");
}
