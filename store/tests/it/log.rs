//! Runs the log test suite on each engine, and tests properties of single engines.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use queue::clock;
use sea_orm::sqlx::{self, Connection, Executor, PgConnection, SqliteConnection};
use shared::{Decided, Event, Goto};
use store::{ConnectionSettings, Error, Idempotency, NewTurn, Opening, Store, integrity::hash_chain};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_that_dies_is_unavailable_until_it_is_back() {
    let mut postgres = test_servers::Postgres::start();
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.migrate().await.unwrap();
    let turn = store.submit(new_turn()).await.unwrap().into_turn();
    let head = store.head(turn.thread).await.unwrap();

    postgres.kill();
    let lost = store.append(&head, &[decided()], None).await;
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");

    postgres.restart();
    let end = loop {
        // Each broken connection is detected only when it is used.
        match store.append(&head, &[decided()], None).await {
            Ok(end) => break end,
            Err(Error::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(store.head(turn.thread).await.unwrap(), end);
}

/// In a group with an unknown outcome, turns without a key are not submitted again, because they could be stored twice.
#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_that_goes_away_under_a_group_queues_no_turn_twice() {
    let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
    let store = Store::connect(&postgres.url()).await.unwrap();
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    for sql in [
        "CREATE FUNCTION no_groups() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF (SELECT count(*) FROM new_turns) > 1 THEN RAISE 'gone' USING ERRCODE = '57P01'; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER no_groups AFTER INSERT ON turns REFERENCING NEW TABLE AS new_turns \
         FOR EACH STATEMENT EXECUTE FUNCTION no_groups()",
    ] {
        db.execute(sql).await.unwrap();
    }
    let submit = |nth: usize| {
        let key = format!("{nth}");
        let idempotency = nth.is_multiple_of(2).then(|| Idempotency { key, request_hash: "hash".to_owned() });
        store.submit(NewTurn { idempotency, ..new_turn() })
    };
    let outcomes = futures::future::join_all((0..40).map(submit)).await;
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Unavailable(_)))).count();
    let queued: i64 = sqlx::query_scalar("SELECT count(*) FROM turns").fetch_one(&mut db).await.unwrap();
    assert!(0 < refused, "none was in a group: {outcomes:?}");
    assert_eq!(queued as usize + refused, outcomes.len());
    assert!(outcomes.iter().step_by(2).all(Result::is_ok), "who has a key is known by it: {outcomes:?}");
}

/// The events of a hundred threads are spread over all eight partitions and are read back from them.
#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_spreads_events_over_partitions() {
    let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
    let two = ConnectionSettings { max: 2, ..ConnectionSettings::default() };
    let store = Store::connect_with(&postgres.url(), two).await.unwrap();
    for _ in 0..100 {
        let thread = store.submit(new_turn()).await.unwrap().into_turn().thread;
        store.append(&store.head(thread).await.unwrap(), &[decided(), decided()], None).await.unwrap();
        assert_eq!(store.stored(thread, 0, 9).await.unwrap().len(), 3);
    }
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    let partitions: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT tableoid) FROM events").fetch_one(&mut db).await.unwrap();
    assert_eq!(partitions, 8);
}

/// No migration upgrades the schema of a development version to that of a release.
#[tokio::test]
async fn a_database_of_a_development_version_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let (store, url) = sqlite(&folder).await;
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    db.execute(
        "UPDATE seaql_migrations SET version = 'm20261122_000010_bulk' WHERE version LIKE '%_batches'",
    )
    .await
    .unwrap();
    for refused in [store.check_migrated().await, store.migrate().await.map(drop)] {
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("development version before 0.1.0"), "{message}");
        assert!(message.contains("hint: create a new one"), "{message}");
    }
}

/// Long values are compressed in the partitions of the log as well, which are separate tables.
#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_packs_what_is_long_by_lz4() {
    let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    let sql = "SELECT attrelid::regclass::text FROM pg_attribute WHERE attcompression = 'l' ORDER BY 1";
    let packed: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut db).await.unwrap();
    let partitions = (0..8).map(|nth| format!("events_0{nth}"));
    let all = ["batch_results", "events"].map(str::to_owned).into_iter().chain(partitions);
    assert_eq!(packed, all.chain(["file_chunks", "turns"].map(str::to_owned)).collect::<Vec<_>>());
}

