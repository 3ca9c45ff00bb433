//! `turnfold thread reconcile`: what became of a call whose answer was lost.

use serde_json::json;

use super::named;
use crate::{
    args::Reconcile,
    client::path,
    commands::Given,
    exit::{Exit, Stop},
    output,
};

pub(super) async fn reconcile(given: &Given, how: Reconcile) -> anyhow::Result<Exit> {
    let Reconcile { id, slot, happened, did_not, skip } = how;
    let verdict = match (happened, did_not, skip) {
        (Some(result), ..) => json!({"happened": {"result": result}}),
        (None, true, _) => json!("did_not"),
        (None, _, true) => json!("skip"),
        (None, false, false) => {
            return Err(Stop::because(
                Exit::Usage,
                "say what became of it: --happened RESULT, --did-not or --skip",
            ));
        }
    };
    let client = given.client()?;
    let id = named(&client, &id).await?;
    let body = json!({"slot": slot, "verdict": verdict});
    let thread = client.post(&path(&["threads", &id, "reconcile"])?, &body).await?;
    output::one(given.format, &thread, || format!("noted; thread {id} goes on"))?;
    Ok(Exit::Ok)
}
