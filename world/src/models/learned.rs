//! Remembers what each model's endpoint was found to refuse. It is forgotten when the process ends, or on an operator's request.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use store::LearnedModel;

use super::{
    dialect::{DialectRow, Features, TokenLimit},
    http_error::HttpError,
    messages::{MessageOrder, MessageRules},
    structured_output::{OutputMode, Structured},
    tool_schemas::ToolForms,
};

/// Maximum models remembered. More are used like unknown ones.
const MAX_MODELS: usize = 1_000;

/// Number of times that a stricter mode fails and a looser one then succeeds, after which the stricter mode is given up.
const MAX_DOUBTS: u8 = 2;

/// The form in which one model is sent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Parts of a request.
    pub(super) features: Features,
    /// Strictest mode of structured output that the model is believed to support.
    pub(super) mode: OutputMode,
    /// True for a model that begins in the middle of its reasoning.
    pub(super) unopened_reasoning: bool,
    /// Mode that failed last, without a reason.
    doubtful: Option<OutputMode>,
    doubts: u8,
}

/// Knowledge about the models of one endpoint.
pub(super) struct Learned {
    initial: Known,
    models: Mutex<BTreeMap<String, Known>>,
    /// Forms of tools by model.
    tools: Mutex<BTreeMap<String, ToolForms>>,
    /// Number of times that a model was forgotten. A request that began before teaches nothing.
    epoch: AtomicU64,
}

impl Learned {
    /// Begins with what the dialect says. A configured method of structured output takes precedence.
    pub(super) fn new(dialect: &DialectRow, structured: Structured) -> Self {
        let mode = structured.first().unwrap_or(dialect.mode);
        let initial =
            Known { features: dialect.features, mode, unopened_reasoning: false, doubtful: None, doubts: 0 };
        Self { initial, models: Mutex::default(), tools: Mutex::default(), epoch: AtomicU64::default() }
    }

    /// Returns what is known of a model.
    pub(super) fn of(&self, model: &str) -> Known {
        self.lock().get(model).copied().unwrap_or(self.initial)
    }

    /// Returns the mode of the next request. After a failure without a reason, a looser one is tried once.
    pub(super) fn mode(&self, model: &str, structured: Structured) -> OutputMode {
        let known = self.of(model);
        known.doubtful.and_then(|mode| structured.looser(mode)).unwrap_or(known.mode)
    }

    /// Remembers the form of a request that the endpoint accepted.
    ///
    /// `mode` is its mode of structured output.
    pub(super) fn accepted(&self, model: &str, features: Features, mode: Option<OutputMode>) {
        self.change(model, |known| {
            known.features = features;
            let Some(mode) = mode else { return };
            match known.doubtful.take() {
                Some(failed) if failed < mode => {
                    known.doubts += 1;
                    if MAX_DOUBTS <= known.doubts {
                        known.mode = known.mode.max(mode);
                    }
                }
                Some(_) | None => {
                    known.mode = known.mode.max(mode);
                    known.doubts = 0;
                }
            }
        });
    }

    /// Returns the forms of the tools whose schemas the model's endpoint refused.
    pub(super) fn tools(&self, model: &str) -> ToolForms {
        self.lock_tools().get(model).cloned().unwrap_or_default()
    }

    /// Remembers the forms of tools in a request that the endpoint accepted.
    pub(super) fn accepted_tools(&self, model: &str, forms: &ToolForms) {
        if forms.is_empty() {
            return;
        }
        let mut models = self.lock_tools();
        if models.len() < MAX_MODELS || models.contains_key(model) {
            models.entry(model.to_owned()).or_default().learn(forms);
        }
    }

    /// Returns what was learned, for people, sorted by model.
    pub(super) fn list(&self, provider: &str) -> Vec<LearnedModel> {
        let mut list: BTreeMap<String, LearnedModel> = BTreeMap::new();
        for (model, known) in &*self.lock() {
            let mode = (known.mode != self.initial.mode).then(|| known.mode.name().to_owned());
            let refused = refused(self.initial.features, known.features);
            if mode.is_some() || !refused.is_empty() {
                let learned = list.entry(model.clone()).or_default();
                (learned.structured_output, learned.refused) = (mode, refused);
            }
        }
        for (model, forms) in &*self.lock_tools() {
            let learned = list.entry(model.clone()).or_default();
            (learned.simplified_tools, learned.omitted_tools) = forms.names();
        }
        let named = |(model, learned): (String, LearnedModel)| LearnedModel {
            model: format!("{provider}/{model}"),
            ..learned
        };
        list.into_iter().map(named).collect()
    }

    /// Returns the number of times that a model was forgotten.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Forgets everything about a model, also what requests under way will find.
    pub(super) fn forget(&self, model: &str) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.lock().remove(model);
        self.lock_tools().remove(model);
    }

    /// Remembers that a request with this mode failed without a reason.
    pub(super) fn failed(&self, model: &str, mode: OutputMode) {
        self.change(model, |known| known.doubtful = Some(mode));
    }

    /// Remembers that the model begins in the middle of its reasoning.
    pub(super) fn begins_reasoning(&self, model: &str) {
        self.change(model, |known| known.unopened_reasoning = true);
    }

    fn change(&self, model: &str, change: impl FnOnce(&mut Known)) {
        let mut models = self.lock();
        let before = models.get(model).copied().unwrap_or(self.initial);
        let mut known = before;
        change(&mut known);
        if known != before && (models.contains_key(model) || models.len() < MAX_MODELS) {
            models.insert(model.to_owned(), known);
        }
    }

    fn lock_tools(&self) -> MutexGuard<'_, BTreeMap<String, ToolForms>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of requests that some endpoints refuse.
