//! The tampering matrix: one value is changed in each column of a store made by real turns. The audit names the table and the column, or
//! lists them as not compared.
//!
//! **Invariant:** the columns come from the schema of the database, so a new one fails here until `store::integrity::coverage` says
//! how it is treated.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use api::BatchConfig;
use audit::checkpoints::{self, Asked, Gone, Key, Place, Report, Verdict};
use serde_json::json;
use shared::PauseKind;
use store::{
    ForgottenModel, Pause, Pin, Store, ThreadScan,
    integrity::coverage::COLUMNS,
    testing::{
        schema::{self, Column},
        tamper,
    },
};

use crate::{
    batch_test::{BatchTest, line},
    test_api::{TestApi, id_of, known_strategies, thread_of},
};

/// Columns of which some changes are found, among them those that are made here.
const FOUND_IN_PART: &[(&str, &[&str])] = &[
    ("events", &["codec"]),
    ("admin_events", &["codec"]),
    ("turns", &["priority", "metadata"]),
    ("store_identity", &["id"]),
    (
        "batch_items",
        &[
            "tenant",
            "custom_id",
            "state",
            "attempt",
            "cache_key",
            "strategy",
            "thread_id",
            "turn_id",
            "input_tokens",
            "output_tokens",
            "micro_usd",
            "code",
            "message",
            "result_no",
        ],
    ),
    ("batch_results", &["n", "nth", "line"]),
    ("file_chunks", &["file_id", "nth", "starts_line", "ends_line", "data"]),
];

