//! Client of an endpoint with OpenAI's chat completions API.

mod reply;
mod transport;

use std::{sync::Arc, time::Duration};

use shared::{Fault, Reply, Usage};
use store::LearnedModel;

use super::{
    OpenAi, Prices, Prompt, Structured,
    dialect::{Dialect, DialectRow},
    http_error::{HttpError, ModeRejection},
    learned::{Known, Learned, without_refused},
    request::{self, RequestForm},
    target::{InvalidHeader, Target},
    tool_schemas::{MAX_CHANGES, ToolForms},
};
use crate::world::DeltaSink;

/// Number of forms that are looser than the strictest.
const MAX_LOOSER: usize = 2;

/// Maximum number of forms in which one request is tried.
const MAX_FORMS: usize = 8;

/// An endpoint with its key and settings.
pub(super) struct Endpoint {
    name: String,
    timeout: Duration,
    target: Target,
    http: reqwest::Client,
    structured: Structured,
    prices: Prices,
    stream: bool,
    dialect: &'static DialectRow,
    learned: Arc<Learned>,
}

impl Endpoint {
    pub(super) fn new(name: &str, settings: OpenAi, http: reqwest::Client) -> Result<Self, InvalidHeader> {
        let OpenAi { base_url, api_key, timeout, structured, prices, query, stream, headers, dialect } =
            settings;
        let dialect = dialect.unwrap_or_else(|| Dialect::of_url(&base_url)).row();
        Ok(Self {
            name: name.to_owned(),
            timeout,
            target: Target::new(&base_url, api_key, &headers, &query)?,
            http,
            structured,
            prices,
            stream,
            dialect,
            learned: Arc::new(Learned::new(dialect, structured)),
        })
    }

    /// Continues with what another one of the same address learned about its models.
    pub(super) fn with_learned_of(self, before: &Self) -> Self {
        let is_same = self.target.is_at(&before.target)
            && std::ptr::eq(self.dialect, before.dialect)
            && self.structured == before.structured;
        if is_same { Self { learned: Arc::clone(&before.learned), ..self } } else { self }
    }

    /// Requests a model's next message. Parts of the request that the endpoint refuses are left out, and what it accepts
    /// is remembered for the model.
    ///
    /// ## Why an output mode is not given up after one refusal
    ///
    /// A refusal seldom names its cause: a prompt that is too long is refused like an unsupported output mode. A looser
    /// mode is therefore remembered only once it worked where a stricter one was refused. A 500 without a cause may have
    /// been a temporary failure: it is reported, and the next request tries a looser mode.
    pub(super) async fn chat(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), Fault> {
        let epoch = self.learned.epoch();
        let mut form = self.form(model, prompt);
        let (mut tools, mut tool_changes) = (self.learned.tools(model), 0);
        let mut tried = Vec::new();
        let mut spent = Usage::default();
        loop {
            let mut failed = match self.request_once(model, prompt, &tools, form, deltas).await {
                Ok((reply, mut meter)) => {
                    let RequestForm { mode, features } = form;
                    // A form that replies made necessary says nothing about what the endpoint takes.
                    if self.learned.epoch() == epoch {
                        self.learned.accepted(model, features, mode.filter(|_| prompt.misfits < 2));
                        self.learned.accepted_tools(model, &tools);
                    }
                    meter.add_spent(&spent);
                    return Ok((reply, meter));
                }
                Err(failed) => failed,
            };
            if failed.fault.usage.is_some() || 0 < spent.tokens() {
                let meter = failed.fault.usage.get_or_insert_default();
                meter.add_spent(&spent);
                spent.clone_from(meter);
            }
            if tool_changes < MAX_CHANGES
                && let Some(refusal) = &failed.refusal
                && let Some((next, left_out)) = tools.after(refusal, &prompt.tools, tool_changes == 0)
            {
                self.log_tools(model, &left_out, &failed.fault);
                (tools, tool_changes) = (next, tool_changes + 1);
                continue;
            }
            tried.push(form);
            let Some(next) = failed
                .refusal
                .as_ref()
                .and_then(|refusal| self.next_form(model, prompt, &tools, form, refusal))
            else {
                return Err(failed.fault);
            };
            if tried.contains(&next) || MAX_FORMS <= tried.len() {
                return Err(failed.fault);
            }
            tracing::debug!(
                provider = self.name,
                model,
                "sending the request in another form: {}",
                failed.fault.error
            );
            form = next;
        }
    }

    /// Logs that a request is sent again with other forms of its tools. A tool that is left out is a warning.
    fn log_tools(&self, model: &str, left_out: &[String], fault: &Fault) {
        let (provider, error) = (&self.name, &fault.error);
        if left_out.is_empty() {
            tracing::info!(provider, model, "simplifying the schemas of tools: {error}");
        } else {
            let tools = left_out.join(", ");
            tracing::warn!(provider, model, "the model is not offered these tools: {tools}: {error}");
        }
    }

    /// Form of the next request to a model. After two replies that do not fit, each attempt takes the next form.
    fn form(&self, model: &str, prompt: &Prompt<'_>) -> RequestForm {
        let mut features = self.learned.of(model).features;
        features.streams &= self.stream;
        let looser = |mode, _| self.structured.looser(mode).unwrap_or(mode);
        let mode =
            || (1..prompt.misfits).take(MAX_LOOSER).fold(self.learned.mode(model, self.structured), looser);
        RequestForm { mode: prompt.shape.is_some().then(mode), features }
    }

    /// Returns the form to try after a refusal, if there is one.
    fn next_form(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        tools: &ToolForms,
        form: RequestForm,
        refusal: &HttpError,
    ) -> Option<RequestForm> {
        if refusal.is_about_size() {
            return None;
        }
        if let Some(features) = without_refused(form.features, refusal) {
            let next = RequestForm { features, ..form };
            let body = |form| request::body(model, prompt, tools, form);
            if body(next) != body(form) {
                return Some(next);
            }
        }
        let mode = form.mode?;
        match refusal.mode_rejection()? {
            ModeRejection::Certain => Some(RequestForm { mode: Some(self.structured.looser(mode)?), ..form }),
            ModeRejection::Doubtful => {
                self.learned.failed(model, mode);
                None
            }
        }
    }

    /// Cost of the tokens in millionths of a US dollar; `None` without a price.
    pub(super) fn cost(&self, model: &str, meter: &Usage) -> Option<u64> {
        self.prices.get(model).and_then(|price| price.of(meter))
    }

    /// The row of the endpoint's dialect.
    pub(super) fn dialect(&self) -> &'static DialectRow {
        self.dialect
    }

    /// Returns what is known of a model's endpoint.
    pub(super) fn known(&self, model: &str) -> Known {
        self.learned.of(model)
    }

    /// Returns what was learned about the models of the provider.
    pub(super) fn learned(&self, provider: &str) -> Vec<LearnedModel> {
        self.learned.list(provider)
    }

    /// Forgets what was learned about a model.
    pub(super) fn forget(&self, model: &str) {
        self.learned.forget(model);
    }
}
