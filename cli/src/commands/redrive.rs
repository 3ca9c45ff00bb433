//! `turnfold turn redrive`: has many failed turns try again; and what failed turns have in common.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    Given,
    turn::{asked_for, known_strategies},
};
use crate::{
    ask,
    client::{Client, listed, name},
    exit::{Exit, Stop},
    output::{self, counted},
};

/// How many turns are asked for at once.
const PAGE: usize = 200;

/// What to do where nobody can be asked.
const INSTEAD: &str = "add --yes, or --dry-run";

/// How many refusals are told in full; all are counted.
const TOLD: usize = 10;

/// What is redriven, and how.
pub(super) struct How {
    pub(super) conditions: Option<String>,
    /// Between two turns, if there must be some time.
    pub(super) pause: Option<Duration>,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
}

/// What became of it.
#[derive(Debug, Default, Serialize)]
struct Done {
    redriven: u64,
    /// Those that failed before their thread heard them.
    unheard: u64,
    /// Those that could not be retried for another reason.
    refused: u64,
    /// The first of the reasons.
    reasons: Vec<String>,
}

/// Counts failed turns by cause.
pub(super) async fn causes(
    given: &Given,
    client: &Client,
    conditions: Option<&str>,
    limit: u64,
) -> anyhow::Result<Exit> {
    let page = by_cause(client, conditions, limit).await?;
    if page["turns"] == 0 {
        known_strategies(client, conditions).await?;
    }
    output::many(given.format, listed(&page), || table(&page))?;
    Ok(Exit::Ok)
}

async fn by_cause(client: &Client, conditions: Option<&str>, limit: u64) -> anyhow::Result<Value> {
    client.get(&format!("/v1/turns/causes?limit={limit}{}", asked_for(conditions)?)).await
}

fn table(page: &Value) -> String {
    let causes = listed(page);
    if causes.is_empty() {
        return "nothing has failed".to_owned();
    }
    let row = |it: &Value| {
        let told = ["first_at", "last_at", "example", "cause"].map(|column| name(it, column).to_owned());
        [vec![it["turns"].to_string()], told.to_vec()].concat()
    };
    let table = output::table(&["turns", "first", "last", "for example", "cause"], causes.iter().map(row));
    let more = if page["has_more"] == true { "\n(there are more causes: --limit)" } else { "" };
    format!("{table}{more}")
}

/// Has all failed turns that fulfil the conditions try again.
pub(super) async fn run(given: &Given, client: &Client, how: &How) -> anyhow::Result<Exit> {
    let page = by_cause(client, how.conditions.as_deref(), 50).await?;
    let count = |name: &str| page[name].as_u64().unwrap_or_default();
    let (all, unheard) = (count("turns"), count("unheard"));
    if all == 0 {
        known_strategies(client, how.conditions.as_deref()).await?;
    }
    let can = all.saturating_sub(unheard);
    let never = if unheard == 0 {
        String::new()
    } else {
        format!("; {unheard} failed before their thread heard them and cannot: submit them anew")
    };
    if how.dry_run {
        output::one(given.format, &page, || match all {
            0 => "no failed turn matches".to_owned(),
            _ => format!("{}\n{} would try again{never}", table(&page), counted(can, "failed turn")),
        })?;
        return Ok(Exit::Ok);
    }
    let what = format!("have {} try again{never}?", counted(can, "failed turn"));
    if 0 < all && !how.yes && !ask::agreed(&what, INSTEAD)? {
        return Err(Stop::because(Exit::Finding, "nothing was done"));
    }
    let bar = ProgressBar::new(all);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len}, {per_sec}, {eta} left")?);
    let mut done = Done::default();
    let outcome = redrive(client, how, &bar, &mut done).await;
    bar.finish_and_clear();
    output::one(given.format, &done, || summary(&done))?;
    outcome?;
    Ok(if done.unheard + done.refused == 0 { Exit::Ok } else { Exit::Partial })
}

/// The oldest first, so that turns which fail meanwhile are met and none is met twice.
async fn redrive(client: &Client, how: &How, bar: &ProgressBar, done: &mut Done) -> anyhow::Result<()> {
    let mut pace = how.pause.map(interval);
    if let Some(pace) = &mut pace {
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let conditions = asked_for(how.conditions.as_deref())?;
    let mut after = String::new();
    loop {
        let path = format!("/v1/turns?status=failed&order=oldest&limit={PAGE}{after}{conditions}");
        let page = client.get(&path).await?;
        let turns = listed(&page);
        for turn in turns {
            bar.inc(1);
            if turn["heard_seq"].is_null() {
                done.unheard += 1;
                continue;
            }
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let request = client.request(Method::POST, &format!("/v1/turns/{}/retry", name(turn, "id")));
            match client.send(request).await {
                Ok(_) => done.redriven += 1,
                Err(error) if gone(&error) => return Err(error),
                Err(error) => {
                    done.refused += 1;
                    if done.reasons.len() < TOLD {
                        done.reasons.push(error.to_string());
                    }
                }
            }
        }
        let Some(last) = turns.last().filter(|_| page["has_more"] == true) else { return Ok(()) };
        after = format!("&after={}", name(last, "id"));
    }
}

/// Whether there is nobody to ask any more; else it is about one turn.
fn gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Stop>().is_none_or(|it| it.exit == Exit::Unreachable)
}

fn summary(done: &Done) -> String {
    let Done { redriven, unheard, refused, reasons } = done;
    let tries = if *redriven == 1 { "tries" } else { "try" };
    let mut words = format!("{} {tries} again", counted(*redriven, "failed turn"));
    if 0 < *unheard {
        words += &format!("\n{unheard} failed before their thread heard them: submit them anew");
    }
    if 0 < *refused {
        words += &format!("\n{refused} could not:");
        reasons.iter().for_each(|it| words += &format!("\n  {it}"));
    }
    words
}
