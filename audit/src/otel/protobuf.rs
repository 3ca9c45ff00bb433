//! The protocol of OpenTelemetry over HTTP, in its binary form.

use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span as WireSpan, Status, status::StatusCode},
};
use prost::Message as _;

use super::{
    attributes::{Attribute, AttributeValue},
    trace::Span,
};

/// Builds the body of a `POST /v1/traces` as `application/x-protobuf`.
pub fn export_protobuf(spans: &[Span], version: &str) -> Vec<u8> {
    let resource = [("service.name", "turnfold".into()), ("service.version", version.into())];
    let scope = InstrumentationScope {
        name: "turnfold".to_owned(),
        version: version.to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans =
        ScopeSpans { scope: Some(scope), spans: spans.iter().map(span).collect(), ..ScopeSpans::default() };
    let resource_spans = ResourceSpans {
        resource: Some(Resource { attributes: attributes(&resource), ..Resource::default() }),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

/// Returns the number of spans that a collector rejected, from the body of its response. A body in another form rejects none.
pub fn rejected_spans(body: &[u8]) -> u64 {
    let response = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let rejected = response.partial_success.map(|part| part.rejected_spans).unwrap_or_default();
    u64::try_from(rejected).unwrap_or_default()
}

fn span(span: &Span) -> WireSpan {
    let nanoseconds = |micros: i64| u64::try_from(micros).unwrap_or_default().saturating_mul(1_000);
    WireSpan {
        trace_id: span.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(|id| id.to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: span.kind as i32,
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end),
        attributes: attributes(&span.attributes),
        status: span
            .error
            .as_ref()
            .map(|message| Status { message: message.clone(), code: StatusCode::Error.into() }),
        ..WireSpan::default()
    }
}

fn attributes(attributes: &[Attribute]) -> Vec<KeyValue> {
    let key_value = |(key, attribute): &Attribute| KeyValue {
        key: (*key).to_owned(),
        value: Some(value(attribute)),
        ..KeyValue::default()
    };
    attributes.iter().map(key_value).collect()
}

fn value(attribute: &AttributeValue) -> AnyValue {
    let text = |text: &String| Value::StringValue(text.clone());
    let value = match attribute {
        AttributeValue::Text(value) => text(value),
        AttributeValue::Integer(number) => Value::IntValue(i64::try_from(*number).unwrap_or(i64::MAX)),
        AttributeValue::Decimal(number) => Value::DoubleValue(*number),
        AttributeValue::Texts(values) => {
            let values = values.iter().map(|value| AnyValue { value: Some(text(value)) }).collect();
            Value::ArrayValue(ArrayValue { values })
        }
    };
    AnyValue { value: Some(value) }
}
