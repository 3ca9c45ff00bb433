//! The protocol of OpenTelemetry over HTTP, in its JSON form: ids are hexadecimal, and 64-bit numbers are strings.

use serde_json::{Value, json};

use super::{
    attributes::{Attribute, AttributeValue},
    trace::Span,
};

/// Builds the body of a `POST /v1/traces`.
pub fn export_request(spans: &[Span], version: &str) -> Value {
    let resource = [("service.name", "turnfold".into()), ("service.version", version.into())];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(&resource) },
            "scopeSpans": [{
                "scope": { "name": "turnfold", "version": version },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(span: &Span) -> Value {
    let nanoseconds = |micros: i64| micros.max(0).saturating_mul(1_000).to_string();
    let mut json = json!({
        "traceId": hex::encode(span.trace),
        "spanId": hex::encode(span.id),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": nanoseconds(span.start),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": attributes(&span.attributes),
        "status": match &span.error {
            Some(message) => json!({ "code": 2, "message": message }),
            None => json!({}),
        },
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = hex::encode(parent).into();
    }
    json
}

fn attributes(attributes: &[Attribute]) -> Vec<Value> {
    let value = |value: &AttributeValue| match value {
        AttributeValue::Text(text) => json!({ "stringValue": text }),
        AttributeValue::Integer(number) => json!({ "intValue": number.to_string() }),
        AttributeValue::Decimal(number) => json!({ "doubleValue": number }),
        AttributeValue::Texts(texts) => {
            let values: Vec<Value> = texts.iter().map(|text| json!({ "stringValue": text })).collect();
            json!({ "arrayValue": { "values": values } })
        }
    };
    attributes.iter().map(|(key, attribute)| json!({ "key": key, "value": value(attribute) })).collect()
}
