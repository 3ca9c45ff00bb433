//! Collection of results: turns of items have ended, expired or are cancelled.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use queue::clock;
use shared::TurnStatus;
use shared::{OutcomeKind, ResultResponse, ResultRun, UsageTotal};
use store::{
    Idempotency, Turn, TurnId,
    batches::{Batch, BatchStatus, Item, ItemState, ItemTransition, PAGE_BYTES, TURN_FAILED},
};
use tokio::time::Instant;
use tracing::warn;

use super::{BatchCoordinator, BatchStep, PAGE};
use crate::{
    batches::{
        endpoint::BatchEndpoint,
        line::{LineError, line_error},
    },
    server::{
        principal::Actor,
        problem::{ApiError, Kind},
        state::AppState,
    },
    turns::{
        cancel_retry::cancel_turn,
        lookup::{Ended, show_ended, thread_usage},
    },
};

/// Number of logs read concurrently.
const AT_ONCE: usize = 128;

/// Pause between two checks for answers, as a multiple of the duration of a check.
const ANSWERS_PAUSE_FACTOR: u32 = 20;

/// Number of turns cancelled concurrently.
const CANCEL_AT_ONCE: usize = 8;

/// Author of cancellations, as recorded in the logs.
const BY: &str = "batch";

impl BatchCoordinator {
    /// Records the results of items whose turns have ended or are waiting for a person.
    pub(super) async fn collect(&self, batch: &Batch) -> Result<BatchStep, ApiError> {
        let mut moved = self.app.backends.store.moved_items(batch.id, PAGE).await?;
        if batch.counts.of(ItemState::AwaitingInput) > 0 && !self.answers.is_active(batch.id) {
            let began = Instant::now();
            moved.extend(self.app.backends.store.answered_items(batch.id, PAGE).await?);
            self.answers.start(batch.id, began.elapsed() * ANSWERS_PAUSE_FACTOR);
        }
        // Concurrent reads of logs are batched.
        let moves: Vec<_> = moved.into_iter().map(|(item, turn)| self.outcome(batch, item, turn)).collect();
        let mut outcomes = stream::iter(moves).buffered(AT_ONCE);
        let (mut moves, mut bytes, mut moved) = (Vec::new(), 0, 0);
        while let Some(it) = outcomes.try_next().await? {
            bytes += it.response.as_ref().map_or(0, |response| response.body.to_string().len() as u64);
            moves.push(it);
            moved += 1;
            // Results have no common size limit, so transitions are applied in parts.
            if PAGE_BYTES <= bytes {
                self.apply_transitions(batch, std::mem::take(&mut moves)).await?;
                bytes = 0;
            }
        }
        self.apply_transitions(batch, moves).await?;
        Ok(BatchStep::of(moved))
    }

    /// Records the usage of turns that run for long, so that the cost limit counts money while it is spent.
    pub(super) async fn record_usage(&self, batch: &Batch) -> Result<(), ApiError> {
        let every = self.app.batches.meter;
        if self.metering.is_active(batch.id) {
            return Ok(());
        }
        self.metering.start(batch.id, every);
        let (store, before) =
            (&self.app.backends.store, clock::now().saturating_sub(clock::duration_micros(every)));
        let mut after = 0;
        loop {
            let running = store.running_items(batch.id, before, after, PAGE).await?;
            let Some(last) = running.last() else { return Ok(()) };
            after = last.nth;
            let used: Vec<_> = running.into_iter().map(|item| self.usage_so_far(item)).collect();
            let moves: Vec<Option<ItemTransition>> =
                stream::iter(used).buffered(AT_ONCE).try_collect().await?;
            self.apply_transitions(batch, moves.into_iter().flatten().collect()).await?;
        }
    }

