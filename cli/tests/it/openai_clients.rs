//! OpenAI's published clients against `turnfold dev`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use test_servers::free_port;

use crate::engine::{Process, demo_config, log, turnfold};

/// Pinned versions, so that tests change only on purpose.
const PYTHON: [(&str, &str); 2] = [("openai", "3.54.0"), ("standardwebhooks", "1.0.1")];
const JAVASCRIPT: [(&str, &str); 1] = [("openai", "7.57.0")];

#[test]
fn real_client_for_python_chats() {
    Dev::start().run_client(&mut python(), "chat");
}

#[test]
fn real_client_for_javascript_chats() {
    Dev::start().run_client(&mut javascript(), "chat");
}

/// Both clients send a slow request, and retry it when the connection breaks.
#[test]
fn real_clients_that_retry_after_a_kill_start_no_second_turn() {
    let mut dev = Dev::start();
    let mut clients: Vec<_> = [python(), javascript()]
        .into_iter()
        .map(|mut command| {
            command.args([&dev.url, "again"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let began = Instant::now();
    while dev.turns().len() < clients.len() {
        assert!(began.elapsed() < Duration::from_secs(60), "no turn asks: {:?}", dev.turns());
        std::thread::sleep(Duration::from_millis(50));
    }
    dev.kill_and_start_again();
    for client in clients.drain(..) {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(dev.turns().len(), 2, "{:?}", dev.turns());
}

/// Returns the command of the Python client.
pub(crate) fn python() -> Command {
    let mut command = Command::new(test_servers::pip(&PYTHON).join("bin/python"));
    command.arg(script("client.py"));
    command
}

/// Returns the command of the JavaScript client.
pub(crate) fn javascript() -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", test_servers::npm(&JAVASCRIPT).join("node_modules")).arg(script("client.cjs"));
    command
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/openai_clients").join(name)
}

/// `turnfold dev` with the demo's scripted model and servers.
pub(crate) struct Dev {
    process: Process,
    folder: TempDir,
    listen: String,
    pub(crate) url: String,
}

impl Dev {
    pub(crate) fn start() -> Self {
        Self::with(&demo_config())
    }

    /// Starts it with this configuration.
    pub(crate) fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("turnfold.toml"), config).unwrap();
        let listen = format!("127.0.0.1:{}", free_port());
        let process = listening(folder.path(), &listen);
        Self { process, folder, url: format!("http://{listen}"), listen }
    }

    fn kill_and_start_again(&mut self) {
        self.process.end();
        self.process = listening(self.folder.path(), &self.listen);
    }

    /// Returns all turns, from `turnfold turn list`.
    fn turns(&self) -> Vec<Value> {
        let output = turnfold(self.folder())
            .args(["turn", "list", "--url", &self.url, "-o", "json"])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a scenario of a client and checks its outcome.
    pub(crate) fn run_client(&self, client: &mut Command, task: &str) {
        let output = client.args([&self.url, task]).output().unwrap();
        let printed = fs::read_to_string(self.folder().join("dev.log")).unwrap_or_default();
        let stderr =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && stderr.contains("as expected"), "{stderr}\n{printed}");
    }
}

fn listening(folder: &Path, listen: &str) -> Process {
    let mut command = turnfold(folder);
    let process = Process::start(command.args(["dev", "--listen", listen]).stderr(log(folder, "dev")));
    let began = Instant::now();
    while std::net::TcpStream::connect(listen).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "the API is not reachable");
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}
