//! Responses of batches.

use api_types::{BatchErrors, BatchExtension, BatchStatus, InvalidLine, RequestCounts, TokenUsage, TopCause};
use queue::clock;
use shared::usd;
use store::batches::{Batch, Cause, ItemState, Pace, UnderWay};

use super::{
    line::field_of,
    rerun::{rerun_of, resumable},
};
use crate::server::{
    openai_ids::{batch_name, file_name, float, seconds},
    problem::ApiError,
    state::AppState,
};

/// Maximum number of invalid lines in a response.
const ERRORS_MAX: u64 = 100;

/// Maximum number of causes in a response.
const CAUSES_MAX: u64 = 5;

/// Number of recent results that the rate is measured over.
const RATE_RESULTS: u64 = 1000;

/// Converts a batch to its response.
pub(crate) async fn show(app: &AppState, batch: Batch) -> Result<api_types::Batch, ApiError> {
    let not_answered = batch.counts.of(ItemState::Partial) + batch.counts.of(ItemState::Declined);
    let causes = match batch.failed() + not_answered {
        0 => Vec::new(),
        1.. => app.backends.store.causes(batch.id, CAUSES_MAX).await?,
    };
    let mut shown = show_briefly(app, batch).await?;
    shown.turnfold.top_causes = Some(causes.into_iter().map(top_cause).collect());
    Ok(shown)
}

/// Converts a batch to its response without the causes: to find these, thousands of lines would be read.
pub(crate) async fn show_briefly(app: &AppState, batch: Batch) -> Result<api_types::Batch, ApiError> {
    let store = &app.backends.store;
    let of = |state: ItemState| batch.counts.of(state);
    let under_way =
        if of(ItemState::Submitted) > 0 { store.under_way(batch.id).await? } else { UnderWay::default() };
    let failed = batch.failed();
    // It is unknown when people answer, and when a stopped batch is resumed.
    let moving = of(ItemState::Submitted) + if batch.stopped.is_none() { of(ItemState::Waiting) } else { 0 };
    let pace = store.pace(batch.id, batch.done, RATE_RESULTS).await?;
    let rate_per_s = pace.and_then(|pace| rate(pace, &batch, moving));
    let errors = errors(app, &batch, of(ItemState::Invalid)).await?;
    let over = !batch.status.is_open();
    let file = |id: Option<store::batches::FileId>| id.filter(|_| over).map(file_name);
    let turnfold = BatchExtension {
        awaiting_input: of(ItemState::AwaitingInput),
        submitted: of(ItemState::Submitted),
        running: under_way.running,
        queued: of(ItemState::Waiting) + under_way.queued,
        reused: of(ItemState::Reused),
        partial: of(ItemState::Partial),
        declined: of(ItemState::Declined),
        expired: of(ItemState::Expired),
        cancelled: of(ItemState::Cancelled),
        invalid: of(ItemState::Invalid),
        results: batch.done,
        rate_per_s,
        eta_s: rate_per_s
            .filter(|rate| *rate > 0.0 && moving > 0 && batch.status == BatchStatus::InProgress)
            .map(|rate| float(moving) / rate),
        tokens: batch.input_tokens.saturating_add(batch.output_tokens),
        usd: usd(batch.micro_usd),
        max_usd: batch.max_micro_usd.map(usd),
        stopped: batch.stopped,
        resumable: resumable(app, &batch).await?,
        top_causes: None,
    };
    Ok(api_types::Batch {
        id: batch_name(batch.id),
        object: "batch".to_owned(),
        endpoint: batch.endpoint,
        errors,
        input_file_id: file_name(batch.input_file),
        completion_window: batch.completion_window,
        status: batch.status,
        output_file_id: file(batch.output_file),
        error_file_id: file(batch.error_file),
        created_at: seconds(batch.at.created),
        in_progress_at: batch.at.in_progress.map(seconds),
        expires_at: seconds(batch.at.expires),
        finalizing_at: batch.at.finalizing.map(seconds),
        completed_at: batch.at.completed.map(seconds),
        failed_at: batch.at.failed.map(seconds),
        expired_at: batch.at.expired.map(seconds),
        cancelling_at: batch.at.cancelling.map(seconds),
        cancelled_at: batch.at.cancelled.map(seconds),
        model: batch.model,
        usage: TokenUsage::new(batch.input_tokens, batch.output_tokens),
        request_counts: RequestCounts { total: batch.total, completed: batch.counts.good(), failed },
        metadata: batch.metadata,
        turnfold,
    })
}

fn top_cause(Cause { state, code, message, count, example }: Cause) -> TopCause {
    TopCause { code, message, count, example_custom_id: example, rerun: rerun_of(state) }
}

async fn errors(app: &AppState, batch: &Batch, invalid: u64) -> Result<Option<BatchErrors>, ApiError> {
    let mut data = Vec::new();
    if let Some(fault) = &batch.fault {
        data.push(InvalidLine {
            code: "invalid_file".to_owned(),
            message: fault.clone(),
            param: None,
            line: None,
        });
    }
    if invalid > 0 {
        let lines = app.backends.store.invalid_lines(batch.id, ERRORS_MAX).await?;
        data.extend(lines.into_iter().map(|line| InvalidLine {
            param: field_of(&line.code).map(str::to_owned),
            line: Some(line.nth),
            code: line.code,
            message: line.message,
        }));
    }
    Ok((!data.is_empty()).then_some(BatchErrors { object: "list".to_owned(), data }))
}

/// Returns the results a second: up to now while lines are moving, and up to the last result once all lines have ended. In
/// between the rate is unknown, because it would only decrease.
fn rate(pace: Pace, batch: &Batch, moving: u64) -> Option<f64> {
    let until = match batch.counts.open() {
        _ if moving > 0 || batch.status == store::batches::BatchStatus::Validating => clock::now(),
        0 => pace.until,
        1.. => return None,
    };
    let micros = u64::try_from(until - pace.since).ok().filter(|micros| *micros > 0)?;
    Some(float(pace.results) / (float(micros) / 1e6))
}