#[tokio::test]
async fn real_postgres_address_that_is_wrong_is_an_address_and_tells_no_password() {
    let postgres = test_servers::Postgres::start();
    let elsewhere = postgres.url().replace("postgres@", "postgres:s3cret@").replace("/turnfold", "/nowhere");
    let error = Store::connect(&elsewhere).await.unwrap_err();
    assert!(matches!(error, Error::Address(_)), "{error}");
    assert!(error.to_string().contains("\"nowhere\" does not exist"), "{error}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}

#[tokio::test]
async fn an_address_that_cannot_work_says_what_would() {
    for wrong in ["mysql://me:s3cret@db/turnfold", "data/turnfold.db", "", "s3cret"] {
        let error = Store::connect(wrong).await.unwrap_err();
        assert!(matches!(error, Error::Address(_)), "{error}");
        let words = format!("{error} {error:?}");
        assert!(words.contains("`sqlite:PATH`") && words.contains("`postgres://"), "{words}");
        assert!(!words.contains("s3cret"), "{words}");
    }
    let malformed = Store::connect("postgres://me:s3cret@host:port/turnfold").await.unwrap_err();
    assert!(matches!(malformed, Error::Address(_)), "{malformed}");
    assert!(!format!("{malformed} {malformed:?}").contains("s3cret"), "{malformed:?}");
}

#[tokio::test]
async fn a_sqlite_file_that_cannot_be_made_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let below = Store::connect(&format!("sqlite:{}/log.db", file.display())).await.unwrap_err();
    assert!(matches!(below, Error::Address(_)), "{below}");
    assert!(below.to_string().contains("cannot create the directory"), "{below}");

    let is_a_folder = Store::connect(&format!("sqlite:{}", folder.path().display())).await.unwrap_err();
    assert!(matches!(is_a_folder, Error::Address(_)), "{is_a_folder}");
    assert!(is_a_folder.to_string().contains("unable to open database file"), "{is_a_folder}");

    std::fs::write(&file, "certainly not a database, whatever else it may be").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let no_database = Store::connect(&format!("sqlite:{}", file.display())).await.unwrap_err();
    assert!(matches!(no_database, Error::Database(_)), "{no_database}");
    assert!(no_database.to_string().contains("file is not a database"), "{no_database}");
}

/// Waiting writers must not occupy the connections that readers need.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_reads_while_writers_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (store, url) = sqlite(&folder).await;
    store.submit(new_turn()).await.unwrap();

    let mut another_process = SqliteConnection::connect(&url).await.unwrap();
    another_process.execute("BEGIN IMMEDIATE").await.unwrap();
    let writer = |store: Store| async move { store.submit(new_turn()).await };
    let writers: Vec<_> = (0..64).map(|_| tokio::spawn(writer(store.clone()))).collect();
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert_eq!(store.counts().await.unwrap().events, 1, "a reader sees what was written before");
    }
    another_process.execute("COMMIT").await.unwrap();

    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(store.counts().await.unwrap().events, 65);
}

/// Two processes may open one file at the same time: one creates the tables while the other waits.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file_is_migrated_once_by_two_stores() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let (one, two) = tokio::join!(Store::connect(&url), Store::connect(&url));
        let (one, two) = (one.unwrap(), two.unwrap());
        let pending = one.pending().await.unwrap();
        let (first, second) = tokio::join!(one.migrate(), two.migrate());
        assert_eq!([first.unwrap(), second.unwrap()].concat(), pending);
        two.check_migrated().await.unwrap();
    }
}

/// Two processes may share a file: each sees the other's writes, and one of them wins each event number.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file_is_shared_between_two_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (one, url) = sqlite(&folder).await;
    let two = Store::connect(&url).await.unwrap();
    two.check_migrated().await.unwrap();
    let turn = one.submit(new_turn()).await.unwrap().into_turn();
    let mut head = two.head(turn.thread).await.unwrap();
    for _ in 0..20 {
        let batch = [decided()];
        let (first, second) = tokio::join!(one.append(&head, &batch, None), two.append(&head, &batch, None));
        let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
        assert!(matches!(lost, Err(Error::Stale { .. })), "{lost:?}");
        head = won.unwrap();
    }
    assert_eq!(one.head(turn.thread).await.unwrap(), head);
}

