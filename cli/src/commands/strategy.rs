//! `turnfold strategy`: the strategies and their maps. Nothing is read but the binary itself.

use serde_json::json;

use super::Given;
use crate::{
    args::Strategy,
    exit::{Exit, Stop},
    output,
};

pub(crate) fn run(given: &Given, command: Strategy) -> anyhow::Result<Exit> {
    match command {
        Strategy::Ls => {
            let all: Vec<_> = given.strategies.all().collect();
            let things: Vec<_> = all
                .iter()
                .map(|it| json!({"name": it.name(), "version": it.version(), "about": it.about(), "defaults": it.defaults()}))
                .collect();
            output::many(given.format, &things, || {
                let row = |it: &&dyn shared::Graph| {
                    vec![it.name().into(), it.version().to_string(), it.about().into()]
                };
                output::table(&["name", "version", "about"], all.iter().map(row))
            })?;
        }
        Strategy::Map { name } => {
            let graph = given.strategies.find(&name).ok_or_else(|| {
                let known = given.strategies.names().join(", ");
                Stop::because(Exit::Usage, format!("no strategy is called {name:?}; there are: {known}"))
            })?;
            let map = shared::map(&graph.topology(), None);
            output::one(given.format, &json!({"name": name, "mermaid": map}), || map.clone())?;
        }
    }
    Ok(Exit::Ok)
}
