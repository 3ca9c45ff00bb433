//! `turnfold strategy`: lists the strategies of this binary and draws their graphs.

use serde_json::json;

use super::Context;
use crate::{
    args::Strategy,
    exit::{CliError, Exit},
    output, suggest,
};

pub(crate) fn run(ctx: &Context, command: Strategy) -> anyhow::Result<Exit> {
    match command {
        Strategy::List => {
            let all: Vec<_> = ctx.strategies.all().collect();
            let things: Vec<_> = all
                .iter()
                .map(|it| json!({"name": it.name(), "version": it.version(), "about": it.about(), "defaults": it.defaults()}))
                .collect();
            output::many(ctx.format, &things, || {
                let row = |it: &&dyn shared::Graph| {
                    vec![it.name().into(), it.version().to_string(), it.about().into()]
                };
                output::table(&["name", "version", "about"], all.iter().map(row))
            })?;
        }
        Strategy::Map { name } => {
            let graph = ctx.strategies.find(&name).ok_or_else(|| {
                CliError::with_exit(Exit::Usage, suggest::unknown("strategy", &name, &ctx.strategies.names()))
            })?;
            let map = shared::map(&graph.topology(), None);
            output::one(ctx.format, &json!({"name": name, "mermaid": map}), || map.clone())?;
        }
    }
    Ok(Exit::Ok)
}
