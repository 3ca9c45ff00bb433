//! `turnfold stats`: counts of turns and of model usage, through the API.

use api_types::{EndedTurns, ModelUsage, Stats, StatsCause};

use super::Context;
use crate::{
    args::StatsRange,
    exit::Exit,
    output::{self, counted},
};

pub(crate) async fn run(ctx: &Context, range: StatsRange) -> anyhow::Result<Exit> {
    let range = api_types::StatsRange::from(range).as_str();
    let stats = ctx.client()?.get::<Stats>(&format!("/v1/stats?range={range}")).await?;
    output::one(ctx.format, &stats, || to_text(&stats))?;
    Ok(Exit::Ok)
}

fn to_text(stats: &Stats) -> String {
    let Stats { open, ended, .. } = stats;
    let mut text = format!(
        "now: {} queued, {} running, {} waiting for a person\nsince {}: {} ended{}",
        open.queued,
        open.running,
        counted(open.interrupted, "thread"),
        stats.since,
        counted(ended.all(), "turn"),
        by_end(ended),
    );
    if !stats.causes.is_empty() {
        text +=
            &format!("\n\n{}", output::table(&["turns", "ended", "cause"], stats.causes.iter().map(cause)));
    }
    if stats.usage.is_empty() {
        return text;
    }
    let head = ["strategy", "model", "responses", "tokens in", "tokens out", "usd"];
    text += &format!("\n\n{}", output::table(&head, stats.usage.iter().map(usage)));
    let unpriced: u64 = stats.usage.iter().map(|usage| usage.responses_without_price).sum();
    if 0 < unpriced {
        text +=
            &format!("\nwithout the cost of {}: set providers.NAME.prices", counted(unpriced, "response"));
    }
    text
}

/// Lists the ends that occurred.
fn by_end(ended: &EndedTurns) -> String {
    let EndedTurns { answered, partial, declined, interrupted, in_doubt, failed, cancelled } = *ended;
    let parts = [
        (answered, "answered"),
        (partial, "partial"),
        (declined, "declined"),
        (interrupted, "asked a person"),
        (in_doubt, "in doubt"),
        (failed, "failed"),
        (cancelled, "cancelled"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| 0 < *n).map(|(n, name)| format!("{n} {name}")).collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

fn cause(cause: &StatsCause) -> Vec<String> {
    vec![cause.turns.to_string(), output::json_name(&cause.ended), cause.cause.clone()]
}

fn usage(usage: &ModelUsage) -> Vec<String> {
    let [responses, input, output] =
        [usage.responses, usage.input_tokens, usage.output_tokens].map(|n| n.to_string());
    vec![usage.strategy.clone(), usage.model.clone(), responses, input, output, format!("{:.4}", usage.usd)]
}

#[cfg(test)]
mod tests {
    use api_types::{OpenTurns, StatsRange, TurnEnd};

    use super::*;

    #[test]
    fn the_text_names_every_end_cause_and_model() {
        let mut stats = Stats {
            range: StatsRange::Day,
            since: "2026-11-26T16:15:00Z".to_owned(),
            until: "2026-11-27T16:07:30Z".to_owned(),
            interval_seconds: 900,
            open: OpenTurns { queued: 1, running: 2, interrupted: 3 },
            ended: EndedTurns { answered: 5, in_doubt: 2, failed: 1, ..EndedTurns::default() },
            series: Vec::new(),
            causes: vec![StatsCause {
                ended: TurnEnd::Failed,
                cause: "plan: timed out".to_owned(),
                turns: 1,
            }],
            usage: vec![ModelUsage {
                strategy: "planner".to_owned(),
                model: "local/small".to_owned(),
                responses: 9,
                input_tokens: 700,
                output_tokens: 30,
                usd: 0.5,
                responses_without_usage: 0,
                responses_without_price: 4,
            }],
            incomplete_since: None,
        };
        let text = to_text(&stats);
        for part in [
            "1 queued, 2 running, 3 threads waiting",
            "8 turns ended: 5 answered, 2 in doubt, 1 failed",
            "plan: timed out",
            "local/small",
            "0.5000",
            "the cost of 4 responses",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        (stats.ended, stats.causes, stats.usage) = (EndedTurns::default(), Vec::new(), Vec::new());
        assert!(to_text(&stats).ends_with("0 turns ended"), "{}", to_text(&stats));
    }
}
