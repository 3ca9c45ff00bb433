//! `turnfold thread reconcile`: records the outcome of a call whose answer was lost.

use api_types::Verdict;
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
    let verdict = verdict(happened, did_not, skip)?;
    let client = ctx.client()?;
    let id = named(&client, &id).await?;
    let body = json!({"slot": slot, "verdict": verdict});
    let thread: api_types::Thread = client.post(&path(&["threads", &id, "reconcile"])?, &body).await?;
    output::one(ctx.format, &thread, || format!("recorded; thread {id} continues"))?;
    Ok(Exit::Ok)
}

/// Returns the verdict that the options give.
pub(in crate::commands) fn verdict(
    happened: Option<String>,
    did_not: bool,
    skip: bool,
) -> anyhow::Result<Verdict> {
    match (happened, did_not, skip) {
        (Some(result), ..) => Ok(Verdict::Happened { result }),
        (None, true, _) => Ok(Verdict::DidNotHappen),
        (None, _, true) => Ok(Verdict::Skip),
        (None, false, false) => Err(CliError::with_exit(
            Exit::Usage,
            "the outcome is missing\nhint: give --happened RESULT, --did-not or --skip",
        )),
    }
}