const PIXEL: &str = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_every_column_is_compared_or_listed() {
    let folder = tempfile::tempdir().unwrap();
    let original = format!("sqlite:{}", folder.path().join("log.db").display());
    let checkpoint = make(&original, folder.path()).await;
    let store = Store::connect(&original).await.unwrap();
    let mut copies = 0;
    let copy = async || {
        copies += 1;
        let file = folder.path().join(format!("copy{copies}.db"));
        let sql = format!("VACUUM INTO '{}'", file.display());
        tamper::execute_with(&store, &sql, []).await.unwrap();
        ((), Store::connect(&format!("sqlite:{}", file.display())).await.unwrap())
    };
    assert_columns_are_compared_or_listed(copy, &checkpoint, Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_every_column_is_compared_or_listed() {
    let folder = tempfile::tempdir().unwrap();
    let template = format!("tampering_{}", std::process::id());
    let copy = async || {
        let postgres = test_servers::Postgres::prepared(&template, |url| {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(make(url, folder.path()));
        });
        let store = Store::connect(&postgres.url()).await.unwrap();
        (postgres, store)
    };
    assert_columns_are_compared_or_listed(copy, &folder.path().join("witness"), Engine::Postgres).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Sqlite,
    Postgres,
}

/// Runs turns of every kind, and attests them. Returns the checkpoint.
async fn make(url: &str, folder: &Path) -> PathBuf {
    let mut test = BatchTest::on_database(url, |config| {
        config.bulk = BatchConfig { look: std::time::Duration::from_millis(20), ..config.bulk.clone() };
    })
    .await;
    test.start_coordinator();
    test.start_worker();
    let lines = [line("one", "echo first"), line("two", "echo second"), line("bad", "fail now")].concat();
    let file = test.upload(lines).await;
    let batch = test.batch(&file, json!({})).await;
    test.wait_for_status(&batch, "completed").await;

    let image = json!({"type": "input_image", "image_url": PIXEL});
    let content = json!([{"type": "input_text", "text": "echo seen"}, image]);
    let seen = json!({"model": "turnfold/probe", "input": [{"role": "user", "content": content}]});
    assert_eq!(test.api.post("/v1/responses", seen).await.status, 200);
    let asks = test
        .api
        .post("/v1/turns?wait=30", json!({"strategy": "probe", "input": "ask Well? | yes"}))
        .await
        .json();
    test.api.post("/v1/turns", json!({"thread_id": thread_of(&asks), "input": "yes"})).await;
    let fork = format!("/v1/threads/{}/fork", thread_of(&asks));
    let forked = test.api.post_with(&fork, &[("idempotency-key", "again")], json!({"at": 1})).await;
    assert!(forked.status.is_success(), "{forked:?}");
    let late = json!({"strategy": "probe", "input": "echo late", "delay_seconds": 86_400});
    let queued = test.api.post("/v1/turns", late).await;
    assert!(queued.status.is_success(), "{queued:?}");
    assert!(!id_of(&queued.json()).is_empty());
    let store = test.api.backends.store.clone();
    store.approve(Pin::new("desk", "[]", "ada"), "ada").await.unwrap();
    store.hold(thread_of(&asks), "a lawsuit", "ada").await.unwrap();
    store.pause(&Pause::new(PauseKind::Model, "openai/none", "too dear", "ada"), None).await.unwrap();
    store.forget_model(&ForgottenModel::new("openai/none", "ada"), None).await.unwrap();
    let new = json!({"scopes": ["read"], "name": "web shop", "multitask_strategy": "reject"});
    assert_eq!(test.api.post("/v1/keys", new).await.status, 200);
    let yearly =
        json!({"cron": "@yearly", "name": "n", "turn": {"strategy": "probe", "input": "echo later"}});
    let hook = json!({"url": "https://example.org/hook", "types": ["batch.failed"]});
    for (path, body) in [("/v1/schedules", yearly), ("/v1/webhooks", hook)] {
        let made = test.api.post(path, body).await;
        assert!(made.status.is_success(), "{made:?}");
    }
    let chosen = json!({"strategy": "probe", "input": "echo chosen", "priority": "high", "metadata": {"customer": "c-17"}});
    assert_eq!(test.api.post("/v1/turns?wait=30", chosen).await.status, 200);
    wait_until_idle(&test).await;
    test.kill_coordinator().await;
    drop(test);

    let place = Place::of(&folder.join("witness"));
    let key = Key::make(&folder.join("key"), "example.org/turnfold").unwrap();
    let made = checkpoints::checkpoint(&store, &scan(), &place, &key, Gone::Found).await.unwrap();
    assert_eq!(made.found, 0, "{made:?}");
    place.note
}

async fn wait_until_idle(test: &BatchTest) {
    loop {
        let busy = test.api.get("/v1/threads?status=busy").await.json();
        if busy["data"].as_array().unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn assert_columns_are_compared_or_listed<K>(
    mut copy: impl AsyncFnMut() -> (K, Store),
    checkpoint: &Path,
    engine: Engine,
) {
    let (_kept, untouched) = copy().await;
    let report = verify(&untouched, checkpoint).await;
    assert_eq!(report.verdict, Verdict::NotChecked, "without a key, the signer is unknown: {report:#?}");
    assert_eq!((report.found, report.not_checked.len()), (0, 1), "{report:#?}");
    let columns = schema::columns(&untouched).await.unwrap();
    assert_all_are_listed_once(&columns, engine);

    let (_kept, all) = copy().await;
    for column in &columns {
        let place = (column.table.as_str(), column.column.as_str());
        let is_compared =
            |it: &store::integrity::coverage::Compared| it.table == place.0 && it.columns.contains(&place.1);
        let is_found =
            FOUND_IN_PART.iter().any(|(table, columns)| *table == place.0 && columns.contains(&place.1));
        if is_found || report.coverage.compared.iter().any(is_compared) {
            let (_kept, store) = copy().await;
            assert_eq!(change(&store, column, engine).await, Ok(1), "no row of {place:?}");
            let report = verify(&store, checkpoint).await;
            let names = |it: &checkpoints::Found| {
                it.table.as_deref() == Some(place.0) && it.columns.iter().any(|name| name == place.1)
            };
            assert!(report.findings.iter().any(names), "{place:?} is not found: {report:#?}");
        } else {
            let listed = |it: &store::integrity::coverage::NotCompared| {
                it.table == place.0 && it.columns.contains(&place.1)
            };
            assert!(report.coverage.not_compared.iter().any(listed), "{place:?} is not listed");
            // A constraint may refuse the change.
            drop(change(&all, column, engine).await);
        }
    }
    // What is not compared keeps nothing from being compared.
    let report = verify(&all, checkpoint).await;
    assert!(0 < report.events, "{report:#?}");
}

/// Every column of the schema has one treatment, and every treatment a column.
fn assert_all_are_listed_once(columns: &[Column], engine: Engine) {
    let listed: Vec<(&str, &str)> =
        COLUMNS.iter().flat_map(|it| it.columns.iter().map(|column| (it.table, *column))).collect();
    let once: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(once.len(), listed.len(), "a column is listed twice");
    let columns: BTreeSet<_> = columns.iter().map(|it| (it.table.as_str(), it.column.as_str())).collect();
    let unknown: Vec<_> = columns.difference(&once).collect();
    assert!(unknown.is_empty(), "say in store/src/integrity/coverage.rs how these are treated: {unknown:?}");
    let is_view = |table: &str| engine == Engine::Sqlite && table == "open_turns";
    // SQLite keeps the words of the search index in tables of its own, which have no columns of ours.
    let is_kept_apart =
        |place: (&str, &str)| engine == Engine::Sqlite && place == ("search_entries", "words");
    let gone: Vec<_> =
        once.difference(&columns).filter(|place| !is_view(place.0) && !is_kept_apart(**place)).collect();
    assert!(gone.is_empty(), "these columns do not exist: {gone:?}");
}

/// Changes one value of a column. Returns the number of changed rows, or the refusal.
async fn change(
    store: &Store,
    Column { table, column, declared }: &Column,
    engine: Engine,
) -> Result<u64, String> {
    let name = format!("\"{column}\"");
    let value = match (engine, declared.as_str()) {
        (Engine::Sqlite, "UUID_TEXT") => "X'ffffffffffff7fffbfffffffffffffff'".to_owned(),
        (Engine::Postgres, "UUID") => "'ffffffff-ffff-7fff-bfff-ffffffffffff'".to_owned(),
        (Engine::Sqlite, "BLOB") => format!("CAST({name} || 'x' AS BLOB)"),
        (Engine::Postgres, "BYTEA") => format!("{name} || '\\x00'"),
        (_, "BOOLEAN") => format!("NOT {name}"),
        (_, declared) if declared.contains("TEXT") || declared.contains("CHAR") => {
            format!("'x' || coalesce({name}, '')")
        }
        _ => format!("coalesce({name}, 0) + 1000"),
    };
    let row = match engine {
        // Uploaded files are compared with nothing.
        _ if table == "file_chunks" => "file_id = (SELECT output_file FROM batches)".to_owned(),
        // Those of the others are the defaults, which no log has.
        _ if table == "turns" && ["priority", "metadata"].contains(&column.as_str()) => {
            "metadata LIKE '%c-17%'".to_owned()
        }
        Engine::Sqlite => format!("rowid = (SELECT min(rowid) FROM {table})"),
        Engine::Postgres => {
            format!("(tableoid, ctid) = (SELECT tableoid, ctid FROM {table} ORDER BY 1, 2 LIMIT 1)")
        }
    };
    let sql = format!("UPDATE {table} SET {name} = {value} WHERE {row}");
    tamper::execute_with(store, &sql, []).await.map_err(|error| error.to_string())
}

async fn verify(store: &Store, checkpoint: &Path) -> Report {
    let asked = Asked { checkpoints: vec![checkpoint.to_owned()], ..Asked::default() };
    checkpoints::verify(store, &known_strategies(), &scan(), &asked).await.unwrap()
}

fn scan() -> ThreadScan {
    ThreadScan::of_all(2)
}

#[tokio::test]
async fn metadata_and_priority_of_a_turn_come_from_its_log() {
    let api = TestApi::new().await;
    let new =
        json!({"strategy": "probe", "input": "echo hi", "priority": "low", "metadata": {"customer": "c-17"}});
    let turn = api.post("/v1/turns", new).await.json();
    api.run_until_idle(thread_of(&turn)).await;
    let path = format!("/v1/turns/{}", id_of(&turn));
    let before = api.get(&path).await.json();
    assert_eq!((&before["priority"], &before["metadata"]["customer"]), (&json!("low"), &json!("c-17")));
    let store = &api.backends.store;
    for forgery in
        ["UPDATE turns SET metadata = '{\"customer\": \"c-18\"}', priority = 0", "DELETE FROM turns"]
    {
        tamper::execute_with(store, forgery, []).await.unwrap();
        let rebuilt =
            threads::rebuild(store, &known_strategies(), &scan(), store::DryRun::No).await.unwrap().found;
        assert!(!rebuilt.is_empty(), "{forgery}");
        assert_eq!(api.get(&path).await.json(), before, "{forgery}");
    }
}
