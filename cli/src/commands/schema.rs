//! `turnfold schema`: whether this version reads what released ones wrote.

use super::Given;
use crate::{args::Schema, exit::Exit, output};

pub(crate) fn run(given: &Given, command: Schema) -> anyhow::Result<Exit> {
    let Schema::Check = command;
    let graphs: Vec<_> = given.strategies.all().collect();
    let checked = audit::schema::check(&graphs);
    let exit = if checked.breaches.is_empty() { Exit::Ok } else { Exit::Finding };
    output::one(given.format, &checked, || {
        let looked =
            format!("{} golden logs, {} events of {} kinds", checked.logs, checked.events, checked.kinds);
        if checked.breaches.is_empty() {
            return format!("{looked}: all are read as they were written, and folded");
        }
        let told = checked.breaches.iter().map(|it| {
            let field = it.field.as_ref().map_or_else(String::new, |it| format!(", field {it}"));
            format!("\n  {}:{}: kind {}{field}: {}", it.log, it.line, it.kind, it.what)
        });
        format!("{looked}: {} BREACHES{}", checked.breaches.len(), told.collect::<String>())
    })?;
    Ok(exit)
}
