//! `turnfold thread diff`: compares two threads event by event.

use api_types::Usage;
use audit::{Divergence, Row, Side, Sides, ThreadDiff};
use serde_json::json;
use shared::ValueDifference;
use store::ThreadId;

use crate::{
    args::DiffView,
    commands::{Context, source::Source},
    exit::Exit,
    output::{self, counted},
};

/// Maximum number of rows in text output.
const MAX_LISTED: usize = 40;

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    (left, right): (ThreadId, ThreadId),
    view: DiffView,
) -> anyhow::Result<Exit> {
    let (graph_left, graph_right) = (source.graph(ctx, left).await?, source.graph(ctx, right).await?);
    let (log_left, log_right) = (source.load(left).await?, source.load(right).await?);
    let diffed = audit::diff(
        Side { graph: graph_left, log: &log_left },
        Side { graph: graph_right, log: &log_right },
    )?;
    let mut thing = json!({"left": left, "right": right, "same": diffed.same});
    if view.events {
        thing["rows"] = serde_json::to_value(&diffed.rows)?;
    }
    if let Some(split) = &diffed.split {
        thing["split"] = json!({"left": split.left, "right": split.right});
        if view.state {
            thing["split"]["state"] = serde_json::to_value(&split.state)?;
        }
        if view.cost {
            let usage =
                |sides: &Sides| json!({"left": Usage::from(&sides.left), "right": Usage::from(&sides.right)});
            thing["split"]["before"] = usage(&split.before);
            thing["split"]["all"] = usage(&split.all);
        }
    }
    output::one(ctx.format, &thing, || to_text(&diffed, view))?;
    Ok(if diffed.split.is_some() { Exit::Finding } else { Exit::Ok })
}

fn to_text(diff: &ThreadDiff, view: DiffView) -> String {
    let mut text = format!("{} are the same", counted(diff.same, "event"));
    let Some(split) = &diff.split else { return text + ", and nothing else differs" };
    text +=
        &format!("; they diverge at event {} of the left thread, {} of the right", split.left, split.right);
    if view.events {
        text.extend(diff.rows.iter().take(MAX_LISTED).map(row));
        if MAX_LISTED < diff.rows.len() {
            text += &format!("\nand {} more; -o json lists all", diff.rows.len() - MAX_LISTED);
        }
    }
    if view.state {
        text += "\n\nstate after that event";
        text += &if split.state.is_empty() { ": the same".to_owned() } else { differing(&split.state) };
    }
    if view.cost {
        text += &cost(split);
    }
    text
}

fn row(row: &Row) -> String {
    match row {
        Row::Changed { left, right, step, differs } => {
            format!("\n~ {left:>4} {right:>4} {step}{}", differing(differs))
        }
        Row::Left { left, text } => format!("\n- {left:>4}      {text}"),
        Row::Right { right, text } => format!("\n+      {right:>4} {text}"),
    }
}

fn differing(all: &[ValueDifference]) -> String {
    let one = |difference: &ValueDifference| {
        format!(
            "\n      {}\n        left:  {}\n        right: {}",
            difference.path, difference.left, difference.right
        )
    };
    all.iter().map(one).collect()
}

fn cost(split: &Divergence) -> String {
    let line = |what: &str, sides: &Sides| {
        let (left, right) = (output::usage(&(&sides.left).into()), output::usage(&(&sides.right).into()));
        format!("\n{what}\n  left:  {left}\n  right: {right}")
    };
    format!("\n{}{}", line("usage before that event", &split.before), line("usage in total", &split.all))
}
