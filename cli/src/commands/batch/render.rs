//! Renders batches and quotes as text.

use api_types::{Batch, BatchStatus, Quote, StopReason};

use crate::{
    exit::Exit,
    output::{self, counted},
};

/// Number of lines by state.
pub(super) struct Counts {
    pub(super) total: u64,
    failed: u64,
    running: u64,
    queued: u64,
    awaiting_input: u64,
    reused: u64,
    expired: u64,
    partial: u64,
    declined: u64,
}

impl Counts {
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            total: batch.request_counts.total,
            failed: batch.request_counts.failed,
            running: batch.turnfold.running,
            queued: batch.turnfold.queued,
            awaiting_input: batch.turnfold.awaiting_input,
            reused: batch.turnfold.reused,
            expired: batch.turnfold.expired,
            partial: batch.turnfold.partial,
            declined: batch.turnfold.declined,
        }
    }

    /// Returns the number of ended lines.
    pub(super) fn ended(&self) -> u64 {
        self.total.saturating_sub(self.running + self.queued + self.awaiting_input)
    }

    /// Returns the number of ended lines without a full answer.
    fn not_answered(&self) -> u64 {
        self.failed + self.expired + self.partial + self.declined
    }

    /// Returns true if all remaining lines wait for people.
    pub(super) fn only_awaits_input(&self) -> bool {
        0 < self.awaiting_input && self.running + self.queued == 0
    }
}

/// Returns true if nothing more happens to a batch without a command: it ended, or it is stopped and no line is in
/// progress.
pub(super) fn is_over(batch: &Batch) -> bool {
    !batch.status.is_open() || stopped(batch).is_some() && batch.turnfold.submitted == 0
}

/// Returns why no more lines start, although some could.
fn stopped(batch: &Batch) -> Option<StopReason> {
    let may_start = matches!(batch.status, BatchStatus::Validating | BatchStatus::InProgress);
    batch.turnfold.stopped.filter(|_| may_start)
}

/// Returns the exit code for a batch that was waited for.
pub(super) fn exit_of(batch: &Batch) -> Exit {
    let not_answered = Counts::of(batch).not_answered();
    match batch.status {
        BatchStatus::Failed => Exit::Finding,
        BatchStatus::Completed if not_answered == 0 => Exit::Ok,
        BatchStatus::Validating
        | BatchStatus::InProgress
        | BatchStatus::Finalizing
        | BatchStatus::Completed
        | BatchStatus::Expired
        | BatchStatus::Cancelling
        | BatchStatus::Cancelled => Exit::Partial,
    }
}

/// Renders the progress of a batch on one line.
pub(super) fn progress(batch: &Batch) -> String {
    let causes = causes(batch).map(|(causes, more)| format!("causes: {}{more}", causes.join(", ")));
    let parts = [standing(batch), without_answer(batch), pace(batch), spent(batch, false)];
    parts.into_iter().flatten().chain(causes).chain(open_lines(batch)).collect::<Vec<_>>().join(", ")
}

fn some(n: u64, what: &str) -> Option<String> {
    (0 < n).then(|| format!("{n} {what}"))
}

/// The reason why no more lines start, and the check of lines.
fn standing(batch: &Batch) -> Vec<String> {
    let validating =
        if Counts::of(batch).total == 0 { "checking its lines" } else { "checking further lines" };
    let parts = [
        stopped(batch).map(|stopped| format!("stopped: {}", output::json_name(&stopped))),
        (batch.status == BatchStatus::Validating).then(|| validating.to_owned()),
    ];
    parts.into_iter().flatten().collect()
}

/// Lines that ended without a full answer, or wait for people.
fn without_answer(batch: &Batch) -> Vec<String> {
    let counts = Counts::of(batch);
    let waits = if counts.awaiting_input == 1 { "waits for a person" } else { "wait for a person" };
    let parts = [
        some(counts.failed, "failed"),
        some(counts.expired, "expired"),
        some(counts.partial, "partial"),
        some(counts.declined, "declined"),
        some(counts.awaiting_input, waits),
    ];
    parts.into_iter().flatten().collect()
}

