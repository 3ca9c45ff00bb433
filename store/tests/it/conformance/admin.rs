//! Administrative logs: each change is an entry in its own transaction, and a row without one is found.

use std::sync::Arc;

use queue::clock;
use serde_json::{Value, json};
use shared::{CallerId, DEFAULT_TENANT, Event, PauseKind, ThreadStatus};
use store::{
    AdminEntry, AdminFilter, AdminVerified, By, DryRun, Error, ForgottenModel, Key, Pause, Pin, Prune, Store,
    ThreadId, admin_log, batches::ItemState, testing::schema,
};
use tokio::sync::Barrier;

use super::{
    batches::{file, new_file},
    new_turn,
    prune::at_rest,
    tamper, turn_started,
};

/// Writers that append to one log at the same time, and the entries of each.
const WRITERS: usize = 4;
const ENTRIES: usize = 10;

pub(super) fn key(id: &str, tenant: Option<&str>, scopes: &[&str]) -> Key {
    Key {
        id: id.to_owned(),
        hash: vec![1, 2, 3],
        tenant: tenant.map(str::to_owned),
        name: "shop".to_owned(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        created_by: "ada".to_owned(),
        created_at: clock::now(),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        multitask_strategy: None,
    }
}

pub(super) fn eve() -> By {
    let caller = CallerId { key: Some("tf_eve".to_owned()), subject: None };
    By { caller: Some(caller), ..By::from("eve") }.because("a lawsuit ended")
}

pub(super) async fn entries(store: &Store, tenant: Option<&str>) -> Result<Vec<AdminEntry>, Error> {
    let filter = AdminFilter { tenant: tenant.map(str::to_owned), ..AdminFilter::default() };
    let mut entries = store.admin_entries(&filter, 1_000).await?;
    entries.reverse();
    Ok(entries)
}

pub(super) fn kinds(entries: &[AdminEntry]) -> Vec<&'static str> {
    entries.iter().map(|entry| entry.event.kind()).collect()
}

pub(super) async fn assert_intact(store: &Store) -> Result<AdminVerified, Error> {
    let verified = store.verify_admin_logs(&()).await?;
    assert!(verified.findings.is_empty() && verified.rows.is_empty(), "{verified:#?}");
    Ok(verified)
}

pub(super) async fn each_change_is_an_entry(store: &Store) -> Result<(), Error> {
    let thread = at_rest(store, "probe", ThreadStatus::Idle).await?.thread;
    store.hold(thread, "a lawsuit", "ada").await?;
    store.hold(thread, "another", "bob").await?;
    store.release(thread, eve()).await?;
    store.release(thread, eve()).await?;
    let deleted = store.delete_thread(thread, eve()).await?.unwrap_or_default();
    assert_eq!(store.delete_thread(thread, eve()).await?, None);
    let mine = file(store, DEFAULT_TENANT).await?;
    assert!(store.delete_file(mine, eve()).await?);
    store.pause(&Pause::new(PauseKind::OwnTenant, DEFAULT_TENANT, "dear", "ada"), None).await?;
    store.resume(PauseKind::OwnTenant, DEFAULT_TENANT, "ada").await?;
    let of_tenant = entries(store, Some(DEFAULT_TENANT)).await?;
    let expected = ["hold_placed", "hold_released", "thread_deleted", "file_deleted", "paused", "resumed"];
    assert_eq!(kinds(&of_tenant), expected, "a change that changes nothing is no entry");
    assert_eq!(of_tenant[0].by.reason.as_deref(), Some("a lawsuit"));
    assert_eq!((&of_tenant[1].by, of_tenant[1].seq), (&eve(), 1));
    let what = of_tenant[2].what()?;
    assert_eq!(
        (what["turns"].as_u64(), what["events"].as_u64()),
        (Some(deleted.turns), Some(deleted.events))
    );
    assert!(of_tenant.iter().all(|entry| entry.tenant.as_deref() == Some(DEFAULT_TENANT)));

    store.add_key(&key("tf_1", Some("acme"), &["read"]), "ada").await?;
    store.rotate_key("tf_1", clock::now(), &key("tf_2", Some("acme"), &["read"]), "ada").await?;
    store.revoke_key("tf_2", eve()).await?;
    store.revoke_key("tf_2", eve()).await?;
    assert_eq!(kinds(&entries(store, Some("acme")).await?), ["key_created", "key_rotated", "key_revoked"]);
    store.pin_if_absent(Pin::new("desk", "[]", "first use")).await?;
    store.pin_if_absent(Pin::new("desk", "[1]", "first use")).await?;
    store.approve(Pin::new("desk", "[1]", "ada"), "ada").await?;
    store.unpin("desk", "ada").await?;
    store.unpin("desk", "ada").await?;
    store.forget_model(&ForgottenModel::new("openai/gpt-4o", "ada"), None).await?;
    let all = entries(store, None).await?;
    let of_none: Vec<&str> = all.iter().filter(|it| it.tenant.is_none()).map(|it| it.event.kind()).collect();
    assert_eq!(of_none, ["tools_approved", "tools_approved", "tools_reset", "model_forgotten"]);
    let verified = assert_intact(store).await?;
    assert_eq!((verified.logs, verified.entries), (3, 13));
    assert_pages(store, &all).await
}

