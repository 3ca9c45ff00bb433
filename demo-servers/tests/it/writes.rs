//! Writes, refusals and repeated calls, one after the other.

use std::{fs, path::Path};

use demo_servers::{Expert, Ledger};
use rmcp::service::{ClientLifecycleMode, ServiceError};
use serde_json::json;

use crate::{call, call_as, connect, connect_with, ok, refused, send};

fn applied(data: &Path) -> Vec<(String, u64)> {
    Ledger::read(data).expect("a ledger").applied.into_iter().collect()
}

#[tokio::test]
async fn the_calendar_books_once_and_names_free_hours() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("new/calendar.json");
    let client = connect(Expert::Calendar, &data).await;
    assert_eq!(
        call(&client, "list_events", json!({"day": "Friday"})).await,
        ok("nothing is booked on friday")
    );

    let dentist = json!({"day": " Friday", "hour": 14, "title": "dentist"});
    let booked = ok("booked friday 14:00 dentist (id e1)");
    assert_eq!(call_as(&client, "k1", "book", dentist.clone()).await, booked);
    assert_eq!(call_as(&client, "k1", "book", dentist.clone()).await, booked);
    // Another key finds the work done: it gets an answer, and nothing is written.
    assert_eq!(call_as(&client, "k2", "book", dentist.clone()).await, booked);
    assert_eq!(applied(&data), [("k1".to_owned(), 1)]);

    let rival = json!({"day": "friday", "hour": 14, "title": "tennis"});
    let taken = "friday 14:00 is taken; free on friday: 9:00, 10:00, 11:00, 12:00, 13:00, 15:00, 16:00";
    assert_eq!(call_as(&client, "k3", "book", rival.clone()).await, refused(taken));
    let late = call(&client, "book", json!({"day": "friday", "hour": 17, "title": "tennis"})).await;
    assert!(late.expect_err("closed").starts_with("17:00 is not a working hour; free on friday: 9:00"));
    let listed = call(&client, "list_events", json!({"day": "FRIDAY"})).await;
    assert_eq!(listed, ok("booked on friday:\n- 14:00 dentist (id e1)"));

    let id = json!({"event_id": "e1"});
    let cancelled = ok("cancelled e1: friday 14:00 dentist");
    assert_eq!(call_as(&client, "k4", "cancel", id.clone()).await, cancelled);
    assert_eq!(call_as(&client, "k4", "cancel", id.clone()).await, cancelled);
    let gone = refused(r#"no appointment has the id "e1"; list_events tells the ids of a day"#);
    assert_eq!(call_as(&client, "k5", "cancel", id).await, gone);
    // Refusals are not remembered, successes are: the old key still returns the old booking.
    assert_eq!(call_as(&client, "k3", "book", rival).await, ok("booked friday 14:00 tennis (id e2)"));
    assert_eq!(call_as(&client, "k1", "book", dentist).await, booked);
    assert_eq!(applied(&data), [("k1", 1), ("k3", 1), ("k4", 1)].map(|(key, n)| (key.to_owned(), n)));
}

