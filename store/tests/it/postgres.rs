//! Ways to reach PostgreSQL: sockets in libpq's forms, and a pooler in transaction mode.

use shared::Message;
use store::{ConnectionSettings, NewTurn, Opening, Store};
use test_servers::{PgBouncer, Postgres};

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_is_reached_over_its_socket() {
    let postgres = Postgres::start();
    let (folder, port) = postgres.socket();
    let folder = folder.display().to_string();
    let encoded = folder.replace('/', "%2F");
    Store::connect(&postgres.url()).await.unwrap().migrate().await.unwrap();
    let mut stores = Vec::new();
    for url in [
        format!("postgresql:///turnfold?host={folder}&port={port}&user=postgres"),
        format!("postgresql:///turnfold?host={encoded}&port={port}&user=postgres"),
        format!("postgresql://postgres@/turnfold?host={folder}&port={port}"),
        format!("postgresql://postgres@:{port}/turnfold?host={folder}"),
        format!("postgres://postgres:ignored@{encoded}:{port}/turnfold"),
        // A socket is never encrypted, as in libpq.
        format!("postgres://postgres@{encoded}:{port}/turnfold?sslmode=require"),
    ] {
        let store = Store::connect(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        store.check_migrated().await.unwrap();
        store.submit(new_turn()).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        stores.push(store);
    }
    let addresses =
        postgres.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'turnfold'");
    assert_ne!(addresses[0][0], "0", "the connections are named");
    let missing = Store::connect(&format!("postgres:///turnfold?host={folder}&port=1")).await.unwrap_err();
    assert!(missing.to_string().contains(&format!("{folder}/.s.PGSQL.1")), "{missing}");
}

/// Many clients share two connections to the server. The conformance tests run through a pooler too, one client each.
#[tokio::test(flavor = "multi_thread")]
async fn real_pooler_in_transaction_mode_serves_many_clients() {
    let postgres = Postgres::start();
    let pooler = PgBouncer::before(&postgres.url(), 2);
    let settings = ConnectionSettings { prepared_statements: false, ..ConnectionSettings::default() };
    Store::connect_with(&pooler.url(), settings).await.unwrap().migrate().await.unwrap();
    let clients = (0..4).map(|_| async {
        let store = Store::connect_with(&pooler.url(), settings).await.unwrap();
        store.check_migrated().await.unwrap();
        let turns = futures::future::join_all((0..25).map(|_| store.submit(new_turn()))).await;
        for turn in turns {
            let id = turn.unwrap().into_turn().thread;
            let head = store.head(id).await.unwrap();
            assert_eq!(store.load(id).await.unwrap().0, head);
        }
    });
    futures::future::join_all(clients).await;
    assert_eq!(postgres.query("SELECT count(*) FROM threads"), [["100"]]);
    let kept = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                AND application_name = 'turnfold'";
    assert_eq!(postgres.query(kept), [["2"]], "the pooler shares its connections");

    // What this mode is for: with prepared statements, clients meet each other's.
    let prepared = ConnectionSettings::default();
    let refused = Store::connect_with(&pooler.url(), prepared).await;
    let refused = match refused {
        Ok(store) => futures::future::join_all((0..50).map(|_| store.submit(new_turn())))
            .await
            .into_iter()
            .find_map(Result::err)
            .expect("named statements do not work through this pooler"),
        Err(error) => error,
    };
    assert!(!refused.to_string().is_empty());
}

fn new_turn() -> NewTurn {
    let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
    NewTurn::of(Opening::New(opened), vec![Message::user("echo hi")], "test".to_owned())
}