/// Lines a second, and the time that is left. The rate of an ended batch has no meaning.
fn pace(batch: &Batch) -> Vec<String> {
    let while_running = |value: Option<f64>| value.filter(|value| 0.0 < *value && !is_over(batch));
    let rate = while_running(batch.turnfold.rate_per_s).map(|rate| format!("{rate:.1}/s"));
    let left = while_running(batch.turnfold.eta_s).map(|seconds| format!("{} to go", duration(seconds)));
    rate.into_iter().chain(left).collect()
}

fn spent(batch: &Batch, with_tokens: bool) -> Vec<String> {
    let usd = Some(batch.turnfold.usd).filter(|usd| 0.0 < *usd).map(|usd| format!("${usd:.4}"));
    let tokens = some(batch.turnfold.tokens, "tokens").filter(|_| with_tokens);
    usd.into_iter().chain(tokens).collect()
}

fn open_lines(batch: &Batch) -> Vec<String> {
    let counts = Counts::of(batch);
    let parts =
        [some(counts.running, "running"), some(counts.queued, "queued"), some(counts.reused, "reused")];
    parts.into_iter().flatten().collect()
}

/// Renders the causes of lines that failed or got no full answer, each with its count and an example; lines with other causes
/// are counted.
fn causes(batch: &Batch) -> Option<(Vec<String>, String)> {
    let causes = batch.turnfold.top_causes.as_ref().filter(|causes| !causes.is_empty())?;
    let one = |top: &api_types::TopCause| {
        let example =
            top.example_custom_id.as_ref().filter(|example_custom_id| !example_custom_id.is_empty());
        let example = example.map(|example| format!(" (for example {example})")).unwrap_or_default();
        // The code of a line that got no full answer is its outcome, which says little without the cause.
        let is_outcome = ["partial", "declined"].contains(&top.code.as_str());
        let cause = if is_outcome { format!("{}: {}", top.code, top.message) } else { top.code.clone() };
        format!("{} × {cause}{example}", top.count)
    };
    let listed: u64 = causes.iter().map(|cause| cause.count).sum();
    let Counts { failed, partial, declined, .. } = Counts::of(batch);
    let more = match (failed + partial + declined).saturating_sub(listed) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some((causes.iter().map(one).collect(), more))
}

/// Renders a batch in full, with the commands that continue it.
pub(super) fn batch(batch: &Batch) -> String {
    let (id, counts) = (&batch.id, Counts::of(batch));
    let mut text = format!("{id} is {}: {} of {} ended", batch.status.as_str(), counts.ended(), counts.total);
    let beside: String =
        standing(batch).into_iter().chain(pace(batch)).map(|part| format!("; {part}")).collect();
    text += &beside;
    let lines = [without_answer(batch), open_lines(batch)].concat();
    for (title, parts) in [("lines", lines), ("spent", spent(batch, true))] {
        if !parts.is_empty() {
            text += &format!("\n  {title:7}{}", parts.join(", "));
        }
    }
    if let Some((causes, more)) = causes(batch) {
        let one =
            |(nth, cause): (usize, String)| format!("\n  {:7}{cause}", if nth == 0 { "causes" } else { "" });
        text.extend(causes.into_iter().enumerate().map(one));
        text += &more;
    }
    if let Some(errors) = &batch.errors {
        for error in &errors.data {
            let line = error.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            text += &format!("\n  {line}{}", error.message);
        }
        text += &output::and_more(batch.turnfold.invalid, errors.data.len());
    }
    if 0 < counts.awaiting_input {
        text += "\n(answer with: turnfold inbox list)";
    }
    if stopped(batch).is_some() {
        text += &format!("\n(continue with: turnfold batch resume {id})");
    } else if 0 < counts.not_answered() && is_over(batch) {
        let resumable = batch.turnfold.resumable;
        let again = [
            ("failed", resumable.failed),
            ("expired", resumable.expired),
            ("partial", resumable.partial),
            ("declined", resumable.declined),
        ];
        let again = again.into_iter().filter(|(_, lines)| 0 < *lines);
        let again = again.map(|(only, _)| format!("; run again: turnfold batch resume {id} --only {only}"));
        text += &format!("\n(see: turnfold batch results {id}{})", again.collect::<String>());
    }
    text
}

