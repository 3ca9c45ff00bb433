//! A deployment for tests: private PostgreSQL and Redis, with the API and workers as separate processes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::{Postgres, Redis, free_port};

/// The binary under test.
pub(crate) const TURNFOLD: &str = env!("CARGO_BIN_EXE_turnfold");

/// Returns true if tests run in full, and not only the part that shows their point: `./check --long`.
pub(crate) fn is_long() -> bool {
    std::env::var("TURNFOLD_LONG").is_ok_and(|value| value == "1")
}

/// A process that is killed at the end of the test.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("the process starts"))
    }

    /// Kills the process with SIGKILL and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Kills a process that another one replaces.
    pub(crate) fn end(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it is gone");
    }

    /// Returns true if the process is running.
    pub(crate) fn lives(&mut self) -> bool {
        self.0.try_wait().expect("it can be asked").is_none()
    }

    /// Sends a signal other than SIGKILL.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -s {name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh starts").success());
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.0.wait().expect("it ends")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A deployment: PostgreSQL, Redis, one API, and the workers that a test starts.
pub(crate) struct Engine {
    pub(crate) redis: Redis,
    pub(crate) postgres: Postgres,
    api: Process,
    folder: TempDir,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
}

impl Engine {
    /// Starts everything but the workers. `config` is appended to the configuration file.
    pub(crate) async fn start(config: &str) -> Self {
        Self::over(Postgres::prepared("migrated", store::testing::migrate), Redis::start(), config).await
    }

    /// Starts a deployment on these servers.
    pub(crate) async fn over(postgres: Postgres, redis: Redis, config: &str) -> Self {
        let url = postgres.url();
        Self::over_url(&url, postgres, redis, config).await
    }

    /// Starts a deployment that reaches PostgreSQL by this URL.
    pub(crate) async fn over_url(store: &str, postgres: Postgres, redis: Redis, config: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let listen = format!("127.0.0.1:{}", free_port());
        let base = format!(
            "[store]\nurl = {}\n[queue]\nurl = {}\nprefix = 'turnfold'\nlease_seconds = 2\nsweep_seconds = 1\n[api]\nlisten = {}\n",
            json!(store),
            json!(redis.url()),
            json!(listen)
        );
        fs::write(folder.path().join("turnfold.toml"), base + config).unwrap();
        let migrated = turnfold(folder.path()).arg("migrate").output().unwrap();
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        let api = api(folder.path(), None);
        let url = format!("http://{listen}");
        let engine = Self { redis, postgres, api, folder, url, http: reqwest::Client::new() };
        engine.opened().await;
        engine
    }

    /// Waits until the API responds.
    async fn opened(&self) {
        let began = Instant::now();
        while self.http.get(format!("{}/readyz", self.url)).send().await.is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "the api is not ready: {}",
                self.stderr_of("api")
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the API and starts another at the same address.
    pub(crate) async fn kill_api(&mut self) {
        self.restart_api_at(None).await;
    }

    /// Kills the API and starts another with a clock that is off by some seconds.
    pub(crate) async fn restart_api_at(&mut self, off: Option<i64>) {
        self.api.end();
        self.api = api(self.folder(), off);
        self.opened().await;
    }

    /// Kills the API.
    pub(crate) fn end_api(&mut self) {
        self.api.end();
    }

    /// Returns true if the API is running.
    pub(crate) fn api_lives(&mut self) -> bool {
        self.api.lives()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn worker(&self, name: &str) -> Process {
        self.worker_with(name, &[])
    }

    /// Starts a worker with configuration overrides.
    pub(crate) fn worker_with(&self, name: &str, set: &[String]) -> Process {
        self.worker_at(name, set, None)
    }

    /// Starts a worker with configuration overrides and a clock that is off by some seconds.
    pub(crate) fn worker_at(&self, name: &str, set: &[String], off: Option<i64>) -> Process {
        let mut command = turnfold(self.folder());
        if let Some(off) = off {
            test_servers::set_clock(&mut command, off);
        }
        command.args(["worker", "--set", &format!("worker.name={name}")]);
        command.args(set.iter().flat_map(|value| ["--set", value]));
        Process::start(command.stderr(log(self.folder(), name)))
    }

    /// Returns the stderr of a process.
    pub(crate) fn stderr_of(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(format!("{name}.log"))).unwrap_or_default()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.http.get(format!("{}{path}", self.url)).send().await.unwrap();
        let status = response.status();
        let body = response.text().await.unwrap();
        assert!(status.is_success(), "GET {path}: {status} {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Gets a resource; `null` if the database is not available at this moment.
    pub(crate) async fn get_when_available(&self, path: &str) -> Value {
        let response = self.http.get(format!("{}{path}", self.url)).send().await.unwrap();
        let status = response.status();
        let body = response.text().await.unwrap();
        assert!(
            status.is_success() || status == reqwest::StatusCode::SERVICE_UNAVAILABLE,
            "GET {path}: {status} {body}"
        );
        if status.is_success() { serde_json::from_str(&body).unwrap() } else { Value::Null }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let response = self.http.post(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "POST {path} {body}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Returns all events of a thread.
    pub(crate) async fn events(&self, thread: &str) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let after = events.last().map(|event| format!("&after={}", event["seq"])).unwrap_or_default();
            let page = self.get(&format!("/v1/threads/{thread}/events?limit=1000{after}")).await;
            events.extend(page["data"].as_array().unwrap().iter().cloned());
            if page["has_more"] != true {
                return events;
            }
        }
    }
}

fn api(folder: &Path, off: Option<i64>) -> Process {
    let mut command = turnfold(folder);
    if let Some(off) = off {
        test_servers::set_clock(&mut command, off);
    }
    Process::start(command.arg("api").stderr(log(folder, "api")))
}

/// Returns the command `turnfold` with `folder` as its working directory.
pub(crate) fn turnfold(folder: &Path) -> Command {
    let mut command = Command::new(TURNFOLD);
    command.current_dir(folder).env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL");
    command
}

/// Opens the log file of a process.
pub(crate) fn log(folder: &Path, name: &str) -> fs::File {
    let path = folder.join(format!("{name}.log"));
    fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// Returns the demo's configuration: a scripted model and three MCP servers.
pub(crate) fn demo_config() -> String {
    let script = fixtures().join("demo/model.jsonl");
    let experts: String = demo_servers::Expert::ALL
        .iter()
        .map(|expert| {
            format!(
                "[mcp.{0}]\ndescription = {1}\ncommand = {2}\nargs = [\"expert\", \"{0}\", \"--data\", \"{0}.json\"]\n",
                expert.name(),
                json!(expert.description()),
                json!(TURNFOLD)
            )
        })
        .collect();
    let strategies: String =
        ["chat", "planner", "planner_with_prompts", "action_plan", "research", "retriever"]
            .iter()
            .map(|strategy| format!("[strategies.{strategy}]\nmodel = \"scripted/demo\"\n"))
            .collect();
    format!("[providers.scripted]\nscript = {}\n{strategies}{experts}", json!(script))
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}
