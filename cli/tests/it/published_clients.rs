//! The most used clients of OpenAI's API, unchanged but for address and key, as in `ops/clients/`.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use test_servers::free_port;

use crate::engine::{Process, log, turnfold};

/// Pinned as in `ops/clients/rows/`. Packages that exclude each other are in groups of their own.
const FRAMEWORKS: [(&str, &str); 6] = [
    ("langchain", "1.5.2"),
    ("langchain-openai", "1.7.4"),
    ("langgraph", "1.2.24"),
    ("litellm", "1.110.2"),
    ("openai-agents", "0.24.0"),
    ("pydantic-ai-slim[openai]", "2.68.0"),
];
const INSTRUCTOR: [(&str, &str); 3] = [("instructor", "1.17.0"), ("llm", "0.36"), ("openai", "3.3.0")];
const LLAMA_INDEX: [(&str, &str); 2] =
    [("llama-index-core", "0.14.25"), ("llama-index-llms-openai-like", "0.8.1")];
const JAVASCRIPT: [(&str, &str); 5] = [
    ("@ai-sdk/openai", "4.0.118"),
    ("@ai-sdk/openai-compatible", "3.0.92"),
    ("@openai/agents", "0.20.0"),
    ("ai", "7.0.173"),
    ("zod", "4.6.7"),
];

#[test]
fn real_frameworks_for_python_have_plain_streamed_and_typed_answers_tools_and_memory() {
    let rows = ["agents_py", "langchain_py", "litellm_py", "openai_py", "pydantic_ai_py"];
    Engine::start().run_python(&test_servers::pip(&FRAMEWORKS), &rows);
}

#[test]
fn real_instructor_and_llm_work() {
    Engine::start().run_python(&test_servers::pip(&INSTRUCTOR), &["instructor_py", "llm_cli"]);
}

#[test]
fn real_llama_index_works() {
    Engine::start().run_python(&test_servers::pip(&LLAMA_INDEX), &["llama_index_py"]);
}

#[test]
fn real_agents_and_ai_sdk_for_javascript_work() {
    let engine = Engine::start();
    let folder = engine.folder.path();
    symlink(test_servers::npm(&JAVASCRIPT).join("node_modules"), folder.join("node_modules")).unwrap();
    fs::create_dir(folder.join("rows")).unwrap();
    for file in ["cells.mjs", "rows/agents_js.mjs", "rows/ai_sdk.mjs"] {
        fs::copy(clients().join(file), folder.join(file)).unwrap();
    }
    for row in ["agents_js", "ai_sdk"] {
        engine.check(row, Command::new("node").arg(folder.join(format!("rows/{row}.mjs"))));
    }
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/clients")
}

/// Cells of each row: plain, stream, tools, typed, memory and approval.
const CELLS: usize = 6;

/// `turnfold dev` with a model that answers each request in the one way that fits it.
struct Engine {
    _model: Process,
    _turnfold: Process,
    folder: TempDir,
    url: String,
}

impl Engine {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (model, listen) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let config = format!(
            "[providers.scripted]\nbase_url = \"http://127.0.0.1:{model}/v1\"\ndialect = \"openai\"\n\
             [strategies.chat]\nmodel = \"scripted/gpt-4o-mini\"\n\
             [strategies.action_plan]\nmodel = \"scripted/gpt-4o-mini\"\n\
             [commands.book]\ndescription = \"Books a table in a restaurant.\"\n\
             url = \"http://127.0.0.1:{model}/book\"\n"
        );
        fs::write(folder.path().join("turnfold.toml"), config).unwrap();
        let mut endpoint = Command::new("python3");
        let endpoint = Process::start(endpoint.arg(clients().join("model.py")).arg(model.to_string()));
        let mut dev = turnfold(folder.path());
        let dev = Process::start(dev.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
        for address in [&listen, &format!("127.0.0.1:{model}")] {
            let began = Instant::now();
            while std::net::TcpStream::connect(address).is_err() {
                assert!(began.elapsed() < Duration::from_secs(60), "{address} is not reachable");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Self { _model: endpoint, _turnfold: dev, folder, url: format!("http://{listen}") }
    }

    fn run_python(&self, environment: &Path, rows: &[&str]) {
        for row in rows {
            let mut command = Command::new(environment.join("bin/python"));
            let command = command.arg(clients().join(format!("rows/{row}.py")));
            self.check(row, command.env("PYTHONPATH", clients()).env("PYTHONDONTWRITEBYTECODE", "1"));
        }
    }

    /// Runs a client and compares its cells with those of the table.
    fn check(&self, row: &str, client: &mut Command) {
        let base = format!("{}/v1", self.url);
        client.env("CLIENTS_URL", &self.url).env("OPENAI_BASE_URL", base).env("OPENAI_API_KEY", "any");
        // litellm would read its list of prices from the network.
        client.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").current_dir(self.folder.path());
        let output = client.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let cells: Vec<Value> = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert!(!cells.is_empty(), "{row}: {output:?}");
        let expected: Value =
            serde_json::from_str(&fs::read_to_string(clients().join("expected.json")).unwrap()).unwrap();
        let mut rows = HashSet::new();
        for cell in &cells {
            let [name, kind, says] = ["row", "cell", "says"].map(|field| cell[field].as_str().unwrap());
            rows.insert(name);
            assert_eq!(expected[name][kind].as_str().unwrap_or("-"), says, "{cell}");
        }
        assert_eq!(cells.len(), CELLS * rows.len(), "{row} ended early: {output:?}");
    }
}
