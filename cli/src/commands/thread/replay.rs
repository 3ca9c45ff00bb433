//! `turnfold thread replay`: today's code against a recorded log.

use serde_json::json;
use shared::{Divergence, DivergenceCounts, Replayer};
use store::ThreadId;

use crate::{
    commands::{Context, source::Source},
    exit::Exit,
    output::{self, counted},
};

/// Maximum number of divergences that are listed; all are counted.
const MAX_LISTED: usize = 1_000;

pub(super) async fn run(ctx: &Context, source: &Source, id: ThreadId, prompts: bool) -> anyhow::Result<Exit> {
    let mut verifier = Replayer::new(source.graph(ctx, id).await?);
    let (mut counts, mut listed) = (DivergenceCounts::default(), Vec::new());
    source
        .scan_to(id, None, |recorded| {
            let Some(divergence) = verifier.see(&recorded.event)? else { return Ok(()) };
            counts.add(&divergence.field);
            if (prompts || !divergence.field.is_wording()) && listed.len() < MAX_LISTED {
                listed.push(divergence);
            }
            Ok(())
        })
        .await?;
    listed.sort_by_key(|divergence| (divergence.field.is_wording(), divergence.seq));
    let events = verifier.thread().seq();
    let DivergenceCounts { diverged, reworded, redescribed } = counts;
    let thing = json!({
        "events": events, "diverged": diverged, "reworded": reworded, "redescribed": redescribed,
        "divergences": listed,
    });
    output::one(ctx.format, &thing, || {
        let mut text = match diverged {
            0 => format!("{events} events: today's code makes every recorded decision"),
            n => format!("{events} events: DIVERGED at {}", counted(n, "event")),
        };
        text.extend(listed.iter().map(to_text));
        text += &output::and_more(diverged + if prompts { reworded + redescribed } else { 0 }, listed.len());
        if 0 < reworded && !prompts {
            text += &format!(
                "\n{} would be worded differently; list them with --prompts",
                counted(reworded, "prompt")
            );
        }
        if 0 < redescribed && !prompts {
            text += &format!(
                "\n{} would get other descriptions of tools or of the reply; list them with --prompts",
                counted(redescribed, "request")
            );
        }
        text
    })?;
    Ok(if counts.is_same(prompts) { Exit::Ok } else { Exit::Finding })
}

fn to_text(divergence: &Divergence) -> String {
    format!(
        "\nevent {}, {}, {}\n  recorded: {}\n  today:    {}",
        divergence.seq, divergence.node, divergence.field, divergence.then, divergence.today
    )
}
