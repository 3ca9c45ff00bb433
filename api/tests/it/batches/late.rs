//! A keeper that sleeps at the wrong moment.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use store::bulk::{ItemState, Move};
use testing::Postgres;
use tokio::{task::spawn_blocking, time::sleep};
use uuid::Uuid;

use crate::bulk::{Hall, sayings};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// As long as this goes on, nobody can queue a turn.
const NOBODY_QUEUES: &str = "DO $$ BEGIN LOCK TABLE turns IN SHARE MODE; \
                             WHILE NOT EXISTS (SELECT FROM batch_items WHERE state = 'cancelled') \
                             LOOP PERFORM pg_sleep(0.02); END LOOP; END $$";

async fn until(postgres: &Arc<Postgres>, sql: &'static str, wanted: &str) {
    let began = Instant::now();
    loop {
        let postgres = Arc::clone(postgres);
        let rows = spawn_blocking(move || postgres.query(sql)).await.unwrap();
        let seen: Vec<String> = rows.iter().map(|it| it.join(" ")).collect();
        if seen.join(", ") == wanted {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{sql}: {seen:?}, not {wanted}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A keeper reads which lines wait, and sleeps; another takes the batch over, which is called off, and ends those lines. What
/// the first one queues when it wakes is known to no batch any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_keeper_begins_that_overslept_the_end_is_called_off() {
    let postgres = Arc::new(Postgres::start());
    let mut hall = Hall::over(&postgres.url(), |_| ()).await;
    let asleep = spawn_blocking({
        let postgres = Arc::clone(&postgres);
        move || postgres.query(NOBODY_QUEUES)
    });
    let locks =
        "SELECT count(*) FROM pg_locks WHERE relation = 'turns'::regclass AND mode = 'ShareLock' AND granted";
    until(&postgres, locks, "1").await;
    hall.start_keeper();
    let batch = hall.batch(&hall.upload(sayings(3)).await, json!({})).await;
    until(
        &postgres,
        "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'turns'::regclass AND NOT granted",
        "t",
    )
    .await;

    postgres.query("UPDATE batches SET kept_by = 'ada', kept_until = 9000000000000000000");
    hall.act(&batch, "cancel", json!({})).await;
    let (store, id) = (&hall.room.parts.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let waiting = store.waiting_items(id, 10).await.unwrap();
    assert_eq!(waiting.len(), 3);
    let ended = waiting.into_iter().map(|it| Move::new(it, ItemState::Cancelled)).collect();
    store.record(id, "ada", ended).await.unwrap();
    store.leave_batches("ada").await.unwrap();
    asleep.await.unwrap();

    until(&postgres, "SELECT status, count(*) FROM turns GROUP BY status", "cancelled 3").await;
    hall.until_is(&batch, "cancelled").await;
    assert_eq!(hall.results(&batch).await.len(), 3);
}
