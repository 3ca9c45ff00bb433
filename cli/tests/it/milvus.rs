//! The index in Milvus, from the command line: built by a turn, shown, searched, and rebuilt for another model.

use std::{fs, path::Path, time::Duration};

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use test_servers::{Milvus, free_port};

use crate::engine::{Process, log, turnfold};

/// Returns the number of occurrences of the first letters of the alphabet in each text. The model's name is the number of
/// letters.
async fn embed(Json(body): Json<Value>) -> Json<Value> {
    let numbers: usize = body["model"].as_str().unwrap().parse().unwrap();
    let vector =
        |text: &str| ('a'..='z').take(numbers).map(|letter| text.matches(letter).count()).collect::<Vec<_>>();
    let input = body["input"].as_array().unwrap().iter().enumerate();
    let data = input.map(|(n, text)| json!({ "index": n, "embedding": vector(text.as_str().unwrap()) }));
    Json(json!({ "data": data.collect::<Vec<_>>() }))
}

async fn embedder() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/embeddings", post(embed));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    base_url
}

/// Runs a command. Returns the exit code, the JSON output and stderr.
fn run(folder: &Path, url: &str, args: &[&str]) -> (i32, Value, String) {
    let output = turnfold(folder).args(["--url", url, "-o", "json"]).args(args).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default(), printed)
}

/// Starts the engine and builds the index.
fn built(folder: &Path) -> (Process, String) {
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder);
    let dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder, "dev")));
    let url = format!("http://{listen}");
    let mut built = run(folder, &url, &["index", "build"]);
    for _ in 0..200 {
        if built.0 != 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        built = run(folder, &url, &["index", "build"]);
    }
    assert_eq!(built.0, 0, "{built:?}");
    (dev, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn real_milvus_has_the_index() {
    let mut milvus = Milvus::start();
    let (folder, base_url) = (tempfile::tempdir().unwrap(), embedder().await);
    let folder = folder.path();
    let configured = |model: &str| {
        let command = |name: &str, description: &str| {
            format!("[commands.{name}]\ndescription = {description:?}\nurl = 'http://127.0.0.1:9'\n")
        };
        let calendar = format!(
            "[mcp.calendar]\ndescription = 'Knows appointments.'\ncommand = {:?}\n\
             args = ['expert', 'calendar', '--data', 'calendar.json']\n",
            env!("CARGO_BIN_EXE_turnfold")
        );
        let index = format!(
            "[index]\nurl = 'milvus:{}'\nembedding_model = 'local/{model}'\n[providers.local]\nbase_url = '{base_url}'\n",
            milvus.url()
        );
        let all = calendar + &command("bbb", "bbbbbbbb bbbbbbbb bbbbbbbb bbbbbbbb bbbbbbbb") + &index;
        fs::write(folder.join("turnfold.toml"), all).unwrap();
    };
    let states = |url: &str| {
        let (exit, rows, _) = run(folder, url, &["index", "status"]);
        let row =
            |row: &Value| format!("{} {} {}", row["server"], row["state"], row["model"]).replace('"', "");
        (exit, rows.as_array().unwrap().iter().map(row).collect::<Vec<_>>())
    };
    let best = |url: &str| {
        let (exit, found, printed) = run(folder, url, &["index", "search", "bbbb", "--limit", "1"]);
        assert_eq!(exit, 0, "{printed}");
        format!("{} by {}", found[0]["server"], found[0]["by"]).replace('"', "")
    };

    configured("3");
    let (dev, url) = built(folder);
    let indexed =
        |model: &str| vec![format!("calendar indexed {model}"), format!("commands indexed {model}")];
    assert_eq!(states(&url), (0, indexed("local/3")));
    assert_eq!(best(&url), "commands by local/3 and words");

    // Another model, with vectors of another length.
    dev.kill();
    configured("5");
    let stale = ["calendar", "commands"].map(|server| format!("{server} no_vector local/3"));
    assert_eq!(states(&url), (1, stale.to_vec()));
    assert_eq!(best(&url), "commands by lexical", "until the index is built once more");
    let (_dev, url) = built(folder);
    assert_eq!(states(&url), (0, indexed("local/5")));
    assert_eq!(best(&url), "commands by local/5 and words");

    milvus.kill();
    let (exit, _, printed) = run(folder, &url, &["index", "search", "bbbb"]);
    assert!(exit == 4 && printed.contains("Milvus at 127.0.0.1"), "{exit}: {printed}");
    milvus.restart();
    assert_eq!(best(&url), "commands by local/5 and words", "it outlives its server's process");
}
