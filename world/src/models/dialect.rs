//! Dialects: what endpoints with OpenAI's API take, and what they refuse.

use reqwest::Url;
use shared::status;

use super::{
    messages::{MessageOrder, MessageRules},
    structured_output::OutputMode,
};

status! {
    /// Dialect of an endpoint, with its name in the configuration.
    Dialect {
        /// Endpoints of OpenAI.
        OpenAi = "openai",
        /// Endpoints of Azure OpenAI.
        Azure = "azure",
        /// Anthropic's endpoint for OpenAI's clients, and proxies to it.
        Anthropic = "anthropic",
        /// Endpoints of vLLM.
        Vllm = "vllm",
        /// The server of llama.cpp.
        LlamaCpp = "llama.cpp",
        /// Endpoints of Ollama.
        Ollama = "ollama",
        /// Google's endpoint for OpenAI's clients, and proxies to it.
        Gemini = "gemini",
        /// Endpoints of Mistral.
        Mistral = "mistral",
        /// Endpoints of Groq.
        Groq = "groq",
        /// Endpoints of OpenRouter.
        OpenRouter = "openrouter",
        /// Any other endpoint: requests in the form that most endpoints take.
        Compatible = "compatible",
    }
}

/// One row of the table of dialects.
pub struct DialectRow {
    /// Dialect that the row describes.
    pub dialect: Dialect,
    /// Hosts of `base_url` by which the dialect is recognized. A name counts for its subdomains, too.
    hosts: &'static [&'static str],
    /// Port of `base_url` by which the dialect is recognized.
    port: Option<u16>,
    /// Method of structured output to try first.
    pub(super) mode: OutputMode,
    pub(super) features: Features,
}

/// Parts of a request that depend on the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// True if replies can be streamed.
    pub(super) streams: bool,
    /// True if replies with a `response_format` can be streamed.
    pub(super) streams_formats: bool,
    /// True if `stream_options` may be sent, by which the endpoint reports tokens.
    pub(super) stream_options: bool,
    /// True if parallel calls must be asked for with `parallel_tool_calls`.
    pub(super) parallel_tool_calls: bool,
    /// True if a function may be declared strict.
    pub(super) strict_tools: bool,
    /// Field for the maximum number of tokens in the reply.
    pub(super) token_limit: TokenLimit,
    /// Rules of the messages.
    pub(super) messages: MessageRules,
}

/// Field for the maximum number of tokens in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenLimit {
    /// The field that most endpoints know.
    MaxTokens,
    /// The field of OpenAI's newer models, which refuse the other.
    MaxCompletionTokens,
}

impl TokenLimit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Form of a request that most endpoints take.
const COMPATIBLE: Features = Features {
    streams: true,
    streams_formats: true,
    stream_options: true,
    parallel_tool_calls: false,
    strict_tools: true,
    token_limit: TokenLimit::MaxTokens,
    messages: MessageRules::STRICT,
};

const FREE: Features = Features { messages: MessageRules::FREE, ..COMPATIBLE };

/// A row whose dialect is known by these hosts.
const fn row(
    dialect: Dialect,
    hosts: &'static [&'static str],
    mode: OutputMode,
    features: Features,
) -> DialectRow {
    DialectRow { dialect, hosts, port: None, mode, features }
}

/// The table of dialects.
pub static DIALECTS: [DialectRow; Dialect::ALL.len()] = [
    row(
        Dialect::OpenAi,
        &["api.openai.com"],
        OutputMode::JsonSchema,
        Features { token_limit: TokenLimit::MaxCompletionTokens, ..FREE },
    ),
    row(
        Dialect::Azure,
        &["openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"],
        OutputMode::JsonSchema,
        FREE,
    ),
    // It ignores `response_format`.
    row(
        Dialect::Anthropic,
        &["api.anthropic.com"],
        OutputMode::Tool,
        Features {
            messages: MessageRules { declares_called_tools: true, ..MessageRules::STRICT },
            ..COMPATIBLE
        },
    ),
    row(Dialect::Vllm, &[], OutputMode::JsonSchema, COMPATIBLE),
    row(Dialect::LlamaCpp, &[], OutputMode::JsonSchema, Features { parallel_tool_calls: true, ..COMPATIBLE }),
    DialectRow {
        port: Some(11434),
        ..row(Dialect::Ollama, &["ollama.com"], OutputMode::JsonSchema, COMPATIBLE)
    },
    row(
        Dialect::Gemini,
        &["generativelanguage.googleapis.com", "aiplatform.googleapis.com"],
        OutputMode::JsonSchema,
        Features { messages: MessageRules { signs_calls: true, ..MessageRules::STRICT }, ..COMPATIBLE },
    ),
    row(
        Dialect::Mistral,
        &["api.mistral.ai"],
        OutputMode::JsonSchema,
        Features {
            stream_options: false,
            messages: MessageRules {
                order: MessageOrder::Alternating,
                short_call_ids: true,
                ..MessageRules::STRICT
            },
            ..COMPATIBLE
        },
    ),
    row(
        Dialect::Groq,
        &["api.groq.com"],
        OutputMode::JsonSchema,
        Features { streams_formats: false, ..COMPATIBLE },
    ),
    row(Dialect::OpenRouter, &["openrouter.ai"], OutputMode::JsonSchema, COMPATIBLE),
    row(Dialect::Compatible, &[], OutputMode::JsonSchema, COMPATIBLE),
];

