//! A coordinator that is suspended at the wrong moment.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use store::batches::{ItemState, ItemTransition};
use test_servers::Postgres;
use tokio::{task::spawn_blocking, time::sleep};
use uuid::Uuid;

use crate::batch_test::{BatchTest, echo_lines};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// While this transaction is open, no turn can be queued.
const BLOCK_SUBMISSIONS: &str = "DO $$ BEGIN LOCK TABLE turns IN SHARE MODE; \
                             WHILE NOT EXISTS (SELECT FROM batch_items WHERE state = 'cancelled') \
                             LOOP PERFORM pg_sleep(0.02); END LOOP; END $$";

async fn wait_for_rows(postgres: &Arc<Postgres>, sql: &'static str, expected: &str) {
    let began = Instant::now();
    loop {
        let postgres = Arc::clone(postgres);
        let rows = spawn_blocking(move || postgres.query(sql)).await.unwrap();
        let found: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        if found.join(", ") == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{sql}: {found:?}, not {expected}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A coordinator reads which lines are waiting and is suspended. Another one takes over the batch, which is cancelled,
/// and ends those lines. The turns that the first one submits when it resumes belong to no batch.
#[tokio::test(flavor = "multi_thread")]
async fn turns_submitted_after_the_end_of_a_batch_are_cancelled() {
    let postgres = Arc::new(Postgres::start());
    let mut test = BatchTest::on_database(&postgres.url(), |_| ()).await;
    let blocked = spawn_blocking({
        let postgres = Arc::clone(&postgres);
        move || postgres.query(BLOCK_SUBMISSIONS)
    });
    let locks =
        "SELECT count(*) FROM pg_locks WHERE relation = 'turns'::regclass AND mode = 'ShareLock' AND granted";
    wait_for_rows(&postgres, locks, "1").await;
    test.start_coordinator();
    let batch = test.batch(&test.upload(echo_lines(3)).await, json!({})).await;
    wait_for_rows(
        &postgres,
        "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'turns'::regclass AND NOT granted",
        "t",
    )
    .await;

    postgres.query("UPDATE batches SET lease_owner = 'ada', lease_expires_at = 9000000000000000000");
    test.act(&batch, "cancel", json!({})).await;
    let (store, id) = (&test.api.backends.store, Uuid::try_parse(&batch["batch_".len()..]).unwrap());
    let waiting = store.waiting_items(id, 10).await.unwrap();
    assert_eq!(waiting.len(), 3);
    let ended = waiting.into_iter().map(|item| ItemTransition::new(item, ItemState::Cancelled)).collect();
    store.apply_transitions(id, "ada", ended).await.unwrap();
    store.release_batch_leases("ada").await.unwrap();
    blocked.await.unwrap();

    wait_for_rows(&postgres, "SELECT status, count(*) FROM turns GROUP BY status", "cancelled 3").await;
    test.wait_for_status(&batch, "cancelled").await;
    assert_eq!(test.results(&batch).await.len(), 3);
}
