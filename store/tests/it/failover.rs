//! PostgreSQL servers that cannot be written to: a demoted primary, and a database with an unsuitable encoding.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use shared::Message;
use store::{Error, NewTurn, Opening, Store};
use test_servers::Postgres;
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(20);

/// After a failover, an address leads to the new primary, while the pool still has connections to the old one, which
/// answers every read and refuses every write.
#[tokio::test(flavor = "multi_thread")]
async fn real_connections_to_a_demoted_primary_leave_the_pool() {
    let servers = [Postgres::start(), Postgres::start()];
    for server in &servers {
        Store::connect(&server.url()).await.unwrap().migrate().await.unwrap();
    }
    let ports = servers.each_ref().map(|it| port(&it.url()));
    let (address, primary) = name_that_moves(ports[0]).await;
    let url = servers[0].url().replace(&format!(":{}/", ports[0]), &format!(":{address}/"));
    let store = Store::connect(&url).await.unwrap();
    // Several writes at once leave several connections in the pool.
    let submitted = futures::future::join_all((0..8).map(|_| store.submit(new_turn()))).await;
    assert!(submitted.iter().all(Result::is_ok), "{submitted:?}");

    servers[0].query("ALTER SYSTEM SET default_transaction_read_only = on");
    servers[0].query("SELECT pg_reload_conf()");
    primary.store(ports[1], Ordering::Relaxed);
    let began = Instant::now();
    let mut refused = 0;
    while began.elapsed() < PATIENCE {
        match store.submit(new_turn()).await {
            Ok(turn) => {
                let id = turn.into_turn().thread;
                let found = servers[1].query(&format!("SELECT count(*) FROM threads WHERE id = '{id}'"));
                if found[0][0] == "1" {
                    break;
                }
                // The old server has not read its new setting yet.
            }
            Err(Error::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() < PATIENCE, "every write still goes to the old server, {refused} were refused");
    assert!(refused > 0, "no connection led to the old server, so nothing was shown");
    let all = futures::future::join_all((0..8).map(|_| store.submit(new_turn()))).await;
    assert!(all.iter().all(Result::is_ok), "some connections still lead to the old server: {all:?}");
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

/// Starts a proxy whose new connections lead to the returned port, as a DNS name does that follows the primary.
async fn name_that_moves(first: u16) -> (u16, Arc<AtomicU16>) {
    let target = Arc::new(AtomicU16::new(first));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let now = target.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let port = now.load(Ordering::Relaxed);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (port, target)
}

fn port(url: &str) -> u16 {
    let port = url.rsplit(':').next().and_then(|it| it.split('/').next()).unwrap();
    port.parse().unwrap()
}

fn new_turn() -> NewTurn {
    let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
    NewTurn::of(Opening::New(opened), vec![Message::user("echo hi")], "test".to_owned())
}
