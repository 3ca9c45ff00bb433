//! Attaches to every secret the name of its setting, and finds all references.

use ::config::{Map, Value, ValueKind};

use super::{key::join, schema::Shape, secret::SecretRef};

/// Replaces every secret in `value` by a [`Named`](super::secret::Named) one, and adds the references to secrets to
/// `references`.
pub(super) fn named(value: Value, shape: Shape<'_>, key: &str, references: &mut Vec<SecretRef>) -> Value {
    let origin = value.origin().map(str::to_owned);
    let kind = match value.kind {
        ValueKind::Table(table) => ValueKind::Table(
            table
                .into_iter()
                .map(|(name, value)| {
                    let (shape, key) = (shape.child(&name).unwrap_or_default(), join(key, &name));
                    (name, named(value, shape, &key, references))
                })
                .collect(),
        ),
        ValueKind::Array(items) => {
            let item = |(i, value)| named(value, shape.items(), &format!("{key}[{i}]"), references);
            ValueKind::Array(items.into_iter().enumerate().map(item).collect())
        }
        ValueKind::String(text) if shape.format().is_some() => {
            references.extend(SecretRef::all_in(key, &text));
            ValueKind::Table(Map::from([
                ("setting".to_owned(), Value::from(key)),
                ("text".to_owned(), Value::from(text)),
            ]))
        }
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
