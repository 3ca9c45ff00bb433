//! Submission of items as turns, limited by the window of the batch, so that a batch of any size does not crowd out
//! other work.

use std::collections::{BTreeMap, BTreeSet};

use queue::{Lane, Priority, clock};
use store::{
    NewTurn, Submitted, ThreadId, Turn,
    batches::{Batch, BatchStatus, CacheKey, Chunk, Item, ItemState, ItemTransition, PAGE_BYTES, StopReason},
};
use tracing::warn;

use super::{BatchCoordinator, BatchStep, PAGE};
use crate::{
    batches::line::{LineError, LineReader, line_error},
    server::problem::ApiError,
    turns::submit::keep_trace_parent,
};

impl BatchCoordinator {
    /// Submits as many items as fit into the window.
    ///
    /// ## How far a cost limit is exceeded
    ///
    /// Items in progress finish after the limit is reached, so a batch can exceed its limit by the cost of one window.
    /// A smaller window stays closer to the limit.
    pub(super) async fn submit_items(&self, batch: &Batch, now: i64) -> Result<BatchStep, ApiError> {
        let store = &self.app.backends.store;
        if batch.stopped.is_some() || batch.at.expires <= now {
            return Ok(BatchStep::Idle);
        }
        if batch.max_micro_usd.is_some_and(|limit| limit <= batch.micro_usd) {
            if batch.counts.of(ItemState::Waiting) > 0 {
                store.stop_batch(batch.id, StopReason::MaxUsd).await?;
            }
            return Ok(BatchStep::Idle);
        }
        let room = batch.window.saturating_sub(batch.counts.of(ItemState::Submitted)).min(PAGE);
        if room == 0 || batch.counts.of(ItemState::Waiting) == 0 {
            return Ok(BatchStep::Idle);
        }
        let mut items = store.waiting_items(batch.id, room).await?;
        items.truncate(fit_together(&items));
        let lines = self.parse(batch, items).await?;
        let (mut moves, lines) = self.update_keys(batch, lines).await?;
        let (reused, fresh) = self.reuse(batch, lines).await?;
        moves.extend(reused);
        let mut begun_now = Vec::new();
        let begun = |(item, turn): (Item, NewTurn)| {
            let idempotency = Some(item.key());
            (item, NewTurn { idempotency, ..turn })
        };
        let (items, turns): (Vec<Item>, Vec<NewTurn>) = fresh.into_iter().map(begun).unzip();
        for (item, submitted) in items.into_iter().zip(store.submit_many(turns).await?) {
            moves.push(match submitted {
                Ok(submitted) => {
                    let at_rest = matches!(submitted, Submitted::New(_));
                    let turn = submitted.into_turn();
                    let run = Some((turn.thread, turn.id));
                    if let Some(parent) = &batch.trace_parent {
                        keep_trace_parent(&self.app, &turn, parent).await;
                    }
                    if at_rest {
                        begun_now.push(turn);
                    }
                    ItemTransition { run, ..ItemTransition::new(item, ItemState::Submitted) }
                }
                Err(error) => failed(item, line_error("not_submitted", error.to_string())),
            });
        }
        let recorded = self.apply_transitions(batch, moves).await;
        if recorded.is_err() && self.is_finished(batch).await {
            // The batch ended while this coordinator was delayed. No other process knows these turns, so they are cancelled
            // here.
            for (item, outcome) in
                begun_now.iter().zip(self.cancel_turns(begun_now.iter().map(|item| item.id)).await)
            {
                if let Err(error) = outcome {
                    warn!(batch = %batch.id, turn = %item.id, error = error.detail(), "cannot cancel a turn of a batch");
                }
            }
        } else {
            // If another process holds the batch now, it finds these turns by their keys. They must run in either case.
            self.enqueue(batch, begun_now).await;
        }
        recorded
    }

    /// Returns true if no further item of a batch may run.
    async fn is_finished(&self, batch: &Batch) -> bool {
        let runs =
            |batch: Batch| BatchStatus::RUNNING.contains(&batch.status) && clock::now() < batch.at.expires;
        self.app.backends.store.batch(batch.id).await.is_ok_and(|batch| !batch.is_some_and(runs))
    }

    async fn enqueue(&self, batch: &Batch, begun: Vec<Turn>) {
        let mut lanes: BTreeMap<Priority, Vec<ThreadId>> = BTreeMap::new();
        for item in begun {
            lanes.entry(item.priority).or_default().push(item.thread);
        }
        for (priority, threads) in lanes {
            let lane = Lane::new(&batch.tenant, priority);
            if let Err(error) = self.app.backends.queue.enqueue_many(&threads, &lane).await {
                warn!(batch = %batch.id, %error, "cannot enqueue threads; the sweeper will retry");
            }
        }
    }

