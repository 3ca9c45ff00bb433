//! `turnfold strategy`: lists the strategies of this binary, draws their graphs, shows how their nodes are configured and creates
//! new ones.

mod show;

use serde_json::json;
use shared::Graph;

use super::{Context, new_strategy};
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
                .map(|strategy| json!({"name": strategy.name(), "version": strategy.version(), "about": strategy.about(), "defaults": strategy.defaults()}))
                .collect();
            output::many(ctx.format, &things, || {
                let row = |strategy: &&dyn shared::Graph| {
                    vec![strategy.name().into(), strategy.version().to_string(), strategy.about().into()]
                };
                output::table(&["name", "version", "about"], all.iter().map(row))
            })?;
        }
        Strategy::Map { name } => {
            let map = shared::map(&find(ctx, &name)?.topology(), None);
            output::one(ctx.format, &json!({"name": name, "mermaid": map}), || map.clone())?;
        }
        Strategy::Show { name, prompts } => show::run(ctx, find(ctx, &name)?, prompts)?,
        Strategy::New { name, path, turnfold } => {
            let folder = path.unwrap_or_else(|| name.clone().into());
            return new_strategy::run(ctx, &name, &folder, turnfold);
        }
    }
    Ok(Exit::Ok)
}

fn find(ctx: &Context, name: &str) -> anyhow::Result<&'static dyn Graph> {
    ctx.strategies.find(name).ok_or_else(|| {
        CliError::with_exit(Exit::Usage, suggest::unknown("strategy", name, &ctx.strategies.names()))
    })
}
