//! `turnfold turn redrive`: retries many failed turns. Also counts turns that failed or got no full answer, by cause.

use std::time::Duration;

use api_types::{FailureCause, FailureCauses, Page, Turn};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    Context,
    selection::{check_known_strategies, filter_query},
};
use crate::{
    client::Client,
    confirm,
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Number of turns listed at a time.
const PAGE: usize = 200;

/// Hint if there is no terminal to confirm on.
const CONFIRM_HINT: &str = "add --yes, or --dry-run";

/// Maximum number of refusals that are listed; all are counted.
const MAX_LISTED: usize = 10;

/// Options of a redrive.
pub(super) struct Options {
    pub(super) filter: Option<String>,
    /// Minimum time between two retries.
    pub(super) pause: Option<Duration>,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
}

/// Result of a redrive.
#[derive(Debug, Default, Serialize)]
struct Summary {
    retried: u64,
    /// Turns that failed before they started, which cannot be retried.
    never_started: u64,
    /// Turns that the API refused to retry.
    refused: u64,
    /// First reasons for refusals, at most [`MAX_LISTED`].
    reasons: Vec<String>,
}

/// Prints the turns that failed or got no full answer, counted by cause.
pub(super) async fn causes(
    ctx: &Context,
    client: &Client,
    filter: Option<&str>,
    limit: u64,
) -> anyhow::Result<Exit> {
    let page = by_cause(client, filter, "", limit).await?;
    if page.turns == 0 {
        check_known_strategies(client, filter).await?;
    }
    output::many(ctx.format, &page.data, || table(&page))?;
    Ok(Exit::Ok)
}

async fn by_cause(
    client: &Client,
    filter: Option<&str>,
    status: &str,
    limit: u64,
) -> anyhow::Result<FailureCauses> {
    client.get(&format!("/v1/turns/causes?limit={limit}{status}{}", filter_query(filter)?)).await
}

fn table(page: &FailureCauses) -> String {
    let causes = &page.data;
    if causes.is_empty() {
        return "no turn failed or ended without a full answer".to_owned();
    }
    let row = |cause: &FailureCause| {
        let (turns, example) = (cause.turns.to_string(), cause.example.to_string());
        let ended = output::json_name(&cause.ended);
        vec![
            turns,
            ended,
            output::when(&cause.first_at),
            output::when(&cause.last_at),
            example,
            cause.cause.clone(),
        ]
    };
    let table =
        output::table(&["turns", "ended", "first", "last", "for example", "cause"], causes.iter().map(row));
    let more = if page.has_more { "\n(there are more causes; see --limit)" } else { "" };
    format!("{table}{more}")
}

/// Retries all failed turns that match the filter.
pub(super) async fn run(ctx: &Context, client: &Client, options: &Options) -> anyhow::Result<Exit> {
    let page = by_cause(client, options.filter.as_deref(), "&status=failed", 50).await?;
    let (all, never_started) = (page.turns, page.never_started);
    if all == 0 {
        check_known_strategies(client, options.filter.as_deref()).await?;
    }
    let retryable = all.saturating_sub(never_started);
    let excluded = if never_started == 0 {
        String::new()
    } else {
        format!("; {never_started} failed before they started and cannot be retried: submit them again")
    };
    if options.dry_run {
        output::one(ctx.format, &page, || match all {
            0 => "no failed turn matches".to_owned(),
            _ => {
                format!("{}\n{} would be retried{excluded}", table(&page), counted(retryable, "failed turn"))
            }
        })?;
        return Ok(Exit::Ok);
    }
    let question = format!("retry {}{excluded}?", counted(retryable, "failed turn"));
    if 0 < all && !options.yes && !confirm::ask(&question, CONFIRM_HINT)? {
        return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was retried"));
    }
    let bar = ProgressBar::new(all);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len}, {per_sec}, {eta} left")?);
    let mut done = Summary::default();
    let outcome = redrive(client, options, &bar, &mut done).await;
    bar.finish_and_clear();
    output::one(ctx.format, &done, || to_text(&done))?;
    outcome?;
    Ok(if done.never_started + done.refused == 0 { Exit::Ok } else { Exit::Partial })
}

/// Retries oldest first, so that turns which fail meanwhile are included and none is retried twice.
async fn redrive(
    client: &Client,
    options: &Options,
    bar: &ProgressBar,
    done: &mut Summary,
) -> anyhow::Result<()> {
    let mut pace = options.pause.map(interval);
    if let Some(pace) = &mut pace {
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let conditions = filter_query(options.filter.as_deref())?;
    let mut after = String::new();
    loop {
        let path = format!("/v1/turns?status=failed&order=oldest&limit={PAGE}{after}{conditions}");
        let page: Page<Turn> = client.get(&path).await?;
        for turn in &page.data {
            bar.inc(1);
            if turn.started_seq.is_none() {
                done.never_started += 1;
                continue;
            }
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let request = client.request(Method::POST, &format!("/v1/turns/{}/retry", turn.id));
            match client.send(request).await {
                Ok(_) => done.retried += 1,
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => {
                    done.refused += 1;
                    if done.reasons.len() < MAX_LISTED {
                        done.reasons.push(error.to_string());
                    }
                }
            }
        }
        let Some(last) = page.data.last().filter(|_| page.has_more) else { return Ok(()) };
        after = format!("&after={}", last.id);
    }
}

/// Returns true if the API cannot be reached; other errors concern one turn.
fn is_fatal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<CliError>().is_none_or(|failure| failure.exit == Exit::Unreachable)
}

fn to_text(done: &Summary) -> String {
    let Summary { retried, never_started, refused, reasons } = done;
    let mut text = format!("retried {}", counted(*retried, "failed turn"));
    if 0 < *never_started {
        text += &format!("\n{never_started} failed before they started: submit them again");
    }
    if 0 < *refused {
        text += &format!("\n{refused} could not be retried:");
        reasons.iter().for_each(|reason| text += &format!("\n  {reason}"));
        text += &output::and_more(*refused, reasons.len());
    }
    text
}
