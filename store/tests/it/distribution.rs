//! Distribution by Citus: its list of tables and its functions are imitated in PostgreSQL without it.

use std::time::{Duration, Instant};

use shared::Message;
use store::{Distributed, DryRun, Error, NewTurn, Opening, Prune, Store, testing::migrate};
use test_servers::Postgres;

use crate::conformance::{decided, shape::Recorder};

/// Two nodes with rows, and functions that record what they are asked for.
const CITUS: [&str; 5] = [
    "CREATE TABLE pg_dist_partition (logicalrelid regclass NOT NULL, partmethod \"char\" NOT NULL, beside text)",
    "CREATE TABLE pg_dist_node (isactive bool, shouldhaveshards bool)",
    "INSERT INTO pg_dist_node VALUES (true, false), (true, true), (true, true), (false, true)",
    "CREATE FUNCTION create_distributed_table(of regclass, by text, colocate_with text) RETURNS void LANGUAGE sql AS \
     $$ INSERT INTO pg_dist_partition SELECT of, 'h', colocate_with WHERE by = 'thread_id' $$",
    "CREATE FUNCTION truncate_local_data_after_distributing_table(of regclass) RETURNS void LANGUAGE sql AS $$ SELECT $$",
];

fn with_citus() -> Postgres {
    let postgres = Postgres::prepared("migrated", migrate);
    CITUS.iter().for_each(|sql| drop(postgres.query(sql)));
    postgres
}

#[tokio::test(flavor = "multi_thread")]
async fn real_tables_are_distributed_once() {
    let postgres = with_citus();
    let store = Store::connect(&postgres.url()).await.unwrap();
    let all = Distributed { tables: vec!["events", "attachments"], nodes: 2 };
    assert_eq!(store.distribute().await.unwrap(), all);
    assert_eq!(store.distribute().await.unwrap(), Distributed { tables: Vec::new(), ..all });
    assert_eq!(
        postgres.query("SELECT logicalrelid, beside FROM pg_dist_partition"),
        [["events", "default"], ["attachments", "events"]]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_without_citus_are_refused() {
    let postgres = Postgres::prepared("migrated", migrate);
    let refused = Store::connect(&postgres.url()).await.unwrap().distribute().await.unwrap_err();
    assert!(
        matches!(refused, Error::Address(_)) && refused.to_string().contains("hint: install it"),
        "{refused}"
    );
    let refused = Store::connect("sqlite::memory:").await.unwrap().distribute().await.unwrap_err();
    assert!(
        matches!(refused, Error::Address(_)) && refused.to_string().contains("hint: set store.url"),
        "{refused}"
    );
    let empty = Postgres::shared();
    let refused = Store::connect(&empty.url()).await.unwrap().distribute().await.unwrap_err();
    assert!(matches!(refused, Error::NotMigrated { .. }), "{refused}");
}

/// A transaction that changes one node and the coordinator is committed in two phases only if something was passed by `COPY`.
#[tokio::test(flavor = "multi_thread")]
async fn real_changes_of_one_node_are_committed_in_two_phases() {
    let postgres = with_citus();
    Store::connect(&postgres.url()).await.unwrap().distribute().await.unwrap();
    let recorder = Recorder::before(&postgres.url());
    let store = Store::connect(recorder.url()).await.unwrap();
    let turn = store.submit(new_turn()).await.unwrap().into_turn();
    let since = |before: usize| recorder.statements().split_off(before);

    let before = recorder.statements().len();
    let attachment = store.keep_attachment(turn.thread, b"picture".to_vec()).await.unwrap();
    assert_eq!(store.attachment(turn.thread, &attachment).await.unwrap().unwrap(), b"picture");
    assert_passes_rows_by_copy_before("INSERT INTO attachments", &since(before));

    store.refuse_queued(turn.id, "the test wants none").await.unwrap();
    let before = recorder.statements().len();
    assert_eq!(store.delete_thread(turn.thread, "test").await.unwrap().unwrap().events, 1);
    assert_passes_rows_by_copy_before("DELETE FROM events", &since(before));

    let before = recorder.statements().len();
    let all = Prune { before: i64::MAX, strategy: None, by: "test".into() };
    store.prune(&all, DryRun::No, |_| ()).await.unwrap();
    assert_passes_rows_by_copy_before("DELETE FROM attachments", &since(before));
}

/// Asserts that a transaction inserts events, if only none, before it changes one node.
fn assert_passes_rows_by_copy_before(change: &str, statements: &[String]) {
    let change = statements.iter().position(|sql| sql.starts_with(change)).unwrap();
    let begin = statements[..change].iter().rposition(|sql| sql.starts_with("BEGIN")).unwrap();
    let inserts = |sql: &String| sql.starts_with("INSERT INTO events") && sql.contains("unnest");
    assert!(statements[begin..change].iter().any(inserts), "{statements:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_refused_statement_is_not_retried() {
    let postgres = Postgres::prepared("migrated", migrate);
    let store = Store::connect(&postgres.url()).await.unwrap();
    let turns = futures::future::join_all((0..8).map(|_| store.submit(new_turn()))).await;
    let threads: Vec<_> = turns.into_iter().map(|turn| turn.unwrap().into_turn().thread).collect();
    refuse(&postgres, "0A000");
    let began = Instant::now();
    let store = &store;
    let append =
        async |thread| store.append(&store.head(thread).await.unwrap(), &[decided("why")], None).await;
    for outcome in futures::future::join_all(threads.into_iter().map(append)).await {
        let refused = outcome.unwrap_err();
        assert!(matches!(refused, Error::Unsupported(_)), "{refused:?}");
        let text = refused.to_string();
        assert!(
            text.contains("could not create distributed plan") && text.contains("hint: restart this process"),
            "{text}"
        );
    }
    assert!(began.elapsed() < Duration::from_secs(5), "it was retried");
    let refused = store.submit(new_turn()).await.unwrap_err();
    assert!(matches!(refused, Error::Unsupported(_)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_lost_node_is_unavailable_until_it_is_back() {
    let postgres = Postgres::prepared("migrated", migrate);
    let store = Store::connect(&postgres.url()).await.unwrap();
    let thread = store.submit(new_turn()).await.unwrap().into_turn().thread;
    let head = store.head(thread).await.unwrap();
    refuse(&postgres, "08006");
    let lost = store.submit(new_turn()).await.unwrap_err();
    assert!(matches!(lost, Error::Unavailable(_)), "{lost:?}");
    let appended = tokio::spawn({
        let store = store.clone();
        async move { store.append(&head, &[decided("why")], None).await }
    });
    tokio::time::sleep(Duration::from_millis(600)).await;
    postgres.query("DROP TRIGGER refuse ON events");
    assert_eq!(appended.await.unwrap().unwrap(), store.head(thread).await.unwrap());
}

/// Makes the server answer every insert of events with this code.
fn refuse(postgres: &Postgres, code: &str) {
    postgres.query(&format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'could not create distributed plan' USING ERRCODE = '{code}'; END $$"
    ));
    postgres
        .query("CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse()");
}

fn new_turn() -> NewTurn {
    let opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
    NewTurn::of(Opening::New(opened), vec![Message::user("echo hi")], "test".to_owned())
}
