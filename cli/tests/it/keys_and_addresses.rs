//! API keys, addresses of the API and the database, and errors about them.

use std::{fs, path::Path, process::Command, time::Duration};

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    response::IntoResponse as _,
    routing::post,
};
use serde_json::json;
use test_servers::free_port;

use crate::{
    engine::{Process, log, turnfold},
    first_minutes::line_of,
};

fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

#[test]
fn the_key_is_the_callers_or_the_first_configured_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[api]\nkeys = ['env:ALICE_KEY', 'env:BOB_KEY']\n[tenants.acme]\nkeys = ['env:ACME_KEY']\n";
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder.path());
    command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev"));
    let all = [("ALICE_KEY", "alice"), ("BOB_KEY", "bob"), ("ACME_KEY", "acme")];
    let _dev = Process::start(command.envs(all));

    let elsewhere = tempfile::tempdir().unwrap();
    let ls = |folder: &Path, keys: &[(&str, &str)], more: &[&str]| {
        let url = format!("http://{listen}");
        let args = [&["turn", "list", "--url", &url], more].concat();
        for _ in 0..200 {
            let output = run(turnfold(folder).args(&args).envs(keys.iter().copied()));
            if output.0 != 4 {
                return output;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!(
            "the API is not reachable: {}",
            fs::read_to_string(folder.join("dev.log")).unwrap_or_default()
        );
    };
    for (keys, more) in
        [([("TURNFOLD_KEY", "acme")], &[][..]), ([("TURNFOLD_KEY", "alice")], &["--tenant", "acme"])]
    {
        let output = ls(elsewhere.path(), &keys, more);
        assert_eq!(output.0, 0, "{output:?}");
    }
    let refused = |code: i32, output: (i32, String, String), expected: &[&str]| {
        assert_eq!(output.0, code, "{output:?}");
        expected.iter().for_each(|text| assert!(output.2.contains(text), "{text:?} in {output:?}"));
        assert!(!output.2.contains("mallory"), "a key is never printed: {output:?}");
    };
    refused(8, ls(elsewhere.path(), &[], &[]), &["no key was sent; set TURNFOLD_KEY"]);
    let wrong = [("TURNFOLD_KEY", "mallory")];
    refused(8, ls(elsewhere.path(), &wrong, &[]), &["the key in TURNFOLD_KEY was sent"]);

    // With the configuration, any key that can be resolved is enough.
    assert_eq!(ls(folder.path(), &[("BOB_KEY", "bob")], &[]).0, 0);
    assert_eq!(ls(folder.path(), &[("ACME_KEY", "acme")], &["--tenant", "acme"]).0, 0);
    assert_eq!(ls(folder.path(), &[("TURNFOLD_KEY", "alice"), ("BOB_KEY", "mallory")], &[]).0, 0);
    refused(2, ls(folder.path(), &[], &[]), &["TURNFOLD_KEY", "api.keys[0]", "ALICE_KEY is not set"]);
    refused(8, ls(folder.path(), &[("ALICE_KEY", "mallory")], &[]), &["from the configuration was sent"]);
}

/// SIGHUP replaces the keys of the configuration: the old key stops working at once, without a restart.
#[test]
fn keys_are_read_again_on_sighup() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [old, new] = ["o", "n"].map(|letter| letter.repeat(40));
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("turnfold.toml", "[api]\nkeys = ['file:key']\n");
    write("key", &old);
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder.path());
    let dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    line_of(&folder.path().join("dev.log"), "turnfold is ready at ");
    let url = format!("http://{listen}");
    let code = |key: &str| {
        run(turnfold(elsewhere.path()).args(["turn", "list", "--url", &url]).env("TURNFOLD_KEY", key)).0
    };
    let until = |expected: &str, times: usize| {
        for _ in 0..600 {
            let text = fs::read_to_string(folder.path().join("dev.log")).unwrap();
            if text.matches(expected).count() == times {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{expected:?} is not logged: {}", fs::read_to_string(folder.path().join("dev.log")).unwrap());
    };
    assert_eq!((code(&old), code(&new)), (0, 8));
    write("key", &new);
    dev.signal("HUP");
    until("API keys read again", 1);
    assert_eq!((code(&old), code(&new)), (8, 0));
    // The configuration itself is read again as well, but the last key is never removed.
    for (text, expected) in [
        ("[api]\nkeys = ['file:gone']\n", "cannot read the file gone"),
        ("", "no key is configured any more"),
        ("[api]\nlisten = 7\n", "api.listen"),
    ] {
        write("turnfold.toml", text);
        dev.signal("HUP");
        until(expected, 1);
        assert_eq!((code(&old), code(&new)), (8, 0), "{text:?}");
    }
    write("other", &old);
    write("turnfold.toml", "[api]\nkeys = ['file:other']\n");
    dev.signal("HUP");
    until("API keys read again", 2);
    assert_eq!((code(&old), code(&new)), (0, 8));
}

/// A model that takes one key, and repeats it in its reply.
async fn model_of_key(key: &'static str) -> String {
    let complete = async move |headers: HeaderMap| {
        let sent = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if sent != format!("Bearer {key}") {
            return (StatusCode::UNAUTHORIZED, Json(json!({"error": {"message": "no"}}))).into_response();
        }
        let message = json!({"role": "assistant", "content": format!("Your key is {key}.")});
        Json(json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/chat/completions", post(complete));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    url
}

/// A provider without a key works after SIGHUP, as soon as the file of the key exists, and the new key enters no log.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_providers_are_read_again_on_sighup() {
    const KEY: &str = "sk-of-a-provider-1234";
    let url = model_of_key(KEY).await;
    tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "turnfold.toml",
            &format!(
                "[providers.local]\nbase_url = '{url}'\napi_key = 'file:key'\nstream = false\n\
                 [strategies.chat]\nmodel = 'local/m'\n"
            ),
        );
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = turnfold(folder.path());
        let dev =
            Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
        line_of(&folder.path().join("dev.log"), "turnfold is ready at ");
        let url = format!("http://{listen}");
        let send = || {
            let send = ["turn", "send", "-g", "chat", "Hello"];
            run(turnfold(folder.path()).args(send).args(["--follow", "--url", &url]))
        };
        let (_, out, err) = send();
        // The hint of the provider stands alone.
        assert!(out.contains("send SIGHUP") && !out.contains("fix the cause and retry"), "{out}\n{err}");
        write("key", KEY);
        dev.signal("HUP");
        line_of(&folder.path().join("dev.log"), "keys of providers read again");
        let (code, out, err) = send();
        assert!(code == 0 && out.contains("Your key is [providers.local.api_key]."), "{out}\n{err}");
    })
    .await
    .unwrap();
}

