//! Two servers on one file at the same time lose nothing and repeat nothing.

use std::{path::Path, sync::Arc};

use demo_servers::{Expert, Ledger};
use serde_json::json;
use tokio::{sync::Barrier, task::JoinSet};

use crate::{Client, call, call_as, connect};

const WRITES: usize = 20;

async fn pair(data: &Path) -> [Client; 2] {
    [connect(Expert::Notes, data).await, connect(Expert::Notes, data).await]
}

/// Appends a line per key through both servers at the same time. A key is made of a server and a number.
async fn append_at_once(clients: &[Client; 2], key: fn(usize, usize) -> String) {
    let barrier = Arc::new(Barrier::new(2 * WRITES));
    let mut writes = JoinSet::new();
    for (server, client) in clients.iter().enumerate() {
        for n in 0..WRITES {
            let (peer, barrier, key) = (client.peer().clone(), Arc::clone(&barrier), key(server, n));
            writes.spawn(async move {
                barrier.wait().await;
                call_as(&peer, &key, "append", json!({"title": "log", "text": key})).await
            });
        }
    }
    for answer in writes.join_all().await {
        answer.expect("appended");
    }
}

async fn lines(client: &Client) -> Vec<String> {
    let text = call(client, "read", json!({"title": "log"})).await.expect("a note");
    let mut lines: Vec<String> = text.lines().skip(2).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("notes.json");
    let clients = pair(&data).await;
    append_at_once(&clients, |server, n| format!("{server}-{n:02}")).await;
    let keys: Vec<String> =
        (0..2).flat_map(|server| (0..WRITES).map(move |n| format!("{server}-{n:02}"))).collect();
    assert_eq!(lines(&clients[1]).await, keys);
    let applied = Ledger::read(&data).expect("a ledger").applied;
    assert_eq!(applied, keys.into_iter().map(|key| (key, 1)).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_key_through_two_servers_is_one_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("notes.json");
    let clients = pair(&data).await;
    append_at_once(&clients, |_, n| format!("{n:02}")).await;
    let keys: Vec<String> = (0..WRITES).map(|n| format!("{n:02}")).collect();
    assert_eq!(lines(&clients[0]).await, keys);
    let applied = Ledger::read(&data).expect("a ledger").applied;
    assert_eq!(applied, keys.into_iter().map(|key| (key, 1)).collect());
}
