//! `turnfold thread delete`.

use serde_json::json;
use store::{Store, ThreadId};

use crate::{
    commands::Context,
    confirm,
    exit::{CliError, Exit},
    output::{self, counted},
    user::user_name,
};

pub(super) async fn run(ctx: &Context, store: &Store, id: ThreadId, yes: bool) -> anyhow::Result<Exit> {
    if !yes && !confirm::ask(&format!("delete thread {id} with its turns and events?"), "add --yes")? {
        return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was deleted"));
    }
    let Some(deleted) = store.delete_thread(id, &user_name()).await? else {
        let message = format!(
            "thread {id} cannot be deleted: it is busy, waits for an answer, has a queued turn, or is under a hold\nhint: cancel \
             its turn with turnfold turn cancel, or release it with turnfold thread release"
        );
        return Err(CliError::with_exit(Exit::Finding, message));
    };
    let thing = json!({"id": id, "turns": deleted.turns, "events": deleted.events});
    output::one(ctx.format, &thing, || {
        let (turns, events) = (counted(deleted.turns, "turn"), counted(deleted.events, "event"));
        format!("deleted thread {id} with {turns} and {events}")
    })?;
    Ok(Exit::Ok)
}
