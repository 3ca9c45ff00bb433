//! Another tenant's data does not exist, also for commands that read the database; commands on the whole database refuse a tenant.

use std::path::Path;

use serde_json::{Value, json};
use store::{NewTurn, Opening, Store};

use crate::engine::turnfold;

fn run(folder: &Path, args: &[&str]) -> (i32, Value) {
    let output = turnfold(folder).args(["-o", "json"]).args(args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed)))
}

/// Creates a thread of a tenant with a cancelled turn.
async fn create_thread(store: &Store, tenant: &str) -> String {
    let opened = json!({"format": shared::FORMAT, "strategy": "probe", "tenant": tenant});
    let opening = Opening::New(serde_json::from_value(opened).unwrap());
    let new = NewTurn::of(opening, vec![shared::Message::user("hello")], String::new());
    let turn = store.submit(new).await.unwrap().into_turn();
    store.cancel_queued(turn.id).await.unwrap();
    turn.thread.to_string()
}

async fn database() -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["migrate"]).0, 0);
    let url = format!("sqlite:{}", folder.path().join(".turnfold/turnfold.db").display());
    let store = Store::connect(&url).await.unwrap();
    let threads = [create_thread(&store, "acme").await, create_thread(&store, "other").await];
    (folder, threads)
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_another_tenant_does_not_exist() {
    let (folder, [acme, other]) = database().await;
    let of = |tenant: &str, args: &[&str]| run(folder.path(), &[&["--tenant", tenant], args].concat());
    let listed = of("acme", &["thread", "list"]).1;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(acme)), "{listed}");
    for args in [&["thread", "list"][..], &["thread", "list", "--where", "strategy = probe"]] {
        assert_eq!(of("nobody", args), (0, json!([])), "{args:?}");
    }
    assert_eq!(of("nobody", &["thread", "events", "last"]).0, 7);
    assert_eq!(
        of("acme", &["thread", "show", "last"]).1["id"],
        json!(acme),
        "the newest thread of all belongs to another tenant"
    );
    for verb in ["get", "events", "state", "replay", "verify", "why", "export", "release"] {
        let (exit, printed) = of("acme", &["thread", verb, &other]);
        assert!(exit == 7 && printed.as_str().unwrap().contains("there is no thread"), "{verb}: {printed}");
    }
    assert_eq!(of("acme", &["thread", "hold", &other, "--reason", "mine"]).0, 7);
    assert_eq!(of("acme", &["thread", "diff", &acme, &other]).0, 7);
    assert_eq!(of("acme", &["audit", "export", &other]).0, 7);
    assert_eq!(of("acme", &["audit", "verify", &other]).0, 7);
    assert_eq!(of("acme", &["store", "verify", "--thread", &other]).0, 7);
    assert_eq!(of("acme", &["store", "verify"]).1["threads"], 1);
    assert_eq!(of("acme", &["audit", "replay"]).1["threads"], 1);
    assert_eq!(run(folder.path(), &["thread", "hold", &other, "--reason", "a lawsuit"]).0, 0);
    assert_eq!(of("acme", &["thread", "list", "--held"]), (0, json!([])));
    assert_eq!(of("other", &["thread", "list", "--held"]).1[0]["thread"], json!(other));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_the_whole_database_refuse_a_tenant() {
    let (folder, _) = database().await;
    for args in [
        &["store", "prune", "--older-than", "0s", "--yes"][..],
        &["store", "prune", "--older-than", "0s", "--dry-run"],
        &["audit", "verify"],
        &["audit", "checkpoint", "--to", "witness"],
        &["fixture", "suggest"],
        &["queue", "rebuild"],
    ] {
        let (exit, printed) = run(folder.path(), &[&["--tenant", "nobody"], args].concat());
        assert!(exit == 2 && printed.as_str().unwrap().contains("leave out --tenant"), "{args:?}: {printed}");
    }
    assert_eq!(run(folder.path(), &["thread", "list"]).1.as_array().unwrap().len(), 2, "nothing was deleted");
}

/// A typo must not make a check pass.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_strategy_in_a_filter_is_an_error() {
    let (folder, _) = database().await;
    let folder = folder.path();
    for command in [&["audit", "replay"][..], &["store", "verify"], &["thread", "cost"], &["thread", "list"]]
    {
        let (exit, printed) = run(folder, &[command, &["--where", "strategy = plannr"]].concat());
        assert_eq!(exit, 2, "{command:?}: {printed}");
        let printed = printed.as_str().unwrap();
        assert!(printed.contains("plannr") && printed.contains("did you mean \"planner\"?"), "{printed}");
    }
    let (exit, printed) = run(folder, &["audit", "replay", "--where", "strategy = planner"]);
    assert_eq!((exit, &printed["threads"]), (6, &json!(0)), "nothing was checked: {printed}");
    assert_eq!(run(folder, &["audit", "replay", "--where", "strategy = probe"]).0, 0);
}

/// A list with more items says so on stderr.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_with_more_items_says_so() {
    let (folder, _) = database().await;
    let printed = |args: &[&str]| {
        let output = turnfold(folder.path()).args(args).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(printed(&["thread", "list", "--limit", "1"]).contains("there are more"));
    assert!(printed(&["thread", "list", "--limit", "1", "--where", "age < 1d"]).contains("there are more"));
    assert_eq!(printed(&["thread", "list", "--limit", "2"]), "");
}
