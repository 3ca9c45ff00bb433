//! How items become turns: through a window, so that a batch of any size holds up nobody.

use std::collections::BTreeMap;

use store::{
    Lane, NewTurn, Priority, Submitted, ThreadId,
    bulk::{Batch, Chunk, Item, ItemState, Move, PAGE_BYTES, Stopped},
};
use tracing::warn;

use super::{
    keeper::{Done, Keeper, PAGE},
    line::{Judge, Wrong, wrong},
};
use crate::problem::{Kind, Problem};

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
        let (mut moves, fresh) = self.reuse(batch, items).await?;
        let (bad, turns) = self.turns(batch, fresh).await?;
        moves.extend(bad);
        let mut rung: BTreeMap<Priority, Vec<ThreadId>> = BTreeMap::new();
        let (items, turns): (Vec<Item>, Vec<NewTurn>) = turns.into_iter().unzip();
        for (item, submitted) in items.into_iter().zip(store.submit_many(turns).await?) {
            moves.push(match submitted {
                Ok(submitted) => {
                    let at_rest = matches!(submitted, Submitted::New(_));
                    let turn = submitted.into_turn();
                    if at_rest {
                        rung.entry(turn.priority).or_default().push(turn.thread);
                    }
                    Move { run: Some((turn.thread, turn.id)), ..Move::new(item, ItemState::Fed) }
                }
                Err(error) => failed(item, wrong("not_submitted", error.to_string())),
            });
        }
        let recorded = self.record(batch, moves).await;
        // Whoever keeps the batch by now knows these turns by their keys; they are to be run all the same.
        for (priority, threads) in rung {
            let lane = Lane::new(&batch.tenant, priority);
            if let Err(error) = self.house.parts.queue.ring_many(&threads, &lane).await {
                warn!(batch = %batch.id, %error, "cannot ring; the sweep will");
            }
        }
        recorded
    }

    /// Those items for which an earlier result is taken, and the others.
    async fn reuse(&self, batch: &Batch, items: Vec<Item>) -> Result<(Vec<Move>, Vec<Item>), Problem> {
        if !batch.reuse {
            return Ok((Vec::new(), items));
        }
        let mut earlier = self.house.parts.store.earlier_results(&batch.tenant, &items).await?;
        let (mut moves, mut fresh) = (Vec::new(), Vec::new());
        for item in items {
            match earlier.remove(&item.nth) {
                Some(it) => moves.push(Move {
                    run: it.thread.zip(it.turn),
                    response: Some(it.response),
                    ..Move::new(item, ItemState::Reused)
                }),
                None => fresh.push(item),
            }
        }
        Ok((moves, fresh))
    }

    /// The turns that items ask for; an item whose line asks for nothing any more (the configuration changed) fails.
    async fn turns(
        &self,
        batch: &Batch,
        items: Vec<Item>,
    ) -> Result<(Vec<Move>, Vec<(Item, NewTurn)>), Problem> {
        let judge = Judge::new(&self.house, batch.into()).ok_or_else(|| {
            Kind::Internal.because(format!("this build does not know the endpoint {:?}", batch.endpoint))
        })?;
        let (mut bad, mut turns) = (Vec::new(), Vec::new());
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
            match asks {
                Ok(turn) => {
                    let idempotency = Some(item.key());
                    turns.push((item, NewTurn { idempotency, ..turn }));
                }
                Err(error) => bad.push(failed(item, error)),
            }
        }
        Ok((bad, turns))
    }
}

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
