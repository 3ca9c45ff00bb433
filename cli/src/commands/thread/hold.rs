//! `turnfold thread hold`, `release` and `list --held`: protection from deletion.

use queue::clock;
use serde_json::{Value, json};
use store::{Hold, Store, ThreadId};

use crate::commands::Context;
use crate::{
    exit::{CliError, Exit},
    output,
};

pub(super) async fn place(ctx: &Context, store: &Store, id: ThreadId, reason: &str) -> anyhow::Result<Exit> {
    if reason.trim().is_empty() {
        return Err(CliError::with_exit(
            Exit::Usage,
            "--reason is empty\nhint: give the reason, so that others know when the hold can be released",
        ));
    }
    let by = crate::user::user_name();
    let hold = store.hold(id, reason, &by).await?;
    let item = to_json(&hold);
    if (hold.reason.as_str(), hold.by.as_str()) != (reason, by.as_str()) {
        output::one(ctx.format, &item, || format!("thread {id} is already held {}", about(&hold)))?;
        return Ok(Exit::Finding);
    }
    output::one(ctx.format, &item, || {
        format!("thread {id} is held; it cannot be deleted until it is released")
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn release(ctx: &Context, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let Some(hold) = store.release(id).await? else {
        return Err(CliError::with_exit(
            Exit::NotFound,
            format!("thread {id} is not held\nhint: list held threads with: turnfold thread list --held"),
        ));
    };
    output::one(ctx.format, &to_json(&hold), || {
        format!("thread {id} is released; it was held {}", about(&hold))
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn list(ctx: &Context, store: &Store) -> anyhow::Result<Exit> {
    let mut holds = store.holds().await?;
    if let Some(tenant) = &ctx.tenant {
        let mut visible = Vec::new();
        for hold in holds {
            if store.thread(hold.thread).await?.is_some_and(|thread| thread.tenant == *tenant) {
                visible.push(hold);
            }
        }
        holds = visible;
    }
    let things: Vec<Value> = holds.iter().map(to_json).collect();
    output::many(ctx.format, &things, || match holds.is_empty() {
        true => "no thread is held".to_owned(),
        false => {
            let row = |hold: &Hold| {
                vec![hold.thread.to_string(), hold.reason.clone(), hold.by.clone(), clock::rfc3339(hold.at)]
            };
            output::table(&["thread", "reason", "by", "since"], holds.iter().map(row))
        }
    })?;
    Ok(Exit::Ok)
}

fn about(hold: &Hold) -> String {
    format!("by {} since {}: {}", hold.by, clock::rfc3339(hold.at), hold.reason)
}

fn to_json(hold: &Hold) -> Value {
    json!({"thread": hold.thread, "reason": hold.reason, "by": hold.by, "at": clock::rfc3339(hold.at)})
}