/// Pages of all logs and of one have each entry once, newest first.
async fn assert_pages(store: &Store, all: &[AdminEntry]) -> Result<(), Error> {
    for tenant in [None, Some("acme".to_owned())] {
        let (mut read, mut before) = (Vec::new(), None);
        loop {
            let filter = AdminFilter { tenant: tenant.clone(), before, ..AdminFilter::default() };
            let page = store.admin_entries(&filter, 2).await?;
            let Some(last) = page.last() else { break };
            before = Some((last.log, last.seq));
            read.extend(page);
        }
        read.reverse();
        let of_tenant = all.iter().filter(|it| tenant.is_none() || it.tenant == tenant);
        assert_eq!(read, of_tenant.cloned().collect::<Vec<_>>());
    }
    let revoked = AdminFilter { kind: Some("key_revoked".to_owned()), ..AdminFilter::default() };
    assert_eq!(store.admin_entries(&revoked, 9).await?.len(), 1);
    let late = AdminFilter { since: Some(clock::now() + 1_000_000), ..AdminFilter::default() };
    assert!(store.admin_entries(&late, 9).await?.is_empty());
    Ok(())
}

pub(super) async fn a_prune_names_what_it_deleted(store: &Store) -> Result<(), Error> {
    let mut threads: Vec<ThreadId> = Vec::new();
    for _ in 0..3 {
        threads.push(at_rest(store, "probe", ThreadStatus::Idle).await?.thread);
    }
    let old = file(store, "acme").await?;
    store.begin_file(uuid::Uuid::now_v7(), new_file("acme")).await?;
    let before = clock::now() + 1_000_000;
    let which = Prune { before, strategy: None, by: By::from("ada").because("retention") };
    store.prune(&which, DryRun::Yes, |_| ()).await?;
    assert!(entries(store, None).await?.is_empty(), "a dry run decides nothing");
    store.prune(&which, DryRun::No, |_| ()).await?;
    let [pruned] = &entries(store, Some(DEFAULT_TENANT)).await?[..] else { panic!("one transaction") };
    let mut named: Vec<ThreadId> =
        serde_json::from_value(pruned.what()?["threads"].clone()).unwrap_or_default();
    named.sort();
    threads.sort();
    assert_eq!((named, pruned.by.reason.as_deref()), (threads, Some("retention")));
    let [files] = &entries(store, Some("acme")).await?[..] else { panic!("one transaction") };
    assert_eq!(files.what()?["files"][0].as_str(), Some(old.to_string().as_str()));
    assert_intact(store).await.map(drop)
}

pub(super) async fn decisions_about_batches_are_entries(store: &Store) -> Result<(), Error> {
    let lines = [("one", Some("one"))];
    let batch = super::batches::batch(store, DEFAULT_TENANT, "me", &lines).await?.id;
    assert!(store.pause_batch(batch, eve()).await?);
    assert!(store.resume_batch(batch, Some(9), "ada").await?);
    assert!(store.cancel_batch(batch, "ada").await? && !store.cancel_batch(batch, "ada").await?);
    assert_eq!(store.reopen_batch(batch, ItemState::Failed, 60, None, "ada").await?, Some(0));
    let of_tenant = entries(store, Some(DEFAULT_TENANT)).await?;
    assert_eq!(kinds(&of_tenant), ["batch_paused", "batch_resumed", "batch_cancelled"]);
    assert_eq!(of_tenant[1].what()?["max_micro_usd"].as_u64(), Some(9));
    Ok(())
}

