//! The conventions of the command line: help, aliases, exit codes, completions, man pages, short ids, one output for the
//! API and the database.

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    engine::{Process, log, turnfold},
    openai_clients::Dev,
};

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    text_of(turnfold(folder).args(args).output().unwrap())
}

fn text_of(output: Output) -> (i32, String, String) {
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

fn json_of(folder: &Path, args: &[&str]) -> Value {
    let done = run(folder, &[args, &["-o", "json"]].concat());
    serde_json::from_str(&done.1).unwrap_or_else(|_| panic!("{args:?}: {done:?}"))
}

/// Returns a folder with an empty database.
fn migrated() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["migrate"]).0, 0);
    folder
}

/// Imports a fixture and returns the id of its thread.
fn import(folder: &Path, fixture: &str) -> String {
    let file = crate::engine::fixtures().join(fixture);
    let imported = json_of(folder, &["thread", "import", file.to_str().unwrap()]);
    imported["id"].as_str().unwrap().to_owned()
}

#[test]
fn completions_cover_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, marker) in
        [("bash", "complete -F"), ("zsh", "#compdef turnfold"), ("fish", "complete -c turnfold")]
    {
        let done = run(folder.path(), &["completions", shell]);
        assert!(
            done.0 == 0 && done.1.contains(marker) && done.1.contains("checkpoint"),
            "{shell}: {}",
            done.2
        );
    }
    assert_eq!(run(folder.path(), &["completions", "cmd"]).0, 2);
}

#[test]
fn man_pages_are_written_for_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["man", "pages"]).0, 0);
    for page in ["turnfold.1", "turnfold-turn-send.1", "turnfold-audit-replay.1"] {
        let text = fs::read_to_string(folder.path().join("pages").join(page)).unwrap();
        assert!(text.starts_with(".ie") || text.contains(".TH"), "{page}: {text}");
    }
}

#[test]
fn help_names_exit_codes_and_fits_the_width() {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), &["--help"]).1;
    for code in ["  7  Not found", "  8  The API key", "  9  The database", "130  Interrupted"] {
        assert!(help.contains(code), "{code:?} in {help}");
    }
    for args in [&["turn", "send", "--help"][..], &["thread", "fork", "--help"], &["batch", "run", "--help"]]
    {
        let done = text_of(turnfold(folder.path()).args(args).env("COLUMNS", "72").output().unwrap());
        let widest = done.1.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(72), "{args:?}: {widest:?}\n{}", done.1);
    }
}

