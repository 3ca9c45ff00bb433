//! How items become turns: through a window, so that a batch of any size holds up nobody.

use std::collections::{BTreeMap, BTreeSet};

use store::{
    Lane, NewTurn, Priority, Submitted, ThreadId, Turn,
    bulk::{Batch, BatchStatus, Chunk, Item, ItemState, Memo, Move, PAGE_BYTES, Stopped},
    time,
};
use tracing::warn;

use super::{
    keeper::{Done, Keeper, PAGE},
    line::{Judge, Wrong, wrong},
};
use crate::problem::Problem;

impl Keeper {
    /// Begins as many items as the window has room for.
    ///
    /// ## By how much a cap is passed
    ///
    /// What is under way when the cap is reached goes on to its end: so a batch may cost, beyond its cap, what the items of
    /// its window take. A smaller window keeps closer to it.
    pub(super) async fn feed(&self, batch: &Batch, now: i64) -> Result<Done, Problem> {
        let store = &self.house.parts.store;
        if batch.stopped.is_some() || batch.at.expires <= now {
            return Ok(Done::Nothing);
        }
        if batch.max_micro_usd.is_some_and(|it| it <= batch.micro_usd) {
            if batch.counts.of(ItemState::Waiting) > 0 {
                store.stop_batch(batch.id, Stopped::MaxUsd).await?;
            }
            return Ok(Done::Nothing);
        }
        let room = batch.window.saturating_sub(batch.counts.of(ItemState::Fed)).min(PAGE);
        if room == 0 || batch.counts.of(ItemState::Waiting) == 0 {
            return Ok(Done::Nothing);
        }
        let mut items = store.waiting_items(batch.id, room).await?;
        items.truncate(that_fit(&items));
        let lines = self.read(batch, items).await?;
        let (mut moves, lines) = self.rename(batch, lines).await?;
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
                    if at_rest {
                        begun_now.push(turn);
                    }
                    Move { run, ..Move::new(item, ItemState::Fed) }
                }
                Err(error) => failed(item, wrong("not_submitted", error.to_string())),
            });
        }
        let recorded = self.record(batch, moves).await;
        if recorded.is_err() && self.runs_no_more(batch).await {
            // Whoever ended it, while this keeper slept, did not know of them: nobody else would ever call them off.
            for (it, outcome) in
                begun_now.iter().zip(self.call_off_turns(begun_now.iter().map(|it| it.id)).await)
            {
                if let Err(problem) = outcome {
                    warn!(batch = %batch.id, turn = %it.id, why = problem.detail(), "a turn was not called off");
                }
            }
        } else {
            // Whoever keeps the batch by now knows these turns by their keys; they are to be run all the same.
            self.ring(batch, begun_now).await;
        }
        recorded
    }

    /// Whether a batch has come so far, by now, that nothing of it is to be run any more.
    async fn runs_no_more(&self, batch: &Batch) -> bool {
        let runs = |it: Batch| BatchStatus::RUNNING.contains(&it.status) && time::now() < it.at.expires;
        self.house.parts.store.batch(batch.id).await.is_ok_and(|it| !it.is_some_and(runs))
    }

    async fn ring(&self, batch: &Batch, begun: Vec<Turn>) {
        let mut lanes: BTreeMap<Priority, Vec<ThreadId>> = BTreeMap::new();
        for it in begun {
            lanes.entry(it.priority).or_default().push(it.thread);
        }
        for (priority, threads) in lanes {
            let lane = Lane::new(&batch.tenant, priority);
            if let Err(error) = self.house.parts.queue.ring_many(&threads, &lane).await {
                warn!(batch = %batch.id, %error, "cannot ring; the sweep will");
            }
        }
    }

    /// Those items for which an earlier result is taken, and the others.
    async fn reuse(&self, batch: &Batch, lines: Vec<Line>) -> Result<(Vec<Move>, Vec<Line>), Problem> {
        if !batch.reuse {
            return Ok((Vec::new(), lines));
        }
        let items: Vec<Item> = lines.iter().map(|(item, _)| item.clone()).collect();
        let mut earlier = self.house.parts.store.earlier_results(&batch.tenant, &items).await?;
        // A turn of its own that a keeper queued before it died is paid as well, and goes before any other.
        let answered = items.into_iter().filter(|it| earlier.contains_key(&it.nth)).collect();
        let (mut moves, _) = self.begun(batch, answered).await?;
        let begun: BTreeSet<u64> = moves.iter().map(|it| it.item.nth).collect();
        let mut fresh = Vec::new();
        for (item, turn) in lines.into_iter().filter(|(item, _)| !begun.contains(&item.nth)) {
            match earlier.remove(&item.nth) {
                Some(it) => moves.push(Move {
                    run: it.thread.zip(it.turn),
                    response: Some(it.response),
                    ..Move::new(item, ItemState::Reused)
                }),
                None => fresh.push((item, turn)),
            }
        }
        Ok((moves, fresh))
    }

    /// What items ask for by the configuration of today, which is what their turns are run with; nothing, if that allows no
    /// more what the line asks for.
    async fn read(&self, batch: &Batch, items: Vec<Item>) -> Result<Vec<Asking>, Problem> {
        let judge = Judge::new(&self.house, batch.into())?;
        let mut lines = Vec::with_capacity(items.len());
        // One piece of the file is held, and not all in which there is a line.
        let mut held: Option<(u32, Option<Chunk>)> = None;
        for item in items {
            let nth = item.place.chunk;
            if held.as_ref().is_none_or(|(it, _)| *it != nth) {
                held = Some((nth, self.house.parts.store.chunk(batch.input_file, nth).await?));
            }
            let line = held.as_ref().and_then(|(_, it)| it.as_ref()).and_then(|it| line(it, &item));
            let asks = match line {
                Some(line) => judge.read(line).asks,
                None => Err(wrong("file_gone", "the input file is gone")),
            };
            let asks = asks.and_then(|turn| judge.named(&turn).map(|memo| (turn, memo)));
            lines.push((item, asks));
        }
        Ok(lines)
    }

    /// The same under the names of what they ask for by now, and what becomes of those that ask for nothing any more.
    ///
    /// ## Why they are named anew
    ///
    /// A line is named when it is validated, and the configuration may change until it is begun, most of all before what
    /// failed is run again. Its result is found by its name later, and must be what that names.
    ///
    /// **Invariant:** an item whose turn was queued by a keeper that died before it wrote that down keeps its name: it is that
    /// of its turn.
    async fn rename(&self, batch: &Batch, lines: Vec<Asking>) -> Result<(Vec<Move>, Vec<Line>), Problem> {
        let is_named_so = |(item, asks): &&Asking| {
            asks.as_ref().is_ok_and(|(_, memo)| item.memo.as_ref() == Some(&memo.hash))
        };
        let others = lines.iter().filter(|it| !is_named_so(it)).map(|(item, _)| item.clone());
        let (begun, _) = self.begun(batch, others.collect()).await?;
        let mut begun: BTreeMap<u64, Move> = begun.into_iter().map(|it| (it.item.nth, it)).collect();
        let (mut moves, mut named, mut renamed) = (Vec::new(), Vec::new(), Vec::new());
        for (mut item, asks) in lines {
            if let Some(it) = begun.remove(&item.nth) {
                moves.push(it);
                continue;
            }
            match asks {
                Ok((turn, memo)) => {
                    if item.memo.as_ref() != Some(&memo.hash) {
                        renamed.push((item.nth, memo.hash.clone()));
                        item.memo = Some(memo.hash);
                    }
                    named.push((item, turn));
                }
                Err(error) => moves.push(failed(item, error)),
            }
        }
        self.house.parts.store.rename_items(batch.id, &self.name, renamed).await?;
        Ok((moves, named))
    }
}

/// A line and the turn that it asks for.
type Line = (Item, NewTurn);

/// The same as it was read, with the name of what it asks for; or what is wrong with it by now.
type Asking = (Item, Result<(NewTurn, Memo), Wrong>);

/// How many of these, from the first, are taken up together: one at least.
fn that_fit(items: &[Item]) -> usize {
    let so_far = items.iter().scan(0, |sum, it| {
        *sum += u64::from(it.place.length);
        Some(*sum)
    });
    so_far.take_while(|it| *it <= PAGE_BYTES).count().max(1)
}

fn line<'a>(chunk: &'a Chunk, item: &Item) -> Option<&'a [u8]> {
    let start = usize::try_from(item.place.start).ok()?;
    let length = usize::try_from(item.place.length).ok()?;
    chunk.data.get(start..start.checked_add(length)?)
}

fn failed(item: Item, error: Wrong) -> Move {
    Move { error: Some(error), ..Move::new(item, ItemState::Failed) }
}