/// Renders a list of batches.
pub(super) fn list(batches: &[Batch]) -> String {
    if batches.is_empty() {
        return "no batches".to_owned();
    }
    let row = |batch: &Batch| {
        let counts = Counts::of(batch);
        let ended = format!("{}/{}", counts.ended(), counts.total);
        vec![batch.id.clone(), batch.status.as_str().to_owned(), ended, progress(batch)]
    };
    output::table(&["batch", "status", "ended", ""], batches.iter().map(row))
}

/// Renders a quote.
pub(super) fn quote(quote: &Quote) -> String {
    let some = |n: u64, what: &str| (0 < n).then(|| format!("{n} {what}"));
    let lines = [
        Some(format!("{} to run", counted(quote.items, "line"))),
        some(quote.reused, "reused"),
        some(quote.invalid, "invalid"),
    ];
    let mut text = lines.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if quote.items == 0 {
        return text + "\nnothing to run, no cost";
    }
    match quote.usd.zip(quote.tokens) {
        Some((usd, tokens)) => {
            text += &format!("\nestimate: ${usd:.4}, {tokens:.0} tokens");
            text += &format!(", done in about {}", duration(quote.seconds.unwrap_or_default()));
            if let Some(bottleneck) = &quote.bottleneck {
                text += &format!("\nslowest part: {bottleneck}");
            }
        }
        None => text += "\nthe cost is unknown: a strategy has no past turns",
    }
    for basis in &quote.based_on {
        let (lines, turns) = (counted(basis.items, "line"), counted(basis.past_turns, "past turn"));
        text += &format!("\n  {}: {lines}, from {turns}", basis.strategy);
        if let Some((usd, seconds)) = basis.usd_each.zip(basis.seconds_each) {
            text += &format!(" of ${usd:.4} and {seconds:.1} s each");
        }
        if 0 < basis.responses_without_price {
            text += &format!(" ({} without a price)", counted(basis.responses_without_price, "response"));
        }
    }
    text
}

