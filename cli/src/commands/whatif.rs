//! `turnfold whatif`: replays recorded threads with a changed configuration.

use std::{sync::Arc, time::Instant};

use audit::whatif::{Changes, Cluster, Prices, Report, Rest, what_if};
use serde_json::json;

use super::{
    Context,
    selection::{select_visible, spinner},
};
use crate::{
    args::Selection,
    config::Sources,
    engine::prices,
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Maximum number of threads of a cluster that the text lists.
const LISTED: usize = 10;

const STRATEGIES: &str = "strategies";

pub(super) async fn run(ctx: Context, selection: Selection) -> anyhow::Result<Exit> {
    let changes = changes(&ctx)?;
    let spinner = spinner()?;
    let began = Instant::now();
    let store = ctx.store().await?;
    let round = select_visible(&ctx, &store, selection, &spinner).await?;
    let known = prices(&ctx.settings);
    let price: Prices = Arc::new(move |model, usage| known.get(model)?.of(usage));
    let report = what_if(&store, &ctx.strategies, &round, &changes, &price).await?;
    spinner.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let mut thing = json!(report);
    thing["seconds"] = json!(seconds);
    output::one(ctx.format, &thing, || to_text(&report, &changes, seconds))?;
    Ok(match report {
        Report { undecided: 1.., .. } | Report { threads: 0, .. } => Exit::Unchecked,
        Report { .. } => Exit::Ok,
    })
}

/// Fails if a flag changes the configuration of a strategy: what replays a log takes it from the log.
pub(super) fn refuse_changes(sources: &Sources) -> anyhow::Result<()> {
    let Some((key, _)) = changed_keys(sources).next() else { return Ok(()) };
    let message = format!(
        "{key} would have no effect: a replay takes the configuration of a strategy from each log\n\
         hint: turnfold whatif --set {key}=VALUE replays with a changed configuration"
    );
    Err(CliError::with_exit(Exit::Usage, message))
}

/// The keys of strategies that flags set, split at the dots.
fn changed_keys(sources: &Sources) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let keys = sources.flags.iter().filter_map(|flag| Some(flag.sets.as_ref()?.0.as_str()));
    let split = keys.map(|key| (key, key.split('.').collect::<Vec<_>>()));
    split.filter(|(_, path)| path.first() == Some(&STRATEGIES))
}

/// Returns the changes that the flags ask for. The values are those of the checked settings.
fn changes(ctx: &Context) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    for (key, mut path) in changed_keys(&ctx.sources) {
        if let Some(last) = path.last_mut().filter(|last| **last == "prompt_file") {
            *last = "prompt";
        }
        let [_, strategy, path @ ..] = path.as_slice() else {
            return Err(CliError::with_exit(Exit::Usage, no_key(key)));
        };
        let value = path.iter().try_fold(ctx.settings.strategies.get(*strategy), |value, key| {
            value.map(|value| value.get(*key))
        });
        match value.flatten() {
            Some(value) if !path.is_empty() => changes.set(strategy, path, value.clone()),
            _ => return Err(CliError::with_exit(Exit::Usage, no_key(key))),
        }
    }
    if changes.is_empty() {
        let message = "no change is given\n\
             hint: --set planner.confidence=0.9, --prompt planner/assess=@new.md or --model planner/assess=PROVIDER/MODEL";
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    Ok(changes)
}

fn no_key(key: &str) -> String {
    format!("{key} is no single key of a strategy\nhint: --set STRATEGY.KEY=VALUE")
}

fn to_text(report: &Report, changes: &Changes, seconds: f64) -> String {
    let Report { threads, others, events, same, changed, undecided, .. } = report;
    if *threads == 0 {
        let names = changes.strategies().collect::<Vec<_>>().join(", ");
        return format!("NOTHING REPLAYED: no thread of {names} matches");
    }
    let mut text = format!(
        "{}, {} in {seconds:.1} s, without a call\n{same} would go as they went",
        counted(*threads, "thread"),
        counted(*events, "event")
    );
    if 0 < *others {
        text += &format!("\n{} of other strategies not replayed", counted(*others, "thread"));
    }
    if 0 < report.reworded {
        text += &format!(
            "\ntoday's code asks in other words in {}, with or without the change",
            counted(report.reworded, "thread")
        );
    }
    if 0 < *changed {
        text += &format!("\nDIFFERENT: {changed}, first at {}", counted(report.clusters.len(), "place"));
    }
    report.clusters.iter().for_each(|cluster| text += &cluster_text(cluster));
    if 0 < *changed {
        let spent = rest_text(&report.rest);
        text += &format!(
            "\nquote: from their first difference on, these threads spent {spent}; another run may need more or less"
        );
    }
    if 0 < *undecided {
        text += &format!("\nNOT DECIDED: {undecided}");
    }
    for thread in &report.not_decided {
        text += &format!("\n  thread {}: {}", thread.thread, thread.why);
    }
    text + &output::and_more(*undecided, report.not_decided.len())
}

fn cluster_text(cluster: &Cluster) -> String {
    let Cluster { effect, threads, example, rest, .. } = cluster;
    let listed: Vec<String> = threads.iter().take(LISTED).map(ToString::to_string).collect();
    let mut text = format!(
        "\n{:>8} × {}: {}\n           recorded: {}\n           changed:  {}\n           threads:  {}",
        threads.len(),
        cluster.place(),
        effect.words(),
        example.recorded,
        example.changed,
        listed.join("\n                     "),
    );
    if LISTED < threads.len() {
        text += &format!("\n                     and {} more; -o json lists all", threads.len() - LISTED);
    }
    text + &format!("\n           spent after it: {}", rest_text(rest))
}

fn rest_text(rest: &Rest) -> String {
    let Rest { model_calls, tool_calls, input_tokens, output_tokens, usd, without_price } = rest;
    let mut text = format!(
        "{}, {}, {input_tokens} + {output_tokens} tokens, ${usd:.4}",
        counted(*model_calls, "model call"),
        counted(*tool_calls, "tool call")
    );
    if 0 < *without_price {
        text += &format!(" (without the price of {})", counted(*without_price, "answer"));
    }
    text
}
