//! Attacks on the rows beside the logs, and on columns that are not hashed.

use store::testing::tamper::{self, Turns};

use super::{Expected, Unchecked, at, found, of};
use crate::audit_test::AuditTest;

pub(super) const ALL: usize = 8;

pub(super) async fn attack(nth: usize, test: &AuditTest) -> (&'static str, Expected) {
    let say = async |sql: &str| tamper::execute(&test.store, sql, test.threads[1]).await.unwrap();
    let read_model = || found(&[of(Some(1), "read_model")]);
    match nth {
        0 => {
            say("UPDATE threads SET status = 'busy' WHERE id = $1").await;
            ("change the status of a thread's row", read_model())
        }
        1 => {
            say("UPDATE threads SET tenant = 'other' WHERE id = $1").await;
            ("give a thread's row to another tenant", read_model())
        }
        2 => {
            say("UPDATE turns SET status = 'cancelled' WHERE thread_id = $1").await;
            ("change the status of a turn's row", read_model())
        }
        3 => {
            say("DELETE FROM turns WHERE thread_id = $1").await;
            ("remove the rows of a thread's turns", read_model())
        }
        4 => {
            tamper::remove_rows(&test.store, test.threads[1], Turns::Keep).await.unwrap();
            ("remove a thread's row and leave its log", read_model())
        }
        5 => {
            say("UPDATE events SET codec = 'zstd' WHERE seq = 3 AND thread_id = $1").await;
            ("change the codec of what is attested", found(&[at(1, 3, "rewritten")]))
        }
        6 => {
            let codec = "UPDATE events SET codec = 'zstd' WHERE thread_id = $1 AND seq = \
                         (SELECT max(seq) FROM events WHERE thread_id = $1)";
            tamper::execute(&test.store, codec, test.threads[0]).await.unwrap();
            let expected = Expected { unchecked: Unchecked::Always, ..found(&[]) };
            ("change the codec of what no checkpoint attests", expected)
        }
        _ => {
            say("UPDATE threads SET status = 'error' WHERE id = $1").await;
            ("say that a thread was parked", Expected { unchecked: Unchecked::Always, ..found(&[]) })
        }
    }
}
