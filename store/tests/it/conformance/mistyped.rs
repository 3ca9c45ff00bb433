//! A value of another type, which SQLite accepts in any column, is found, and hides nothing else.

use std::collections::BTreeSet;

use super::{decided, engines, opened, tamper};
use store::{
    Error, Pin, Store, ThreadScan, Wrong,
    testing::schema::{self, Column},
};

/// Columns of SQLite's row number, in which it stores nothing but integers.
const ROW_NUMBERS: [(&str, &str); 2] = [("readiness", "id"), ("turns", "position")];

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_names_every_value_of_another_type() {
    engines::sqlite("migrated", names_every_value).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_reads_the_logs_beside_a_damaged_one() {
    engines::sqlite("migrated", reads_the_logs_beside).await;
}

async fn names_every_value(store: &Store) -> Result<(), Error> {
    let (damaged, _) = opened(store).await?;
    let events: Vec<_> = (0..10).map(decided).collect();
    store.append(&damaged, &events, None).await?;
    store.keep_attachment(damaged.thread, b"a picture".to_vec()).await?;
    store.approve(Pin::new("desk", "[]", "ada"), "ada").await?;
    let (beside, _) = opened(store).await?;
    store.append(&beside, &events, None).await?;

    let (mut changed, mut seq) = (BTreeSet::new(), 1);
    for Column { table, column, declared } in schema::columns(store).await? {
        let row = match table.as_str() {
            "events" => {
                seq += 1;
                format!("thread_id = (SELECT thread_id FROM events ORDER BY rowid LIMIT 1) AND seq = {seq}")
            }
            _ => format!("rowid = (SELECT min(rowid) FROM {table})"),
        };
        let sql = format!("UPDATE {table} SET \"{column}\" = {} WHERE {row}", of_another_type(&declared));
        match tamper::execute_with(store, &sql, []).await {
            Ok(0) => {}
            Ok(_) => drop(changed.insert((table, column))),
            Err(error) => {
                assert!(ROW_NUMBERS.contains(&(table.as_str(), column.as_str())), "{table}.{column}: {error}")
            }
        }
    }
    tamper::execute(store, "UPDATE events SET at = at + 1 WHERE seq = 3 AND thread_id = $1", beside.thread)
        .await?;

    let verified = store.verify(&ThreadScan::of_all(2)).await?;
    let broken = verified.findings.iter().find(|it| it.thread == beside.thread);
    assert_eq!(broken.map(|it| (it.seq, it.wrong)), Some((3, Wrong::Broken)), "{verified:#?}");
    let of_events = verified.findings.iter().filter(|it| it.wrong == Wrong::Mistyped);
    let of_events: Vec<&str> = of_events.map(|it| it.what.as_str()).collect();
    for (table, column) in changed {
        let is_listed = verified.mistyped.iter().any(|it| (&it.table, &it.column) == (&table, &column));
        let is_found = table == "events"
            && of_events.iter().any(|what| what.contains(&format!(": {column} is of type")));
        assert!(is_listed || is_found, "{table}.{column} is not among {verified:#?}");
    }
    Ok(())
}

async fn reads_the_logs_beside(store: &Store) -> Result<(), Error> {
    let (damaged, _) = opened(store).await?;
    let (sound, _) = opened(store).await?;
    let sql = "UPDATE events SET payload = CAST(payload AS BLOB) WHERE thread_id = $1";
    tamper::execute(store, sql, damaged.thread).await?;
    let head = |thread| store::Head::start(thread);
    let (damaged_head, sound_head) = (head(damaged.thread), head(sound.thread));
    let (damaged, sound) = tokio::join!(store.load_since(&damaged_head), store.load_since(&sound_head));
    assert!(matches!(&damaged, Err(Error::Corrupt { what, .. }) if what.contains("payload")), "{damaged:?}");
    assert_eq!(sound?.1.len(), 1);
    Ok(())
}

/// Returns a value of another type than a column declares.
fn of_another_type(declared: &str) -> &'static str {
    match declared {
        "UUID_TEXT" => "X'010203'",
        "BLOB" => "'a text'",
        _ if declared.contains("TEXT") || declared.contains("CHAR") => "CAST('a blob' AS BLOB)",
        _ => "'noon'",
    }
}