#[test]
fn a_key_that_can_be_guessed_is_refused_beyond_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[api]\nkeys = ['env:LONG']\n[tenants.acme]\nkeys = ['env:SHORT']\n";
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    let (long, short) = ("k".repeat(22), "s".repeat(21));
    let dev = |listen: &str| {
        let mut command = turnfold(folder.path());
        command.args(["dev", "--listen", listen]).envs([("LONG", &long), ("SHORT", &short)]);
        command
    };
    let output = run(&mut dev(&format!("0.0.0.0:{}", free_port())));
    assert!(
        output.0 == 2 && output.2.contains("tenants.acme.keys[0]: the key has less than 22 characters"),
        "{output:?}"
    );
    assert!(!output.2.contains(&short), "{output:?}");
    let listen = format!("127.0.0.1:{}", free_port());
    let _dev = Process::start(dev(&listen).stderr(log(folder.path(), "dev")));
    line_of(&folder.path().join("dev.log"), "turnfold is ready at ");
    let text = fs::read_to_string(folder.path().join("dev.log")).unwrap();
    assert!(text.contains("warning: tenants.acme.keys[0]: the key has less than 22"), "{text}");
    assert!(!text.contains("api.keys[0]"), "{text}");
}

#[test]
fn an_invalid_address_is_answered_with_a_valid_one() {
    let folder = tempfile::tempdir().unwrap();
    for (url, remedy) in [
        ("localhost:21926", "use --url http://localhost:21926"),
        ("127.0.0.1:21926/", "use --url http://127.0.0.1:21926"),
        ("redis://127.0.0.1:1", "use --url http://127.0.0.1:1"),
        ("http://127.0.0.1:1/v1/", "use --url http://127.0.0.1:1"),
    ] {
        let output = run(turnfold(folder.path()).args(["turn", "list", "--url", url]));
        assert!(output.0 == 2 && output.2.trim_end().ends_with(remedy), "{url}: {output:?}");
    }
}

#[test]
fn a_reading_command_creates_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let at = |args: &[&str]| run(turnfold(folder.path()).args(args));
    let nowhere = "store.url=sqlite:nodir/x.db";
    for args in [
        &["thread", "list"][..],
        &["thread", "list", "--set", nowhere],
        &["store", "verify"],
        &["migrate", "--dry-run"],
        &["fixture", "suggest"],
        &["mcp", "pins"],
    ] {
        let output = at(args);
        assert!(output.0 == 9 && output.2.contains("there is no database at "), "{args:?}: {output:?}");
    }
    assert!(
        at(&["thread", "list", "--set", nowhere])
            .2
            .contains("nodir/x.db; hint: `turnfold dev` or `turnfold migrate`")
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was left behind");

    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    let output = at(&["thread", "list", "--set", "store.url=sqlite:empty.db"]);
    assert!(output.0 == 9 && output.2.starts_with("error: the database lacks "), "{output:?}");
    assert!(output.2.contains(" migrations; hint: run `turnfold migrate`"), "{output:?}");
    assert_eq!(at(&["migrate", "--set", nowhere]).0, 0);
    assert_eq!(at(&["thread", "list", "--set", nowhere]).0, 0);
}

/// A queue is rebuilt from the database; the API is not used.
#[test]
fn a_queue_is_rebuilt_from_the_database_without_the_api() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("turnfold.toml"), "[api]\nkeys = ['env:ALICE_KEY']\n").unwrap();
    for more in [&[][..], &["--url", "nowhere"]] {
        let at = |args: &[&str]| run(turnfold(folder.path()).args(more).args(args));
        let output = at(&["queue", "rebuild"]);
        assert!(output.0 == 0 && output.1.contains("nothing to rebuild"), "{output:?}");
        for verb in ["list", "pauses"] {
            assert_eq!(at(&["queue", verb]).0, 2, "{verb} asks the api");
        }
    }
}

#[test]
fn a_variable_with_too_few_underscores_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(turnfold(folder.path()).args(["strategy", "list"]).env("TURNFOLD_WORKER_SLOTS", "3"));
    assert!(output.0 == 0 && output.2.contains("did you mean TURNFOLD__WORKER__SLOTS,"), "{output:?}");
}

#[test]
fn commands_without_fixtures_explain_how_to_create_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |args: &[&str]| run(turnfold(folder.path()).args(args));
    assert_eq!(at(&["migrate"]).0, 0);
    let output = at(&["fixture", "suggest", "--since", "7d"]);
    assert!(output.0 == 0 && output.2.contains("there is no folder fixtures yet"), "{output:?}");
    for verb in ["check", "coverage", "refresh"] {
        let output = at(&["fixture", verb]);
        assert!(
            output.0 == 2 && output.2.contains("there is no folder fixtures\nhint: create it"),
            "{output:?}"
        );
    }
}
