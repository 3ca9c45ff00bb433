//! `turnfold thread hold`, `release` and `ls --held`: the threads that nothing deletes.

use serde_json::{Value, json};
use store::{Hold, Store, ThreadId, time};

use super::Given;
use crate::{
    exit::{Exit, Stop},
    output,
};

pub(super) async fn place(given: &Given, store: &Store, id: ThreadId, reason: &str) -> anyhow::Result<Exit> {
    if reason.trim().is_empty() {
        return Err(Stop::because(
            Exit::Usage,
            "say why with --reason: whoever releases the thread must know",
        ));
    }
    let by = super::person();
    let hold = store.hold(id, reason, &by).await?;
    let thing = thing(&hold);
    if (hold.reason.as_str(), hold.by.as_str()) != (reason, by.as_str()) {
        output::one(given.format, &thing, || format!("thread {id} was held before, {}", about(&hold)))?;
        return Ok(Exit::Finding);
    }
    output::one(given.format, &thing, || {
        format!("thread {id} is held: nothing deletes it until it is released")
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn release(given: &Given, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let Some(hold) = store.release(id).await? else {
        return Err(Stop::because(
            Exit::Usage,
            format!("thread {id} is not held: see `turnfold thread ls --held`"),
        ));
    };
    output::one(given.format, &thing(&hold), || {
        format!("thread {id} is released; it was held {}", about(&hold))
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn list(given: &Given, store: &Store) -> anyhow::Result<Exit> {
    let mut holds = store.holds().await?;
    if let Some(tenant) = &given.tenant {
        let mut seen = Vec::new();
        for hold in holds {
            if store.thread(hold.thread).await?.is_some_and(|it| it.tenant == *tenant) {
                seen.push(hold);
            }
        }
        holds = seen;
    }
    let things: Vec<Value> = holds.iter().map(thing).collect();
    output::many(given.format, &things, || match holds.is_empty() {
        true => "no thread is held".to_owned(),
        false => {
            let row = |it: &Hold| {
                vec![it.thread.to_string(), it.reason.clone(), it.by.clone(), time::rfc3339(it.at)]
            };
            output::table(&["thread", "reason", "by", "since"], holds.iter().map(row))
        }
    })?;
    Ok(Exit::Ok)
}

fn about(hold: &Hold) -> String {
    format!("by {} since {}: {}", hold.by, time::rfc3339(hold.at), hold.reason)
}

fn thing(hold: &Hold) -> Value {
    json!({"thread": hold.thread, "reason": hold.reason, "by": hold.by, "at": time::rfc3339(hold.at)})
}
