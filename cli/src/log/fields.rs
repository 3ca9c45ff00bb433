//! The fields of spans and log messages, by name.
//!
//! ## Why spans do not keep their fields as text
//!
//! A job records its position at every step. As text, each position would be appended to the one before, and a message would
//! repeat the fields of its span.

use std::fmt;

use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatFields},
    layer::{Context, Layer},
    registry::LookupSpan,
};

/// Values by name, in the order in which they were first recorded. A later value replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct Fields(pub(super) Vec<(&'static str, Value)>);

impl Fields {
    /// Returns the fields of a message and of its spans.
    pub(super) fn of<S, N>(context: &FmtContext<'_, S, N>, event: &Event<'_>) -> Self
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        let mut fields = Self::default();
        event.record(&mut fields);
        for span in context.event_scope().into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<Self>() {
                fields.extend(of_span);
            }
        }
        fields
    }

    /// Returns the text of a field; empty without it.
    pub(super) fn text(&self, name: &str) -> String {
        let value = self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn set(&mut self, field: &Field, value: Value) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.name(), value)),
        }
    }

    /// Adds the fields of an outer span that are not known yet.
    pub(super) fn extend(&mut self, outer: &Fields) {
        for (name, value) in &outer.0 {
            if !self.0.iter().any(|(known, _)| known == name) {
                self.0.push((name, value.clone()));
            }
        }
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}

/// Keeps the fields of each span with the span.
pub(super) struct SpanFields;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanFields {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }
}
