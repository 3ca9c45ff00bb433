//! `turnfold thread verify`: does the hash chain hold, and where would today's code decide otherwise?

use serde_json::json;
use shared::{Divergence, Verifier};
use store::{Chain, Store, ThreadId};

use super::graph_of;
use crate::{
    commands::Given,
    exit::Exit,
    output::{self, counted},
};

/// How many divergences are told; all are counted.
const TOLD: usize = 1_000;

pub(super) async fn verify(
    given: &Given,
    store: &Store,
    id: ThreadId,
    prompts: bool,
) -> anyhow::Result<Exit> {
    let chain = store.verify_chain(id).await?;
    if let Chain::Broken { seq, what } = &chain {
        let thing = json!({"chain": "broken", "seq": seq, "what": what});
        output::one(given.format, &thing, || {
            format!("TAMPERED: the hash chain breaks at event {seq}: {what}")
        })?;
        return Ok(Exit::Finding);
    }
    let mut verifier = Verifier::new(graph_of(given, store, id).await?);
    let (mut diverged, mut reworded, mut told) = (0, 0, Vec::new());
    store
        .along(id, 0, None, |it| {
            let Some(divergence) = verifier.see(&it.event)? else { return anyhow::Ok(()) };
            let counter = if divergence.field.is_prompt() { &mut reworded } else { &mut diverged };
            *counter += 1_usize;
            if (prompts || !divergence.field.is_prompt()) && told.len() < TOLD {
                told.push(divergence);
            }
            Ok(())
        })
        .await?;
    told.sort_by_key(|it| (it.field.is_prompt(), it.seq));
    let events = verifier.thread().seq();
    let thing = json!({
        "chain": "intact", "events": events, "diverged": diverged, "reworded": reworded, "divergences": told,
    });
    output::one(given.format, &thing, || {
        let mut words = format!("the hash chain over {events} events holds\n");
        words += &match diverged {
            0 => "today's code decides every step as the log says".to_owned(),
            n => format!("DIVERGED at {}", counted(n, "event")),
        };
        words.extend(told.iter().map(one));
        let more = (diverged + if prompts { reworded } else { 0 }).saturating_sub(told.len());
        if 0 < more {
            words += &format!("\nand {more} more");
        }
        if 0 < reworded && !prompts {
            let prompts = counted(reworded, "prompt");
            words += &format!("\n{prompts} would be worded otherwise today: --prompts tells which");
        }
        words
    })?;
    Ok(if diverged == 0 && (reworded == 0 || !prompts) { Exit::Ok } else { Exit::Finding })
}

fn one(it: &Divergence) -> String {
    format!("\nevent {}, {}, {}\n  then:  {}\n  today: {}", it.seq, it.node, it.field, it.then, it.today)
}
