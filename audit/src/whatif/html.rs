//! The report of a run as one HTML file, without scripts and without files of others.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use super::{Agreement, Comparison, Judged, JudgedSummary, Reason, Rest, RunReport, Summary, interval};

/// Maximum number of threads on the page: those that differ come first.
const LISTED: usize = 500;

/// Maximum length of a reply on the page, in bytes.
const REPLY_MAX: usize = 20_000;

/// Maximum time to compare two replies. After that, more words are marked than differ.
const DIFFERENCE_MAX: Duration = Duration::from_millis(20);

const STYLE: &str = include_str!("report.css");

/// Renders the report.
pub fn html(report: &RunReport) -> String {
    let RunReport { total, clusters, not_decided, judge, not_judged, threads } = report;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>What-if run</title>\n<style>{STYLE}</style>\n<h1>What-if run</h1>\n<p>{} of {} threads decided, {} requests to models, \
         ${:.4}</p>\n",
        total.decided,
        total.decided + total.not_decided,
        total.model_requests,
        total.spent_usd
    );
    page += &summaries(total, clusters.iter().map(|cluster| (cluster.place.as_str(), &cluster.summary)));
    if let Some(judge) = judge {
        page += &rulings(judge, report);
    }
    page += &reasons("Not decided", not_decided);
    page += &reasons("Not judged", not_judged);
    page + &listed(threads)
}

fn reasons(title: &str, reasons: &[Reason]) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    let mut list = format!("<h2>{title}</h2>\n<ul>\n");
    for Reason { threads, example } in reasons.iter().take(LISTED) {
        let (why, thread) = (escaped(&example.why), example.thread);
        let _ = writeln!(list, "<li><b>{threads}</b> {why}, such as <code>{thread}</code>");
    }
    list + "</ul>\n"
}

/// The rulings of the judge on other answers, by first difference.
fn rulings(judge: &str, RunReport { total, clusters, .. }: &RunReport) -> String {
    let mut table = format!("<h2>Judge: {}</h2>\n", escaped(judge));
    if let Some(bias) = total.judged.and_then(|judged| judged.bias()) {
        let _ = writeln!(table, "<p><b>{bias}</b></p>");
    }
    if let Some(tendency) = total.judged.and_then(|judged| judged.tendency()) {
        let _ = writeln!(table, "<p>The changed answers are <b>{}</b>, beyond chance.</p>", tendency.words());
    }
    table += "<div><table>\n<tr><th>first difference<th>judged<th>better<th>worse<th>tie<th>inconsistent<th>not judged<th>orders \
        agree<th>first in both<th>second in both\n";
    let rows = clusters.iter().map(|cluster| (cluster.place.as_str(), &cluster.summary));
    for (place, summary) in rows.chain([("all", total)]) {
        let all = summary.judged.unwrap_or_default();
        let JudgedSummary {
            judged,
            better,
            worse,
            tie,
            inconsistent,
            first_in_both,
            second_in_both,
            not_judged,
            ..
        } = all;
        let with = |part| format!("{part}{}", likely(part, judged));
        let _ = writeln!(
            table,
            "<tr><td>{}<td>{judged}<td>{}<td>{}<td>{tie}<td>{inconsistent}<td>{not_judged}<td>{}<td>{}<td>{}",
            escaped(place),
            with(better),
            with(worse),
            with(all.agreed()),
            with(first_in_both),
            with(second_in_both)
        );
    }
    let (requests, usd) = total.judged.map_or((0, 0.0), |judged| (judged.requests, judged.spent_usd));
    table
        + &format!(
            "</table></div>\n<p><small>The judge compared the answers that changed, without knowing which is recorded, once in each \
             order. {requests} requests to it, ${usd:.4}. Ranges are shares at 95 %.</small></p>\n"
        )
}

fn likely(part: u64, of: u64) -> String {
    interval(part, of).map(|[low, high]| format!(" <small>{low:.1}–{high:.1} %</small>")).unwrap_or_default()
}

