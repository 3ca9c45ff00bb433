//! `turnfold thread hold`, `release` and `list --held`: protection from deletion.

use api_types::{Hold, NewHold, Page};
use reqwest::Method;
use serde_json::{Value, json};
use store::ThreadId;

use crate::{
    client::{Client, path, with_reason},
    commands::Context,
    exit::Exit,
    output,
    user::user_name,
};

pub(super) async fn place(
    ctx: &Context,
    client: &Client,
    id: ThreadId,
    reason: String,
) -> anyhow::Result<Exit> {
    let new = NewHold { reason };
    let hold: Hold = client.fetch(client.request(Method::PUT, &hold_path(id)?).json(&new)).await?;
    let item = to_json(&hold);
    if (&hold.reason, &hold.by) != (&new.reason, &user_name()) {
        output::one(ctx.format, &item, || format!("thread {id} is already held {}", about(&hold)))?;
        return Ok(Exit::Finding);
    }
    output::one(ctx.format, &item, || {
        format!("thread {id} is held; it cannot be deleted until it is released")
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn release(
    ctx: &Context,
    client: &Client,
    id: ThreadId,
    reason: Option<&str>,
) -> anyhow::Result<Exit> {
    let request = client.request(Method::DELETE, &hold_path(id)?);
    let hold: Hold = client.fetch(with_reason(request, reason)?).await?;
    output::one(ctx.format, &to_json(&hold), || {
        format!("thread {id} is released; it was held {}", about(&hold))
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn list(ctx: &Context, client: &Client) -> anyhow::Result<Exit> {
    let holds = client.get::<Page<Hold>>("/v1/holds").await?.data;
    let things: Vec<Value> = holds.iter().map(to_json).collect();
    output::many(ctx.format, &things, || match holds.is_empty() {
        true => "no thread is held".to_owned(),
        false => {
            let row = |hold: &Hold| {
                vec![hold.thread_id.to_string(), hold.reason.clone(), hold.by.clone(), output::when(&hold.at)]
            };
            output::table(&["thread", "reason", "by", "since"], holds.iter().map(row))
        }
    })?;
    Ok(Exit::Ok)
}

fn hold_path(id: ThreadId) -> anyhow::Result<String> {
    path(&["threads", &id.to_string(), "hold"])
}

fn about(hold: &Hold) -> String {
    format!("by {} since {}: {}", hold.by, hold.at, hold.reason)
}

fn to_json(hold: &Hold) -> Value {
    json!({"thread": hold.thread_id, "reason": hold.reason, "by": hold.by, "at": hold.at})
}
