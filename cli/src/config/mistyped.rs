//! Finds environment variables that look like a key but set nothing, such as `TURNFOLD_WORKER_SLOTS`.
//!
//! ## Why only names that resemble a key
//!
//! Other variables may begin with `TURNFOLD_` for good reasons: Kubernetes sets some for a service named turnfold, and an
//! operator may use one for a secret that a setting refers to.

use std::collections::BTreeMap;

use ::config::{Value, ValueKind};

use super::schema::Schema;

/// One warning for every variable that looks like a key. `merged` is the complete configuration.
pub(super) fn mistyped(
    schema: &Schema,
    environment: &BTreeMap<String, String>,
    merged: &Value,
) -> Vec<String> {
    let keys = schema.keys();
    let is_suspect = |name: &&String| !name.starts_with("TURNFOLD__") && !refers(merged, name);
    let warning = |name: &String| {
        let said = flat(name.strip_prefix("TURNFOLD_")?);
        let key = keys.iter().filter_map(|key| Some((distance(&said, key)?, key))).min()?.1;
        let wanted = key.to_uppercase().replace('*', "NAME").replace('.', "__");
        Some(format!(
            "{name} sets nothing: did you mean TURNFOLD__{wanted}, with two underscores for each dot?"
        ))
    };
    environment.keys().filter(is_suspect).filter_map(warning).collect()
}

/// Edit distance of a flattened name from a key, if it is small. Below a name that a person chooses, only an exact match counts.
fn distance(said: &str, key: &str) -> Option<usize> {
    match key.split_once(".*.") {
        None => Some(strsim::damerau_levenshtein(said, &flat(key)))
            .filter(|distance| *distance <= 1 + said.len() / 10),
        Some((section, rest)) => {
            let name = said.strip_prefix(&flat(section))?.strip_suffix(&flat(rest))?;
            (!name.is_empty()).then_some(0)
        }
    }
}

fn flat(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// True if a setting refers to this variable as a secret.
fn refers(value: &Value, name: &str) -> bool {
    match &value.kind {
        ValueKind::String(text) => text.strip_prefix("env:") == Some(name),
        ValueKind::Array(items) => items.iter().any(|item| refers(item, name)),
        ValueKind::Table(table) => table.values().any(|value| refers(value, name)),
        ValueKind::Nil
        | ValueKind::Boolean(_)
        | ValueKind::I64(_)
        | ValueKind::I128(_)
        | ValueKind::U64(_)
        | ValueKind::U128(_)
        | ValueKind::Float(_) => false,
    }
}

#[test]
fn variables_that_look_like_a_key_are_reported() {
    let schema = super::settings::Settings::schema(&strategies::all());
    let told = |names: &[&str], refers: &str| {
        let environment = names.iter().map(|name| ((*name).to_owned(), "3".to_owned())).collect();
        mistyped(&schema, &environment, &Value::from(refers))
    };
    for (name, wanted) in [
        ("TURNFOLD_WORKER_SLOTS", "TURNFOLD__WORKER__SLOTS,"),
        ("TURNFOLD_WORKER__SLOT", "TURNFOLD__WORKER__SLOTS,"),
        ("TURNFOLD_QUEUE_LEASE_SECONDS", "TURNFOLD__QUEUE__LEASE_SECONDS,"),
        ("TURNFOLD_STRATEGIES_PLANNER_MODEL", "TURNFOLD__STRATEGIES__PLANNER__MODEL,"),
        ("TURNFOLD_PROVIDERS_LOCAL_BASE_URL", "TURNFOLD__PROVIDERS__NAME__BASE_URL,"),
    ] {
        let told = told(&[name], "");
        assert!(told.len() == 1 && told[0].starts_with(name) && told[0].contains(wanted), "{name}: {told:?}");
    }
    let others = [
        "TURNFOLD_ENV",
        "TURNFOLD_URL",
        "TURNFOLD_KEY",
        "TURNFOLD_TENANT",
        "TURNFOLD_SOAK_SEED",
        "TURNFOLD_SOAK_SECONDS",
        "TURNFOLD_SIM_SEED",
        "TURNFOLD_BULK_LINES",
        "TURNFOLD_TEST_TOOLS",
        "TURNFOLD_SERVICE_HOST",
        "TURNFOLD_PORT",
        "TURNFOLD_PORT_2026_TCP_ADDR",
        "TURNFOLD__WORKER__SLOTS",
    ];
    assert_eq!(told(&others, ""), Vec::<String>::new());
    assert_eq!(told(&["TURNFOLD_STORE_URL"], "env:TURNFOLD_STORE_URL"), Vec::<String>::new());
}
