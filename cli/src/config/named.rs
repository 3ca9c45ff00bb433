//! Tells every secret which setting it belongs to.

use ::config::{Map, Value, ValueKind};
use serde::Deserialize;

use super::{fit::join, schema::Shape};

/// A text with the name of its setting: what these types are read from.
///
/// ## Why not from the text alone
///
/// A missing secret is found when it is first needed, far from any file; its error must still name the setting.
#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) setting: String,
    pub(super) text: String,
}

/// `value` with every secret turned into a [`Named`] one.
pub(super) fn named(value: Value, shape: Shape<'_>, key: &str) -> Value {
    let origin = value.origin().map(str::to_owned);
    let kind = match value.kind {
        ValueKind::Table(table) => ValueKind::Table(
            table
                .into_iter()
                .map(|(name, value)| {
                    let (shape, key) = (shape.child(&name).unwrap_or_default(), join(key, &name));
                    (name, named(value, shape, &key))
                })
                .collect(),
        ),
        ValueKind::Array(items) => {
            let item = |(i, value)| named(value, shape.items(), &format!("{key}[{i}]"));
            ValueKind::Array(items.into_iter().enumerate().map(item).collect())
        }
        ValueKind::String(text) if shape.format().is_some() => ValueKind::Table(Map::from([
            ("setting".to_owned(), Value::from(key)),
            ("text".to_owned(), Value::from(text)),
        ])),
        plain @ (ValueKind::Nil
        | ValueKind::Boolean(_)
        | ValueKind::I64(_)
        | ValueKind::I128(_)
        | ValueKind::U64(_)
        | ValueKind::U128(_)
        | ValueKind::Float(_)
        | ValueKind::String(_)) => plain,
    };
    Value::new(origin.as_ref(), kind)
}
