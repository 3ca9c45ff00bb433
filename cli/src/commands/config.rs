//! `turnfold config`: the effective configuration, and the reference of all keys.

use serde_json::json;

use super::Context;
use crate::{args::Config, config::MANUAL, exit::Exit, output};

pub(crate) fn run(ctx: &Context, command: Config) -> anyhow::Result<Exit> {
    match command {
        Config::Default => output::print(MANUAL)?,
        Config::Show { origin } => {
            let shown = ctx.origins.shown();
            let things: Vec<_> = shown
                .iter()
                .map(|(key, value, from)| match origin {
                    true => json!({"key": key, "value": value, "origin": from}),
                    false => json!({"key": key, "value": value}),
                })
                .collect();
            output::many(ctx.format, &things, || {
                let head: &[&str] = if origin { &["key", "value", "origin"] } else { &["key", "value"] };
                let row = |(key, value, from): &(String, String, String)| {
                    let cells = [key.clone(), value.clone(), from.clone()];
                    cells.into_iter().take(head.len()).collect()
                };
                output::table(head, shown.iter().map(row))
            })?;
        }
    }
    Ok(Exit::Ok)
}