struct Part {
    /// Words by which a refusal names the part, in lower case.
    words: &'static [&'static str],
    /// Changes the form to one without the part.
    leave_out: fn(&mut Features),
}

/// Parts that endpoints refuse, and how they say so. The first that a refusal names, and that changes the form, is left
/// out.
const PARTS: [Part; 12] = [
    Part { words: &["stream_options", "include_usage"], leave_out: |form| form.stream_options = false },
    Part {
        words: &["max_completion_tokens"],
        leave_out: |form| {
            form.token_limit = match form.token_limit {
                TokenLimit::MaxTokens => TokenLimit::MaxCompletionTokens,
                TokenLimit::MaxCompletionTokens => TokenLimit::MaxTokens,
            }
        },
    },
    Part {
        words: &["'strict'", "`strict`", "\"strict\"", ".strict", "strict: ", "field strict", "strict mode"],
        leave_out: |form| form.strict_tools = false,
    },
    Part { words: &["parallel_tool_calls"], leave_out: |form| form.parallel_tool_calls = false },
    Part {
        words: &["json_schema and streaming", "streaming with response", "response format and stream"],
        leave_out: |form| form.streams_formats = false,
    },
    Part {
        words: &[
            "not support stream",
            "streaming is not supported",
            "stream is not supported",
            "'stream'",
            "stream must be false",
        ],
        leave_out: |form| form.streams = false,
    },
    Part {
        words: &["single tool-call", "single tool call"],
        leave_out: |form| form.messages.parallel_calls = false,
    },
    Part { words: &["length of 9", "tool call id"], leave_out: |form| form.messages.short_call_ids = true },
    Part {
        words: &["must define tools", "`tools=`", "toolconfig"],
        leave_out: |form| form.messages.declares_called_tools = true,
    },
    Part {
        words: &["thought_signature", "thoughtsignature"],
        leave_out: |form| form.messages.signs_calls = true,
    },
    Part {
        words: &[
            "'content') input should be a valid string",
            "content: input should be a valid string",
            "content must be a string",
            "content must not be null",
            "content cannot be null",
            "content should not be null",
            "invalid type: null",
            "content is required",
        ],
        leave_out: |form| form.messages.null_content = false,
    },
    Part {
        words: &[
            "after role",
            "after the tool",
            "must alternate",
            "roles must",
            "role order",
            "message order",
            "conversation role",
        ],
        leave_out: |form| form.messages.order = MessageOrder::Alternating,
    },
];

/// Returns the parts of a request that differ from the dialect's form, for people.
fn refused(initial: Features, known: Features) -> Vec<String> {
    let (before, now) = (initial.messages, known.messages);
    let limit = initial.token_limit.name();
    let parts = [
        (initial.streams != known.streams, "stream"),
        (initial.streams_formats != known.streams_formats, "stream with response_format"),
        (initial.stream_options != known.stream_options, "stream_options"),
        (initial.parallel_tool_calls != known.parallel_tool_calls, "parallel_tool_calls"),
        (initial.strict_tools != known.strict_tools, "strict"),
        (initial.token_limit != known.token_limit, limit),
        (before.order != now.order, "messages in any order"),
        (before.parallel_calls != now.parallel_calls, "several calls in one message"),
        (before.short_call_ids != now.short_call_ids, "ids of calls that do not have 9 characters"),
        (before.declares_called_tools != now.declares_called_tools, "calls without declared tools"),
        (before.signs_calls != now.signs_calls, "calls without a signature"),
        (before.null_content != now.null_content, "null content beside calls"),
    ];
    parts.into_iter().filter(|(differs, _)| *differs).map(|(_, part)| part.to_owned()).collect()
}

/// Words by which a refusal complains about the order of messages, in lower case.
const ORDER_WORDS: [&str; 16] = [
    "user message",
    "user query",
    "user turn",
    "system message",
    "system role",
    "'system'",
    "last role",
    "last message",
    "end with a user",
    "prefill",
    "assistant message",
    "role",
    "contents is not specified",
    "contents are required",
    "at least one message",
    "non-empty",
];

/// Returns the form of the next request after a refusal, if the endpoint names a part that can be left out.
pub(super) fn without_refused(features: Features, refusal: &HttpError) -> Option<Features> {
    let named = PARTS.iter().filter(|part| refusal.refuses(part.words)).find_map(|part| {
        let mut changed = features;
        (part.leave_out)(&mut changed);
        (changed != features).then_some(changed)
    });
    let reordered = || {
        let order = features.messages.order.max(MessageOrder::UserFirst);
        let changed = Features { messages: MessageRules { order, ..features.messages }, ..features };
        (refusal.refuses(&ORDER_WORDS) && changed != features).then_some(changed)
    };
    named.or_else(reordered)
}
