//! `turnfold prompt`: versions of prompts and their use, through the API.

use api_types::{PromptTurns, PromptUse, PromptVersion, PromptVersions, RatingCounts};
use serde_json::json;
use similar::TextDiff;

use super::Context;
use crate::{
    args::Prompt,
    client::{Client, path},
    exit::{CliError, Exit},
    output,
};

/// Digits of a hash that are shown.
const HASH_SHOWN: usize = 12;

/// Unchanged lines around a difference.
const LINES_AROUND: usize = 3;

pub(crate) async fn run(ctx: &Context, command: Prompt) -> anyhow::Result<Exit> {
    let client = ctx.client()?;
    match command {
        Prompt::List => list(ctx, &client).await,
        Prompt::Show { hash, diff: None } => show(ctx, &client, &hash).await,
        Prompt::Show { hash, diff: Some(other) } => diff(ctx, &client, &hash, &other).await,
    }
}

async fn list(ctx: &Context, client: &Client) -> anyhow::Result<Exit> {
    let found: PromptVersions = client.get("/v1/prompts").await?;
    output::one(ctx.format, &found, || {
        if found.prompts.is_empty() {
            return "no prompt was used yet".to_owned();
        }
        let row = |prompt: &PromptVersion, used: &PromptUse| {
            let hash = prompt.hash.get(..HASH_SHOWN).unwrap_or(&prompt.hash).to_owned();
            [vec![hash, prompt.origin.clone()], use_row(used)].concat()
        };
        let rows =
            found.prompts.iter().flat_map(|prompt| prompt.uses.iter().map(move |used| row(prompt, used)));
        let mut text = output::table(&[&["prompt", "origin"][..], &USE_HEAD].concat(), rows);
        for rated in &found.ratings {
            let RatingCounts { good, bad } = rated.ratings;
            text += &format!("\n{}: {good} good, {bad} bad", rated.strategy);
        }
        if found.has_more {
            text += "\nThere are more. These were used last.";
        }
        text
    })?;
    Ok(Exit::Ok)
}

/// Head of the columns of [`use_row`].
const USE_HEAD: [&str; 10] =
    ["used by", "model", "since", "last", "responses", "answered", "partial", "failed", "usd", "good/bad"];

fn use_row(used: &PromptUse) -> Vec<String> {
    let PromptTurns { answered, partial, declined, failed } = used.turns;
    let RatingCounts { good, bad } = used.ratings;
    vec![
        format!("{}/{}", used.strategy, used.node),
        used.model.clone(),
        output::when(&used.first_used),
        output::when(&used.last_used),
        used.responses.to_string(),
        answered.to_string(),
        (partial + declined).to_string(),
        failed.to_string(),
        format!("{:.4}", used.usd),
        format!("{good}/{bad}"),
    ]
}

async fn find(client: &Client, hash: &str) -> anyhow::Result<PromptVersion> {
    client.get(&path(&["prompts", hash])?).await
}

async fn show(ctx: &Context, client: &Client, hash: &str) -> anyhow::Result<Exit> {
    let prompt = find(client, hash).await?;
    output::one(ctx.format, &prompt, || {
        let head = format!("{} · {}", prompt.hash, prompt.origin);
        let uses = output::table(&USE_HEAD, prompt.uses.iter().map(use_row));
        let text =
            prompt.text.as_deref().unwrap_or("(no thread with this prompt is left, so its text is gone)");
        format!("{head}\n{uses}\n\n{}", text.trim_end())
    })?;
    Ok(Exit::Ok)
}

async fn diff(ctx: &Context, client: &Client, hash: &str, other: &str) -> anyhow::Result<Exit> {
    let (from, to) = (find(client, other).await?, find(client, hash).await?);
    let lines = {
        let (Some(before), Some(after)) = (&from.text, &to.text) else {
            let gone = if from.text.is_none() { &from.hash } else { &to.hash };
            let message = format!(
                "the text of prompt {gone} is gone: no thread with it is left\nhint: turnfold prompt list shows the other prompts"
            );
            return Err(CliError::with_exit(Exit::NotFound, message));
        };
        let diff = TextDiff::from_lines(before, after);
        diff.unified_diff().context_radius(LINES_AROUND).header(&from.hash, &to.hash).to_string()
    };
    let thing = json!({ "from": from.hash, "to": to.hash, "diff": lines });
    output::one(ctx.format, &thing, || match lines.is_empty() {
        true => "the texts are the same".to_owned(),
        false => lines.trim_end().to_owned(),
    })?;
    Ok(Exit::Ok)
}
