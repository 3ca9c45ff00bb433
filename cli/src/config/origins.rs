//! The origin of every value, and the value without its secrets.

use std::collections::BTreeMap;

use ::config::{Value, ValueKind};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use super::{format::Format, key::join, schema::Shape, secret::is_reference};

/// The origin of a default value.
pub(super) const DEFAULT: &str = "default";

/// Keys that differ between processes of one deployment: their names and addresses.
const OF_ONE_PROCESS: [&str; 3] = ["api.listen", "worker.metrics_listen", "worker.name"];

/// Every key that has a value, with its displayable value and its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, (String, String)>);

/// A key, its displayable value (as JSON, which TOML can read), and its origin.
pub type Shown = (String, String, String);

impl Origins {
    pub(super) fn of(value: &Value, shape: Shape<'_>) -> Self {
        let mut leaves = BTreeMap::new();
        collect(value, shape, "", &mut leaves);
        Self(leaves)
    }

    /// Every key with its value and its origin: `default`, a file, an environment variable or a flag.
    ///
    /// Secrets are shown by reference and URLs without credentials; values of `env` and `headers` are masked.
    pub fn shown(&self) -> Vec<Shown> {
        self.0.iter().map(|(key, (value, origin))| (key.clone(), value.clone(), origin.clone())).collect()
    }

    /// The SHA-256 of all keys and values as they are shown, in hexadecimal, but the name and the addresses of the process. Secrets
    /// are in it by reference, or not at all.
    pub(crate) fn sha256(&self) -> String {
        let of_all = self.0.iter().filter(|(key, _)| !OF_ONE_PROCESS.contains(&key.as_str()));
        let lines = of_all.map(|(key, (value, _))| format!("{key}={value}\n"));
        hex::encode(Sha256::digest(lines.collect::<String>()))
    }

    /// The origin of the value at `key`, or of the key that ends with `suffix` and stands for it.
    pub(crate) fn of_either(&self, key: &str, suffix: &str) -> String {
        let named = format!("{key}{suffix}");
        let is_set = self.0.contains_key(&named);
        self.of_key(if is_set { &named } else { key })
    }

    /// Reports whether the value at `key` is that of the defaults.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        let is_known = self.0.contains_key(key);
        is_known && self.of_either(key, "_file") == DEFAULT
    }

    /// Reports whether something beside the defaults sets the value at `key`, or a value below it.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.of_key(key) != DEFAULT
    }

    /// The origin of the value at `key`, or of the values below it. Defaults are omitted if another origin exists.
    pub fn of_key(&self, key: &str) -> String {
        let below = |text: &str| {
            text.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let mut origins: Vec<&str> =
            self.0.iter().filter(|(at, _)| below(at)).map(|(_, (_, origin))| origin.as_str()).collect();
        origins.sort_unstable();
        origins.dedup();
        if origins.len() > 1 {
            origins.retain(|origin| *origin != DEFAULT);
        }
        if origins.is_empty() { DEFAULT.to_owned() } else { origins.join(" and ") }
    }
}

fn collect(value: &Value, shape: Shape<'_>, key: &str, leaves: &mut BTreeMap<String, (String, String)>) {
    if let ValueKind::Table(table) = &value.kind {
        for (name, value) in table {
            collect(value, shape.child(name).unwrap_or_default(), &join(key, name), leaves);
        }
        return;
    }
    let origin = value.origin().unwrap_or(DEFAULT).to_owned();
    leaves.insert(key.to_owned(), (shown(value, shape).to_string(), origin));
}

fn shown(value: &Value, shape: Shape<'_>) -> Json {
    match &value.kind {
        ValueKind::Nil => Json::Null,
        ValueKind::Boolean(value) => json!(value),
        ValueKind::I64(value) => json!(value),
        ValueKind::I128(value) => json!(value.to_string()),
        ValueKind::U64(value) => json!(value),
        ValueKind::U128(value) => json!(value.to_string()),
        ValueKind::Float(value) => json!(value),
        ValueKind::String(text) => json!(shown_text(text, shape.format())),
        ValueKind::Array(items) => items.iter().map(|item| shown(item, shape.items())).collect(),
        ValueKind::Table(table) => {
            let entry = |(name, value): (&String, &Value)| {
                (name.clone(), shown(value, shape.child(name).unwrap_or_default()))
            };
            table.iter().map(entry).collect()
        }
    }
}

fn shown_text(text: &str, format: Option<Format>) -> String {
    match format {
        Some(_) if is_reference(text) => text.to_owned(),
        Some(Format::Secret | Format::MaybeSecret) => MASK.to_owned(),
        Some(Format::Address) | None => without_secrets(text),
    }
}

const MASK: &str = "***";

/// Masks the password of a URL, a user name without a password, and the values of the query. Other strings are unchanged.
fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (address, query) =
        rest.split_once('?').map_or((rest, None), |(address, query)| (address, Some(query)));
    let address = match address.rsplit_once('@') {
        Some((who, host)) => match who.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{host}"),
            // An @ in the path does not mark a user name.
            None if who.ends_with('/') => address.to_owned(),
            None => format!("{MASK}@{host}"),
        },
        None => address.to_owned(),
    };
    let value = |text: &str| match text.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    };
    let query = query.map(|query| format!("?{}", query.split('&').map(value).collect::<Vec<_>>().join("&")));
    format!("{scheme}://{address}{}", query.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(name: &str, listen: &str, lanes: &str) -> Origins {
        let values = [("worker.name", name), ("api.listen", listen), ("worker.lanes", lanes)];
        let leaf = |(key, value): (&str, &str)| (key.to_owned(), (value.to_owned(), DEFAULT.to_owned()));
        Origins(values.map(leaf).into())
    }

    #[test]
    fn processes_of_one_deployment_have_one_hash() {
        let first = origins("one", "10.0.0.1:2026", "8").sha256();
        for (name, listen) in [("two", "10.0.0.2:2026"), ("one", "10.0.0.1:2026"), ("two", "10.0.0.2:2026")] {
            assert_eq!(origins(name, listen, "8").sha256(), first, "{name}");
        }
        assert_ne!(origins("one", "10.0.0.1:2026", "9").sha256(), first);
    }
}