pub(super) async fn a_row_without_its_entry_is_found(store: &Store) -> Result<(), Error> {
    let thread = at_rest(store, "probe", ThreadStatus::Idle).await?.thread;
    store.hold(thread, "a lawsuit", "ada").await?;
    store.add_key(&key("tf_1", Some("acme"), &["read"]), "ada").await?;
    store.add_key(&key("tf_2", None, &["admin"]), "ada").await?;
    store.revoke_key("tf_2", "ada").await?;
    store.approve(Pin::new("desk", "[]", "ada"), "ada").await?;
    store.pause(&Pause::new(PauseKind::Tenant, "acme", "dear", "ada"), None).await?;
    assert_intact(store).await?;
    for (forgery, table, column, what) in [
        ("DELETE FROM holds", "holds", "thread_id", "its row is missing"),
        ("UPDATE api_keys SET scopes = 'admin' WHERE id = 'tf_1'", "api_keys", "scopes", "its log says read"),
        ("UPDATE api_keys SET revoked_at = NULL", "api_keys", "revoked_at", "was revoked"),
        ("UPDATE api_keys SET tenant = NULL WHERE id = 'tf_1'", "api_keys", "tenant", "an operator"),
        (
            "UPDATE api_keys SET hash = (SELECT hash FROM admin_events LIMIT 1)",
            "api_keys",
            "hash",
            "another secret",
        ),
        ("UPDATE mcp_pins SET approved_by = 'eve'", "mcp_pins", "approved_by", "another person"),
        ("DELETE FROM pauses", "pauses", "kind", "its row is missing"),
        ("UPDATE holds SET reason = 'none'", "holds", "reason", "another reason"),
    ] {
        let undo = Undo::of(store, table).await?;
        assert!(0 < tamper::execute_with(store, forgery, []).await?, "{forgery}");
        let rows = store.verify_admin_logs(&()).await?.rows;
        let found =
            rows.iter().any(|it| it.table == table && it.columns == [column] || it.what.contains(what));
        assert!(found && rows.iter().any(|it| it.what.contains(what)), "{forgery}: {rows:#?}");
        undo.undo(store).await?;
        assert_intact(store).await?;
    }
    Ok(())
}

