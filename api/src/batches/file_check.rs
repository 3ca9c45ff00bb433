//! The check of a batch file before a batch exists, by the rules that its creation applies: of the API, of the console and of the
//! command line.
//!
//! Memory is bounded: one chunk is held at a time, and of each `custom_id` only a hash and a line number.

use std::sync::Arc;

use api_types::{BatchValidation, InvalidLine};
use queue::Priority;
use shared::DEFAULT_TENANT;
use store::batches::{Chunk, Chunker};
use tokio_util::sync::CancellationToken;

use super::{
    endpoint::BatchEndpoint,
    envelope::{LineError, open},
    line::{BatchTerms, LineReader, check_url, field_of},
    lines::{FilePosition, Names, RawLine, split},
};
use crate::server::{
    config::ApiConfig,
    principal::{Actor, Principal},
    state::AppState,
    tenant_rules::Submitter,
};

/// Maximum number of invalid lines that are listed; all are counted.
const LISTED_MAX: usize = 100;

/// A check of a file that arrives in pieces.
pub struct BatchFileCheck {
    rules: Rules,
    line_max: usize,
    chunker: Chunker,
    from: FilePosition,
    names: Names,
    endpoint: Option<BatchEndpoint>,
    found: BatchValidation,
}

enum Rules {
    /// The format that all APIs share: a line is JSON with a name, a method, an endpoint and a body.
    Format,
    /// The rules of one API for lines of a tenant.
    Api { app: Arc<AppState>, tenant: String, is_operator: bool, author: Actor },
}

impl BatchFileCheck {
    /// Creates a check of the format alone, for a file that goes to an API with an unknown configuration.
    pub fn of_format(line_max: usize) -> Self {
        Self::new(Rules::Format, line_max, None)
    }

    /// Creates the check of an API with this configuration, for an operator or for a tenant.
    pub fn of_config(config: ApiConfig, tenant: Option<&str>) -> Self {
        let app = Arc::new(AppState::new(config, CancellationToken::new()));
        let line_max = app.batches.line_max;
        let rules = Rules::Api {
            app,
            tenant: tenant.unwrap_or(DEFAULT_TENANT).to_owned(),
            is_operator: tenant.is_none(),
            author: Actor::without_key("api"),
        };
        Self::new(rules, line_max, None)
    }

    /// Creates the check of a request. Without `endpoint`, that of the first line counts.
    pub(crate) fn of_request(
        app: &Arc<AppState>,
        principal: &Principal,
        author: Actor,
        endpoint: Option<BatchEndpoint>,
    ) -> Self {
        let Submitter { tenant, is_operator } = principal.into();
        let rules = Rules::Api { app: Arc::clone(app), tenant: tenant.to_owned(), is_operator, author };
        Self::new(rules, app.batches.line_max, endpoint)
    }

    fn new(rules: Rules, line_max: usize, endpoint: Option<BatchEndpoint>) -> Self {
        Self {
            rules,
            line_max,
            chunker: Chunker::new(line_max),
            from: FilePosition::default(),
            names: Names::default(),
            endpoint,
            found: BatchValidation::default(),
        }
    }

    /// Adds the next bytes of the file.
    pub fn push(&mut self, piece: &[u8]) {
        for chunk in self.chunker.push(piece) {
            self.check(&chunk);
        }
    }

    /// Returns the result once the whole file was added.
    pub fn finish(mut self) -> BatchValidation {
        if let Some(chunk) = std::mem::replace(&mut self.chunker, Chunker::new(self.line_max)).finish() {
            self.check(&chunk);
        }
        self.found.object = "batch.validation".to_owned();
        self.found.endpoint = self.endpoint.map(|endpoint| endpoint.url().to_owned());
        self.found
    }

    fn check(&mut self, chunk: &Chunk) {
        let (lines, last) = split(self.from, chunk, self.line_max);
        self.from = FilePosition { chunk: self.from.chunk + 1, line: last };
        self.endpoint = self.endpoint.or_else(|| lines.iter().find_map(endpoint_of));
        let endpoint = self.endpoint.unwrap_or(BatchEndpoint::Turns);
        let reader = self.rules.reader(endpoint);
        for RawLine { nth, text, .. } in lines {
            let (custom_id, checked) = match (&reader, text) {
                (_, Err(error)) => (None, Err(error)),
                (Some(reader), Ok(text)) => {
                    let (custom_id, checked) = reader.check(text);
                    (custom_id, checked.map(drop))
                }
                (None, Ok(text)) => {
                    let (custom_id, envelope) = open(text);
                    (custom_id, envelope.and_then(|envelope| check_url(endpoint, &envelope.url)))
                }
            };
            self.found.lines += 1;
            if let Err(error) = self.names.add(custom_id.as_deref(), nth).and(checked) {
                self.found.invalid += 1;
                if self.found.errors.len() < LISTED_MAX {
                    self.found.errors.push(invalid(Some(nth), error));
                }
            }
        }
    }
}

impl Rules {
    /// Returns the parser of lines for an endpoint; none for the format alone.
    fn reader(&self, endpoint: BatchEndpoint) -> Option<LineReader<'_>> {
        let Self::Api { app, tenant, is_operator, author } = self else { return None };
        let terms = BatchTerms {
            submitter: Submitter { tenant, is_operator: *is_operator },
            author: author.clone(),
            priority: Priority::Low,
        };
        Some(LineReader::new(app, endpoint, terms))
    }
}

fn endpoint_of(line: &RawLine<'_>) -> Option<BatchEndpoint> {
    let (_, envelope) = open(line.text.as_ref().ok()?);
    BatchEndpoint::of(&envelope.ok()?.url)
}

fn invalid(line: Option<u64>, (code, message): LineError) -> InvalidLine {
    InvalidLine { param: field_of(&code).map(str::to_owned), code, message, line }
}
