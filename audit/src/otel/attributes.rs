//! Attributes of spans.

use shared::{Request, Usage};

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Integer(u64),
    /// A number with decimals.
    Decimal(f64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

/// An attribute: its name and value.
pub type Attribute = (&'static str, AttributeValue);

/// The name of a request's span, and the attributes that say what was requested.
pub(super) fn of_request(request: &Request) -> (String, Vec<Attribute>) {
    match request {
        Request::Chat { model, .. } => {
            let (provider, name) = model.split_once('/').unwrap_or(("", model));
            let attributes = vec![
                ("gen_ai.operation.name", "chat".into()),
                ("gen_ai.provider.name", provider.into()),
                ("gen_ai.request.model", name.into()),
            ];
            (format!("chat {name}"), attributes)
        }
        Request::CallTool { server, call } => {
            let attributes = vec![
                ("gen_ai.operation.name", "execute_tool".into()),
                ("gen_ai.tool.name", call.name.as_str().into()),
                ("gen_ai.tool.call.id", call.id.as_str().into()),
                ("gen_ai.tool.type", "function".into()),
                ("turnfold.server", server.as_str().into()),
            ];
            (format!("execute_tool {}", call.name), attributes)
        }
        Request::ListTools { server } => of_server("list_tools", server),
        Request::ListPrompts { server } => of_server("list_prompts", server),
        Request::GetPrompt { server, .. } => of_server("get_prompt", server),
        Request::Describe { server } => of_server("describe", server),
        Request::ReadMore { .. } => ("read_more".to_owned(), Vec::new()),
        Request::Search { .. } => ("search".to_owned(), Vec::new()),
        Request::Index { .. } => ("index".to_owned(), Vec::new()),
        Request::Simulate(_) => ("simulate".to_owned(), Vec::new()),
    }
}

fn of_server(operation: &str, server: &str) -> (String, Vec<Attribute>) {
    (format!("{operation} {server}"), vec![("turnfold.server", server.into())])
}

/// The attributes of a response's usage.
pub(super) fn of_usage(usage: &Usage) -> Vec<Attribute> {
    let Usage {
        model,
        input_tokens,
        output_tokens,
        cached_input_tokens,
        cache_write_tokens,
        micro_usd,
        duration_ms: _,
        response_format,
    } = usage;
    let mut attributes = Vec::new();
    if !model.is_empty() {
        attributes.push(("gen_ai.response.model", model.as_str().into()));
    }
    for (name, tokens) in [
        ("gen_ai.usage.input_tokens", *input_tokens),
        ("gen_ai.usage.output_tokens", *output_tokens),
        ("gen_ai.usage.cache_read.input_tokens", *cached_input_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", *cache_write_tokens),
    ] {
        if 0 < tokens {
            attributes.push((name, tokens.into()));
        }
    }
    if !response_format.is_empty() {
        attributes.push(("turnfold.response_format", response_format.as_str().into()));
    }
    attributes.extend(micro_usd.map(|cost| ("turnfold.cost_usd", AttributeValue::Decimal(usd(cost)))));
    attributes
}

#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
fn usd(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}