#[test]
fn a_table_fits_the_width() {
    let folder = tempfile::tempdir().unwrap();
    let list = |columns: &str| {
        text_of(turnfold(folder.path()).args(["strategy", "list"]).env("COLUMNS", columns).output().unwrap())
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    let narrow = list("60");
    assert!(widest(&narrow.1) <= 60, "{}", narrow.1);
    let wide = run(folder.path(), &["strategy", "list"]);
    assert!(widest(&wide.1) > 60, "a pipe has no width: {}", wide.1);
}

#[test]
fn old_and_short_names_of_commands_work() {
    let folder = migrated();
    let id = import(folder.path(), "probe/all_words.jsonl");
    for (name, alias) in [
        (&["thread", "list"][..], &["thread", "ls"][..]),
        (&["thread", "show", &id], &["thread", "get", &id]),
        (&["thread", "events", &id], &["thread", "logs", &id]),
        (&["strategy", "list"], &["strategy", "ls"]),
    ] {
        // In JSON, times do not depend on the time of the command.
        let printed = |command: &[&str]| run(folder.path(), &[&["-o", "json"], command].concat());
        assert_eq!(printed(name), printed(alias), "{name:?}");
    }
}

#[test]
fn verify_checks_integrity_and_replay_runs_todays_code() {
    let folder = migrated();
    let id = import(folder.path(), "planner/confidence_at_the_threshold.jsonl");
    let verified = json_of(folder.path(), &["thread", "verify", &id]);
    assert_eq!((&verified["ok"], &verified["chain"]["intact"]), (&json!(true), &json!(true)), "{verified}");
    assert_eq!(verified["rows"]["differences"], json!([]));
    assert!(verified.get("divergences").is_none(), "today's code plays no part: {verified}");
    let replayed = json_of(folder.path(), &["thread", "replay", &id]);
    assert_eq!((&replayed["diverged"], &replayed["divergences"]), (&json!(0), &json!([])), "{replayed}");
    assert!(replayed.get("chain").is_none(), "the hash chain plays no part: {replayed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_finds_a_changed_event_and_a_changed_row() {
    let folder = migrated();
    let (changed, row) =
        (import(folder.path(), "probe/all_words.jsonl"), import(folder.path(), "probe/all_words.jsonl"));
    let url = format!("sqlite:{}", folder.path().join(".turnfold/turnfold.db").display());
    let store = store::Store::connect(&url).await.unwrap();
    let at = "UPDATE events SET at = at + 1 WHERE seq = 1 AND thread_id = $1";
    store::testing::tamper::execute(&store, at, changed.parse().unwrap()).await.unwrap();
    let status = "UPDATE threads SET status = 'error' WHERE id = $1";
    store::testing::tamper::execute(&store, status, row.parse().unwrap()).await.unwrap();
    let verify = |id: &str| run(folder.path(), &["thread", "verify", id]);
    let tampered = verify(&changed);
    assert!(
        tampered.0 == 1 && tampered.1.starts_with("TAMPERED: the hash chain breaks at event 1"),
        "{tampered:?}"
    );
    let different = verify(&row);
    assert!(different.0 == 1 && different.1.contains("rows do not match the log"), "{different:?}");
    assert_eq!(run(folder.path(), &["thread", "replay", &row]).0, 0, "replay reads only the log");
}

#[test]
fn a_unique_prefix_of_an_id_is_enough() {
    let folder = migrated();
    let folder = folder.path();
    let first = import(folder, "probe/all_words.jsonl");
    let show = |id: &str| run(folder, &["thread", "show", id]);
    assert_eq!(show(&first[..8]), show(&first));
    assert_eq!(show(&first.replace('-', "")[..20]), show(&first));
    let second = import(folder, "probe/all_words.jsonl");
    let ambiguous = show(&first[..4]);
    assert_eq!(ambiguous.0, 2, "{ambiguous:?}");
    for id in [&first, &second] {
        assert!(ambiguous.2.contains(id.as_str()), "{ambiguous:?}");
    }
    let unknown = show("ffff");
    assert!(unknown.0 == 7 && unknown.2.contains("turnfold thread list"), "{unknown:?}");
    assert_eq!(show("fff").0, 2, "too short");
}

#[test]
fn a_thread_is_deleted_unless_it_is_held() {
    let folder = migrated();
    let folder = folder.path();
    let id = import(folder, "probe/all_words.jsonl");
    let delete = |more: &[&str]| run(folder, &[&["thread", "delete", &id], more].concat());
    let unconfirmed = delete(&[]);
    assert!(unconfirmed.0 == 2 && unconfirmed.2.contains("add --yes"), "{unconfirmed:?}");
    assert_eq!(run(folder, &["thread", "hold", &id, "--reason", "a lawsuit"]).0, 0);
    let held = delete(&["--yes"]);
    assert!(held.0 == 1 && held.2.contains("turnfold thread release"), "{held:?}");
    assert_eq!(run(folder, &["thread", "release", &id]).0, 0);
    let deleted = delete(&["--yes"]);
    assert!(deleted.0 == 0 && deleted.1.starts_with(&format!("deleted thread {id} with ")), "{deleted:?}");
    assert_eq!(run(folder, &["thread", "show", &id]).0, 7);
    assert_eq!(delete(&["--yes"]).0, 7);
}

#[test]
fn unknown_names_are_answered_with_the_closest_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[mcp.files]\ndescription = 'files'\nurl = 'http://127.0.0.1:1/mcp'\n\
                [providers.openai]\nbase_url = 'http://127.0.0.1:1/v1'\n\
                [limits.models.'openai/gpt-4o']\nconcurrency = 1\n";
    fs::write(folder.path().join("turnfold.toml"), file).unwrap();
    let cases = [
        (&["strategy", "map", "plannr"][..], "did you mean \"planner\"?"),
        (&["mcp", "tools", "filse"], "did you mean \"files\"?"),
        (&["queue", "pause", "--model", "openai/gpt4o"], "did you mean \"openai/gpt-4o\"?"),
        (&["queue", "pause", "--model", "nobody/x"], "unknown model \"nobody/x\""),
    ];
    for (args, hint) in cases {
        let done = run(folder.path(), args);
        assert!(done.0 == 2 && done.2.contains(hint), "{args:?}: {done:?}");
    }
    assert_eq!(run(folder.path(), &["queue", "pause", "--model", "openai/gpt-4o"]).0, 4, "asks the API");
}

/// Log lines of `dev` are colored only on a terminal, and never with NO_COLOR. `script` gives the process a terminal.
#[test]
fn logs_respect_no_color() {
    let folder = tempfile::tempdir().unwrap();
    let colored = |no_color: Option<&str>| {
        let command = format!("{} worker --set log.filter=trace 2>&1", crate::engine::TURNFOLD);
        let mut script = std::process::Command::new("script");
        script.current_dir(folder.path()).args(["-qec", &command, "/dev/null"]).env_remove("NO_COLOR");
        script.envs(no_color.map(|value| ("NO_COLOR", value))).stdin(Stdio::null());
        String::from_utf8_lossy(&script.output().unwrap().stdout).contains("\u{1b}[")
    };
    assert!(!colored(Some("1")), "NO_COLOR is set");
}

/// Every reading command prints the same through the API as from the database.
#[test]
fn thread_commands_print_the_same_through_the_api_and_from_the_database() {
    let dev = Dev::start();
    let folder = dev.folder();
    let through_api = |args: &[&str]| run(folder, &[args, &["--url", &dev.url]].concat());
    let sent = through_api(&["turn", "send", "-g", "probe", "steps 2; echo done", "--wait"]);
    assert_eq!(sent.0, 0, "{sent:?}");
    let asked = through_api(&["turn", "send", "-g", "probe", "ask Which? | red | green", "--wait"]);
    assert_eq!(asked.0, 3, "{asked:?}");
    let threads = json_of(folder, &["thread", "list"]);
    let [asks, done] = [0, 1].map(|nth: usize| threads[nth]["id"].as_str().unwrap().to_owned());
    for args in [
        &["thread", "list"][..],
        &["thread", "list", "--status", "interrupted"],
        &["thread", "list", "--where", "status = completed"],
        &["thread", "show", &done],
        &["thread", "show", &asks[..23]],
        &["thread", "events", "last"],
        &["thread", "events", &done, "--from", "2", "--limit", "3"],
        &["thread", "state", &done, "--at", "2"],
        &["thread", "state", &done, "--at", "999"],
        &["thread", "replay", &done],
        &["thread", "why", &asks],
        &["thread", "diff", &done, &asks],
        &["thread", "bisect", &done, "--where", "messages > 1"],
        &["thread", "export", &done],
        &["thread", "verify", &done],
    ] {
        for format in ["text", "json"] {
            let args = [args, &["-o", format]].concat();
            assert_eq!(without_ages(through_api(&args)), without_ages(run(folder, &args)), "{args:?}");
        }
    }
    let search = ["thread", "search", "red", "WHICH", "-o", "json"];
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !through_api(&search).1.contains(&asks) {
        assert!(std::time::Instant::now() < deadline, "{:?}", through_api(&search));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(through_api(&search), run(folder, &search));
    let text = run(folder, &["thread", "search", "red"]);
    assert!(text.0 == 0 && text.1.contains("[red]"), "{text:?}");
    let listed = json_of(folder, &["turn", "list", "--where", "text = 'which red'", "--url", &dev.url]);
    assert_eq!(listed[0]["thread_id"], asks.as_str());
    let missing = "01990000-0000-7000-8000-000000000000";
    assert_eq!(through_api(&["thread", "show", missing]).0, 7);
    let refused = through_api(&["thread", "cost"]);
    assert!(refused.0 == 2 && refused.2.contains("needs the database"), "{refused:?}");
    for args in [
        &["thread", "hold", &done, "--reason", " "][..],
        &["thread", "hold", &done, "--reason", "x"],
        &["thread", "list", "--held"],
        &["thread", "delete", &done, "--yes"],
        &["thread", "release", &done],
        &["thread", "release", &done],
        &["thread", "delete", &asks, "--yes"],
        &["thread", "delete", missing, "--yes"],
        &["thread", "list", "--held", "-o", "json"],
    ] {
        // One way changes the thread, the other finds it as it is.
        let (direct, remote) = (without_ages(run(folder, args)), without_ages(through_api(args)));
        let changes = ["held; it", "released; it"].iter().any(|text| direct.1.contains(text));
        assert!(changes || direct == remote, "{args:?}: {direct:?}, {remote:?}");
    }
    let deleted = through_api(&["thread", "delete", &done, "--yes"]);
    assert!(deleted.0 == 0 && deleted.1.starts_with(&format!("deleted thread {done} with ")), "{deleted:?}");
}

/// Replaces times such as `now` and `3 s ago`: two commands do not run at the same time.
fn without_ages((exit, out, err): (i32, String, String)) -> (i32, String, String) {
    let ages = regex::Regex::new(r"\bnow\n|\b[0-9]+ s ago\b").unwrap();
    (exit, ages.replace_all(&out, "AGE").replace("AGE\n", "AGE"), err)
}

/// JSON holds values for programs, and no sentences.
#[test]
fn json_holds_no_display_text() {
    let folder = migrated();
    let id = import(folder.path(), "probe/all_words.jsonl");
    let shown = json_of(folder.path(), &["thread", "show", &id]);
    for field in
        ["id", "strategy", "status", "node", "error", "question", "events", "turns", "reply", "usage"]
    {
        assert!(shown.get(field).is_some(), "{field} in {shown}");
    }
    assert!(shown.get("stands").is_none() && shown["usage"]["input_tokens"].is_u64(), "{shown}");
    let events = json_of(folder.path(), &["thread", "events", &id]);
    assert!(events[0].get("text").is_none() && events[0]["event"].is_object(), "{}", events[0]);
    let text = run(folder.path(), &["thread", "events", &id]).1;
    let first = text.lines().next().unwrap();
    let (clock, rest) = first.split_at(12);
    assert!(clock.matches(':').count() == 2 && clock.contains('.') && rest.contains("opened"), "{first:?}");
}

#[test]
fn an_interrupted_wait_exits_with_130_and_says_how_to_come_back() {
    let dev = Dev::start();
    for (flag, resume) in [("--wait", "turnfold turn show "), ("--follow", "turnfold thread events ")] {
        let mut command = turnfold(dev.folder());
        command.args(["--url", &dev.url, "turn", "send", "-g", "probe", "wait 20", flag]);
        let mut process = Process::start(command.stderr(log(dev.folder(), "wait")));
        let read = || fs::read_to_string(dev.folder().join("wait.log")).unwrap();
        let start = Instant::now();
        while !read().contains("turn ") {
            assert!(start.elapsed() < Duration::from_secs(30), "{}", read());
            std::thread::sleep(Duration::from_millis(50));
        }
        // The signal handler is installed after the turn is announced.
        std::thread::sleep(Duration::from_millis(500));
        process.signal("INT");
        assert_eq!(process.wait().code(), Some(130), "{}", read());
        assert!(read().contains("continues") && read().contains(resume), "{}", read());
        let turns = json_of(dev.folder(), &["turn", "list", "--url", &dev.url]);
        assert_eq!(turns[0]["status"], "running", "{turns}");
        let id = turns[0]["id"].as_str().unwrap();
        assert_eq!(run(dev.folder(), &["turn", "cancel", id, "--url", &dev.url]).0, 0);
    }
}

#[test]
fn a_wait_reports_failed_attempts() {
    let dev = Dev::start();
    let sent = run(
        dev.folder(),
        &["turn", "send", "-g", "probe", "flaky 3; echo done", "--wait", "--url", &dev.url],
    );
    assert_eq!(sent.0, 0, "{sent:?}");
    assert!(sent.2.contains("attempt failed") && sent.2.contains("next try in"), "{sent:?}");
}

/// The cost of each prompt is shown under its hash, as `strategy show` prints it.
#[test]
fn costs_are_grouped_by_prompt() {
    let folder = migrated();
    import(folder.path(), "planner/nodes_are_configured.jsonl");
    import(folder.path(), "planner/two_tasks.jsonl");
    let costs = json_of(folder.path(), &["thread", "cost", "--by", "prompt"]).to_string();
    for group in ["planner/plan built-in ", "planner/respond built-in ", "(no model)\""] {
        assert!(costs.contains(&format!("\"{group}")), "{group} in {costs}");
    }
    let hash = shared::prompt_hash("{ending} Answer in one sentence.");
    assert!(costs.contains(&format!("\"planner/respond {}\"", &hash[..12])), "{hash} in {costs}");
}

/// Each setting of a node is shown with its effective value and with the layer that set it.
#[test]
fn strategy_show_names_models_prompts_and_parameters_with_their_origins() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("respond.md"), "Answer in Latin.\n\n{ending}\n").unwrap();
    let toml = "[strategies.planner]\nmodel = 'openai/big'\nservers = ['calendar']\n\
        [strategies.planner.nodes]\nplan = { model = 'openai/small', temperature = 0.5, prompt = '{prompt} Plan {experts}.' }\n\
        respond = { prompt_file = 'respond.md', extra = { seed = 7 } }\n\
        [mcp.calendar]\ndescription = 'x'\ncommand = 'x'\n";
    fs::write(folder.path().join("turnfold.toml"), toml).unwrap();
    let set = "strategies.planner.nodes.plan.max_tokens=90";
    let shown = json_of(folder.path(), &["--set", set, "strategy", "show", "planner"]);
    assert_eq!(
        (&shown["name"], &shown["servers"]),
        (&json!("planner"), &json!({"value": ["calendar"], "origin": "turnfold.toml"}))
    );
    let node = |name: &str| {
        let mut nodes = shown["nodes"].as_array().unwrap().iter();
        nodes.find(|node| node["name"] == name).unwrap_or_else(|| panic!("{name}: {shown}"))
    };
    let setting = |value: Value, origin: &str| json!({"value": value, "origin": origin});
    let plan = node("plan");
    assert_eq!(plan["model"], setting(json!("openai/small"), "turnfold.toml"));
    assert_eq!(
        plan["parameters"],
        json!({"temperature": setting(json!(0.5), "turnfold.toml"), "max_tokens": setting(json!(90), "--set")})
    );
    assert_eq!(plan["prompt"]["origin"], "turnfold.toml");
    assert_eq!(plan["prompt"]["hash"], shared::prompt_hash("{prompt} Plan {experts}."));
    assert_eq!(
        plan["prompt"]["placeholders"],
        json!(["{prompt}", "{experts}", "{plan}", "{time}", "{problem}"])
    );
    let respond = node("respond");
    assert_eq!(respond["model"], setting(json!("openai/big"), "turnfold.toml"));
    assert_eq!(
        (&respond["prompt"]["first_line"], &respond["prompt"]["text"]),
        (&json!("Answer in Latin."), &Value::Null)
    );
    let assess = node("assess");
    assert_eq!((&assess["prompt"]["origin"], &assess["parameters"]), (&json!("built-in"), &json!({})));
    assert_eq!((&node("equip")["asks_model"], &node("equip")["model"]), (&json!(false), &Value::Null));

    let text = run(folder.path(), &["strategy", "show", "planner", "--prompts"]).1;
    let expected =
        ["asks no model", "openai/small", "temperature 0.5 (turnfold.toml)", "Answer in Latin.\n\n{ending}"];
    for part in expected {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let without = run(folder.path(), &["strategy", "show", "planner"]).1;
    assert!(without.contains("Answer in Latin.") && !without.contains("{ending}"), "{without}");
    let wrong = run(folder.path(), &["strategy", "show", "plannr"]);
    assert!(wrong.0 == 2 && wrong.2.contains("did you mean \"planner\"?"), "{wrong:?}");
}
