//! `turnfold audit log`: the administrative logs.

use api_types::AdminEntry;
use serde_json::{Map, Value};
use store::{AdminFilter, Store};

use super::{Context, selection::before};
use crate::{args::AdminLog, exit::Exit, output};

/// Maximum characters of a value that a line shows; JSON has all of it.
const SHOWN: usize = 60;

pub(super) async fn run(ctx: &Context, store: &Store, command: AdminLog) -> anyhow::Result<Exit> {
    let AdminLog { kind, since, limit } = command;
    let since = since.map(before).transpose()?;
    let filter = AdminFilter { tenant: ctx.tenant.clone(), kind, since, before: None };
    let entries = store.admin_entries(&filter, limit).await?;
    let entries = entries.into_iter().map(audit::admin_entry).collect::<Result<Vec<_>, _>>()?;
    output::many(ctx.format, &entries, || match entries.is_empty() {
        true => "no entries".to_owned(),
        false => output::table(
            &["time", "tenant", "by", "key", "decision", "about", "reason"],
            entries.iter().map(row),
        ),
    })?;
    Ok(Exit::Ok)
}

fn row(entry: &AdminEntry) -> Vec<String> {
    let kind = match entry.adopted {
        true => format!("{} (older than the log)", entry.kind),
        false => entry.kind.clone(),
    };
    vec![
        output::when(&entry.at),
        entry.tenant.clone().unwrap_or_else(|| "-".to_owned()),
        entry.by.clone(),
        entry.key.clone().unwrap_or_else(|| "-".to_owned()),
        kind,
        about(&entry.what),
        entry.reason.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Renders the fields of a decision: `thread=…, turns=2`. Times and hashes are in JSON alone.
fn about(what: &Value) -> String {
    let fields = what.as_object().into_iter().flatten();
    let shown = fields.filter(|(name, _)| !["at", "hash", "before"].contains(&name.as_str()));
    let text: Vec<String> = shown
        .map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Array(items) => output::counted(items.len(), "id"),
                Value::Object(row) => about_row(row),
                other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other.to_string(),
            };
            format!("{name}={}", text.chars().take(SHOWN).collect::<String>())
        })
        .collect();
    text.join(", ")
}

/// Renders a new row: the id, and the scopes of a key, the times of a schedule or the host of a webhook.
fn about_row(row: &Map<String, Value>) -> String {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    let scopes = row.get("scopes").and_then(Value::as_array).into_iter().flatten();
    let scopes: Vec<&str> = scopes.filter_map(Value::as_str).collect();
    format!("{} ({}{}{})", text("id"), scopes.join(","), text("cron"), text("host"))
}
