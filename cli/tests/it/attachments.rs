//! Images and files travel with their thread: exported, imported, verified and deleted.

use std::fs;

use serde_json::{Value, json};

use crate::{engine::turnfold, openai_clients::Dev};

fn run(dev: &Dev, args: &[&str]) -> (i32, String) {
    let output = turnfold(dev.folder()).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), text.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn attachments_are_exported_and_imported_with_their_thread() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dev = Dev::start();
    let file =
        json!({"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}});
    let content = json!([{"type": "text", "text": "echo hi"}, file]);
    let body = json!({"strategy": "probe", "input": {"messages": [{"role": "user", "content": content}]}});
    let sent = reqwest::Client::new().post(format!("{}/v1/turns?wait=20", dev.url)).json(&body).send().await;
    let turn: Value = sent.unwrap().error_for_status().unwrap().json().await.unwrap();
    assert_eq!(turn["status"], "completed", "{turn}");
    let thread = turn["thread_id"].as_str().unwrap();

    let exported = run(&dev, &["thread", "export", thread]);
    assert!(exported.0 == 0 && exported.1.contains("\"content\":\"aGk=\""), "{exported:?}");
    assert_eq!(
        exported,
        run(&dev, &["--url", &dev.url, "thread", "export", thread]),
        "the same through the API"
    );

    let page = run(&dev, &["thread", "export", thread, "--html"]);
    assert!(page.0 == 0 && page.1.starts_with("<!doctype html>") && page.1.contains("aGk="), "{page:?}");
    assert_eq!(page, run(&dev, &["--url", &dev.url, "thread", "export", thread, "--html"]));
    let redacted = run(&dev, &["thread", "export", thread, "--html", "--redact"]);
    assert!(redacted.0 == 0 && redacted.1.starts_with("<!doctype html>"), "{redacted:?}");
    assert!(!redacted.1.contains("aGk=") && !redacted.1.contains("a.txt"), "{redacted:?}");
    assert_eq!(run(&dev, &["thread", "export", thread, "--redact"]).0, 2, "only a page can be redacted");

    let path = dev.folder().join("log.jsonl");
    let import = |text: &str| {
        fs::write(&path, text).unwrap();
        run(&dev, &["thread", "import", path.to_str().unwrap(), "--new", "-o", "json"])
    };
    let (events, _) = exported.1.split_once("{\"sha256\"").unwrap();
    let cut = import(events);
    assert!(cut.0 == 2 && cut.1.contains("is missing; the file was cut off"), "{cut:?}");
    let forged = import(&exported.1.replace("aGk=", "aG8="));
    assert!(forged.0 == 2 && forged.1.contains("has another hash"), "{forged:?}");
    let imported = import(&exported.1);
    let imported: Value = serde_json::from_str(&imported.1).unwrap_or_else(|_| panic!("{imported:?}"));
    let again = run(&dev, &["thread", "export", imported["id"].as_str().unwrap()]);
    assert!(again.1.ends_with(exported.1.split_once("{\"sha256\"").unwrap().1), "{again:?}");

    let folder = dev.folder().join("bundle");
    let bundle = run(&dev, &["audit", "export", thread, "--to", folder.to_str().unwrap()]);
    assert_eq!(bundle.0, 0, "{bundle:?}");
    let sha256 = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
    assert_eq!(fs::read(folder.join("attachments").join(sha256)).unwrap(), b"hi");
    let imported = run(&dev, &["thread", "import", folder.to_str().unwrap(), "--new", "-o", "json"]);
    let imported: Value = serde_json::from_str(&imported.1).unwrap_or_else(|_| panic!("{imported:?}"));
    let again = run(&dev, &["thread", "export", imported["id"].as_str().unwrap()]);
    assert!(again.1.contains("\"content\":\"aGk=\""), "{again:?}");

    let verified = run(&dev, &["store", "verify"]);
    assert_eq!(verified.0, 0, "{verified:?}");
}
