//! The report of a what-if run, as text and as JSON.

use std::path::Path;

use audit::whatif::{Agreement, JudgedSummary, Reason, Report, RunReport, Summary, interval};
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
        with_shares(&mut run["total"], &self.report.total);
        for (nth, cluster) in self.report.clusters.iter().enumerate() {
            with_shares(&mut run["clusters"][nth]["summary"], &cluster.summary);
        }
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
        let RunReport { total, clusters, not_decided, judge, not_judged, .. } = report;
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
        text += &reasons(not_decided);
        if let Some(judge) = judge {
            text += &by_judge(judge, &total.judged.unwrap_or_default());
        }
        text += &reasons(not_judged);
        let (requests, usd) = (counted(total.model_requests, "request"), total.spent_usd);
        text + &format!("\n{requests} to models, ${usd:.4}; the threads are in {}", folder.display())
    }
}

/// Adds the shares of a judge's rulings to their counts.
fn with_shares(summary: &mut Value, of: &Summary) {
    let Some(judged) = of.judged else { return };
    for (name, interval) in judged.intervals() {
        summary["judged"][name] = json!(interval);
    }
    if let Some(tendency) = judged.tendency() {
        summary["judged"]["tendency"] = json!(tendency);
    }
    if let Some(bias) = judged.bias() {
        summary["judged"]["bias"] = json!(bias);
    }
}

fn reasons(reasons: &[Reason]) -> String {
    let listed = reasons.iter().take(LISTED);
    let text: String = listed
        .map(|Reason { threads, example }| {
            format!("\n{threads:>8} × {}, such as thread {}", example.why, example.thread)
        })
        .collect();
    text + &and_more(reasons.len() as u64, reasons.len().min(LISTED))
}

/// The requests to a judge, the agreement of its orders, and the threads without a ruling.
fn by_judge(name: &str, all: &JudgedSummary) -> String {
    let JudgedSummary { judged, first_in_both, second_in_both, requests, spent_usd, not_judged, .. } = all;
    let (threads, requests) = (counted(*judged, "thread"), counted(*requests, "request"));
    let mut text = format!("\njudge {name}: {threads} judged in both orders, {requests}, ${spent_usd:.4}");
    if 0 < *judged {
        text += &format!(
            "\n    the orders agree in {}{}; the first answer chosen in both: {first_in_both}{}, the second: {second_in_both}",
            all.agreed(),
            share(all.agreed(), *judged),
            share(*first_in_both, *judged)
        );
    }
    if let Some(tendency) = all.tendency() {
        text += &format!("\n    the changed answers are {}, beyond chance", tendency.words());
    }
    if let Some(bias) = all.bias() {
        text += &format!("\n    BIASED: {bias}");
    }
    if 0 < *not_judged {
        text += &format!("\nNOT JUDGED: {not_judged}");
    }
    text
}

fn share(part: u64, of: u64) -> String {
    interval(part, of).map(|[low, high]| format!(" ({low:.0} to {high:.0} %, at 95 %)")).unwrap_or_default()
}

fn rulings(JudgedSummary { better, worse, tie, inconsistent, judged, .. }: &JudgedSummary) -> String {
    let likely = likely(*worse, *judged);
    format!("\njudged:   {better} better, {worse} worse{likely}, {tie} tie, {inconsistent} inconsistent")
}

fn likely(part: u64, of: u64) -> String {
    interval(part, of)
        .map(|[low, high]| format!(" ({low:.1} to {high:.1} % of such threads, at 95 %)"))
        .unwrap_or_default()
}

fn summary(summary: &Summary) -> String {
    let Summary { decided, outcome, worse, better, route, answer, judged, recorded, changed, .. } = summary;
    let likely = likely(*worse, *decided);
    let judged = judged.as_ref().map(rulings).unwrap_or_default();
    let of = |Agreement { same, other }: &Agreement| format!("{same} same, {other} other");
    format!(
        "outcome:  {}; {better} better, {worse} worse{likely}\nroute:    {}\nanswer:   {}{judged}\nrecorded: {}\nchanged:  {}",
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