impl Dialect {
    /// Recognizes the dialect of an endpoint by its address.
    pub fn of_url(base_url: &str) -> Self {
        let Ok(url) = Url::parse(base_url) else { return Self::Compatible };
        let host = url.host_str().unwrap_or("");
        let is_host = |name: &&str| {
            host.strip_suffix(name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.') || rest.ends_with('-'))
        };
        let is_it = |row: &&DialectRow| {
            row.hosts.iter().any(is_host) || (url.port().is_some() && url.port() == row.port)
        };
        DIALECTS.iter().find(is_it).map_or(Self::Compatible, |row| row.dialect)
    }

    /// Returns the row of the dialect in the table.
    pub fn row(self) -> &'static DialectRow {
        DIALECTS.iter().find(|row| row.dialect == self).unwrap_or(&DIALECTS[DIALECTS.len() - 1])
    }
}

impl DialectRow {
    /// Header of the table of dialects.
    pub const COLUMNS: [&'static str; 8] = [
        "dialect",
        "recognized by",
        "structured answers first by",
        "token counts of streams",
        "limit of a reply",
        "messages",
        "tool calls",
        "streams",
    ];

    /// Returns the row as text, for people.
    pub fn cells(&self) -> [String; 8] {
        let Features { streams_formats, stream_options, parallel_tool_calls, token_limit, messages, .. } =
            self.features;
        let mut known: Vec<String> = self.hosts.iter().map(|host| (*host).to_owned()).collect();
        known.extend(self.port.map(|port| format!("port {port}")));
        let or = |texts: Vec<&str>, none: &str| match &texts[..] {
            [] => none.to_owned(),
            texts => texts.join(", "),
        };
        [
            self.dialect.to_string(),
            match (known.is_empty(), self.dialect) {
                (false, _) => known.join(", "),
                (true, Dialect::Compatible) => "any other address".to_owned(),
                (true, _) => "nothing: set `dialect`".to_owned(),
            },
            self.mode.name().to_owned(),
            if stream_options { "asked for".to_owned() } else { "as it sends them".to_owned() },
            token_limit.name().to_owned(),
            messages.order.about().to_owned(),
            or(
                [
                    (parallel_tool_calls, "parallel calls are asked for"),
                    (messages.declares_called_tools, "called tools are always declared"),
                    (messages.short_call_ids, "ids of 9 characters"),
                    (messages.signs_calls, "calls carry a signature"),
                    (!messages.null_content, "empty text beside calls"),
                ]
                .into_iter()
                .filter_map(|(is_so, text)| is_so.then_some(text))
                .collect(),
                "as OpenAI",
            ),
            if streams_formats { "every answer" } else { "all but json_schema" }.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_recognized_by_the_address() {
        for (url, dialect) in [
            ("https://api.openai.com/v1", Dialect::OpenAi),
            ("https://eu.api.openai.com/v1", Dialect::OpenAi),
            ("https://name.openai.azure.com/openai/deployments/x?api-version=1", Dialect::Azure),
            ("https://api.anthropic.com/v1/", Dialect::Anthropic),
            ("http://127.0.0.1:11434/v1", Dialect::Ollama),
            ("https://generativelanguage.googleapis.com/v1beta/openai", Dialect::Gemini),
            ("https://europe-west1-aiplatform.googleapis.com/v1/projects/p", Dialect::Gemini),
            ("https://api.mistral.ai/v1", Dialect::Mistral),
            ("https://api.groq.com/openai/v1", Dialect::Groq),
            ("https://openrouter.ai/api/v1", Dialect::OpenRouter),
            ("https://notopenrouter.ai/api/v1", Dialect::Compatible),
            ("http://127.0.0.1:8080/v1", Dialect::Compatible),
            ("no address", Dialect::Compatible),
        ] {
            assert_eq!(Dialect::of_url(url), dialect, "{url}");
        }
    }

    #[test]
    fn every_dialect_has_one_row() {
        for dialect in Dialect::ALL {
            assert_eq!(DIALECTS.iter().filter(|row| row.dialect == dialect).count(), 1, "{dialect}");
            assert_eq!(dialect.row().dialect, dialect);
        }
    }
}
