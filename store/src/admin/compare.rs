//! Compares rows with those that administrative logs demand.

use std::collections::BTreeMap;

use sea_orm::FromQueryResult as _;

use super::expected::{Expected, ExpectedKey, Note};
use crate::{
    Error, Key, Store, ThreadId, forgotten_models::table as models, integrity::RowFinding,
    keys::table as keys, log::tables::holds, pauses::table as pauses, pins::table as pins,
};

/// Maximum characters of a key in a finding.
const KEY_MAX: usize = 200;

/// A table whose rows say who did something, when, and why.
struct Notes {
    table: &'static str,
    /// Columns of the key.
    key: &'static [&'static str],
    by: &'static [&'static str],
    at: &'static [&'static str],
    /// Column of the reason or the hash; empty if there is none.
    text: &'static [&'static str],
    /// Name of a row for people.
    row: &'static str,
}

const HOLDS: Notes = Notes {
    table: "holds",
    key: &["thread_id"],
    by: &["placed_by"],
    at: &["placed_at"],
    text: &["reason"],
    row: "the hold of thread",
};
const PINS: Notes = Notes {
    table: "mcp_pins",
    key: &["server"],
    by: &["approved_by"],
    at: &["updated_at"],
    text: &["hash"],
    row: "the pin of MCP server",
};
const PAUSES: Notes = Notes {
    table: "pauses",
    key: &["kind", "name"],
    by: &["by"],
    at: &["at"],
    text: &["reason"],
    row: "the pause of",
};
const MODELS: Notes = Notes {
    table: "forgotten_models",
    key: &["model"],
    by: &["by"],
    at: &["at"],
    text: &[],
    row: "the forgotten model",
};

impl Store {
    /// Compares the rows of keys, holds, pins, pauses and forgotten models with those that the logs demand.
    pub(super) async fn admin_rows(&self, expected: &Expected) -> Result<Vec<RowFinding>, Error> {
        let mut findings = self.key_findings(&expected.keys).await?;
        let holds = self.readable_rows("SELECT * FROM holds", holds::Model::from_query_result).await?;
        let hold = |row: holds::Model| {
            (row.thread_id, Note { by: row.placed_by, at: row.placed_at, text: row.reason })
        };
        let name = |thread: &ThreadId| thread.to_string();
        HOLDS.compare(&expected.holds, holds.into_iter().map(hold).collect(), name, &mut findings);
        let pins = self.readable_rows("SELECT * FROM mcp_pins", pins::Model::from_query_result).await?;
        let pin =
            |row: pins::Model| (row.server, Note { by: row.approved_by, at: row.updated_at, text: row.hash });
        PINS.compare(&expected.pins, pins.into_iter().map(pin).collect(), String::clone, &mut findings);
        let rows = self.readable_rows("SELECT * FROM pauses", pauses::Model::from_query_result).await?;
        let pause =
            |row: pauses::Model| ((row.kind, row.name), Note { by: row.by, at: row.at, text: row.reason });
        let demanded = expected
            .pauses
            .iter()
            .map(|((kind, name), note)| ((kind.as_str().to_owned(), name.clone()), note.clone()));
        let name = |(kind, name): &(String, String)| format!("{kind} {name}");
        PAUSES.compare(&demanded.collect(), rows.into_iter().map(pause).collect(), name, &mut findings);
        let rows =
            self.readable_rows("SELECT * FROM forgotten_models", models::Model::from_query_result).await?;
        let model = |row: models::Model| (row.model, Note { by: row.by, at: row.at, text: String::new() });
        MODELS.compare(&expected.models, rows.into_iter().map(model).collect(), String::clone, &mut findings);
        Ok(findings)
    }

