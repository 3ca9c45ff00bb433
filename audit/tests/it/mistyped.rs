//! A value of another type in a SQLite database is a finding of the audit, and hides no other finding.

use audit::checkpoints::{self, Gone, Verdict};
use store::testing::tamper;

use crate::audit_test::{AuditTest, scan};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_values_of_another_type_hide_nothing() {
    for (table, column, sql) in [
        (
            "events",
            "payload",
            "UPDATE events SET payload = CAST(payload AS BLOB) WHERE seq = 2 AND thread_id = $1",
        ),
        ("events", "at", "UPDATE events SET at = 'noon' WHERE seq = 2 AND thread_id = $1"),
        ("events", "hash", "UPDATE events SET hash = CAST(hash AS TEXT) WHERE seq = 2 AND thread_id = $1"),
        ("events", "seq", "UPDATE events SET seq = 'two' WHERE seq = 2 AND thread_id = $1"),
        ("events", "thread_id", "UPDATE events SET thread_id = X'010203' WHERE seq = 2 AND thread_id = $1"),
        ("threads", "id", "UPDATE threads SET id = X'010203' WHERE id = $1"),
        ("threads", "updated_at", "UPDATE threads SET updated_at = 'noon' WHERE id = $1"),
        ("turns", "id", "UPDATE turns SET id = X'010203' WHERE thread_id = $1"),
        ("turns", "thread_id", "UPDATE turns SET thread_id = 'of text' WHERE thread_id = $1"),
        ("turns", "input", "UPDATE turns SET input = CAST(input AS BLOB) WHERE thread_id = $1"),
        ("turns", "ended_seq", "UPDATE turns SET ended_seq = 'late' WHERE thread_id = $1"),
        ("turns", "due_at", "UPDATE turns SET due_at = 1.5 WHERE thread_id = $1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let test = AuditTest::new(&url).await;
        let say =
            async |sql: &str, nth: usize| tamper::execute(&test.store, sql, test.threads[nth]).await.unwrap();
        say(sql, 1).await;
        say("UPDATE events SET at = at + 1 WHERE seq = 3 AND thread_id = $1", 0).await;
        say("UPDATE threads SET status = 'busy' WHERE id = $1", 2).await;

        let report = test.verify(&[]).await;
        assert_eq!(report.verdict, Verdict::Tampered, "{column}: {report:#?}");
        let of = |wrong: &str| report.findings.iter().filter(|it| it.wrong == wrong).collect::<Vec<_>>();
        let named = of("mistyped");
        let names = |what: &str| what.contains(&format!("table {table}, ")) && what.contains(column);
        assert!(named.iter().any(|it| names(&it.what)), "{table}.{column}: {report:#?}");
        assert_eq!(
            of("broken").iter().filter(|it| it.thread == Some(test.threads[0])).count(),
            1,
            "{report:#?}"
        );
        let rows = of("read_model");
        assert_eq!(rows.iter().filter(|it| it.thread == Some(test.threads[2])).count(), 1, "{report:#?}");

        let made =
            checkpoints::checkpoint(&test.store, &scan(None), &test.place, &test.key, Gone::Found).await;
        let made = made.unwrap();
        assert!(made.findings.iter().any(|it| it.thread == test.threads[0]), "{column}: {made:?}");
    }
}

/// A text that is not UTF-8 has the type of its column, and cannot be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_texts_that_are_not_utf8_hide_nothing() {
    for column in ["kind", "payload", "codec"] {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let test = AuditTest::new(&url).await;
        let sql =
            format!("UPDATE events SET {column} = CAST(X'22ff22' AS TEXT) WHERE seq = 2 AND thread_id = $1");
        tamper::execute(&test.store, &sql, test.threads[1]).await.unwrap();
        let report = test.verify(&[]).await;
        let found = report.findings.iter().filter(|it| it.thread == Some(test.threads[1]));
        assert!(found.clone().any(|it| it.wrong == "mistyped" && it.seq == Some(2)), "{column}: {report:#?}");
    }
}
