//! Compares rows of schedules and webhooks with those that administrative logs demand, field by field.

use std::collections::BTreeMap;

use sea_orm::FromQueryResult as _;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::expected::Expected;
use crate::{Error, RowFinding, Store, schedules::table as schedules, webhooks::table::webhooks};

/// Fields of a row as its log has them; a missing one is null in the row.
pub(super) type Fields = Map<String, Value>;

/// Field of the end of a row's work, and of its reason.
pub(super) const STOPPED: [&str; 2] = ["stopped_at", "stopped_reason"];
pub(super) const DISABLED: [&str; 2] = ["disabled_at", "disabled_reason"];

/// A table whose rows have an id, and fields that a log has.
struct Table {
    name: &'static str,
    /// Name of a row for people.
    row: &'static str,
    /// Each field, and its column.
    fields: &'static [(&'static str, &'static [&'static str])],
}

const SCHEDULES: Table = Table {
    name: "schedules",
    row: "schedule",
    fields: &[
        ("tenant", &["tenant"]),
        ("name", &["name"]),
        ("cron", &["cron"]),
        ("zone", &["zone"]),
        ("missed", &["missed"]),
        ("target", &["target"]),
        ("body_sha256", &["body"]),
        ("author", &["author"]),
        ("key_id", &["key_id"]),
        ("by_operator", &["by_operator"]),
        ("created_at", &["created_at"]),
        ("stopped_at", &["stopped_at"]),
        ("stopped_reason", &["stopped_reason"]),
    ],
};

const WEBHOOKS: Table = Table {
    name: "webhooks",
    row: "webhook",
    fields: &[
        ("tenant", &["tenant"]),
        ("url_sha256", &["url"]),
        ("secret_sha256", &["secret"]),
        ("types", &["types"]),
        ("strategy", &["strategy"]),
        ("metadata_sha256", &["metadata"]),
        ("created_at", &["created_at"]),
        ("disabled_at", &["disabled_at"]),
        ("disabled_reason", &["disabled_reason"]),
    ],
};

/// Returns the fields of a row that does its work.
pub(super) fn fields(details: &impl Serialize, tenant: Option<&str>) -> Fields {
    // Details are texts and numbers, which are always JSON.
    let mut fields = match serde_json::to_value(details) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Fields::new(),
    };
    set(&mut fields, "tenant", json!(tenant));
    fields
}

/// Notes when a row ended its work, and why; or that it continues.
pub(super) fn end(fields: &mut Fields, [at, reason]: [&str; 2], time: Option<i64>, why: Option<String>) {
    set(fields, at, json!(time));
    set(fields, reason, json!(why));
}

/// Sets a field. Null is no field, as in the details.
pub(super) fn set(fields: &mut Fields, name: &str, value: Value) {
    match value.is_null() {
        true => fields.remove(name),
        false => fields.insert(name.to_owned(), value),
    };
}

impl Store {
    /// Compares the rows of schedules and webhooks with those that the logs demand.
    pub(super) async fn admin_fields(&self, expected: &Expected) -> Result<Vec<RowFinding>, Error> {
        let mut findings = Vec::new();
        let mut rows = BTreeMap::new();
        let schedule = |row: schedules::Model| {
            let mut fields = fields(&row.details(), Some(&row.tenant));
            end(&mut fields, STOPPED, row.stopped_at, row.stopped_reason);
            rows.insert(row.id, fields);
        };
        self.each_readable("schedules", schedules::Model::from_query_result, schedule).await?;
        SCHEDULES.compare(&expected.schedules_beside(&rows), rows, &mut findings);
        let mut rows = BTreeMap::new();
        let webhook = |row: webhooks::Model| {
            let mut fields = fields(&row.details(), row.tenant.as_deref());
            end(&mut fields, DISABLED, row.disabled_at, row.disabled_reason);
            rows.insert(row.id, fields);
        };
        self.each_readable("webhooks", webhooks::Model::from_query_result, webhook).await?;
        WEBHOOKS.compare(&expected.webhooks, rows, &mut findings);
        Ok(findings)
    }
}

impl Table {
    fn compare(
        &self,
        expected: &BTreeMap<Uuid, Fields>,
        mut rows: BTreeMap<Uuid, Fields>,
        findings: &mut Vec<RowFinding>,
    ) {
        let Self { name: table, row: kind, fields } = *self;
        let mut find = |columns: &'static [&'static str], what: String| {
            findings.push(RowFinding { table, columns, what });
        };
        for (id, expected) in expected {
            let Some(row) = rows.remove(id) else {
                find(
                    &["id"],
                    format!("the {kind} {id} is in the administrative log, and its row is missing"),
                );
                continue;
            };
            for (field, columns) in fields {
                if row.get(*field) != expected.get(*field) {
                    find(columns, format!("the {kind} {id} has another {} than its log says", columns[0]));
                }
            }
        }
        for id in rows.keys() {
            find(&["id"], format!("the {kind} {id} is in no administrative log: turnfold did not create it"));
        }
    }
}
