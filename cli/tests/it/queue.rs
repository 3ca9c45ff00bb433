//! Pauses and rate limits, from the command line.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use test_servers::{Redis, free_port};

use crate::engine::{Process, log, turnfold};

const TIMEOUT: Duration = Duration::from_secs(30);

/// `turnfold dev` with its queue in Redis.
pub(crate) struct Dev {
    folder: tempfile::TempDir,
    url: String,
    _process: Process,
}

impl Dev {
    pub(crate) fn start(redis: &Redis, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let queue = format!("[queue]\nurl = '{}'\nsweep_seconds = 1\nprefix = 'test'\n", redis.url());
        fs::write(folder.path().join("turnfold.toml"), queue + config).unwrap();
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = turnfold(folder.path());
        let process =
            Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
        let this = Self { url: format!("http://{listen}"), folder, _process: process };
        let began = Instant::now();
        while this.run(&["queue", "pauses"]).0 == 4 {
            assert!(began.elapsed() < TIMEOUT, "the API is not reachable");
            std::thread::sleep(Duration::from_millis(50));
        }
        this
    }

    /// Returns the address of the API.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs a command. Returns the exit code, stdout and stderr.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        run(self.folder.path(), &self.url, args)
    }

    pub(crate) fn send(&self, strategy: &str, input: &str) -> String {
        let sent = self.run(&["turn", "send", "-g", strategy, input, "-o", "json"]);
        let turn: Value = serde_json::from_str(&sent.1).unwrap_or_else(|_| panic!("{sent:?}"));
        turn["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn status(&self, turn: &str) -> String {
        let shown = self.run(&["turn", "show", turn, "-o", "json"]);
        let turn: Value = serde_json::from_str(&shown.1).unwrap_or_else(|_| panic!("{shown:?}"));
        turn["status"].as_str().unwrap().to_owned()
    }

    pub(crate) fn until(&self, turn: &str, status: &str) {
        let began = Instant::now();
        while self.status(turn) != status {
            assert!(began.elapsed() < TIMEOUT, "it is {}, and not {status}", self.status(turn));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn run(folder: &Path, url: &str, args: &[&str]) -> (i32, String, String) {
    let output = turnfold(folder).args(["--url", url]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Managed services require TLS.
#[test]
fn redis_is_reached_over_tls() {
    let redis = Redis::encrypted();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("turnfold.toml"), format!("[queue]\nurl = '{}'\n", redis.tls_url()))
        .unwrap();
    assert!(turnfold(folder.path()).arg("migrate").status().unwrap().success());
    let ask = |authority: &Path| {
        let mut command = turnfold(folder.path());
        let printed = command.args(["queue", "rebuild"]).env("SSL_CERT_FILE", authority).output().unwrap();
        (printed.status.code(), String::from_utf8(printed.stderr).unwrap())
    };
    assert_eq!(ask(&redis.authority()).0, Some(0), "{:?}", ask(&redis.authority()));
    fs::write(folder.path().join("nobody.pem"), "").unwrap();
    let (exit, printed) = ask(&folder.path().join("nobody.pem"));
    assert_eq!(exit, Some(9), "{printed}");
    assert!(printed.contains("certificate") && printed.contains("localhost"), "{printed}");
}

#[test]
fn paused_work_waits_until_it_is_resumed() {
    let redis = Redis::start();
    let dev = Dev::start(&redis, "");
    assert_eq!(dev.run(&["queue", "pauses"]).1.trim(), "nothing is paused");
    let paused = dev.run(&["queue", "pause", "--strategy", "probe", "--reason", "spring cleaning"]);
    assert_eq!(paused.0, 0, "{paused:?}");
    let paused = dev.run(&["queue", "pause", "--model", "openai/gpt-4o"]);
    assert!(paused.1.starts_with("model openai/gpt-4o is paused"), "{paused:?}");
    let listed = dev.run(&["queue", "pauses"]).1;
    assert!(listed.contains("spring cleaning") && listed.contains("openai/gpt-4o"), "{listed}");

    let began = Instant::now();
    let turn = dev.send("probe", "echo end");
    while redis.ask("ZCARD turnfold:{test:jobs}:v1:delayed") != "1" {
        assert!(began.elapsed() < TIMEOUT, "it is not held");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(dev.status(&turn), "queued");
    let resumed = dev.run(&["queue", "resume", "--strategy", "probe"]);
    assert_eq!((resumed.0, resumed.1.trim()), (0, "strategy probe is resumed"), "{resumed:?}");
    dev.until(&turn, "completed");

    assert_eq!(dev.run(&["queue", "resume", "--model", "openai/gpt-4o"]).0, 0);
    let again = dev.run(&["queue", "resume", "--model", "openai/gpt-4o"]);
    assert!(again.0 == 7 && again.2.contains("is not paused"), "{again:?}");
    assert_eq!(dev.run(&["queue", "pause"]).0, 2, "one of them is required");
    assert_eq!(dev.run(&["queue", "pause", "--model", "a/b", "--strategy", "probe"]).0, 2, "and not two");
    assert_eq!(dev.run(&["queue", "pause", "--strategy", "gone"]).0, 2);
    assert_eq!(dev.run(&["queue", "pauses", "-o", "json"]).1.trim(), "[]");
}

/// The second request in a minute waits, and only it. After Redis is emptied, the minute starts again.
#[test]
fn a_request_over_the_rate_limit_waits() {
    let redis = Redis::start();
    let config = "[limits.servers.commands]\nrequests_per_minute = 1\n\
                  [commands.page]\ndescription = 'Pages somebody.'\nurl = 'http://127.0.0.1:1/'\n";
    let dev = Dev::start(&redis, config);
    let first = dev.send("index_builder", "build");
    dev.until(&first, "completed");
    let second = dev.send("index_builder", "build");
    dev.until(&second, "running");
    let other = dev.send("probe", "echo end");
    dev.until(&other, "completed");
    assert_eq!(dev.status(&second), "running", "it waits, and has not failed");
    assert_eq!(redis.ask("ZCARD turnfold:{test:limits}:v1:minute:server:commands"), "1");
    redis.flush_all();
    dev.until(&second, "completed");
}
