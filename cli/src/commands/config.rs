//! `turnfold config`: what is in force, and where it came from.

use serde_json::json;

use super::Given;
use crate::{args::Config, config::MANUAL, exit::Exit, output};

pub(crate) fn run(given: &Given, command: Config) -> anyhow::Result<Exit> {
    match command {
        Config::Default => output::print(MANUAL)?,
        Config::Show { origin } => {
            let shown = given.origins.shown();
            let things: Vec<_> = shown
                .iter()
                .map(|(key, value, from)| match origin {
                    true => json!({"key": key, "value": value, "origin": from}),
                    false => json!({"key": key, "value": value}),
                })
                .collect();
            output::many(given.format, &things, || {
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