#[tokio::test]
async fn a_client_of_an_older_protocol_has_keys_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("notes.json");
    let client = connect_with(ClientLifecycleMode::Initialize, Expert::Notes, &data).await;
    let line = json!({"title": "log", "text": "once"});
    assert_eq!(call_as(&client, "k1", "append", line.clone()).await, ok(r#"wrote "log""#));
    assert_eq!(call_as(&client, "k1", "append", line).await, ok(r#"wrote "log""#));
    assert_eq!(applied(&data), [("k1".to_owned(), 1)]);
}

#[tokio::test]
async fn contacts_are_found_and_near_names_offered() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("contacts.json");
    let client = connect(Expert::Contacts, &data).await;
    assert_eq!(call(&client, "list", json!({})).await, ok("the address book is empty"));
    let unknown = refused(r#"no contact is called "ada", there are none yet"#);
    assert_eq!(call(&client, "find", json!({"name": "ada"})).await, unknown);

    for (name, email) in [("Ada Lovelace", "ada@example.org"), ("Alan Turing", "alan@example.org")] {
        let person = json!({"name": name, "email": email});
        let added = ok(&format!("added {name} <{email}>"));
        assert_eq!(call(&client, "add", person.clone()).await, added);
        assert_eq!(call_as(&client, name, "add", person).await, added);
    }
    assert_eq!(applied(&data), [(String::new(), 2)]);
    let unchanged = Ledger::read(&data).expect("a ledger").unchanged;
    assert_eq!(
        unchanged.into_iter().collect::<Vec<_>>(),
        ["Ada Lovelace", "Alan Turing"],
        "it was so already"
    );
    let both = ok("- Ada Lovelace <ada@example.org>\n- Alan Turing <alan@example.org>");
    assert_eq!(call(&client, "list", json!({})).await, both);
    assert_eq!(call(&client, "find", json!({"name": "A"})).await, both);
    let near = refused(r#"no contact is called "allan", the nearest are: Alan Turing, Ada Lovelace"#);
    assert_eq!(call(&client, "find", json!({"name": "allan"})).await, near);

    let moved = call(&client, "add", json!({"name": "ada lovelace", "email": "ada@example.com"})).await;
    let known = "Ada Lovelace <ada@example.org> is in the address book already; remove them first if the address has changed";
    assert_eq!(moved, refused(known));
    let address = call(&client, "add", json!({"name": "Grace", "email": "grace"})).await;
    assert_eq!(address, refused(r#""grace" is not an email address: it has no @"#));
    let removed = call(&client, "remove", json!({"name": "ALAN TURING"})).await;
    assert_eq!(removed, ok("removed Alan Turing <alan@example.org>"));
    let again = refused(r#"no contact is called "Alan Turing", the nearest are: Ada Lovelace"#);
    assert_eq!(call(&client, "remove", json!({"name": "Alan Turing"})).await, again);
}

#[tokio::test]
async fn notes_are_written_extended_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("notes.json");
    let client = connect(Expert::Notes, &data).await;
    let trip = json!({"title": "Trip", "text": "Pack the tent."});
    assert_eq!(call(&client, "write", trip.clone()).await, ok(r#"wrote "Trip""#));
    assert_eq!(call(&client, "write", trip).await, ok(r#"wrote "Trip""#));
    let other = call(&client, "write", json!({"title": "trip", "text": "Stay."})).await;
    let hint = "append to it, delete it first, or choose another title";
    assert_eq!(other, refused(&format!(r#"there is a note "Trip" already; {hint}"#)));

    let line = json!({"title": "trip", "text": "And the stove."});
    assert_eq!(call_as(&client, "k1", "append", line.clone()).await, ok(r#"appended to "Trip""#));
    assert_eq!(call_as(&client, "k1", "append", line.clone()).await, ok(r#"appended to "Trip""#));
    let text = "Trip\n\nPack the tent.\nAnd the stove.";
    assert_eq!(call(&client, "read", json!({"title": "TRIP"})).await, ok(text));
    assert_eq!(call(&client, "append", line).await, ok(r#"appended to "Trip""#));
    assert_eq!(applied(&data), [(String::new(), 2), ("k1".to_owned(), 1)]);

    let found = ok("- Trip: Pack the tent. And the stove. And the stove.");
    assert_eq!(call(&client, "search", json!({"query": "STOVE"})).await, found);
    assert_eq!(call(&client, "search", json!({"query": ""})).await, found);
    let none = ok(r#"none of 1 notes contains "boat""#);
    assert_eq!(call(&client, "search", json!({"query": "boat"})).await, none);
    assert_eq!(call(&client, "delete", json!({"title": "trip"})).await, ok(r#"deleted "Trip""#));
    let gone = refused(r#"no note is called "Trip", there are none yet"#);
    assert_eq!(call(&client, "read", json!({"title": "Trip"})).await, gone);
}

#[tokio::test]
async fn malformed_input_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("notes.json");
    let client = connect(Expert::Notes, &data).await;
    let missing = call(&client, "write", json!({"title": "Trip"})).await.expect_err("no text");
    assert!(missing.contains("missing field `text`"), "{missing}");
    let note = json!({"title": "Trip", "text": "Pack."});
    let no_string =
        send(&client, "write", note.clone(), Some(json!(7))).await.expect_err("a key that is no string");
    assert!(matches!(no_string, ServiceError::McpError(_)), "{no_string}");
    let title = call(&client, "write", json!({"title": " ", "text": "Pack."})).await;
    assert_eq!(title, refused("the title is empty"));
    let endless = call(&client, "write", json!({"title": "Trip", "text": "x".repeat(50_001)})).await;
    assert_eq!(endless, refused("the note has 50001 characters, at most 50000 are kept"));
    assert!(!data.exists());

    // Not JSON, of another format, and another server's file.
    for broken in
        ["", "{\"data\": ", "[]", r#"{"data": []}"#, r#"{"data": {}} {}"#, r#"{"data": {"people": {}}}"#]
    {
        fs::write(&data, broken).expect("a file");
        for (tool, arguments) in [("write", note.clone()), ("read", json!({"title": "Trip"}))] {
            let error = call(&client, tool, arguments).await.expect_err("a broken file");
            let named = format!("the data file {} is broken and was left as it is: ", data.display());
            assert!(error.starts_with(&named), "{error}");
        }
        assert_eq!(fs::read_to_string(&data).expect("a file"), broken);
    }
    fs::write(&data, "[]").expect("a file");
    assert!(Ledger::read(&data).is_err());
    assert!(Ledger::read(&folder.path().join("none.json")).expect("an empty ledger").applied.is_empty());
}