/// Formats a duration with one unit.
fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sample() -> Value {
        json!({
            "id": "batch_1", "object": "batch", "endpoint": "/v1/turns", "errors": null, "input_file_id": "file-1",
            "completion_window": "24h", "status": "in_progress", "created_at": 1, "expires_at": 2, "metadata": {},
            "request_counts": {"total": 1000, "completed": 800, "failed": 3},
            "turnfold": {
                "awaiting_input": 2, "submitted": 195, "running": 20, "queued": 175, "reused": 7, "partial": 0, "declined": 0, "expired": 0,
                "cancelled": 0, "invalid": 0, "results": 803, "rate_per_s": 41.0, "eta_s": 120.0, "tokens": 5000,
                "usd": 0.5, "max_usd": null, "stopped": null,
                "resumable": {"failed": 3, "expired": 0, "partial": 0, "declined": 0},
                "top_causes": [{"code": "turn_failed", "message": "no", "count": 3, "example_custom_id": "a-17"}]
            }
        })
    }

    /// Returns the sample with these values changed.
    fn with(changes: &[(&str, Value)]) -> Batch {
        let mut batch = sample();
        for (path, value) in changes {
            *batch.pointer_mut(path).unwrap() = value.clone();
        }
        serde_json::from_value(batch).unwrap()
    }

    #[test]
    fn a_batch_shows_its_progress_and_the_commands_that_continue_it() {
        let running = with(&[]);
        let text = batch(&running);
        for expected in [
            "803 of 1000",
            "3 failed",
            "2 wait for a person",
            "; 41.0/s; 2 min to go\n",
            "\n  spent  $0.5000, 5000 tokens\n",
            "3 × turn_failed (for example a-17)",
            "inbox list",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!is_over(&running) && !text.contains("further lines"));
        let text = batch(&with(&[("/status", json!("validating"))]));
        assert!(text.contains("803 of 1000 ended; checking further lines; 41.0/s"), "{text}");
        let text = batch(&with(&[("/request_counts/failed", json!(9))]));
        assert!(text.contains("(for example a-17) and 6 more"), "{text}");
        let waiting = with(&[("/turnfold/running", json!(0)), ("/turnfold/queued", json!(0))]);
        assert!(Counts::of(&waiting).only_awaits_input() && !Counts::of(&running).only_awaits_input());
    }

    #[test]
    fn an_ended_batch_shows_which_lines_can_run_again() {
        let completed = ("/status", json!("completed"));
        let ended = with(std::slice::from_ref(&completed));
        assert!(is_over(&ended) && exit_of(&ended) == Exit::Partial, "some lines failed");
        assert!(batch(&ended).contains("resume batch_1 --only failed"));
        let resumable = |failed: u64, expired: u64| {
            let resumable = json!({"failed": failed, "expired": expired, "partial": 0, "declined": 0});
            batch(&with(&[completed.clone(), ("/turnfold/resumable", resumable)]))
        };
        let text = resumable(0, 1);
        assert!(text.contains("--only expired") && !text.contains("--only failed"), "{text}");
        assert!(!resumable(0, 0).contains("resume"), "no line can run again");
        let clean = with(&[completed, ("/request_counts/failed", json!(0))]);
        let failed = with(&[("/status", json!("failed"))]);
        assert_eq!((exit_of(&clean), exit_of(&failed)), (Exit::Ok, Exit::Finding));
    }

    #[test]
    fn a_batch_with_lines_that_were_not_answered_says_so() {
        let cause = json!([{"code": "partial", "message": "mcp unreachable: files", "count": 2, "example_custom_id": "a"}]);
        let ended = with(&[
            ("/status", json!("completed")),
            ("/request_counts/failed", json!(0)),
            ("/turnfold/partial", json!(2)),
            ("/turnfold/declined", json!(1)),
            ("/turnfold/resumable/failed", json!(0)),
            ("/turnfold/resumable/partial", json!(2)),
            ("/turnfold/top_causes", cause),
        ]);
        let text = batch(&ended);
        for expected in [
            "2 partial, 1 declined",
            "2 × partial: mcp unreachable: files (for example a) and 1 more",
            "--only partial",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        assert_eq!(exit_of(&ended), Exit::Partial);
    }

    #[test]
    fn a_stopped_batch_is_over_when_no_line_is_in_progress() {
        let stopped = |submitted: u64, status: &str| {
            with(&[
                ("/turnfold/stopped", json!("max_usd")),
                ("/turnfold/submitted", json!(submitted)),
                ("/status", json!(status)),
            ])
        };
        assert!(!is_over(&stopped(1, "in_progress")), "a turn is queued");
        let idle = stopped(0, "in_progress");
        assert!(is_over(&idle) && batch(&idle).contains("resume batch_1"));
        assert!(!is_over(&stopped(0, "cancelling")), "it is being cancelled");
        let text = batch(&stopped(0, "expired"));
        assert!(text.contains("--only failed") && !text.contains("continue with"), "it has ended: {text}");
        assert!(!text.contains("stopped:"), "{text}");
    }

    #[test]
    fn a_quote_without_lines_to_run_costs_nothing() {
        let known = json!({
            "batch_id": null, "object": "batch.quote", "items": 0, "reused": 3, "invalid": 0, "usd": -0.0, "tokens": -0.0,
            "seconds_of_work": null, "seconds": -0.0, "bottleneck": null, "based_on": []
        });
        let known: Quote = serde_json::from_value(known).unwrap();
        assert_eq!(quote(&known), "0 lines to run, 3 reused\nnothing to run, no cost");
    }
}