    /// Reads the usage of an item so far. Returns none if it has not changed or the log cannot be read.
    async fn usage_so_far(&self, item: Item) -> Result<Option<ItemTransition>, ApiError> {
        let Some(thread) = item.thread else { return Ok(None) };
        match thread_usage(&self.app, thread).await {
            Ok(usage) if usage == item.usage => Ok(None),
            Ok(usage) => {
                let state = item.state;
                Ok(Some(ItemTransition { usage, ..ItemTransition::new(item, state) }))
            }
            Err(error) if error.kind == Kind::Damaged => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn outcome(&self, batch: &Batch, item: Item, turn: Turn) -> Result<ItemTransition, ApiError> {
        let run = Some((turn.thread, turn.id));
        let (state, error) = match turn.status {
            TurnStatus::Queued | TurnStatus::Running => {
                return Ok(ItemTransition { run, ..ItemTransition::new(item, ItemState::Submitted) });
            }
            TurnStatus::Interrupted => (ItemState::AwaitingInput, None),
            TurnStatus::Completed => completed(&turn),
            TurnStatus::Failed => {
                let why = turn.error.as_deref().unwrap_or("the turn failed");
                (ItemState::Failed, Some(line_error(TURN_FAILED, why)))
            }
            TurnStatus::Cancelled if batch.status == BatchStatus::Cancelling => {
                (ItemState::Cancelled, Some(line_error("batch_cancelled", "the batch was cancelled")))
            }
            TurnStatus::Cancelled if is_due(batch, &item) => {
                (ItemState::Expired, Some(expired(&item, Some(&turn))))
            }
            TurnStatus::Cancelled => {
                (ItemState::Cancelled, Some(line_error("turn_cancelled", "the turn was cancelled")))
            }
        };
        let (row, ended) = (turn.clone(), show_ended(&self.app, turn).await?);
        let response =
            if state.is_over() { Some(response(&self.app, batch, &row, &ended, state).await?) } else { None };
        // If a log can no longer be read, the usage seen so far was still paid for.
        let usage = ended.usage.unwrap_or(item.usage);
        let result_run = Some(result_run(&item, &row, &usage, ended));
        Ok(ItemTransition { item, state, run, usage, response, result_run, error })
    }

    /// Expires items. Items that were never submitted expire at once; the turns of all others are cancelled.
    pub(super) async fn expire(&self, batch: &Batch, now: i64) -> Result<BatchStep, ApiError> {
        let store = &self.app.backends.store;
        let over = batch.at.expires <= now;
        let fed_before = if over { Some(now) } else { item_time(batch).map(|time| now.saturating_sub(time)) };
        let mut done = BatchStep::Idle;
        if let Some(fed_before) = fed_before {
            let due = store.items_submitted_before(batch.id, fed_before, PAGE).await?;
            done = self.cancel_turns_of(batch, due).await?;
        }
        if over {
            let waiting = self.not_submitted(batch).await?;
            let expired = |item: Item| ItemTransition {
                error: Some(expired(&item, None)),
                ..ItemTransition::new(item, ItemState::Expired)
            };
            done = done.max(self.apply_transitions(batch, waiting.into_iter().map(expired).collect()).await?);
        }
        Ok(done)
    }

    /// Cancels all items of a cancelled batch.
    pub(super) async fn cancel_items(&self, batch: &Batch) -> Result<BatchStep, ApiError> {
        let store = &self.app.backends.store;
        let waiting = self.not_submitted(batch).await?;
        let error = || Some(line_error("batch_cancelled", "the batch was cancelled before the line started"));
        let moves = waiting
            .into_iter()
            .map(|item| ItemTransition { error: error(), ..ItemTransition::new(item, ItemState::Cancelled) });
        let done = self.apply_transitions(batch, moves.collect()).await?;
        let under_way = store.items_submitted_before(batch.id, i64::MAX, PAGE).await?;
        Ok(done.max(self.cancel_turns_of(batch, under_way).await?))
    }

    /// Returns the next items that were not submitted. Items whose turns were submitted by a coordinator that died
    /// before it recorded them are recorded first, so that their results and usage count.
    async fn not_submitted(&self, batch: &Batch) -> Result<Vec<Item>, ApiError> {
        let waiting = self.app.backends.store.waiting_items(batch.id, PAGE).await?;
        let (submitted, not_submitted) = self.split_submitted(batch, waiting).await?;
        self.apply_transitions(batch, submitted).await?;
        Ok(not_submitted)
    }

    /// Splits items that are recorded as waiting into those whose turns exist and the others.
    pub(super) async fn split_submitted(
        &self,
        batch: &Batch,
        waiting: Vec<Item>,
    ) -> Result<(Vec<ItemTransition>, Vec<Item>), ApiError> {
        let (mut submitted, mut not_submitted) = (Vec::new(), Vec::new());
        if waiting.is_empty() {
            return Ok((submitted, not_submitted));
        }
        let keys: Vec<Idempotency> = waiting.iter().map(Item::key).collect();
        let turns = self.app.backends.store.submitted_many(&batch.tenant, &keys).await?;
        for (item, turn) in waiting.into_iter().zip(turns) {
            match turn {
                Some(turn) => {
                    let run = Some((turn.thread, turn.id));
                    submitted.push(ItemTransition { run, ..ItemTransition::new(item, ItemState::Submitted) });
                }
                None => not_submitted.push(item),
            }
        }
        Ok((submitted, not_submitted))
    }

    /// Cancels the turns of items. Their results are collected later, because a turn may just have ended.
    ///
    /// An item whose log cannot be read can be neither cancelled nor collected. It fails, so that its batch can end,
    /// and its thread is left to an operator.
    async fn cancel_turns_of(&self, batch: &Batch, items: Vec<Item>) -> Result<BatchStep, ApiError> {
        let outcomes = self.cancel_turns(items.iter().filter_map(|item| item.turn)).await;
        let (mut cancelled, mut moves) = (0, Vec::new());
        for (item, outcome) in items.into_iter().filter(|item| item.turn.is_some()).zip(outcomes) {
            let Err(error) = outcome else {
                cancelled += 1;
                continue;
            };
            let detail = error.detail();
            warn!(batch = %batch.id, line = item.nth, error = detail, "cannot cancel a turn of a batch");
            if error.kind == Kind::Damaged {
                moves.push(ItemTransition {
                    error: Some(line_error("unreadable_log", detail)),
                    ..ItemTransition::new(item, ItemState::Failed)
                });
            }
        }
        Ok(self.apply_transitions(batch, moves).await?.max(BatchStep::of(cancelled)))
    }

    /// Cancels turns. Returns the outcomes in the same order.
    pub(super) async fn cancel_turns(
        &self,
        turns: impl Iterator<Item = TurnId>,
    ) -> Vec<Result<(), ApiError>> {
        let outcomes: Vec<_> = turns.map(|turn| self.cancel_item_turn(turn)).collect();
        stream::iter(outcomes).buffered(CANCEL_AT_ONCE).collect().await
    }

    /// Cancels a turn. A failed turn is left as it is and collected as failed, so that it can be run again.
    async fn cancel_item_turn(&self, turn: TurnId) -> Result<(), ApiError> {
        match self.app.backends.store.turn(turn).await? {
            Some(turn) if turn.status == TurnStatus::Failed => Ok(()),
            Some(_) | None => cancel_turn(&self.app, turn, &Actor::without_key(BY)).await,
        }
    }
}

/// Returns the state of an item whose turn completed, with outcome and causes if the turn was not fully answered.
fn completed(turn: &Turn) -> (ItemState, Option<LineError>) {
    let state = match turn.outcome {
        Some(OutcomeKind::Answered) | None => return (ItemState::Completed, None),
        Some(OutcomeKind::Partial) => ItemState::Partial,
        Some(OutcomeKind::Declined) => ItemState::Declined,
    };
    (state, Some(line_error(state.as_str(), turn.cause.as_deref().unwrap_or_default())))
}

/// Returns the maximum duration of an item in microseconds.
fn item_time(batch: &Batch) -> Option<i64> {
    Some(clock::duration_micros(Duration::from_secs(batch.item_seconds?)))
}

fn is_due(batch: &Batch, item: &Item) -> bool {
    let now = clock::now();
    let own =
        item.submitted_at.zip(item_time(batch)).is_some_and(|(fed, time)| fed.saturating_add(time) <= now);
    own || batch.at.expires <= now
}

/// Returns the error of an expired item, which names what it was waiting for.
fn expired(item: &Item, turn: Option<&Turn>) -> LineError {
    let started = turn.is_some_and(|turn| turn.started_seq.is_some());
    let (code, message) = if item.state == ItemState::AwaitingInput {
        ("expired_waiting_for_a_person", "the line expired while it was waiting for a person")
    } else if started {
        ("expired_running", "the line expired while it was running")
    } else {
        ("expired_queue_wait", "the line expired before it started")
    };
    line_error(code, message)
}

/// Returns the run that the result of an ended turn leads back to.
fn result_run(item: &Item, row: &Turn, usage: &UsageTotal, Ended { course, .. }: Ended) -> ResultRun {
    ResultRun {
        thread_id: row.thread,
        turn_id: row.id,
        model: course.model,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        usd: usage.usd(),
        started_at: course.started_at.map(clock::rfc3339),
        ended_at: clock::rfc3339(course.ended_at.unwrap_or(row.updated_at)),
        attempts: item.attempt,
    }
}

/// Returns the response that a single request would receive. Its `request_id` is the id of the turn.
async fn response(
    app: &AppState,
    batch: &Batch,
    row: &Turn,
    ended: &Ended,
    state: ItemState,
) -> Result<ResultResponse, ApiError> {
    let endpoint = BatchEndpoint::of_batch(&batch.endpoint)?;
    let (status, body) = endpoint.response(app, row, &ended.shown, ended.course.model.as_deref()).await?;
    let status = match state {
        ItemState::Failed => 422,
        ItemState::Expired => 504,
        ItemState::Cancelled => 409,
        ItemState::Waiting
        | ItemState::Submitted
        | ItemState::AwaitingInput
        | ItemState::Completed
        | ItemState::Partial
        | ItemState::Declined
        | ItemState::Reused
        | ItemState::Invalid => status,
    };
    Ok(ResultResponse { body, request_id: row.id, status_code: status })
}
