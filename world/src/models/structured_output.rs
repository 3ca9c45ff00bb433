//! Structured output: the strictest method that an endpoint supports.

/// Method of requesting replies that match a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Structured {
    /// The strictest method each model turns out to support.
    #[default]
    Auto,
    /// Only `response_format` with the schema.
    JsonSchema,
    /// Only a call of one function, with the schema as its parameters.
    Tool,
    /// Only the schema in the prompt.
    Json,
}

/// Method of one request, from strictest to loosest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutputMode {
    /// Schema as `response_format`.
    JsonSchema,
    /// Schema as the parameters of a function that must be called.
    Tool,
    /// Schema in a system message.
    Json,
}

impl Structured {
    /// Output mode to try first, if it is configured.
    pub(super) fn first(self) -> Option<OutputMode> {
        match self {
            Self::Auto => None,
            Self::JsonSchema => Some(OutputMode::JsonSchema),
            Self::Tool => Some(OutputMode::Tool),
            Self::Json => Some(OutputMode::Json),
        }
    }

    /// Output mode to try after `mode` was rejected, if any.
    pub(super) fn looser(self, mode: OutputMode) -> Option<OutputMode> {
        match (self, mode) {
            (Self::Auto, OutputMode::JsonSchema) => Some(OutputMode::Tool),
            (Self::Auto, OutputMode::Tool) => Some(OutputMode::Json),
            (Self::Auto, OutputMode::Json) | (Self::JsonSchema | Self::Tool | Self::Json, _) => None,
        }
    }
}

impl OutputMode {
    /// Name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::Tool => "tool",
            Self::Json => "json",
        }
    }
}
