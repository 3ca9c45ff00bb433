//! `turnfold schema`: checks that this version reads the events of released versions.

use super::Context;
use crate::{args::Schema, exit::Exit, output};

pub(crate) fn run(ctx: &Context, command: Schema) -> anyhow::Result<Exit> {
    let Schema::Check = command;
    let graphs: Vec<_> = ctx.strategies.all().collect();
    let checked = audit::schema::check(&graphs);
    let exit = if checked.breaches.is_empty() { Exit::Ok } else { Exit::Finding };
    output::one(ctx.format, &checked, || {
        let counts =
            format!("{} golden logs, {} events of {} kinds", checked.logs, checked.events, checked.kinds);
        if checked.breaches.is_empty() {
            return format!("{counts}: all are read as they were written, and fold");
        }
        let listed = checked.breaches.iter().map(|breach| {
            let field = breach.field.as_ref().map_or_else(String::new, |field| format!(", field {field}"));
            format!("\n  {}:{}: kind {}{field}: {}", breach.log, breach.line, breach.kind, breach.what)
        });
        format!("{counts}: {} BREACHES{}", checked.breaches.len(), listed.collect::<String>())
    })?;
    Ok(exit)
}
