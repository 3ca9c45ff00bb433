//! What came of items: their turns end, their time is over, or they are called off.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use store::{
    Idempotency, Turn, TurnId, TurnStatus,
    bulk::{Batch, BatchStatus, Item, ItemState, Move, PAGE_BYTES, TURN_FAILED},
    time,
};
use tokio::time::Instant;
use tracing::warn;

use super::{
    dialect::Dialect,
    keeper::{Done, Keeper, PAGE},
    line::{Wrong, wrong},
};
use crate::{
    acts::withdraw,
    problem::{Kind, Problem},
    turns::{show_ended, took},
};

/// How many logs are read at once.
const AT_ONCE: usize = 128;

/// After a look at all lines of a batch that wait for a person, so many times as long none is taken as it took.
const ANSWERS_REST: u32 = 20;

/// How many turns are called off at once.
const CALLED_OFF: usize = 8;

/// Who calls off the turns of a batch, as their logs tell.
const BY: &str = "batch";

impl Keeper {
    /// Writes down what came of items whose turns have ended, or wait for a person.
    pub(super) async fn collect(&self, batch: &Batch) -> Result<Done, Problem> {
        let mut moved = self.house.parts.store.moved_items(batch.id, PAGE).await?;
        if batch.counts.of(ItemState::Asked) > 0 && !self.answers.rests(batch.id) {
            let began = Instant::now();
            moved.extend(self.house.parts.store.answered_items(batch.id, PAGE).await?);
            self.answers.rest(batch.id, began.elapsed() * ANSWERS_REST);
        }
        // Logs that are asked for at the same time are read together.
        let moves: Vec<_> = moved.into_iter().map(|(item, turn)| self.outcome(batch, item, turn)).collect();
        let mut outcomes = stream::iter(moves).buffered(AT_ONCE);
        let (mut moves, mut bytes, mut moved) = (Vec::new(), 0, 0);
        while let Some(it) = outcomes.try_next().await? {
            bytes += it.response.as_ref().map_or(0, |it| it.to_string().len() as u64);
            moves.push(it);
            moved += 1;
            // What turns were answered has no bound but each turn's own.
            if PAGE_BYTES <= bytes {
                self.record(batch, std::mem::take(&mut moves)).await?;
                bytes = 0;
            }
        }
        self.record(batch, moves).await?;
        Ok(Done::of(moved))
    }

    /// Writes down what turns that run for long took so far, so that money is counted while it is spent.
    pub(super) async fn meter(&self, batch: &Batch) -> Result<(), Problem> {
        let every = self.house.bulk.meter;
        if self.metering.rests(batch.id) {
            return Ok(());
        }
        self.metering.rest(batch.id, every);
        let (store, before) = (&self.house.parts.store, time::now().saturating_sub(time::span(every)));
        let mut after = 0;
        loop {
            let running = store.running_items(batch.id, before, after, PAGE).await?;
            let Some(last) = running.last() else { return Ok(()) };
            after = last.nth;
            let took: Vec<_> = running.into_iter().map(|item| self.so_far(item)).collect();
            let moves: Vec<Option<Move>> = stream::iter(took).buffered(AT_ONCE).try_collect().await?;
            self.record(batch, moves.into_iter().flatten().collect()).await?;
        }
    }

