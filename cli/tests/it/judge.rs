//! Judges of answers: biased and fair models, programs, kills, budgets and mistakes.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    engine::turnfold,
    whatif::{Model, RESPOND, asked, asks_for, folder, killed_twice, record, run, text},
};

const JUDGE: &[&str] = &["--judge", "rubric.md", "--judge-model", "openai/gpt-4o"];

/// The pair that a judge is asked about.
fn pair(body: &Value) -> Value {
    let content = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    // A request that is repeated ends with the error of the last reply.
    serde_json::Deserializer::from_str(content).into_iter().next().unwrap().unwrap()
}

fn verdict(verdict: &str) -> Value {
    text(json!({"verdict": verdict, "reason": "it reads better"}))
}

/// A model that answers with other words, and as a judge prefers what comes first.
fn first(body: &Value) -> Value {
    if asks_for(body, "verdict") { verdict("first") } else { text("All is done.") }
}

/// A model that answers without the facts, and as a judge finds that.
fn fair(body: &Value) -> Value {
    if !asks_for(body, "verdict") {
        return text("All is done.");
    }
    let pair = pair(body);
    match (pair["first"].as_str().unwrap(), pair["second"].as_str().unwrap()) {
        ("All is done.", _) => verdict("second"),
        (_, "All is done.") => verdict("first"),
        _ => verdict("tie"),
    }
}

fn with_rubric(model: &Model) -> tempfile::TempDir {
    let folder = folder(None, model);
    fs::write(folder.path().join("rubric.md"), "The answer says what is booked.").unwrap();
    folder
}

/// Requests to the judge among those of the model.
fn questions(model: &Model) -> Vec<Value> {
    let bodies = model.asked().into_iter().map(|body| serde_json::from_str::<Value>(&body).unwrap());
    bodies.filter(|body| asks_for(body, "verdict")).collect()
}

