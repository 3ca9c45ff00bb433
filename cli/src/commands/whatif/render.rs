//! The report of a what-if run, as text and as JSON.

use std::path::Path;

use audit::whatif::{Agreement, Report, RunReport, Summary, interval};
use serde_json::{Value, json};

use super::offline::rest_text;
use crate::output::{and_more, counted};

/// Maximum number of reasons that the text lists.
const LISTED: usize = 10;

/// A report and its origin.
pub(super) struct Shown<'a> {
    pub(super) folder: &'a Path,
    /// The replay without calls, from which the run began.
    pub(super) offline: &'a Report,
    pub(super) report: &'a RunReport,
    pub(super) seconds: f64,
}

impl Shown<'_> {
    pub(super) fn json(&self) -> Value {
        let Report { threads, same, changed, undecided, not_decided, rest, .. } = self.offline;
        let mut run = json!(self.report);
        run["total"]["worse_percent_95"] =
            json!(interval(self.report.total.worse, self.report.total.decided));
        run["folder"] = json!(self.folder);
        run["seconds"] = json!(self.seconds);
        run["replay"] = json!({
            "threads": threads, "same": same, "changed": changed, "undecided": undecided,
            "not_decided": not_decided, "quote": rest,
        });
        run
    }

    pub(super) fn text(&self) -> String {
        let Self { folder, offline, report, seconds } = self;
        let Report { threads, same, changed, undecided, .. } = offline;
        let RunReport { total, clusters, not_decided, .. } = report;
        let mut text = format!(
            "{} replayed: {same} would go as they went, {changed} run from the first difference on in {seconds:.1} s",
            counted(*threads, "thread")
        );
        if 0 < *undecided {
            text += &format!(", {undecided} not decided without the change");
        }
        if 1 < clusters.len() {
            text += &format!("\n{}", summary(total));
        }
        for cluster in clusters {
            let threads = cluster.summary.decided + cluster.summary.not_decided;
            text += &format!("\n{threads:>8} × {}: {}", cluster.place, cluster.effect.words());
            text += &format!("\n{}", indented(&summary(&cluster.summary)));
        }
        if 0 < total.not_decided {
            text += &format!("\nNOT DECIDED: {}", total.not_decided);
        }
        for reason in not_decided.iter().take(LISTED) {
            let (why, thread) = (&reason.example.why, reason.example.thread);
            text += &format!("\n{:>8} × {why}, such as thread {thread}", reason.threads);
        }
        text += &and_more(not_decided.len() as u64, not_decided.len().min(LISTED));
        let (requests, usd) = (counted(total.model_requests, "request"), total.spent_usd);
        text + &format!("\n{requests} to models, ${usd:.4}; the threads are in {}", folder.display())
    }
}

fn summary(summary: &Summary) -> String {
    let Summary { decided, outcome, worse, better, route, answer, recorded, changed, .. } = summary;
    let likely = interval(*worse, *decided)
        .map(|[low, high]| format!(" ({low:.1} to {high:.1} % of such threads, at 95 %)"))
        .unwrap_or_default();
    let of = |Agreement { same, other }: &Agreement| format!("{same} same, {other} other");
    format!(
        "outcome:  {}; {better} better, {worse} worse{likely}\nroute:    {}\nanswer:   {}\nrecorded: {}\nchanged:  {}",
        of(outcome),
        of(route),
        of(answer),
        rest_text(recorded),
        rest_text(changed)
    )
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("           {line}")).collect::<Vec<_>>().join("\n")
}
