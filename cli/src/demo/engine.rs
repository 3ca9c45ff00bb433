//! The engine of the demo: `turnfold dev` as a separate process, so that it can be killed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::json;
use store::Store;
use tokio::process::{Child, Command};

use crate::exit::{CliError, Exit};

/// The answers of the scripted model.
const SCRIPT: &str = include_str!("../../../fixtures/demo/model.jsonl");
/// First line of the generated configuration. A folder without it was not made by a demo and is never emptied.
const MARKER: &str = "# Written by `turnfold demo`, which empties this folder when it runs again.";
/// The strategies that call models.
const WITH_MODEL: [&str; 6] =
    ["chat", "planner", "planner_with_prompts", "action_plan", "research", "retriever"];
/// Maximum time from the start of the process until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Engine {
    folder: PathBuf,
    url: String,
    listen: String,
    model: String,
    child: Option<Child>,
}

/// The model of the demo: its provider's section in the configuration, its name, and its description.
struct Model {
    section: String,
    name: String,
    description: String,
}

impl Model {
    /// The model that the environment names, or the scripted one.
    ///
    /// An endpoint from `OPENAI_BASE_URL` without a key is a provider of its own: `providers.openai` has a key by default, and
    /// a missing key fails every turn.
    fn from_environment(folder: &Path) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (has_key, base_url) = (variable("OPENAI_API_KEY").is_some(), variable("OPENAI_BASE_URL"));
        if !has_key && base_url.is_none() {
            return Self {
                section: format!("[providers.scripted]\nscript = {}", json!(folder.join("model.jsonl"))),
                name: "scripted/demo".to_owned(),
                description: "a scripted model (set OPENAI_API_KEY or OPENAI_BASE_URL for a real one)"
                    .to_owned(),
            };
        }
        let model = variable("OPENAI_MODEL").unwrap_or_else(|| "gpt-4o-mini".to_owned());
        let base_url = base_url.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
        let (provider, key) =
            if has_key { ("openai", "\napi_key = \"env:OPENAI_API_KEY\"") } else { ("endpoint", "") };
        Self {
            section: format!("[providers.{provider}]\nbase_url = {}{key}", json!(base_url)),
            name: format!("{provider}/{model}"),
            description: format!("{model} at {base_url}"),
        }
    }
}

impl Engine {
    /// Empties the folder and writes the engine's configuration into it.
    pub(super) fn prepare(folder: &Path) -> anyhow::Result<Self> {
        empty(folder)?;
        let folder = folder.canonicalize()?;
        let model = Model::from_environment(&folder);
        let program = std::env::current_exe()?;
        let servers: String = demo_servers::Expert::ALL
            .iter()
            .map(|expert| {
                let (name, description) = (expert.name(), json!(expert.description()));
                let (program, data) = (json!(program), json!(folder.join(format!("{name}.json"))));
                format!(
                    "\n[mcp.{name}]\ndescription = {description}\ncommand = {program}\nargs = [\"expert\", \"{name}\", \"--data\", {data}]\n"
                )
            })
            .collect();
        let listen = format!("127.0.0.1:{}", free_port()?);
        let strategies: String = WITH_MODEL
            .iter()
            .map(|name| format!("\n[strategies.{name}]\nmodel = {}\n", json!(model.name)))
            .collect();
        let config = format!(
            "{MARKER}\n\n[store]\nurl = {}\n\n[api]\nlisten = \"{listen}\"\n\n{}\n\
             {strategies}{servers}",
            json!(format!("sqlite:{}", folder.join("turnfold.db").display())),
            model.section
        );
        fs::write(folder.join("turnfold.toml"), config)?;
        fs::write(folder.join("model.jsonl"), SCRIPT)?;
        Ok(Self { url: format!("http://{listen}"), folder, listen, model: model.description, child: None })
    }

    /// A description of the model, for people.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that holds the engine's log messages.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("engine.log")
    }

    /// Opens the engine's store.
    pub(super) async fn store(&self) -> anyhow::Result<Store> {
        Ok(Store::connect(&format!("sqlite:{}", self.folder.join("turnfold.db").display())).await?)
    }

    /// Starts the engine and waits until it is ready.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log())?;
        let child = Command::new(std::env::current_exe()?)
            .args(["--config", "turnfold.toml", "dev", "--listen", &self.listen])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the engine")?;
        let child = self.child.insert(child);
        let start = Instant::now();
        let http = reqwest::Client::new();
        loop {
            if http
                .get(format!("{}/readyz", self.url))
                .send()
                .await
                .is_ok_and(|response| response.status().is_success())
            {
                return Ok(());
            }
            let exited = child.try_wait()?;
            if exited.is_some() || READY_TIMEOUT < start.elapsed() {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(CliError::with_exit(
                    Exit::Unreachable,
                    format!("the engine did not start: {}", last.join(" / ")),
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the engine with SIGKILL and waits until it is gone.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Sends SIGTERM and waits until the engine has finished its running work.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(id) = child.id() {
            Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().await?;
        }
        child.wait().await?;
        Ok(())
    }
}

/// Creates the folder, or empties it if a demo made it.
///
/// # Errors
///
/// Refuses a folder with other content.
fn empty(folder: &Path) -> anyhow::Result<()> {
    let is_ours =
        || fs::read_to_string(folder.join("turnfold.toml")).is_ok_and(|text| text.starts_with(MARKER));
    if folder.exists() {
        let has_content = fs::read_dir(folder)?.next().is_some();
        if has_content && !is_ours() {
            let message = format!(
                "{} has content that was not written by a demo; hint: name another folder with --folder",
                folder.display()
            );
            return Err(CliError::with_exit(Exit::Usage, message));
        }
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
