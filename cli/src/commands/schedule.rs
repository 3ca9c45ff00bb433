//! `turnfold schedule`: manages schedules.

use api_types::{NewSchedule, ScheduleChange};
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::{Context, batch, turn};
use crate::{
    args::{NewSchedule as Add, Schedule, Send},
    client::{Client, path, with_reason},
    exit::{CliError, Exit},
    output,
};

/// Columns of a schedule.
const COLUMNS: [&str; 9] =
    ["schedule", "name", "cron", "zone", "submits", "status", "next", "last", "outcome"];

pub(crate) async fn run(ctx: Context, command: Schedule) -> anyhow::Result<Exit> {
    let client = ctx.client()?;
    match command {
        Schedule::Add(new) => {
            let new = request(&ctx, &client, new).await?;
            let schedule: api_types::Schedule = client.post("/v1/schedules", &new).await?;
            output::one(ctx.format, &schedule, || {
                let next = schedule.next_at.as_deref().unwrap_or_default();
                format!("added schedule {}; it fires next at {next}", schedule.id)
            })?;
        }
        Schedule::List { limit } => {
            let all: Vec<api_types::Schedule> = client
                .all("/v1/schedules", limit, |schedule: &api_types::Schedule| schedule.id.to_string())
                .await?;
            output::many(ctx.format, &all, || match all.is_empty() {
                true => "no schedules; add one with: turnfold schedule add CRON MESSAGE".to_owned(),
                false => output::table(&COLUMNS, all.iter().map(row)),
            })?;
        }
        Schedule::Show { id } => {
            let schedule: api_types::Schedule = client.get(&path_of(&id)?).await?;
            output::one(ctx.format, &schedule, || text(&schedule))?;
        }
        Schedule::Remove { id, reason } => {
            let request = client.request(Method::DELETE, &path_of(&id)?);
            let request = with_reason(request, reason.as_deref())?;
            let schedule: api_types::Schedule = client.fetch(request).await?;
            output::one(ctx.format, &schedule, || format!("removed schedule {}", schedule.id))?;
        }
        Schedule::Pause { id, reason } => {
            let schedule = change(&client, &id, true, reason.as_deref()).await?;
            output::one(ctx.format, &schedule, || {
                format!("schedule {} is {}", schedule.id, schedule.status)
            })?;
        }
        Schedule::Resume { id, reason } => {
            let schedule = change(&client, &id, false, reason.as_deref()).await?;
            output::one(ctx.format, &schedule, || {
                let next = schedule.next_at.as_deref().unwrap_or_default();
                format!("schedule {} fires next at {next}", schedule.id)
            })?;
        }
    }
    Ok(Exit::Ok)
}

async fn request(ctx: &Context, client: &Client, new: Add) -> anyhow::Result<NewSchedule> {
    let Add { cron, text, batch, timezone, missed, name, strategy, thread, metadata, priority } = new;
    let (turn, batch) = match batch {
        Some(file) => (None, Some(batch::scheduled(ctx, client, &file, priority).await?)),
        None => {
            let text = text.unwrap_or_default();
            let send = Send { text, strategy, thread, metadata, priority, ..Send::default() };
            (Some(turn::scheduled(client, send).await?), None)
        }
    };
    Ok(NewSchedule { name, cron, timezone, missed: missed.unwrap_or_default(), turn, batch })
}

async fn change(
    client: &Client,
    id: &str,
    paused: bool,
    reason: Option<&str>,
) -> anyhow::Result<api_types::Schedule> {
    let request = client.request(Method::PATCH, &path_of(id)?).json(&ScheduleChange { paused });
    client.fetch(with_reason(request, reason)?).await
}

fn path_of(id: &str) -> anyhow::Result<String> {
    let id: Uuid = id.parse().map_err(|_| {
        let message =
            format!("{id:?} is not the id of a schedule\nhint: list them with: turnfold schedule list");
        CliError::with_exit(Exit::Usage, message)
    })?;
    path(&["schedules", &id.to_string()])
}

/// Start of what a schedule submits.
fn submits(schedule: &api_types::Schedule) -> String {
    const SHOWN: usize = 40;
    let text = match (&schedule.turn, &schedule.batch) {
        (Some(turn), _) => {
            let input = &turn["input"];
            input.as_str().map_or_else(|| input.to_string(), str::to_owned)
        }
        (None, Some(batch)) => format!("batch of {}", batch["input_file_id"].as_str().unwrap_or_default()),
        (None, None) => String::new(),
    };
    text.chars().take(SHOWN).collect()
}

/// The last turn or batch, or the error, or the reason why the schedule is stopped.
fn last(schedule: &api_types::Schedule) -> String {
    let all =
        [&schedule.stopped_reason, &schedule.last_error, &schedule.last_turn_id, &schedule.last_batch_id];
    all.into_iter().flatten().next().cloned().unwrap_or_default()
}

fn row(schedule: &api_types::Schedule) -> Vec<String> {
    vec![
        schedule.id.to_string(),
        schedule.name.clone(),
        schedule.cron.clone(),
        schedule.timezone.clone(),
        submits(schedule),
        schedule.status.to_string(),
        schedule.next_at.as_deref().map(output::when).unwrap_or_default(),
        schedule.last_at.as_deref().map(output::when).unwrap_or_default(),
        last(schedule),
    ]
}

fn text(schedule: &api_types::Schedule) -> String {
    let pairs = COLUMNS.iter().zip(row(schedule)).filter(|(_, value)| !value.is_empty());
    let mut lines: Vec<String> = pairs.map(|(name, value)| format!("{name:10}{value}")).collect();
    lines.push(format!("{:10}{}", "missed", json!(schedule.missed).as_str().unwrap_or_default()));
    lines.push(format!("{:10}{}", "key", schedule.key.as_deref().unwrap_or("none")));
    lines.join("\n")
}