    /// Splits lines into transitions for those with an earlier result, and the others.
    async fn reuse(
        &self,
        batch: &Batch,
        lines: Vec<Line>,
    ) -> Result<(Vec<ItemTransition>, Vec<Line>), ApiError> {
        if !batch.reuse {
            return Ok((Vec::new(), lines));
        }
        let items: Vec<Item> = lines.iter().map(|(item, _)| item.clone()).collect();
        let mut earlier = self.app.backends.store.earlier_results(&batch.tenant, &items).await?;
        // A turn that a coordinator submitted before it died is paid for as well, and takes precedence over an earlier
        // result.
        let answered = items.into_iter().filter(|item| earlier.contains_key(&item.nth)).collect();
        let (mut moves, _) = self.split_submitted(batch, answered).await?;
        let begun: BTreeSet<u64> = moves.iter().map(|transition| transition.item.nth).collect();
        let mut fresh = Vec::new();
        for (item, turn) in lines.into_iter().filter(|(item, _)| !begun.contains(&item.nth)) {
            match earlier.remove(&item.nth) {
                Some(outcome) => moves.push(ItemTransition {
                    run: outcome.thread.zip(outcome.turn),
                    response: Some(outcome.response),
                    result_run: outcome.run,
                    ..ItemTransition::new(item, ItemState::Reused)
                }),
                None => fresh.push((item, turn)),
            }
        }
        Ok((moves, fresh))
    }

    /// Parses lines with today's configuration, which their turns run with. Returns an error for lines that it no
    /// longer allows.
    async fn parse(&self, batch: &Batch, items: Vec<Item>) -> Result<Vec<ParsedItem>, ApiError> {
        let parser = LineReader::of_batch(&self.app, batch)?;
        let mut lines = Vec::with_capacity(items.len());
        // Only one chunk of the file is held in memory at a time.
        let mut held: Option<(u32, Option<Chunk>)> = None;
        for item in items {
            let nth = item.place.chunk;
            if held.as_ref().is_none_or(|(number, _)| *number != nth) {
                held = Some((nth, self.app.backends.store.chunk(batch.input_file, nth).await?));
            }
            let line =
                held.as_ref().and_then(|(_, chunk)| chunk.as_ref()).and_then(|chunk| line(chunk, &item));
            let turn = match line {
                Some(line) => parser.read(line).turn,
                None => Err(line_error("file_gone", "the input file was deleted")),
            };
            let parsed = turn.and_then(|turn| parser.named(&turn).map(|cache_key| (turn, cache_key)));
            lines.push((item, parsed));
        }
        Ok(lines)
    }

    /// Updates the cache keys of lines, and returns transitions for lines that have become invalid.
    ///
    /// ## Why keys are computed again
    ///
    /// The key of a line is computed when it is validated. The configuration may change before it is submitted, in
    /// particular before a failed line runs again. A later batch finds the result by this key, so it must describe what
    /// was run.
    ///
    /// **Invariant:** an item that was submitted by a coordinator that died before it recorded the item keeps its key,
    /// which describes its turn.
    async fn update_keys(
        &self,
        batch: &Batch,
        lines: Vec<ParsedItem>,
    ) -> Result<(Vec<ItemTransition>, Vec<Line>), ApiError> {
        let has_current_key = |(item, parsed): &&ParsedItem| {
            parsed.as_ref().is_ok_and(|(_, cache_key)| item.cache_key.as_ref() == Some(&cache_key.hash))
        };
        let others = lines.iter().filter(|line| !has_current_key(line)).map(|(item, _)| item.clone());
        let (begun, _) = self.split_submitted(batch, others.collect()).await?;
        let mut begun: BTreeMap<u64, ItemTransition> =
            begun.into_iter().map(|transition| (transition.item.nth, transition)).collect();
        let (mut moves, mut named, mut renamed) = (Vec::new(), Vec::new(), Vec::new());
        for (mut item, parsed) in lines {
            if let Some(transition) = begun.remove(&item.nth) {
                moves.push(transition);
                continue;
            }
            match parsed {
                Ok((turn, cache_key)) => {
                    if item.cache_key.as_ref() != Some(&cache_key.hash) {
                        renamed.push((item.nth, cache_key.hash.clone()));
                        item.cache_key = Some(cache_key.hash);
                    }
                    named.push((item, turn));
                }
                Err(error) => moves.push(failed(item, error)),
            }
        }
        self.app.backends.store.rename_items(batch.id, &self.name, renamed).await?;
        Ok((moves, named))
    }
}

/// An item and its turn.
type Line = (Item, NewTurn);

/// An item with its turn and cache key, or the error that it has now.
type ParsedItem = (Item, Result<(NewTurn, CacheKey), LineError>);

/// Returns how many items, from the first, are processed together: at least one.
fn fit_together(items: &[Item]) -> usize {
    let so_far = items.iter().scan(0, |sum, item| {
        *sum += u64::from(item.place.length);
        Some(*sum)
    });
    so_far.take_while(|sum| *sum <= PAGE_BYTES).count().max(1)
}

fn line<'a>(chunk: &'a Chunk, item: &Item) -> Option<&'a [u8]> {
    let start = usize::try_from(item.place.start).ok()?;
    let length = usize::try_from(item.place.length).ok()?;
    chunk.data.get(start..start.checked_add(length)?)
}

fn failed(item: Item, error: LineError) -> ItemTransition {
    ItemTransition { error: Some(error), ..ItemTransition::new(item, ItemState::Failed) }
}
