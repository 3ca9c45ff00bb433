//! `turnfold queue ls`: why turns do not run right now.

use serde_json::Value;
use store::time;

use super::Given;
use crate::{
    client::{Client, name},
    exit::Exit,
    output,
};

/// How many groups are told; the others are counted.
const TOLD: usize = 12;

pub(super) async fn list(given: &Given, client: &Client, limit: u64) -> anyhow::Result<Exit> {
    let page = client.get(&format!("/v1/queue?limit={limit}")).await?;
    output::one(given.format, &page, || words(&page, time::now()))?;
    Ok(Exit::Ok)
}

fn words(page: &Value, now: i64) -> String {
    let list = |name: &str| page[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let groups = list("groups");
    let unknown = page["not_looked_at"].as_u64().unwrap_or_default();
    if groups.is_empty() && unknown == 0 {
        return "nothing waits".to_owned();
    }
    let mut told: Vec<String> = groups.iter().take(TOLD).map(|it| group(it, now)).collect();
    if TOLD < groups.len() {
        let rest: u64 = groups[TOLD..].iter().filter_map(|it| it["turns"].as_u64()).sum();
        told.push(format!("{rest} for {} other reasons", groups.len() - TOLD));
    }
    if unknown > 0 {
        told.push(format!("{unknown} that could go on, and nobody knows why they do not"));
    }
    let told = told.join("\n");
    if list("data").is_empty() {
        return told;
    }
    let row = |it: &Value| {
        let cell = |column: &str| name(it, column).to_owned();
        let place = it["place"].as_u64().map(|it| format!("{}: ", nth(it))).unwrap_or_default();
        let why = format!("{place}{}", why(it));
        vec![
            cell("turn_id"),
            cell("tenant"),
            cell("strategy"),
            cell("priority"),
            cell("cause"),
            cell("since"),
            why,
        ]
    };
    let head = ["turn", "tenant", "strategy", "priority", "waits for", "since", "why"];
    let more = if page["has_more"] == true { "\n(there are more: --limit)" } else { "" };
    format!("{told}\n\n{}{more}", output::table(&head, list("data").iter().map(row)))
}

/// Why a turn waits; what the rows alone know of it is told by its cause.
fn why(it: &Value) -> String {
    match name(it, "cause") {
        "not_due" => format!("not before {}", name(it, "until")),
        "person" => format!("turnfold inbox show {}", name(it, "thread_id")),
        _ => name(it, "why").to_owned(),
    }
}

/// One group, as in "12 behind another turn of their thread".
fn group(it: &Value, now: i64) -> String {
    let (turns, why) = (it["turns"].as_u64().unwrap_or_default(), name(it, "why"));
    let until = || time::micros(name(it, "until")).unwrap_or(now);
    let rest = match name(it, "cause") {
        "behind" if why.is_empty() => "behind another turn of their thread".to_owned(),
        "behind" => format!("behind another turn: {why}"),
        "worker" => {
            let place = |nth_of: usize| it["places"][nth_of].as_u64();
            match (place(0), place(1)) {
                (Some(first), Some(last)) if first < last => {
                    format!("wait for a worker ({why}: {}…{})", nth(first), nth(last))
                }
                (Some(first), _) => format!("wait for a worker ({why}: {})", nth(first)),
                (None, _) => format!("wait for a worker ({why})"),
            }
        }
        "limit" => format!("held: {why}"),
        "paused" => format!("paused: {why}"),
        "retry" => {
            let seconds = until().saturating_sub(now).max(0) / 1_000_000;
            format!("retry in {seconds} s after: {why}")
        }
        "not_due" => format!("not due before {}", name(it, "until")),
        "person" => "wait for a person".to_owned(),
        "unrung" => "wait for the sweep to ring".to_owned(),
        other => format!("{other} {why}"),
    };
    format!("{turns} {rest}")
}

/// 1st, 2nd, 3rd, 4th.
fn nth(number: u64) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_knows_the_reason_of_waits_all_the_same() {
        let page =
            |unknown: u64| json!({"groups": [], "not_looked_at": unknown, "data": [], "has_more": false});
        assert_eq!(words(&page(0), 0), "nothing waits");
        assert_eq!(words(&page(3), 0), "3 that could go on, and nobody knows why they do not");
    }

    #[test]
    fn each_group_is_a_part_of_a_sentence() {
        let at = |micros| time::rfc3339(micros);
        let now = 1_800_000_000_000_000;
        for (it, said) in [
            (json!({"cause": "behind", "turns": 12}), "12 behind another turn of their thread"),
            (
                json!({"cause": "worker", "turns": 5, "why": "tenant acme, normal", "places": [1, 5]}),
                "5 wait for a worker (tenant acme, normal: 1st…5th)",
            ),
            (
                json!({"cause": "worker", "turns": 1, "why": "tenant acme, low", "places": [22, 22]}),
                "1 wait for a worker (tenant acme, low: 22nd)",
            ),
            (
                json!({"cause": "limit", "turns": 3, "why": "model openai/gpt-4o is at its 20 requests at once"}),
                "3 held: model openai/gpt-4o is at its 20 requests at once",
            ),
            (
                json!({"cause": "retry", "turns": 4, "why": "no answer", "until": at(now + 12_900_000)}),
                "4 retry in 12 s after: no answer",
            ),
            (
                json!({"cause": "not_due", "turns": 2, "until": "2026-11-22T14:00:00.000000Z"}),
                "2 not due before 2026-11-22T14:00:00.000000Z",
            ),
            (json!({"cause": "person", "turns": 7}), "7 wait for a person"),
        ] {
            assert_eq!(group(&it, now), said);
        }
        let named: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 111, 1_003].into_iter().map(nth).collect();
        assert_eq!(named.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 111th 1003rd");
    }
}
