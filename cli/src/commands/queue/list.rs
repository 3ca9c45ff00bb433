//! `turnfold queue list`: the reasons why turns are not running.

use api_types::{PendingCause, PendingGroup, PendingTurn, PendingTurns};
use queue::clock;

use crate::{client::Client, commands::Context, exit::Exit, output};

/// Maximum number of reasons that are listed; the others are counted.
const MAX_LISTED: usize = 12;

pub(super) async fn run(ctx: &Context, client: &Client, limit: u64) -> anyhow::Result<Exit> {
    let page: PendingTurns = client.get(&format!("/v1/queue?limit={limit}")).await?;
    output::one(ctx.format, &page, || to_text(&page, clock::now()))?;
    Ok(Exit::Ok)
}

fn to_text(page: &PendingTurns, now: i64) -> String {
    let PendingTurns { groups, not_inspected, data, has_more } = page;
    if groups.is_empty() && *not_inspected == 0 {
        return "no turn is waiting".to_owned();
    }
    let mut lines: Vec<String> = groups.iter().take(MAX_LISTED).map(|pending| group(pending, now)).collect();
    if MAX_LISTED < groups.len() {
        let rest: u64 = groups[MAX_LISTED..].iter().map(|group| group.turns).sum();
        lines.push(format!("{rest} for {} other reasons", groups.len() - MAX_LISTED));
    }
    if *not_inspected > 0 {
        lines.push(format!("{not_inspected} could run; their reason is unknown"));
    }
    let summary = lines.join("\n");
    if data.is_empty() {
        return summary;
    }
    let head = ["turn", "tenant", "strategy", "priority", "waits for", "since", "why"];
    let more = if *has_more { "\n(there are more; see --limit)" } else { "" };
    format!("{summary}\n\n{}{more}", output::table(&head, data.iter().map(row)))
}

fn row(turn: &PendingTurn) -> Vec<String> {
    let place = turn.place.map(|place| format!("{}: ", ordinal(place))).unwrap_or_default();
    let why = match turn.cause {
        PendingCause::NotDue => format!("not before {}", turn.until.as_deref().unwrap_or_default()),
        PendingCause::Person => format!("turnfold inbox show {}", turn.thread_id),
        PendingCause::Worker
        | PendingCause::Limit
        | PendingCause::Provider
        | PendingCause::Paused
        | PendingCause::Retry
        | PendingCause::Stalled
        | PendingCause::Died
        | PendingCause::NotEnqueued
        | PendingCause::Behind => turn.detail.clone().unwrap_or_default(),
    };
    vec![
        turn.turn_id.to_string(),
        turn.tenant.clone(),
        turn.strategy.clone(),
        output::json_name(&turn.priority),
        output::json_name(&turn.cause),
        turn.since.clone(),
        format!("{place}{why}"),
    ]
}

/// Describes one group: "12 behind another turn of their thread".
fn group(group: &PendingGroup, now: i64) -> String {
    let (turns, detail) = (group.turns, group.detail.as_deref().unwrap_or_default());
    let until = group.until.as_deref().unwrap_or_default();
    let reason = match group.cause {
        PendingCause::Behind if detail.is_empty() => "behind another turn of their thread".to_owned(),
        PendingCause::Behind => format!("behind another turn: {detail}"),
        PendingCause::Worker => match group.places {
            Some((first, last)) if first < last => {
                format!("wait for a worker ({detail}: {} to {})", ordinal(first), ordinal(last))
            }
            Some((first, _)) => format!("wait for a worker ({detail}: {})", ordinal(first)),
            None => format!("wait for a worker ({detail})"),
        },
        PendingCause::Limit => format!("blocked by a limit: {detail}"),
        PendingCause::Paused => format!("paused: {detail}"),
        PendingCause::Provider => format!("ask again in {} s: {detail}", seconds_until(until, now)),
        PendingCause::Retry => format!("retry in {} s after: {detail}", seconds_until(until, now)),
        PendingCause::Stalled => format!("stalled: {detail}"),
        PendingCause::Died => format!("run again: {detail}"),
        PendingCause::NotDue => format!("not due before {until}"),
        PendingCause::Person => "wait for a person".to_owned(),
        PendingCause::NotEnqueued => "wait for the sweeper to enqueue them".to_owned(),
    };
    format!("{turns} {reason}")
}

/// Whole seconds from now until a time; 0 if it has passed.
fn seconds_until(time: &str, now: i64) -> i64 {
    clock::parse_rfc3339(time).unwrap_or(now).saturating_sub(now).max(0) / 1_000_000
}

/// Formats an ordinal number: 1st, 2nd, 3rd, 4th.
fn ordinal(number: u64) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_with_an_unknown_reason_are_counted() {
        let page = |not_inspected: u64| PendingTurns {
            groups: Vec::new(),
            not_inspected,
            data: Vec::new(),
            has_more: false,
        };
        assert_eq!(to_text(&page(0), 0), "no turn is waiting");
        assert_eq!(to_text(&page(3), 0), "3 could run; their reason is unknown");
    }

    #[test]
    fn each_reason_is_described() {
        let now = 1_800_000_000_000_000;
        let of = |cause: PendingCause, turns: u64, detail: &str| PendingGroup {
            cause,
            detail: (!detail.is_empty()).then(|| detail.to_owned()),
            turns,
            since: clock::rfc3339(now),
            until: Some(clock::rfc3339(now + 12_900_000)),
            places: None,
        };
        let placed = |first: u64, last: u64, turns: u64, detail: &str| PendingGroup {
            places: Some((first, last)),
            ..of(PendingCause::Worker, turns, detail)
        };
        let due = clock::rfc3339(now + 12_900_000);
        for (it, text) in [
            (of(PendingCause::Behind, 12, ""), "12 behind another turn of their thread"),
            (placed(1, 5, 5, "tenant acme, normal"), "5 wait for a worker (tenant acme, normal: 1st to 5th)"),
            (placed(22, 22, 1, "tenant acme, low"), "1 wait for a worker (tenant acme, low: 22nd)"),
            (
                of(PendingCause::Limit, 3, "model openai/gpt-4o is at its 20 requests at once"),
                "3 blocked by a limit: model openai/gpt-4o is at its 20 requests at once",
            ),
            (of(PendingCause::Retry, 4, "no answer"), "4 retry in 12 s after: no answer"),
            (
                of(PendingCause::Provider, 6, "model a/b limits its requests: slow down"),
                "6 ask again in 12 s: model a/b limits its requests: slow down",
            ),
            (
                of(PendingCause::Stalled, 2, "worker w1 no longer renews its lease"),
                "2 stalled: worker w1 no longer renews its lease",
            ),
            (of(PendingCause::Died, 1, "its worker died 2 times"), "1 run again: its worker died 2 times"),
            (of(PendingCause::NotDue, 2, ""), format!("2 not due before {due}").as_str()),
            (of(PendingCause::Person, 7, ""), "7 wait for a person"),
        ] {
            assert_eq!(group(&it, now), text);
        }
        let ordinals: Vec<String> =
            [1, 2, 3, 4, 11, 12, 13, 21, 111, 1_003].into_iter().map(ordinal).collect();
        assert_eq!(ordinals.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 111th 1003rd");
    }
}