    async fn key_findings(&self, expected: &BTreeMap<String, ExpectedKey>) -> Result<Vec<RowFinding>, Error> {
        let rows = self.readable_rows("SELECT * FROM api_keys", keys::Model::from_query_result).await?;
        let mut rows: BTreeMap<String, Key> =
            rows.into_iter().map(|row| (row.id.clone(), Key::from(row))).collect();
        let mut findings = Vec::new();
        for (id, key) in expected {
            match rows.remove(id) {
                Some(row) => findings.extend(key_finding(key, &row)),
                None => findings.push(RowFinding {
                    table: "api_keys",
                    columns: &["id"],
                    what: format!(
                        "the key {} is in the administrative log, and its row is missing",
                        short(id)
                    ),
                }),
            }
        }
        findings.extend(rows.into_keys().map(|id| RowFinding {
            table: "api_keys",
            columns: &["id"],
            what: format!("the key {} is in no administrative log: turnfold did not create it", short(&id)),
        }));
        Ok(findings)
    }
}

/// Compares a key with the log. Each column with another value is one finding.
fn key_finding(ExpectedKey { details, tenant, revoked_at }: &ExpectedKey, row: &Key) -> Vec<RowFinding> {
    let (id, now) = (short(&row.id), row.details());
    let mut findings = Vec::new();
    let mut find = |columns: &'static [&'static str], what: String| {
        findings.push(RowFinding { table: "api_keys", columns, what: format!("the key {id} {what}") });
    };
    if details.scopes != now.scopes {
        let (has, had) = (now.scopes.join(", "), details.scopes.join(", "));
        find(&["scopes"], format!("has the scopes {has}, and its log says {had}"));
    }
    if details.fingerprint != now.fingerprint {
        find(&["hash"], "has another secret than the one it was created with".to_owned());
    }
    if *tenant != row.tenant {
        let name = |tenant: &Option<String>| tenant.clone().unwrap_or_else(|| "an operator".to_owned());
        find(&["tenant"], format!("acts for {}, and its log says {}", name(&row.tenant), name(tenant)));
    }
    if details.name != now.name {
        find(&["name"], "has another name than in its log".to_owned());
    }
    if details.created_by != now.created_by {
        find(&["created_by"], format!("was created by {}, its log says", details.created_by));
    }
    if details.created_at != now.created_at {
        find(&["created_at"], "was created at another time, its log says".to_owned());
    }
    if details.expires_at != now.expires_at {
        find(&["expires_at"], "expires at another time than its log says".to_owned());
    }
    if *revoked_at != row.revoked_at {
        let what = match (revoked_at, row.revoked_at) {
            (Some(_), None) => "is valid, and its log says that it was revoked",
            (None, Some(_)) => "is revoked, and its log does not say so",
            _ => "was revoked at another time, its log says",
        };
        find(&["revoked_at"], what.to_owned());
    }
    if details.multitask_strategy != now.multitask_strategy {
        find(&["multitask_strategy"], "treats busy threads in another way than its log says".to_owned());
    }
    findings
}

impl Notes {
    fn compare<K: Ord>(
        &self,
        expected: &BTreeMap<K, Note>,
        mut rows: BTreeMap<K, Note>,
        name: impl Fn(&K) -> String,
        findings: &mut Vec<RowFinding>,
    ) {
        let mut find = |columns, key: &K, what: &str| {
            let what = format!("{} {} {what}", self.row, short(&name(key)));
            findings.push(RowFinding { table: self.table, columns, what });
        };
        for (key, expected) in expected {
            let Some(row) = rows.remove(key) else {
                find(self.key, key, "is in the administrative log, and its row is missing");
                continue;
            };
            for (columns, differs, what) in [
                (self.by, row.by != expected.by, "is by another person than its log says"),
                (self.at, row.at != expected.at, "has another time than its log says"),
                (self.text, row.text != expected.text, "has another reason or hash than its log says"),
            ] {
                if differs {
                    find(columns, key, what);
                }
            }
        }
        for key in rows.keys() {
            find(self.key, key, "is in no administrative log: turnfold did not write it");
        }
    }
}

fn short(key: &str) -> String {
    key.chars().take(KEY_MAX).collect()
}
