//! How a model is made to answer in a shape: the strictest way that its endpoint knows.

/// What a provider can be asked for where a model's words must take a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Structured {
    /// The strictest that the endpoint turns out to know, for each of its models.
    #[default]
    Auto,
    /// `response_format` with a schema, and nothing else.
    JsonSchema,
    /// A call of one function, whose parameters are the schema, and nothing else.
    Tool,
    /// The schema in words, and nothing else.
    Json,
}

/// How a shape was asked for, from the strictest to the loosest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// As `response_format`.
    JsonSchema,
    /// As the parameters of a function that must be called.
    Tool,
    /// In a system message.
    Json,
}

impl Structured {
    /// The form to begin with.
    pub(super) fn first(self) -> Form {
        match self {
            Self::Auto | Self::JsonSchema => Form::JsonSchema,
            Self::Tool => Form::Tool,
            Self::Json => Form::Json,
        }
    }

    /// The form to fall to from this one, if the endpoint does not know it.
    pub(super) fn below(self, form: Form) -> Option<Form> {
        match (self, form) {
            (Self::Auto, Form::JsonSchema) => Some(Form::Tool),
            (Self::Auto, Form::Tool) => Some(Form::Json),
            (Self::Auto, Form::Json) | (Self::JsonSchema | Self::Tool | Self::Json, _) => None,
        }
    }
}

impl Form {
    /// As it stands in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::Tool => "tool",
            Self::Json => "json",
        }
    }
}
