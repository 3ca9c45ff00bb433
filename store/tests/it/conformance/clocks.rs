//! A writer with a wrong clock does not delay a thread for longer than intended.

use std::{sync::Arc, time::Duration};

use shared::{Asked, AttemptFailed, Cancelled, Request, Simulation};

use super::{opened, tamper, turn_started};
use queue::{MemoryNotifications, MemoryQueue};
use store::{Error, Store};
use threads::{Backends, StrategyRegistry, ThreadLog};

const SECOND: i64 = 1_000_000;

/// A delay of ten seconds, read by a worker whose clock is this many seconds behind the writer's clock.
pub(super) async fn ahead_are_passed_over(store: &Store) -> Result<(), Error> {
    for (behind, waits) in [(0, 7..=9), (3, 10..=12), (3_600, 0..=0), (-5, 2..=4), (-3_600, 0..=0)] {
        let (head, turn) = opened(store).await?;
        let request = Request::Simulate(Simulation::default());
        let asked = Asked { node: "read".to_owned(), requests: vec![request] };
        let fault = AttemptFailed {
            slot: 0,
            error: "away".to_owned(),
            retry_after_ms: Some(10_000),
            in_doubt: false,
            usage: None,
            waiting: false,
            attempts_max: None,
            pin_changed: false,
            context_tokens: None,
            attachments_max: None,
            is_trial: false,
            read_back: false,
        };
        let head = store.append(&head, &[turn_started(&turn), asked.into(), fault.into()], None).await?;
        let sql = format!("UPDATE events SET at = at + {} WHERE seq = 3 AND thread_id = $1", behind * SECOND);
        tamper::execute(store, &sql, head.thread).await?;
        let queue = Arc::new(MemoryQueue::new(Duration::from_secs(1)));
        let parts =
            Backends { store: store.clone(), queue, notifications: Arc::new(MemoryNotifications::new()) };
        let mut log = ThreadLog::open(&parts, &StrategyRegistry::new(strategies::all()), head.thread).await?;
        let seconds = log.waits(queue::clock::now()).map_or(0, |(wait, _)| wait.as_secs());
        assert!(waits.contains(&seconds), "{behind} seconds behind it waits for {seconds}");
        let over = Cancelled { actor: "eve".to_owned(), caller: None, rolled_back: false };
        log.push(over.clone().into())?;
        assert_eq!(log.waits(0), None, "also before that is stored");
        store.append(&head, &[over.into()], None).await?;
        let log = ThreadLog::open(&parts, &StrategyRegistry::new(strategies::all()), head.thread).await?;
        assert_eq!(
            log.waits(0),
            None,
            "with the turn, what faltered is over, and its pause is no other turn's"
        );
    }
    Ok(())
}

on_databases! {
    distributed:
    ahead_are_passed_over,
}
