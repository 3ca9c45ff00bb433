//! PostgreSQL servers that cannot be written to: a demoted primary, ended connections, and a database with an unsuitable encoding.

use std::time::{Duration, Instant};

use shared::Message;
use store::{Error, NewTurn, Opening, Store};
use test_servers::{Postgres, Proxy};

/// Longest time from the moment at which the new primary can be reached to the first write.
const RECOVERED_WITHIN: Duration = Duration::from_secs(5);

/// After a failover, an address leads to the new primary, while the pool still has connections to the old one, which
/// answers every read and refuses every write.
#[tokio::test(flavor = "multi_thread")]
async fn real_connections_to_a_demoted_primary_leave_the_pool() {
    let primary = Postgres::start();
    Store::connect(&primary.url()).await.unwrap().migrate().await.unwrap();
    let standby = primary.standby();
    let name = Proxy::before(&primary.url());
    let store = Store::connect(&name.url()).await.unwrap();
    // Several writes at once leave several connections in the pool.
    let submitted = futures::future::join_all((0..8).map(|_| store.submit(new_turn()))).await;
    assert!(submitted.iter().all(Result::is_ok), "{submitted:?}");

    primary.hand_over_to(&standby);
    name.lead_to(&standby.url());
    let (began, mut refused) = (Instant::now(), 0);
    let turn = loop {
        match store.submit(new_turn()).await {
            Ok(turn) => break turn,
            Err(Error::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(began.elapsed() < RECOVERED_WITHIN, "every write still goes to the old server");
    };
    let found = format!("SELECT count(*) FROM threads WHERE id = '{}'", turn.into_turn().thread);
    assert_eq!(standby.query(&found), [["1"]], "the write went to the old server");
    // One refusal, or a reading of the server, makes every connection of the pool suspect.
    assert!(refused <= 1, "a connection to the old server was used after another one was refused");
    let all = futures::future::join_all((0..8).map(|_| store.submit(new_turn()))).await;
    assert!(all.iter().all(Result::is_ok), "some connections still lead to the old server: {all:?}");
}

/// An idle worker only reads. It must not go on reading from the old primary.
#[tokio::test(flavor = "multi_thread")]
async fn real_reader_leaves_a_demoted_primary() {
    let primary = Postgres::start();
    Store::connect(&primary.url()).await.unwrap().migrate().await.unwrap();
    let standby = primary.standby();
    let name = Proxy::before(&primary.url());
    let reader = Store::connect(&name.url()).await.unwrap();
    reader.check_migrated().await.unwrap();
    primary.hand_over_to(&standby);
    name.lead_to(&standby.url());
    let writer = Store::connect(&standby.url()).await.unwrap();
    let thread = writer.submit(new_turn()).await.unwrap().into_turn().thread;
    let began = Instant::now();
    while reader.thread(thread).await.unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it still reads from the old primary");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An audit of a standby only reads.
#[tokio::test(flavor = "multi_thread")]
async fn real_store_that_was_opened_on_a_standby_stays_there() {
    let primary = Postgres::start();
    let writer = Store::connect(&primary.url()).await.unwrap();
    writer.migrate().await.unwrap();
    let standby = primary.standby();
    let auditor = Store::connect(&standby.url()).await.unwrap();
    let thread = writer.submit(new_turn()).await.unwrap().into_turn().thread;
    // Longer than the interval between two readings of the server.
    tokio::time::sleep(Duration::from_secs(6)).await;
    auditor.thread(thread).await.unwrap().expect("it reads from the standby");
}

/// A server that restarts ends all connections. One statement finds out; the others use new connections.
#[tokio::test(flavor = "multi_thread")]
async fn real_connections_that_the_server_ended_are_not_used_again() {
    let postgres = Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let submitted = futures::future::join_all((0..8).map(|_| store.submit(new_turn()))).await;
    assert!(submitted.iter().all(Result::is_ok), "{submitted:?}");
    postgres.query(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'turnfold'",
    );
    let first = store.submit(new_turn()).await;
    assert!(matches!(first, Ok(_) | Err(Error::Unavailable(_))), "{first:?}");
    for _ in 0..8 {
        store.submit(new_turn()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_database_that_cannot_hold_every_character_is_refused() {
    let postgres = Postgres::start();
    postgres.query("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let url = postgres.url().rsplit_once('/').map(|(server, _)| format!("{server}/latin")).unwrap();
    let error = Store::connect(&url).await.expect_err("LATIN1 has no emoji");
    assert!(matches!(error, Error::Address(_)), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("LATIN1") && error.contains("hint: create one"), "{error}");
}

fn new_turn() -> NewTurn {
    let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
    NewTurn::of(Opening::New(opened), vec![Message::user("echo hi")], "test".to_owned())
}
