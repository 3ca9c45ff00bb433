//! `turnfold thread diff`: two threads side by side.

use audit::{Diffed, Row, Side, Sides, Split};
use serde_json::{Value, json};
use shared::{Differing, Event, Tally};
use store::{Store, ThreadId};

use super::graph_of;
use crate::{
    args::View,
    commands::Given,
    exit::Exit,
    output::{self, counted},
};

/// How many rows are told in words.
const TOLD: usize = 40;

pub(super) async fn diff(
    given: &Given,
    store: &Store,
    (left, right): (ThreadId, ThreadId),
    view: View,
) -> anyhow::Result<Exit> {
    let (graph_left, graph_right) =
        (graph_of(given, store, left).await?, graph_of(given, store, right).await?);
    let (log_left, log_right) = (log(store, left).await?, log(store, right).await?);
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
            let took = |it: &Sides| json!({"left": told(&it.left), "right": told(&it.right)});
            thing["split"]["before"] = took(&split.before);
            thing["split"]["all"] = took(&split.all);
        }
    }
    output::one(given.format, &thing, || words(&diffed, view))?;
    Ok(if diffed.split.is_some() { Exit::Finding } else { Exit::Ok })
}

async fn log(store: &Store, id: ThreadId) -> anyhow::Result<Vec<Event>> {
    Ok(store.load(id).await?.1.into_iter().map(|it| it.event).collect())
}

fn told(it: &Tally) -> Value {
    json!({
        "input_tokens": it.input_tokens, "output_tokens": it.output_tokens, "usd": it.usd(), "ms": it.ms,
        "untold": it.untold, "unpriced": it.unpriced,
    })
}

fn words(it: &Diffed, view: View) -> String {
    let mut words = format!("{} are the same", counted(it.same, "event"));
    let Some(split) = &it.split else { return words + ", and nothing else differs" };
    words += &format!("; they part at event {} of the left, {} of the right", split.left, split.right);
    if view.events {
        words.extend(it.rows.iter().take(TOLD).map(row));
        if TOLD < it.rows.len() {
            words += &format!("\nand {} more: -o json tells them all", it.rows.len() - TOLD);
        }
    }
    if view.state {
        words += "\n\nstate right after that";
        words += &if split.state.is_empty() { ": the same".to_owned() } else { differing(&split.state) };
    }
    if view.cost {
        words += &cost(split);
    }
    words
}

fn row(it: &Row) -> String {
    match it {
        Row::Changed { left, right, step, differs } => {
            format!("\n~ {left:>4} {right:>4} {step}{}", differing(differs))
        }
        Row::Left { left, text } => format!("\n- {left:>4}      {text}"),
        Row::Right { right, text } => format!("\n+      {right:>4} {text}"),
    }
}

fn differing(all: &[Differing]) -> String {
    let one = |it: &Differing| {
        format!("\n      {}\n        left:  {}\n        right: {}", it.path, it.left, it.right)
    };
    all.iter().map(one).collect()
}

fn cost(split: &Split) -> String {
    let line = |what: &str, it: &Sides| {
        let (left, right) = (output::took(&told(&it.left)), output::took(&told(&it.right)));
        format!("\n{what}\n  left:  {left}\n  right: {right}")
    };
    format!("\n{}{}", line("taken before that", &split.before), line("taken in all", &split.all))
}