/// A trigger that rejects a row without a rollback leaves a transaction open, which must then be ended.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_goes_on_after_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let (store, url) = sqlite(&folder).await;
    let turn = store.submit(new_turn()).await.unwrap().into_turn();
    let head = store.head(turn.thread).await.unwrap();
    let mut another_process = SqliteConnection::connect(&url).await.unwrap();
    let refuses =
        "CREATE TRIGGER refuses BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'not today'); END";
    another_process.execute(refuses).await.unwrap();

    let refused = store.append(&head, &[decided()], None).await;

    assert!(matches!(&refused, Err(Error::ContentRejected(it)) if it.contains("not today")), "{refused:?}");
    another_process.execute("DROP TRIGGER refuses").await.unwrap();
    store.append(&head, &[decided()], None).await.unwrap();
}

/// The expected hash was computed independently with Python's `hashlib`.
#[test]
fn the_chain_hashes_as_documented() {
    let first = hash_chain::link(&hash_chain::START, 0, 1_795_302_000_000_000, "asked", r#"{"node":"plan"}"#);
    assert_eq!(hex::encode(first), "a49c232796b8bad4d4f0a130de2501d639ad9b74993fccbad4310ff146d23a90");
    let second = hash_chain::link(&first, 1, 1_795_302_000_000_001, "answered", r#"{"slot":0,"says":"für"}"#);
    assert_eq!(hex::encode(second), "9ff9d3b4ad1926c0c9cc51ae149efcc1aadc7f5f5cf2034b6a5afdbcbdfa3582");
}

#[test]
fn times_read_as_rfc_3339() {
    assert_eq!(clock::rfc3339(0), "1970-01-01T00:00:00.000000Z");
    assert_eq!(clock::rfc3339(1_795_302_000_000_001), "2026-11-21T23:00:00.000001Z");
    assert_eq!(clock::rfc3339(-1), "1969-12-31T23:59:59.999999Z");
    assert!(clock::rfc3339(i64::MAX).ends_with('Z') && clock::rfc3339(i64::MIN).ends_with('Z'));
    let year = Duration::from_secs(365 * 24 * 3600).as_micros() as i64;
    assert!((50 * year..500 * year).contains(&clock::now()));
}

/// Creates a store in a new file, and returns it with its address.
async fn sqlite(folder: &TempDir) -> (Store, String) {
    let url = format!("sqlite:{}", folder.path().join("log.db").display());
    let store = Store::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    (store, url)
}

fn new_turn() -> NewTurn {
    let opened = serde_json::from_value(serde_json::json!({ "strategy": "probe" })).unwrap();
    NewTurn {
        attachments: Vec::new(),
        thread: Opening::New(opened),
        policy: shared::Policy::Auto,
        priority: queue::Priority::Normal,
        messages: vec![shared::Message::user("hello")],
        reply_options: None,
        metadata: serde_json::json!({}),
        author: String::new(),
        idempotency: None,
        due_at: None,
        caller: None,
        trace_parent: None,
        multitask: shared::MultitaskStrategy::Enqueue,
        in_doubt: None,
        conversation: None,
        history_hash: None,
    }
}

fn decided() -> Event {
    Decided {
        node: "probe".into(),
        messages: vec![],
        facts: vec![],
        reason: None,
        to: Goto::End,
        budget_exceeded: None,
        outcome: None,
    }
    .into()
}

/// The writes of a process whose file was deleted would succeed, and be gone when it ends.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file_that_was_deleted_or_replaced_is_not_written() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (store, url) = sqlite(&folder).await;
        let turn = store.submit(new_turn()).await.unwrap().into_turn();
        store.check_writable().await.unwrap();
        let file = Store::sqlite_file(&url).unwrap();
        let away = folder.path().join("away");
        std::fs::rename(&file, &away).unwrap();
        if replaced {
            std::fs::copy(&away, &file).unwrap();
        }
        let head = store.head(turn.thread).await.unwrap();
        let refusals = [
            store.submit(new_turn()).await.map(drop),
            store.append(&head, &[decided()], None).await.map(drop),
            store.check_writable().await,
        ];
        for refused in refusals {
            let Err(Error::Unavailable(message)) = refused else { panic!("it is written: {refused:?}") };
            assert!(message.contains("so nothing is written any more; hint:"), "{message}");
        }
        std::fs::rename(&away, &file).unwrap();
        store.submit(new_turn()).await.unwrap();
        std::fs::remove_file(folder.path().join(format!("{}-wal", file.display()))).unwrap();
        store.check_writable().await.unwrap_err();
        let lost = store.submit(new_turn()).await.unwrap_err().to_string();
        assert!(lost.contains("lost its -wal"), "{lost}");
    }
}

