//! Validates one layer against the schema, and parses strings from the environment and from flags into typed values.

use ::config::{Map, Value, ValueKind};

use super::{
    error::ConfigError,
    key::join,
    schema::{Schema, Shape},
    secret,
};

/// The form in which a layer holds its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Typed values, as in TOML and JSON.
    Typed,
    /// Strings: an environment variable or a flag. If the schema requires another type, the string is parsed as JSON.
    ///
    /// ## Why the schema decides
    ///
    /// Guessing the type from the string would turn the key `007` into the number 7.
    Text,
}

/// Validates one layer.
pub(super) struct Fit<'a> {
    pub(super) schema: &'a Schema,
    pub(super) origin: &'a str,
    pub(super) written: Written,
}

impl Fit<'_> {
    /// Returns `value` with the types of the schema and with its origin at every leaf.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError::Unknown`] or [`ConfigError::Refused`].
    pub(super) fn layer(&self, value: Value) -> Result<Value, ConfigError> {
        self.value(value, self.schema.root(), "")
    }

    fn value(&self, value: Value, shape: Shape<'_>, key: &str) -> Result<Value, ConfigError> {
        let types = shape.types();
        let kind = match self.written {
            Written::Text => read(value.kind, &types),
            Written::Typed => value.kind,
        };
        let found = type_of(&kind);
        let fits =
            types.is_empty() || types.contains(&found) || (found == "integer" && types.contains(&"number"));
        if !fits {
            return Err(self.refused(key, self.requirement(&types)));
        }
        let kind = match kind {
            ValueKind::Table(table) => self.table(table, shape, key)?,
            ValueKind::Array(items) => {
                let item = |(i, item)| self.value(item, shape.items(), &format!("{key}[{i}]"));
                ValueKind::Array(items.into_iter().enumerate().map(item).collect::<Result<_, _>>()?)
            }
            ValueKind::String(text) => self.text(text, shape, key)?,
            ValueKind::I64(n) => self.number(n as f64, kind, shape, key)?,
            ValueKind::U64(n) => self.number(n as f64, kind, shape, key)?,
            ValueKind::Float(n) => self.number(n, kind, shape, key)?,
            ValueKind::I128(_) | ValueKind::U128(_) | ValueKind::Boolean(_) | ValueKind::Nil => kind,
        };
        Ok(Value::new(Some(&self.origin.to_owned()), kind))
    }

    fn table(
        &self,
        table: Map<String, Value>,
        shape: Shape<'_>,
        key: &str,
    ) -> Result<ValueKind, ConfigError> {
        let mut entries: Vec<_> = table.into_iter().collect();
        // The map has a random order; the same mistake should be reported every time.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let entry = |(name, value): (String, Value)| {
            let Some(inner) = shape.child(&name) else {
                return Err(ConfigError::Unknown {
                    key: join(key, &name),
                    origin: self.origin.to_owned(),
                    hint: self.schema.hint(key, shape, &name),
                });
            };
            let value = self.value(value, inner, &join(key, &name))?;
            Ok((name, value))
        };
        Ok(ValueKind::Table(entries.into_iter().map(entry).collect::<Result<_, _>>()?))
    }

    fn text(&self, text: String, shape: Shape<'_>, key: &str) -> Result<ValueKind, ConfigError> {
        let choices = shape.choices();
        if !choices.is_empty() && !choices.contains(&text.as_str()) {
            return Err(self.refused(key, format!("must be one of {}", choices.join(", "))));
        }
        if let Some(format) = shape.format() {
            secret::check(format, &text).map_err(|why| self.refused(key, why.to_owned()))?;
        }
        Ok(ValueKind::String(text))
    }

    fn number(&self, n: f64, kind: ValueKind, shape: Shape<'_>, key: &str) -> Result<ValueKind, ConfigError> {
        match shape.limits() {
            (Some(least), _) if n < least => Err(self.refused(key, format!("must be at least {least}"))),
            (_, Some(most)) if n > most => Err(self.refused(key, format!("must be at most {most}"))),
            (_, _) => Ok(kind),
        }
    }

    fn requirement(&self, types: &[&str]) -> String {
        let allowed: Vec<&str> = types
            .iter()
            .filter_map(|kind| match *kind {
                "integer" => Some("an integer"),
                "number" => Some("a number"),
                "boolean" => Some("true or false"),
                "string" => Some("a string"),
                "array" if self.written == Written::Text => Some("a list, written as JSON"),
                "array" => Some("a list"),
                "object" if self.written == Written::Text => Some("a table, written as JSON"),
                "object" => Some("a table"),
                _ => None,
            })
            .collect();
        format!("must be {}", allowed.join(" or "))
    }

    fn refused(&self, key: &str, why: String) -> ConfigError {
        ConfigError::Refused { key: key.to_owned(), origin: self.origin.to_owned(), why }
    }
}

/// Parses a string as JSON if none of the allowed `types` is a string. A string that is not JSON is returned unchanged.
fn read(kind: ValueKind, types: &[&str]) -> ValueKind {
    if types.is_empty() || types.contains(&"string") {
        return kind;
    }
    let ValueKind::String(text) = &kind else { return kind };
    let json =
        shared::check_json(text.as_bytes()).ok().and_then(|()| serde_json::from_str::<Value>(text).ok());
    json.map_or(kind, |kind| kind.kind)
}

fn type_of(kind: &ValueKind) -> &'static str {
    match kind {
        ValueKind::Nil => "null",
        ValueKind::Boolean(_) => "boolean",
        ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => "integer",
        ValueKind::Float(_) => "number",
        ValueKind::String(_) => "string",
        ValueKind::Table(_) => "object",
        ValueKind::Array(_) => "array",
    }
}
