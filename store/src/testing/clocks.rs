//! What was written under a clock that is off holds nobody up for longer than was meant.

use std::{sync::Arc, time::Duration};

use shared::{Asked, Cancelled, Faltered, Rehearsal, Request, strategies};

use super::{heard, intruder, opened};
use crate::{Error, MemoryNews, MemoryQueue, Parts, Store, Strategies, ThreadLog};

const SECOND: i64 = 1_000_000;

/// A pause of ten seconds, as it is read by a worker whose clock is behind the writer's by so many seconds.
pub(super) async fn ahead_are_passed_over(store: &Store) -> Result<(), Error> {
    for (behind, waits) in [(0, 7..=9), (3, 10..=12), (3_600, 0..=0), (-5, 2..=4), (-3_600, 0..=0)] {
        let (head, turn) = opened(store).await?;
        let request = Request::Rehearse(Rehearsal::default());
        let asked = Asked { node: "read".to_owned(), requests: vec![request] };
        let fault = Faltered {
            slot: 0,
            error: "away".to_owned(),
            again_after_ms: Some(10_000),
            in_doubt: false,
            meter: None,
        };
        let head = store.append(&head, &[heard(&turn), asked.into(), fault.into()], None).await?;
        let sql = format!("UPDATE events SET at = at + {} WHERE seq = 3 AND thread_id = $1", behind * SECOND);
        intruder::say(store, &sql, head.thread).await?;
        let queue = Arc::new(MemoryQueue::new(Duration::from_secs(1)));
        let parts = Parts { store: store.clone(), queue, news: Arc::new(MemoryNews::new()) };
        let mut log = ThreadLog::open(&parts, &Strategies::new(strategies::all()), head.thread).await?;
        let seconds = log.waits(crate::time::now()).map_or(0, |(wait, _)| wait.as_secs());
        assert!(waits.contains(&seconds), "{behind} seconds behind it waits for {seconds}");
        let over = Cancelled { by: "eve".to_owned() };
        log.push(over.clone().into())?;
        assert_eq!(log.waits(0), None, "also before that is stored");
        store.append(&head, &[over.into()], None).await?;
        let log = ThreadLog::open(&parts, &Strategies::new(strategies::all()), head.thread).await?;
        assert_eq!(
            log.waits(0),
            None,
            "with the turn, what faltered is over, and its pause is no other turn's"
        );
    }
    Ok(())
}
