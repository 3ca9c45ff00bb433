//! `turnfold thread reconcile`: records the outcome of a call whose answer was lost.

use serde_json::json;

use crate::{
    args::Reconcile,
    client::path,
    commands::{Context, source::named},
    exit::{CliError, Exit},
    output,
};

pub(super) async fn run(ctx: &Context, args: Reconcile) -> anyhow::Result<Exit> {
    let Reconcile { id, slot, happened, did_not, skip } = args;
    let verdict = match (happened, did_not, skip) {
        (Some(result), ..) => json!({"happened": {"result": result}}),
        (None, true, _) => json!("did_not_happen"),
        (None, _, true) => json!("skip"),
        (None, false, false) => {
            return Err(CliError::with_exit(
                Exit::Usage,
                "the outcome is missing\nhint: give --happened RESULT, --did-not or --skip",
            ));
        }
    };
    let client = ctx.client()?;
    let id = named(&client, &id).await?;
    let body = json!({"slot": slot, "verdict": verdict});
    let thread: api_types::Thread = client.post(&path(&["threads", &id, "reconcile"])?, &body).await?;
    output::one(ctx.format, &thread, || format!("recorded; thread {id} continues"))?;
    Ok(Exit::Ok)
}