fn summaries<'a>(total: &'a Summary, clusters: impl Iterator<Item = (&'a str, &'a Summary)>) -> String {
    let mut table = "<h2>First differences</h2>\n<div><table>\n<tr><th>first difference<th>threads<th>not decided<th>outcome \
        other<th>better<th>worse<th>route other<th>answer other<th>cost recorded<th>cost changed\n"
        .to_owned();
    for (place, summary) in clusters.chain([("all", total)]) {
        let Summary {
            decided, not_decided, outcome, worse, better, route, answer, recorded, changed, ..
        } = summary;
        let other = |Agreement { other, .. }: &Agreement| *other;
        let usd = |Rest { usd, .. }: &Rest| format!("${usd:.4}");
        let likely = likely(*worse, *decided);
        let _ = writeln!(
            table,
            "<tr><td>{}<td>{}<td>{not_decided}<td>{}<td>{better}<td>{worse}{likely}<td>{}<td>{}<td>{}<td>{}",
            escaped(place),
            decided + not_decided,
            other(outcome),
            other(route),
            other(answer),
            usd(recorded),
            usd(changed)
        );
    }
    table
        + "</table></div>\n<p><small>The range beside <i>worse</i> is the share to expect of such threads, at 95 %.</small></p>\n"
}

/// Lists the threads that differ: other outcomes, then other replies, then other routes.
fn listed(threads: &[Comparison]) -> String {
    let is_same = |compared: &&Comparison| {
        let (recorded, changed) = (&compared.recorded, &compared.changed);
        (
            recorded.outcome == changed.outcome,
            recorded.answer == changed.answer,
            recorded.route == changed.route,
        )
    };
    let mut differ: Vec<&Comparison> = threads
        .iter()
        .filter(|compared| compared.not_decided.is_none() && is_same(compared) != (true, true, true))
        .collect();
    differ.sort_by_key(is_same);
    let mut page = format!("<h2>Threads that went differently: {}</h2>\n", differ.len());
    differ.iter().take(LISTED).for_each(|compared| page += &thread(compared));
    if LISTED < differ.len() {
        let _ = writeln!(page, "<p>and {} more; -o json has all of them</p>", differ.len() - LISTED);
    }
    page
}

fn thread(Comparison { thread, seq, recorded, changed, judged, .. }: &Comparison) -> String {
    let arrow = |then: &str, now: &str| match then == now {
        true => escaped(then),
        false => format!("<del>{}</del> <ins>{}</ins>", escaped(then), escaped(now)),
    };
    let reply = |answer: &Option<String>| {
        let text = answer.clone().unwrap_or_default();
        text[..text.floor_char_boundary(REPLY_MAX)].to_owned()
    };
    format!(
        "<details><summary><code>{thread}</code> {}, from event {seq} on</summary>\n<p>{}</p>\n{}<p class=\"reply\">{}</p>\n</details>\n",
        arrow(&recorded.outcome, &changed.outcome),
        arrow(&recorded.route.join(" → "), &changed.route.join(" → ")),
        judged.as_ref().map(verdicts).unwrap_or_default(),
        difference(&reply(&recorded.answer), &reply(&changed.answer))
    )
}

/// The ruling on a thread, with the reason of each verdict.
fn verdicts(Judged { ruling, recorded_first, changed_first, .. }: &Judged) -> String {
    let mut text = format!("<p>judged <b>{}</b>", ruling.words());
    for (first, opinion) in [("recorded", recorded_first), ("changed", changed_first)] {
        if let Some(opinion) = opinion {
            let _ = write!(text, "<br>{first} answer first: {}", escaped(&opinion.reason));
        }
    }
    text + "</p>\n"
}

/// Marks the words that only one of the texts has.
fn difference(then: &str, now: &str) -> String {
    let (then, now) = (split(then), split(now));
    let deadline = Instant::now() + DIFFERENCE_MAX;
    let mut marked = String::new();
    for op in capture_diff_slices_deadline(Algorithm::Myers, &then, &now, Some(deadline)) {
        let (tag, old, new) = op.as_tag_tuple();
        let (old, new) = (escaped(&then[old].concat()), escaped(&now[new].concat()));
        if tag == DiffTag::Equal {
            marked += &new;
            continue;
        }
        for (name, words) in [("del", old), ("ins", new)] {
            if !words.is_empty() {
                let _ = write!(marked, "<{name}>{words}</{name}>");
            }
        }
    }
    marked
}

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive(char::is_whitespace).collect()
}

fn escaped(text: &str) -> String {
    let printable = shared::printable(text);
    printable.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
