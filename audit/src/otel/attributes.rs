//! Attributes of spans.

use serde_json::Value;
use shared::{COMMANDS, ModelParameters, Request, Usage};

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Integer(u64),
    /// A number with decimals.
    Decimal(f64),
    /// A list of texts.
    Texts(Vec<String>),
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
        Request::Chat { model, parameters, response_schema, .. } => {
            let (provider, name) = model.split_once('/').unwrap_or(("", model));
            let mut attributes = vec![
                ("gen_ai.operation.name", "chat".into()),
                ("gen_ai.provider.name", provider.into()),
                ("gen_ai.request.model", name.into()),
            ];
            attributes.extend(parameters.as_deref().map(of_parameters).unwrap_or_default());
            attributes.extend(response_schema.as_ref().map(|_| ("gen_ai.output.type", "json".into())));
            (format!("chat {name}"), attributes)
        }
        Request::CallTool { server, call } => {
            let mut attributes = vec![
                ("gen_ai.operation.name", "execute_tool".into()),
                ("gen_ai.tool.name", call.name.as_str().into()),
                ("gen_ai.tool.call.id", call.id.as_str().into()),
                ("gen_ai.tool.type", "function".into()),
                ("turnfold.server", server.as_str().into()),
            ];
            // Plain HTTP commands are no server of the protocol.
            if server != COMMANDS {
                attributes.push(("mcp.method.name", "tools/call".into()));
            }
            (format!("execute_tool {}", call.name), attributes)
        }
        Request::ListTools { server } => of_method("list_tools", "tools/list", server),
        Request::ListPrompts { server } => of_method("list_prompts", "prompts/list", server),
        Request::GetPrompt { server, .. } => of_method("get_prompt", "prompts/get", server),
        Request::Describe { server } => of_server("describe", server),
        Request::ReadMore { .. } => ("read_more".to_owned(), Vec::new()),
        Request::Search { .. } => ("search".to_owned(), Vec::new()),
        Request::Index { .. } => ("index".to_owned(), Vec::new()),
        Request::Simulate(_) => ("simulate".to_owned(), Vec::new()),
    }
}

/// The parameters of a model's reply, by the names of the conventions.
fn of_parameters(parameters: &ModelParameters) -> Vec<Attribute> {
    let ModelParameters { temperature, max_tokens, reasoning_effort, extra } = parameters;
    let decimal = |name: &str| extra.get(name).and_then(Value::as_f64).map(AttributeValue::Decimal);
    let integer = |name: &str| extra.get(name).and_then(Value::as_u64).map(AttributeValue::Integer);
    let texts = |stop: &Value| -> Vec<String> {
        let one = std::slice::from_ref(stop);
        let all = stop.as_array().map_or(one, Vec::as_slice);
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let stops = extra.get("stop").map(texts);
    [
        ("gen_ai.request.temperature", temperature.map(AttributeValue::Decimal)),
        ("gen_ai.request.max_tokens", max_tokens.map(|tokens| u64::from(tokens).into())),
        ("gen_ai.request.top_p", decimal("top_p")),
        ("gen_ai.request.top_k", decimal("top_k")),
        ("gen_ai.request.frequency_penalty", decimal("frequency_penalty")),
        ("gen_ai.request.presence_penalty", decimal("presence_penalty")),
        ("gen_ai.request.seed", integer("seed")),
        ("gen_ai.request.stop_sequences", stops.map(AttributeValue::Texts)),
        ("turnfold.reasoning_effort", reasoning_effort.as_deref().map(AttributeValue::from)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

fn of_method(operation: &str, method: &'static str, server: &str) -> (String, Vec<Attribute>) {
    let (name, mut attributes) = of_server(operation, server);
    attributes.push(("mcp.method.name", method.into()));
    (name, attributes)
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
        reasoning_tokens: _,
        micro_usd,
        duration_ms: _,
        response_format,
        response_id,
    } = usage;
    let mut attributes = Vec::new();
    if !model.is_empty() {
        attributes.push(("gen_ai.response.model", model.as_str().into()));
    }
    if !response_id.is_empty() {
        attributes.push(("gen_ai.response.id", response_id.as_str().into()));
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
