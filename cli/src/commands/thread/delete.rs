//! `turnfold thread delete`.

use api_types::DeletedThread;
use reqwest::Method;
use serde_json::json;
use store::ThreadId;

use crate::{
    client::{path, with_reason},
    commands::{Context, source::Source},
    confirm,
    exit::{CliError, Exit},
    output::{self, counted},
};

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    id: &str,
    yes: bool,
    reason: Option<&str>,
) -> anyhow::Result<Exit> {
    let (client, id): (_, ThreadId) = (source.client(), source.find(id).await?);
    if !yes && !confirm::ask(&format!("delete thread {id} with its turns and events?"), "add --yes")? {
        return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was deleted"));
    }
    let request = client.request(Method::DELETE, &path(&["threads", &id.to_string()])?);
    let deleted: DeletedThread = client.fetch(with_reason(request, reason)?).await?;
    output::one(ctx.format, &json!(deleted), || {
        let (turns, events) = (counted(deleted.turns, "turn"), counted(deleted.events, "event"));
        format!("deleted thread {id} with {turns} and {events}")
    })?;
    Ok(Exit::Ok)
}
