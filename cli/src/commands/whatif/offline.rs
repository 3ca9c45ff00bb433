//! The replay without calls: which threads would go differently, as text, and the quote.

use std::sync::Arc;

use audit::whatif::{Changes, Cluster, Prices, Report, Rest, what_if};
use store::Store;

use crate::{
    args::Selection,
    commands::{
        Context,
        selection::{select_visible, spinner},
    },
    engine::prices,
    output::{self, counted},
};

/// Maximum number of threads of a cluster that the text lists.
const LISTED: usize = 10;

/// The price of each model in the configuration.
pub(super) fn configured_prices(ctx: &Context) -> Prices {
    let known = prices(&ctx.settings);
    Arc::new(move |model, usage| known.get(model)?.of(usage))
}

/// Replays the selected threads with the changes.
pub(super) async fn replayed(
    ctx: &Context,
    store: &Store,
    selection: Selection,
    changes: &Changes,
) -> anyhow::Result<Report> {
    let spinner = spinner()?;
    let round = select_visible(ctx, store, selection, &spinner).await?;
    let report = what_if(store, &ctx.strategies, &round, changes, &configured_prices(ctx)).await?;
    spinner.finish_and_clear();
    Ok(report)
}

pub(super) fn to_text(report: &Report, changes: &Changes, seconds: f64) -> String {
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
    if 0 < report.redescribed {
        text += &format!(
            "\ntoday's code describes tools or replies in other words in {}, with or without the change",
            counted(report.redescribed, "thread")
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

pub(super) fn rest_text(rest: &Rest) -> String {
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