    /// What an item took so far; nothing, if its log cannot be read.
    async fn so_far(&self, item: Item) -> Result<Option<Move>, Problem> {
        let Some(thread) = item.thread else { return Ok(None) };
        match took(&self.house, thread).await {
            Ok(took) if took == item.took => Ok(None),
            Ok(took) => {
                let state = item.state;
                Ok(Some(Move { took, ..Move::new(item, state) }))
            }
            Err(problem) if problem.kind == Kind::Damaged => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn outcome(&self, batch: &Batch, item: Item, turn: Turn) -> Result<Move, Problem> {
        let run = Some((turn.thread, turn.id));
        let (state, error) = match turn.status {
            TurnStatus::Queued | TurnStatus::Running => {
                return Ok(Move { run, ..Move::new(item, ItemState::Fed) });
            }
            TurnStatus::Interrupted => (ItemState::Asked, None),
            TurnStatus::Completed => (ItemState::Completed, None),
            TurnStatus::Failed => {
                let why = turn.error.as_deref().unwrap_or("the turn failed");
                (ItemState::Failed, Some(wrong(TURN_FAILED, why)))
            }
            TurnStatus::Cancelled if batch.status == BatchStatus::Cancelling => {
                (ItemState::Cancelled, Some(wrong("batch_cancelled", "the batch was called off")))
            }
            TurnStatus::Cancelled if is_due(batch, &item) => {
                (ItemState::Expired, Some(expired(&item, Some(&turn))))
            }
            TurnStatus::Cancelled => {
                (ItemState::Cancelled, Some(wrong("turn_cancelled", "somebody called the turn off")))
            }
        };
        let (row, (shown, took)) = (turn.clone(), show_ended(&self.house, turn).await?);
        let response = if state.is_over() { Some(response(batch, &row, &shown, state)?) } else { None };
        // What was seen of a log that cannot be read any more was paid.
        let took = took.unwrap_or(item.took);
        Ok(Move { item, state, run, took, response, error })
    }

    /// Ends items whose time is over: those that were never begun at once, the others by calling off their turns.
    pub(super) async fn expire(&self, batch: &Batch, now: i64) -> Result<Done, Problem> {
        let store = &self.house.parts.store;
        let over = batch.at.expires <= now;
        let fed_before = if over { Some(now) } else { item_time(batch).map(|it| now.saturating_sub(it)) };
        let mut done = Done::Nothing;
        if let Some(fed_before) = fed_before {
            let due = store.items_fed_before(batch.id, fed_before, PAGE).await?;
            done = self.withdraw(batch, due).await?;
        }
        if over {
            let waiting = self.unbegun(batch).await?;
            let expired =
                |it: Item| Move { error: Some(expired(&it, None)), ..Move::new(it, ItemState::Expired) };
            done = done.max(self.record(batch, waiting.into_iter().map(expired).collect()).await?);
        }
        Ok(done)
    }

    /// Ends all items of a batch that is called off.
    pub(super) async fn call_off(&self, batch: &Batch) -> Result<Done, Problem> {
        let store = &self.house.parts.store;
        let waiting = self.unbegun(batch).await?;
        let error = || Some(wrong("batch_cancelled", "the batch was called off before the line was begun"));
        let moves =
            waiting.into_iter().map(|it| Move { error: error(), ..Move::new(it, ItemState::Cancelled) });
        let done = self.record(batch, moves.collect()).await?;
        let under_way = store.items_fed_before(batch.id, i64::MAX, PAGE).await?;
        Ok(done.max(self.withdraw(batch, under_way).await?))
    }

    /// The next items that nobody has begun. Those whose turns were queued by a keeper that died before it wrote that down
    /// are written down as such: what came of them is told, and what they took is counted.
    async fn unbegun(&self, batch: &Batch) -> Result<Vec<Item>, Problem> {
        let waiting = self.house.parts.store.waiting_items(batch.id, PAGE).await?;
        let (begun, unbegun) = self.begun(batch, waiting).await?;
        self.record(batch, begun).await?;
        Ok(unbegun)
    }

    /// Of waiting items those that are under way all the same, as their turns are there, and the others.
    pub(super) async fn begun(
        &self,
        batch: &Batch,
        waiting: Vec<Item>,
    ) -> Result<(Vec<Move>, Vec<Item>), Problem> {
        let (mut begun, mut unbegun) = (Vec::new(), Vec::new());
        if waiting.is_empty() {
            return Ok((begun, unbegun));
        }
        let keys: Vec<Idempotency> = waiting.iter().map(Item::key).collect();
        let turns = self.house.parts.store.submitted_many(&batch.tenant, &keys).await?;
        for (item, turn) in waiting.into_iter().zip(turns) {
            match turn {
                Some(it) => {
                    let run = Some((it.thread, it.id));
                    begun.push(Move { run, ..Move::new(item, ItemState::Fed) });
                }
                None => unbegun.push(item),
            }
        }
        Ok((begun, unbegun))
    }

    /// Calls off the turns of these items. What came of each is collected after: a turn that ended just now has ended.
    ///
    /// An item whose log cannot be read can be neither called off nor collected: it fails, so that its batch comes to an
    /// end, and its thread waits for whoever mends the log.
    async fn withdraw(&self, batch: &Batch, items: Vec<Item>) -> Result<Done, Problem> {
        let outcomes = self.call_off_turns(items.iter().filter_map(|it| it.turn)).await;
        let (mut withdrawn, mut moves) = (0, Vec::new());
        for (item, outcome) in items.into_iter().filter(|it| it.turn.is_some()).zip(outcomes) {
            let Err(problem) = outcome else {
                withdrawn += 1;
                continue;
            };
            let words = problem.detail();
            warn!(batch = %batch.id, line = item.nth, why = words, "a turn was not called off");
            if problem.kind == Kind::Damaged {
                moves.push(Move {
                    error: Some(wrong("unreadable_log", words)),
                    ..Move::new(item, ItemState::Failed)
                });
            }
        }
        Ok(self.record(batch, moves).await?.max(Done::of(withdrawn)))
    }

    /// Calls turns off, and says in their order what came of it.
    pub(super) async fn call_off_turns(
        &self,
        turns: impl Iterator<Item = TurnId>,
    ) -> Vec<Result<(), Problem>> {
        let outcomes: Vec<_> = turns.map(|turn| self.call_off_turn(turn)).collect();
        stream::iter(outcomes).buffered(CALLED_OFF).collect().await
    }

    /// Calls a turn off. One that has failed is left as it is, and is collected as such: whoever runs again what failed finds it.
    async fn call_off_turn(&self, turn: TurnId) -> Result<(), Problem> {
        match self.house.parts.store.turn(turn).await? {
            Some(it) if it.status == TurnStatus::Failed => Ok(()),
            Some(_) | None => withdraw(&self.house, turn, BY).await,
        }
    }
}

/// For how long an item may be under way, in microseconds.
fn item_time(batch: &Batch) -> Option<i64> {
    Some(time::span(Duration::from_secs(batch.item_seconds?)))
}

fn is_due(batch: &Batch, item: &Item) -> bool {
    let now = time::now();
    let own = item.fed_at.zip(item_time(batch)).is_some_and(|(fed, time)| fed.saturating_add(time) <= now);
    own || batch.at.expires <= now
}

/// Why an item's time was over before it had ended: what it was waiting for.
fn expired(item: &Item, turn: Option<&Turn>) -> Wrong {
    let heard = turn.is_some_and(|it| it.heard_seq.is_some());
    let (code, words) = if item.state == ItemState::Asked {
        ("expired_waiting_for_a_person", "its time was over while it waited for a person")
    } else if heard {
        ("expired_running", "its time was over while it was running")
    } else {
        ("expired_queue_wait", "its time was over before it was begun")
    };
    wrong(code, words)
}

/// What a request for this turn would have been answered. Its `request_id` is the turn, and leads to its log.
fn response(
    batch: &Batch,
    row: &Turn,
    shown: &crate::schema::Turn,
    state: ItemState,
) -> Result<Value, Problem> {
    let dialect = Dialect::of_batch(&batch.endpoint)?;
    let (status, body) = dialect.answer(row, shown)?;
    let status = match state {
        ItemState::Failed => 500,
        ItemState::Expired => 504,
        ItemState::Cancelled => 409,
        ItemState::Waiting
        | ItemState::Fed
        | ItemState::Asked
        | ItemState::Completed
        | ItemState::Reused
        | ItemState::Bad => status,
    };
    let mut response = json!({"status_code": status, "request_id": row.id});
    response["body"] = body;
    Ok(response)
}