/// SQLite would write the pages of the old log over the restored file.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_backup_beside_an_old_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, url) = sqlite(&folder).await;
    let file = Store::sqlite_file(&url).unwrap();
    let of = |name: &str| folder.path().join(name);
    let backup = format!("VACUUM INTO '{}'", of("backup").display());
    SqliteConnection::connect(&url).await.unwrap().execute(sqlx::AssertSqlSafe(backup)).await.unwrap();
    for _ in 0..20 {
        store.submit(new_turn()).await.unwrap();
    }
    // The files as a crash leaves them.
    let (crashed, wal) = (of("crashed.db"), of("crashed.db-wal"));
    std::fs::copy(&file, &crashed).unwrap();
    std::fs::copy(file.with_extension("db-wal"), &wal).unwrap();
    Store::check_write_ahead_log(&crashed).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    std::fs::copy(of("backup"), &crashed).unwrap();
    let refused = Store::check_write_ahead_log(&crashed).unwrap_err().to_string();
    assert!(refused.contains("hint: to use the restored file, delete"), "{refused}");
    std::fs::remove_file(&wal).unwrap();
    Store::check_write_ahead_log(&crashed).unwrap();

    // A crash after a checkpoint: the file is newer than its log, and belongs to it.
    std::fs::copy(file.with_extension("db-wal"), &wal).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").await.unwrap();
    std::fs::copy(&file, &crashed).unwrap();
    Store::check_write_ahead_log(&crashed).unwrap();
}

/// A reader keeps a checkpoint from copying the pages that were written after it. Those that are written most often are missing then.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_file_after_a_checkpoint_beside_a_reader_is_not_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, crashed) = (folder.path().join("log.db"), folder.path().join("crashed.db"));
    let url = format!("sqlite:{}?mode=rwc", file.display());
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    db.execute("PRAGMA journal_mode = WAL").await.unwrap();
    db.execute("CREATE TABLE hot (n); CREATE TABLE cold (text); INSERT INTO hot VALUES (0)").await.unwrap();
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
    db.execute("UPDATE hot SET n = 1; INSERT INTO cold VALUES (zeroblob(5000))").await.unwrap();
    let mut reader = SqliteConnection::connect(&url).await.unwrap();
    reader.execute("BEGIN; SELECT n FROM hot").await.unwrap();
    db.execute("CREATE TABLE more (n); UPDATE hot SET n = 2").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").await.unwrap();
    std::fs::copy(file.with_extension("db-wal"), crashed.with_extension("db-wal")).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    std::fs::copy(&file, &crashed).unwrap();
    Store::check_write_ahead_log(&crashed).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_locked_table_is_seen_and_ends_a_write() {
    let postgres = test_servers::Postgres::prepared("migrated", store::testing::migrate);
    let store = Store::connect(&postgres.url()).await.unwrap();
    store.check_writable().await.unwrap();
    let identity = store.identity().await.unwrap();
    assert_eq!(Store::connect(&postgres.url()).await.unwrap().identity().await.unwrap(), identity);
    let mut other = PgConnection::connect(&postgres.url()).await.unwrap();
    other.execute("BEGIN; LOCK TABLE turns").await.unwrap();
    let (ready, submitted) = tokio::join!(store.check_writable(), store.submit(new_turn()));
    let Err(Error::Unavailable(message)) = ready else { panic!("ready: {ready:?}") };
    assert!(
        message.contains("another session may lock a table") && message.contains("pg_locks"),
        "{message}"
    );
    assert!(matches!(submitted, Err(Error::Unavailable(_))), "{submitted:?}");
    other.execute("COMMIT").await.unwrap();
    store.check_writable().await.unwrap();
}
