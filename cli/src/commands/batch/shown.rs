//! A batch in words.

use std::path::Path;

use serde_json::Value;

use crate::{client::name, exit::Exit, output};

/// How many lines are where.
pub(super) struct Counts {
    pub(super) total: u64,
    pub(super) failed: u64,
    pub(super) running: u64,
    pub(super) queued: u64,
    pub(super) waiting: u64,
    pub(super) reused: u64,
    pub(super) expired: u64,
}

impl Counts {
    pub(super) fn of(batch: &Value) -> Self {
        let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
        let (told, ours) = (&batch["request_counts"], &batch["turnfold"]);
        Self {
            total: count(told, "total"),
            failed: count(told, "failed"),
            running: count(ours, "running"),
            queued: count(ours, "queued"),
            waiting: count(ours, "waiting_for_a_person"),
            reused: count(ours, "reused"),
            expired: count(ours, "expired"),
        }
    }

    /// How many have ended.
    pub(super) fn ended(&self) -> u64 {
        self.total.saturating_sub(self.running + self.queued + self.waiting)
    }

    /// Whether all that is left waits for a person.
    pub(super) fn only_wait(&self) -> bool {
        0 < self.waiting && self.running + self.queued == 0
    }
}

/// Whether nothing more will come of a batch by itself: it has ended, or no more of its lines are begun and none is under way.
pub(super) fn is_over(batch: &Value) -> bool {
    ["completed", "failed", "expired", "cancelled"].contains(&name(batch, "status"))
        || stopped(batch).is_some() && under_way(batch) == 0
}

/// Why no more of its lines are begun, though they could be.
fn stopped(batch: &Value) -> Option<&str> {
    let can_be = ["validating", "in_progress"].contains(&name(batch, "status"));
    batch["turnfold"]["stopped"].as_str().filter(|_| can_be)
}

/// How many of its lines have a turn that has not ended: one may be queued still.
fn under_way(batch: &Value) -> u64 {
    // An api of an earlier version tells but those that run.
    batch["turnfold"]["under_way"].as_u64().unwrap_or_else(|| Counts::of(batch).running)
}

/// What the end of a batch says to a script.
pub(super) fn exit(batch: &Value) -> Exit {
    let Counts { failed, expired, .. } = Counts::of(batch);
    match name(batch, "status") {
        "failed" => Exit::Finding,
        "completed" if failed == 0 && expired == 0 => Exit::Ok,
        _ => Exit::Partial,
    }
}

