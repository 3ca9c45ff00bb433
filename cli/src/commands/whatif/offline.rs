//! The replay without calls: which threads would go differently, as text, and the quote.

use std::{path::Path, sync::Arc};

use audit::{
    cohort::Cohort,
    whatif::{Changes, Cluster, Prices, Report, Rest, what_if},
};
use store::{Heads, Store};

use crate::{
    args::Selection,
    commands::{
        Context,
        cohort::{Chosen, chosen},
        selection::spinner,
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

/// Replays the threads of the cohort, or else the selected ones, with the changes. Returns the heads of a cohort too.
pub(super) async fn replayed(
    ctx: &Context,
    store: &Store,
    cohort: Option<&Cohort>,
    selection: Selection,
    changes: &Changes,
) -> anyhow::Result<(Report, Option<Heads>)> {
    let spinner = spinner()?;
    let Chosen { round, strays } = chosen(ctx, store, cohort, selection, &spinner).await?;
    let mut report = what_if(store, &ctx.strategies, &round, changes, &configured_prices(ctx)).await?;
    report.add_strays(strays);
    spinner.finish_and_clear();
    Ok((report, round.heads().cloned()))
}

/// The other side of a replay.
pub(super) enum Asked<'a> {
    /// The same build with these changes.
    Changes(Changes),
    /// Another build.
    Build(&'a Path),
}

impl Asked<'_> {
    /// Describes that no thread was replayed.
    fn nothing(&self) -> String {
        match self {
            Self::Changes(changes) => {
                let names = changes.strategies().collect::<Vec<_>>().join(", ");
                format!("NOTHING REPLAYED: no thread of {names} matches")
            }
            Self::Build(_) => "NOTHING REPLAYED: no thread matches".to_owned(),
        }
    }

    /// Names of the two values of a difference.
    fn sides(&self) -> [&'static str; 2] {
        match self {
            Self::Changes(_) => ["recorded:", "changed: "],
            Self::Build(_) => ["this:     ", "other:    "],
        }
    }
}

pub(super) fn to_text(report: &Report, asked: &Asked<'_>, seconds: f64) -> String {
    let Report { threads, others, events, same, changed, undecided, .. } = report;
    if *threads == 0 {
        return asked.nothing();
    }
    let way = match asked {
        Asked::Changes(_) => "as they went".to_owned(),
        Asked::Build(build) => format!("the same way with {}", build.display()),
    };
    let mut text = format!(
        "{}, {} in {seconds:.1} s, without a call\n{same} would go {way}",
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
    report.clusters.iter().for_each(|cluster| text += &cluster_text(cluster, asked.sides()));
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

fn cluster_text(cluster: &Cluster, [one, other]: [&str; 2]) -> String {
    let Cluster { effect, threads, example, rest, .. } = cluster;
    let listed: Vec<String> = threads.iter().take(LISTED).map(ToString::to_string).collect();
    let mut text = format!(
        "\n{:>8} × {}: {}\n           {one} {}\n           {other} {}\n           threads:  {}",
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