/// Runs a command, and returns its exit code and its text.
async fn printed(folder: &Path, args: &[&str]) -> (i32, String) {
    let mut command = turnfold(folder);
    command.args(args).env("MODEL_KEY", "s3cret");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.code().unwrap(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_judge_that_prefers_a_position_is_shown_as_biased() {
    let model = Model::serve(first, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    record(folder, 12);
    let files = ["--html", "report.html", "--junit", "report.xml"];
    let (exit, report) = asked(folder, &[RESPOND, JUDGE, &files].concat()).await;
    assert_eq!(exit, 0, "{report}");
    let judged = &report["total"]["judged"];
    assert_eq!((&judged["judged"], &judged["inconsistent"]), (&json!(12), &json!(12)), "{judged}");
    assert_eq!((&judged["first_in_both"], &judged["worse"]), (&json!(12), &json!(0)), "{judged}");
    assert_eq!(judged["requests"], json!(24), "{judged}");
    assert!(70.0 < judged["first_in_both_percent_95"][0].as_f64().unwrap(), "{judged}");
    let bias = "The judge chose the first answer in both orders in 100 % of 12 threads";
    assert!(judged["bias"].as_str().unwrap().starts_with(bias), "{judged}");
    assert_eq!(report["judge"], json!("openai/gpt-4o"));
    assert_eq!(report["clusters"][0]["summary"]["judged"]["inconsistent"], json!(12), "{report}");
    assert_eq!(questions(&model).len(), 24);
    for file in ["report.html", "report.xml"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains(bias) && text.contains("inconsistent"), "{text}");
        assert!(!text.contains("s3cret"), "the key is in no report");
    }

    // The same command shows the report again, and asks nothing.
    let (exit, text) = printed(folder, &[RESPOND, JUDGE].concat()).await;
    assert!(exit == 0 && text.contains(&format!("BIASED: {bias}")), "{text}");
    assert!(text.contains("judged:   0 better, 0 worse"), "{text}");
    assert_eq!(questions(&model).len(), 24);
    let limit = ["--fail-if", "judged_inconsistent > 5%"];
    let (exit, text) = printed(folder, &[RESPOND, JUDGE, &limit].concat()).await;
    assert!(exit == 1 && text.contains("FAILED: judged_inconsistent > 5%: 12 of 12"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fair_judge_finds_worse_answers_and_does_not_know_which_is_recorded() {
    let model = Model::serve(fair, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    record(folder, 12);
    // The judge comes after the run: only its own questions are asked, once they are confirmed.
    assert_eq!(asked(folder, RESPOND).await.0, 0);
    let without: Vec<&str> = RESPOND.iter().copied().filter(|arg| *arg != "--yes").collect();
    let (exit, text) = printed(folder, &[&without, JUDGE].concat()).await;
    let quote = "judge: at most 24 questions to openai/gpt-4o, two for each thread, about $0.0";
    assert!(exit == 2 && text.contains(quote) && text.contains("--yes"), "{text}");
    assert_eq!(model.asked().len(), 12);
    let limit = ["--fail-if", "judged_worse > 2%"];
    let (exit, report) = asked(folder, &[RESPOND, JUDGE, &limit].concat()).await;
    assert_eq!((exit, model.asked().len()), (1, 36), "{report}");
    let judged = &report["total"]["judged"];
    assert_eq!((&judged["worse"], &judged["inconsistent"]), (&json!(12), &json!(0)), "{judged}");
    assert!(judged["bias"].is_null(), "{judged}");
    let thread = &report["threads"][0]["judged"];
    assert_eq!(
        thread["recorded_first"],
        json!({"verdict": "first", "reason": "it reads better"}),
        "{thread}"
    );

    // Each pair was shown in both orders, in requests that are otherwise the same.
    let mut seen: Vec<(String, Value)> = Vec::new();
    for body in questions(&model) {
        let pair = pair(&body);
        assert!(pair["input"].as_str().unwrap().contains("Book lunch"), "{pair}");
        let shown = body.to_string().to_lowercase();
        assert!(
            !["recorded", "changed", "baseline", "candidate"].iter().any(|word| shown.contains(word)),
            "{shown}"
        );
        assert!(shown.contains("what is booked"), "the rubric is in the request: {shown}");
        let swapped = json!({"input": pair["input"], "first": pair["second"], "second": pair["first"]});
        match seen.iter().position(|(_, waiting)| *waiting == pair) {
            Some(nth) => drop(seen.remove(nth)),
            None => seen.push((body["messages"][0].to_string(), swapped)),
        }
    }
    assert!(seen.is_empty(), "{seen:?}");

    // Another rubric is another judge.
    fs::write(folder.join("rubric.md"), "The answer is short.").unwrap();
    assert_eq!(asked(folder, &[RESPOND, JUDGE].concat()).await.0, 0);
    assert_eq!(questions(&model).len(), 48);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_a_judge_that_is_killed_twice_asks_nothing_again_that_was_answered() {
    let model = Model::serve(fair, 0).await;
    let report = killed_twice(&model, RESPOND, JUDGE, 3).await;
    assert_eq!(report["total"]["judged"]["worse"], json!(12), "{report}");
    assert_eq!(report["total"]["judged"]["requests"], json!(24), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_questions_of_a_judge_count_for_the_budget() {
    let model = Model::serve(fair, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    record(folder, 20);
    assert_eq!(asked(folder, RESPOND).await.0, 0);
    // A request costs 0.00035 dollars, 20 were made, and four may be under way.
    let limited = [RESPOND, JUDGE, &["--max-usd", "0.0105"]].concat();
    let (exit, text) = printed(folder, &limited).await;
    let hint = "a higher --max-usd: turnfold whatif run --resume";
    assert!(exit == 5 && text.contains(hint), "{text}");
    assert!(text.contains("--judge rubric.md --judge-model openai/gpt-4o --max-usd USD"), "{text}");
    let spent = model.asked().len();
    assert!((30..=38).contains(&spent), "{spent}");
    assert_eq!((printed(folder, &limited).await.0, model.asked().len()), (5, spent), "it is spent for good");
    let (exit, report) = asked(folder, &[RESPOND, JUDGE].concat()).await;
    assert_eq!((exit, model.asked().len()), (0, 60), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_questions_of_another_judge_wait_until_that_judge_is_back() {
    let model = Model::serve(fair, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    record(folder, 20);
    assert_eq!(asked(folder, RESPOND).await.0, 0);
    let limited = [RESPOND, JUDGE, &["--max-usd", "0.0105"]].concat();
    assert_eq!(printed(folder, &limited).await.0, 5);
    let before = questions(&model).len();
    assert!(before < 40, "some are left: {before}");
    let rubric = fs::read_to_string(folder.join("rubric.md")).unwrap();
    fs::write(folder.join("rubric.md"), "The answer is short.").unwrap();
    let (exit, report) = asked(folder, &[RESPOND, JUDGE].concat()).await;
    let of_other = questions(&model).iter().filter(|body| body.to_string().contains("is short")).count();
    assert_eq!((exit, of_other, questions(&model).len()), (0, 40, before + 40), "{report}");
    fs::write(folder.join("rubric.md"), rubric).unwrap();
    let (exit, report) = asked(folder, &[RESPOND, JUDGE].concat()).await;
    assert_eq!((exit, questions(&model).len()), (0, 80), "{report}");
}

/// Writes an executable script.
fn script(folder: &Path, text: &str) {
    let file = folder.join("judge.sh");
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_judges_and_a_program_that_does_not_is_named() {
    let model = Model::serve(fair, Semaphore::MAX_PERMITS).await;
    let folder = folder(None, &model);
    let folder = folder.path();
    record(folder, 3);
    let judge = [RESPOND, &["--judge-program", "./judge.sh"]].concat();
    for (bad, why) in [
        ("echo 's3cret? no idea' >&2; exit 3", "ended with exit status: 3: s3cret? no idea"),
        ("echo '{\"verdict\": \"third\", \"reason\": \"\"}'", "printed no verdict"),
        ("head -c 70000 /dev/zero", "printed more than 65536 bytes"),
    ] {
        script(folder, bad);
        let (exit, report) = asked(folder, &judge).await;
        assert_eq!((exit, &report["total"]["judged"]["not_judged"]), (6, &json!(3)), "{report}");
        let reason = report["not_judged"][0]["example"]["why"].as_str().unwrap();
        assert!(reason.contains(why), "{reason}");
    }
    let good = "echo asked >> asked.log; env > env.log; case $(cat) in *'\"first\":\"All is done.\"'*) \
        echo '{\"verdict\": \"second\", \"reason\": \"x\"}';; *) echo '{\"verdict\": \"first\", \"reason\": \"x\"}';; esac";
    script(folder, good);
    for _ in 0..2 {
        let (exit, report) = asked(folder, &judge).await;
        assert_eq!((exit, &report["total"]["judged"]["worse"]), (0, &json!(3)), "{report}");
        assert_eq!(report["total"]["judged"]["spent_usd"], json!(0.0), "{report}");
        assert_eq!(fs::read_to_string(folder.join("asked.log")).unwrap().lines().count(), 6, "each once");
    }
    assert!(!fs::read_to_string(folder.join("env.log")).unwrap().contains("MODEL_KEY"), "it gets no keys");
    assert_eq!(model.asked().len(), 3, "no model judged");
}

/// A judge that gives no verdict, in whichever form it is asked.
fn mute(_: &Value) -> Value {
    text("I like both.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_without_a_verdict_is_asked_again_by_the_next_command() {
    let model = Model::serve(mute, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    record(folder, 1);
    let (exit, report) = asked(folder, &[RESPOND, JUDGE].concat()).await;
    let judged = &report["total"]["judged"];
    assert_eq!((exit, &judged["not_judged"]), (6, &json!(1)), "{report}");
    assert_eq!(judged["requests"], json!(model.asked().len() - 1), "one was for the answer: {report}");
    let other = Model::serve(fair, Semaphore::MAX_PERMITS).await;
    let config = fs::read_to_string(folder.join("turnfold.toml")).unwrap();
    fs::write(folder.join("turnfold.toml"), config.replace(&model.url, &other.url)).unwrap();
    let (exit, report) = asked(folder, &[RESPOND, JUDGE].concat()).await;
    assert_eq!((exit, &report["total"]["judged"]["tie"]), (0, &json!(1)), "{report}");
    assert_eq!((questions(&other).len(), other.asked().len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_judge_that_could_judge_nothing_is_refused_with_a_hint() {
    let model = Model::serve(fair, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    record(folder, 1);
    fs::write(folder.join("empty.md"), " \n").unwrap();
    fs::write(folder.join("long.md"), "x".repeat(65_537)).unwrap();
    let model_of = |rubric, model| ["--judge", rubric, "--judge-model", model];
    for (flags, why) in [
        (&model_of("none.md", "openai/gpt-4o")[..], "--judge none.md: "),
        (&model_of("empty.md", "openai/gpt-4o"), "it is empty"),
        (&model_of("long.md", "openai/gpt-4o"), "it has more than 65536 bytes"),
        (&model_of("rubric.md", "gpt-4o"), "names no model"),
        (&model_of("rubric.md", "opnai/gpt-4o"), "did you mean \"openai\"?"),
        (&["--judge", "rubric.md"], "--judge-model"),
        (&["--judge-program", "none.sh"], "--judge-program none.sh: "),
        (&["--judge-program", "rubric.md"], "it is not an executable file"),
        (&["--fail-if", "judged_worse > 2%"], "needs a judge"),
    ] {
        let (exit, text) = printed(folder, &[RESPOND, flags].concat()).await;
        assert!(exit == 2 && text.contains(why), "{flags:?}: {text}");
        assert!(text.contains("hint:") || text.contains("Usage:"), "{flags:?}: {text}");
    }
    assert_eq!(model.asked().len(), 0, "nothing was asked");
    assert_eq!(run(folder, &["store", "verify"]).0, 0);
}

/// A judge that fails every second thread.
fn grades(body: &Value) -> Value {
    let verdict = if pair(body)["input"].as_str().unwrap().contains("lunch 1") { "fail" } else { "pass" };
    text(json!({"verdict": verdict, "reason": "it says when"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_answers_are_graded_once() {
    let model = Model::serve(grades, Semaphore::MAX_PERMITS).await;
    let folder = with_rubric(&model);
    let folder = folder.path();
    let ids = record(folder, 3);
    let grade = [&["audit", "judge"], JUDGE].concat();
    let (exit, text) = printed(folder, &grade).await;
    assert!(exit == 2 && text.contains("judge: at most 3 questions to openai/gpt-4o, about $0.0"), "{text}");
    assert_eq!(model.asked().len(), 0);
    for asked_before in [0, 3] {
        assert_eq!(model.asked().len(), asked_before);
        let (exit, report) = asked(folder, &[&grade[..], &["--yes"]].concat()).await;
        assert_eq!(
            (exit, &report["pass"], &report["fail"], &report["judged"]),
            (0, &json!(2), &json!(1), &json!(3))
        );
        let failed = json!({"thread": ids[1], "verdict": "fail", "reason": "it says when"});
        assert_eq!(report["threads"][1], failed, "{report}");
        assert_eq!((&report["requests"], model.asked().len()), (&json!(3), 3), "{report}");
    }
    let body = &model.asked()[0];
    assert!(body.contains("Booked.") && body.contains("what is booked"), "{body}");

    // A new thread is a new question, and --limit takes the newest.
    record(folder, 1);
    let (exit, text) = printed(folder, &[&grade[..], &["--yes", "--limit", "2"]].concat()).await;
    assert!(exit == 0 && text.contains("2 answers judged by openai/gpt-4o: 2 pass, 0 fail"), "{text}");
    assert!(text.contains("2 threads older, beyond --limit"), "{text}");
    assert_eq!(model.asked().len(), 4);
    let (exit, text) = printed(folder, &["audit", "judge"]).await;
    assert!(exit == 2 && text.contains("no judge is given"), "{text}");
}