/// A copy of a table.
pub(super) struct Undo(&'static str);

impl Undo {
    pub(super) async fn of(store: &Store, table: &'static str) -> Result<Self, Error> {
        tamper::execute_with(store, &format!("CREATE TABLE copy_of_rows AS SELECT * FROM {table}"), [])
            .await?;
        Ok(Self(table))
    }

    pub(super) async fn undo(self, store: &Store) -> Result<(), Error> {
        let table = self.0;
        for sql in [
            format!("DELETE FROM {table}"),
            format!("INSERT INTO {table} SELECT * FROM copy_of_rows"),
            "DROP TABLE copy_of_rows".to_owned(),
        ] {
            tamper::execute_with(store, &sql, []).await?;
        }
        Ok(())
    }
}

pub(super) async fn a_changed_log_is_found(store: &Store) -> Result<(), Error> {
    for id in ["tf_1", "tf_2", "tf_3"] {
        store.add_key(&key(id, Some("acme"), &["read"]), "ada").await?;
    }
    let log = admin_log(Some("acme"));
    let head = assert_intact(store).await?.heads[0];
    assert_eq!((head.thread, head.seq), (log, 3));
    for (forgery, what) in [
        (
            "UPDATE admin_events SET payload = replace(payload, 'read', 'admin') WHERE seq = 1",
            "event 1 does not fit",
        ),
        ("UPDATE admin_events SET at = at + 1 WHERE seq = 0", "event 0 does not fit"),
        ("UPDATE admin_events SET kind = 'key_revoked' WHERE seq = 2", "event 2 does not fit"),
        ("DELETE FROM admin_events WHERE seq = 1", "event 1 is missing"),
    ] {
        let undo = Undo::of(store, "admin_events").await?;
        assert!(0 < tamper::execute_with(store, forgery, []).await?, "{forgery}");
        let findings = store.verify_admin_logs(&()).await?.findings;
        assert!(
            findings.iter().any(|it| it.thread == log && it.what.contains(what)),
            "{forgery}: {findings:#?}"
        );
        undo.undo(store).await?;
        assert_intact(store).await?;
    }
    // A whole log in the place of another one fits its chain.
    let other = admin_log(Some("bell"));
    let moved = "UPDATE admin_events SET log_id = $1";
    tamper::execute(store, moved, other).await?;
    let findings = store.verify_admin_logs(&()).await?.findings;
    assert!(findings.iter().any(|it| it.what.contains("the log of another tenant")), "{findings:#?}");
    Ok(())
}

pub(super) async fn writers_take_turns(store: &Store) -> Result<(), Error> {
    let barrier = Arc::new(Barrier::new(WRITERS));
    let writers = (0..WRITERS).map(|nth| {
        let (store, barrier) = (store.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            for n in 0..ENTRIES {
                let model = format!("openai/{nth}-{n}");
                store.forget_model(&ForgottenModel::new(&model, "ada"), None).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("it does not panic")?;
    }
    let verified = assert_intact(store).await?;
    assert_eq!((verified.logs, verified.entries), (1, (WRITERS * ENTRIES) as u64));
    Ok(())
}

/// The views are a contract: their columns and their values are the same on both databases.
pub(super) async fn views_show_all_logs(store: &Store) -> Result<(), Error> {
    let turn = store.submit(new_turn("please")).await?.into_turn();
    let asks = json!({"node": "plan", "to": {"interrupt": {"kind": "approval", "question": "Send \0 it?", "resume": "send"}}});
    let answer =
        json!({"actor": "ada", "kind": "answer", "messages": [{"role": "user", "content": "yes \0"}]});
    let event = |kind, payload: Value| Event::decode(kind, &payload.to_string()).expect("an event");
    let (asks, answer) = (event("decided", asks), event("turn_started", answer));
    let head = store.append(&store.head(turn.thread).await?, &[turn_started(&turn), asks], None).await?;
    store.append(&head, &[answer], None).await?;
    store.hold(turn.thread, "a lawsuit", eve()).await?;
    let line = |columns: &str| format!("SELECT {columns} FROM audit_events ORDER BY log, seq");
    let lines =
        schema::texts(store, &line("log || ' ' || seq || ' ' || kind || ' ' || coalesce(actor, '-')"))
            .await?;
    let expected = [
        "admin 0 hold_placed eve",
        "thread 0 opened conformance",
        "thread 1 turn_started conformance",
        "thread 2 decided -",
        "thread 3 turn_started ada",
    ];
    assert_eq!(lines, expected);
    let ids = schema::texts(store, &line("log_id")).await?;
    assert_eq!(ids[..2], [admin_log(Some(DEFAULT_TENANT)).to_string(), turn.thread.to_string()]);
    let of_tenant = "SELECT tenant || key_id || length(hash) FROM audit_events WHERE log = 'admin'";
    assert_eq!(schema::texts(store, of_tenant).await?, [format!("{DEFAULT_TENANT}tf_eve64")]);
    let times = schema::texts(store, &line("time")).await?;
    assert!(times.iter().all(|time| clock::parse_rfc3339(time).is_some()), "{times:?}");
    let approvals = "SELECT thread_id || ' ' || question || ' ' || asked_seq || ' ' || answered_seq || ' ' || actor || ' ' || \
                     answer_kind FROM audit_approvals WHERE answered_time >= asked_time AND answer LIKE '%yes%'";
    let thread = turn.thread;
    assert_eq!(
        schema::texts(store, approvals).await?,
        [format!("{thread} Send \u{fffd} it? 2 3 ada answer")]
    );
    Ok(())
}

on_databases! {
    views_show_all_logs,
    each_change_is_an_entry,
    a_prune_names_what_it_deleted,
    decisions_about_batches_are_entries,
    a_row_without_its_entry_is_found,
    a_changed_log_is_found,
    writers_take_turns,
}