/// How far it has come, on one line.
pub(super) fn progress(batch: &Value) -> String {
    let it = Counts::of(batch);
    let some = |n: u64, what: &str| (0 < n).then(|| format!("{n} {what}"));
    let ours = &batch["turnfold"];
    let told = |name: &str| ours[name].as_f64().filter(|it| 0.0 < *it);
    // How quick it was says nothing of a batch that is over.
    let paced = |name: &str| told(name).filter(|_| !is_over(batch));
    let looked_at = if it.total == 0 { "its lines are looked at" } else { "later lines are looked at" };
    let parts = [
        stopped(batch).map(|it| format!("begins no more: {it}")),
        (name(batch, "status") == "validating").then(|| looked_at.to_owned()),
        some(it.failed, "failed"),
        some(it.expired, "expired"),
        some(it.waiting, if it.waiting == 1 { "waits for a person" } else { "wait for a person" }),
        paced("rate_per_s").map(|it| format!("{it:.1}/s")),
        paced("eta_s").map(|it| format!("{} to go", duration(it))),
        told("usd").map(|it| format!("${it:.4}")),
        causes(batch).map(|it| format!("failures: {it}")),
        some(it.running, "running"),
        some(it.queued, "queued"),
        some(it.reused, "reused"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The causes of failures, with how often and an example each.
fn causes(batch: &Value) -> Option<String> {
    let one = |it: &Value| {
        let (count, example) = (it["count"].as_u64().unwrap_or_default(), name(it, "example_custom_id"));
        let example = if example.is_empty() { String::new() } else { format!(" (as {example})") };
        format!("{count} × {}{example}", name(it, "code"))
    };
    let causes: Vec<String> = batch["turnfold"]["top_causes"].as_array()?.iter().map(one).collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

/// All that a person wants to know of it.
pub(super) fn batch(batch: &Value) -> String {
    let (id, it) = (name(batch, "id"), Counts::of(batch));
    let mut words = format!("{id} is {}: {} of {} ended", name(batch, "status"), it.ended(), it.total);
    let progress = progress(batch);
    if !progress.is_empty() {
        words += &format!("; {progress}");
    }
    if let Some(tokens) = batch["turnfold"]["tokens"].as_u64().filter(|it| 0 < *it) {
        words += &format!("; {tokens} tokens");
    }
    for error in batch["errors"]["data"].as_array().into_iter().flatten() {
        let line = error["line"].as_u64().map(|it| format!("line {it}: ")).unwrap_or_default();
        words += &format!("\n  {line}{}", name(error, "message"));
    }
    if 0 < it.waiting {
        words += "\n(answer with: turnfold inbox ls)";
    }
    if stopped(batch).is_some() {
        words += &format!("\n(go on with: turnfold batch resume {id})");
    } else if 0 < it.failed && is_over(batch) {
        let resumable = |only: &&str| 0 < batch["turnfold"]["resumable"][only].as_u64().unwrap_or_default();
        let again = ["failed", "expired"].into_iter().filter(resumable);
        let again = again.map(|only| format!("; again: turnfold batch resume {id} --only {only}"));
        words += &format!("\n(look at: turnfold batch results {id}{})", again.collect::<String>());
    }
    words
}

/// Many of them.
pub(super) fn list(batches: &[Value]) -> String {
    let row = |it: &Value| {
        let counts = Counts::of(it);
        let ended = format!("{}/{}", counts.ended(), counts.total);
        vec![name(it, "id").to_owned(), name(it, "status").to_owned(), ended, progress(it)]
    };
    output::table(&["batch", "status", "ended", ""], batches.iter().map(row))
}

/// What a quote says.
pub(super) fn quote(quote: &Value) -> String {
    let count = |name: &str| quote[name].as_u64().unwrap_or_default();
    let some = |name: &str, what: &str| (0 < count(name)).then(|| format!("{} {what}", count(name)));
    let lines = [
        Some(format!("{} to run", output::counted(count("items"), "line"))),
        some("reused", "known already"),
        some("bad", "bad"),
    ];
    let mut words = lines.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if count("items") == 0 {
        return words + "\nnothing is to be run, so nothing is to be paid";
    }
    match quote["usd"].as_f64().zip(quote["tokens"].as_f64()) {
        Some((usd, tokens)) => {
            let seconds = quote["seconds"].as_f64().unwrap_or_default();
            words += &format!("\nthey will probably cost ${usd:.4} and take {tokens:.0} tokens");
            words += &format!("\ndone in about {}, held by {}", duration(seconds), name(quote, "held_by"));
        }
        None => words += "\nwhat they will cost is unknown: no turn of some strategy has ended yet",
    }
    for it in quote["based_on"].as_array().into_iter().flatten() {
        let (turns, lines) =
            (it["past_turns"].as_u64().unwrap_or_default(), it["items"].as_u64().unwrap_or_default());
        let (lines, turns) = (output::counted(lines, "line"), output::counted(turns, "past turn"));
        words += &format!("\n  {}: {lines}, by {turns}", name(it, "strategy"));
        if let Some((usd, seconds)) = it["usd_each"].as_f64().zip(it["seconds_each"].as_f64()) {
            words += &format!(" of ${usd:.4} and {seconds:.1} s each");
        }
        if let Some(unpriced) = it["unpriced"].as_u64().filter(|it| 0 < *it) {
            words += &format!(" ({} had no price)", output::counted(unpriced, "answer"));
        }
    }
    words
}

/// The name of a file, without whatever has a meaning in a header.
pub(super) fn plain(path: &Path) -> String {
    let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let fine = |it: char| it.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&it);
    name.chars().map(|it| if fine(it) { it } else { '_' }).collect()
}

/// A while, in words.
fn duration(seconds: f64) -> String {
    match seconds {
        it if it < 90.0 => format!("{it:.0} s"),
        it if it < 5400.0 => format!("{:.0} min", it / 60.0),
        it => format!("{:.1} h", it / 3600.0),
    }
}

#[test]
fn a_batch_says_how_far_it_is_and_what_to_do() {
    use serde_json::json;
    let batch = json!({
        "id": "batch_1", "status": "in_progress",
        "request_counts": {"total": 1000, "completed": 800, "failed": 3},
        "turnfold": {
            "waiting_for_a_person": 2, "running": 20, "queued": 175, "reused": 7, "expired": 0, "rate_per_s": 41.0,
            "eta_s": 120, "tokens": 5000, "usd": 0.5, "stopped": null, "resumable": {"failed": 3, "expired": 0},
            "top_causes": [{"code": "turn_failed", "count": 3, "example_custom_id": "a-17"}]
        }
    });
    let words = self::batch(&batch);
    for wanted in [
        "803 of 1000",
        "3 failed",
        "2 wait for a person",
        "41.0/s, 2 min to go, $0.5000",
        "3 × turn_failed (as a-17)",
        "5000 tokens",
        "inbox ls",
    ] {
        assert!(words.contains(wanted), "{wanted:?} in {words}");
    }
    assert!(!is_over(&batch) && !words.contains("later lines"));
    let with = |path: &str, value: Value| {
        let mut batch = batch.clone();
        *batch.pointer_mut(path).unwrap() = value;
        batch
    };
    let validating = self::batch(&with("/status", json!("validating")));
    assert!(validating.contains("803 of 1000 ended; later lines are looked at, 3 failed"), "{validating}");
    let completed = with("/status", json!("completed"));
    assert!(is_over(&completed) && exit(&completed) == Exit::Partial, "some failed");
    assert!(self::batch(&completed).contains("resume batch_1 --only failed"));
    let mut never = completed.clone();
    never["turnfold"]["resumable"] = json!({"failed": 0, "expired": 1});
    let words = self::batch(&never);
    assert!(words.contains("--only expired") && !words.contains("--only failed"), "{words}");
    never["turnfold"]["resumable"]["expired"] = json!(0);
    assert!(!self::batch(&never).contains("resume"), "no line of it can be run");
    let mut waiting = batch.clone();
    (waiting["turnfold"]["running"], waiting["turnfold"]["queued"]) = (json!(0), json!(0));
    assert!(Counts::of(&waiting).only_wait() && !Counts::of(&batch).only_wait());
    let known =
        json!({"items": 0, "reused": 3, "usd": -0.0, "tokens": -0.0, "seconds": -0.0, "held_by": "x"});
    assert_eq!(
        quote(&known),
        "0 lines to run, 3 known already\nnothing is to be run, so nothing is to be paid"
    );
    let stopped = with("/turnfold/stopped", json!("max_usd"));
    assert!(!is_over(&stopped), "some are under way");
    let mut stopped = stopped;
    stopped["turnfold"]["running"] = json!(0);
    assert!(is_over(&stopped) && self::batch(&stopped).contains("resume batch_1"));
    stopped["turnfold"]["under_way"] = json!(1);
    assert!(!is_over(&stopped), "its turn is queued");
    stopped["turnfold"]["under_way"] = json!(0);
    assert!(is_over(&stopped));
    stopped["status"] = json!("cancelling");
    assert!(!is_over(&stopped), "it is being called off");
    stopped["status"] = json!("expired");
    let words = self::batch(&stopped);
    assert!(words.contains("--only failed") && !words.contains("go on with"), "it is not open: {words}");
    assert!(!words.contains("begins no more"), "{words}");
    let mut clean = completed;
    clean["request_counts"]["failed"] = json!(0);
    assert_eq!((exit(&clean), exit(&with("/status", json!("failed")))), (Exit::Ok, Exit::Finding));
    assert_eq!(plain(Path::new("a/b \"c\".jsonl")), "b__c_.jsonl");
}
