//! The engine that the demo runs: `turnfold dev` as a process of its own, so that it can be killed.

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

use crate::exit::{Exit, Stop};

/// How the scripted model answers where no real one is at hand.
const SCRIPT: &str = include_str!("../../../fixtures/demo/model.jsonl");
/// The first line of the configuration, by which a demo's folder is known.
const MARK: &str = "# Written by `turnfold demo`, which empties this folder when it runs again.";
/// The strategies that ask models.
const MODELLED: [&str; 5] = ["planner", "planner_with_prompts", "action_plan", "research", "retriever"];
/// How long the engine may take to be ready.
const READY: Duration = Duration::from_secs(60);

pub(super) struct Engine {
    folder: PathBuf,
    url: String,
    listen: String,
    model: String,
    child: Option<Child>,
}

impl Engine {
    /// Empties the folder and writes the configuration of the engine there.
    pub(super) fn prepare(folder: &Path) -> anyhow::Result<Self> {
        empty(folder)?;
        let folder = folder.canonicalize()?;
        let key = std::env::var("OPENAI_API_KEY").is_ok_and(|it| !it.is_empty());
        let base = std::env::var("OPENAI_BASE_URL").ok().filter(|it| !it.is_empty());
        let (provider, model) = if key || base.is_some() {
            let base = base.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
            let model = std::env::var("OPENAI_MODEL").unwrap_or_else(|_| "gpt-4o-mini".to_owned());
            let key = if key { "\napi_key = \"env:OPENAI_API_KEY\"" } else { "" };
            (format!("[providers.openai]\nbase_url = {}{key}", json!(base)), format!("openai/{model}"))
        } else {
            (
                format!("[providers.scripted]\nscript = {}", json!(folder.join("model.jsonl"))),
                "scripted/demo".to_owned(),
            )
        };
        let program = std::env::current_exe()?;
        let experts: String = experts::Expert::ALL
            .iter()
            .map(|it| {
                let (name, what) = (it.name(), it.description());
                let (program, data) = (json!(program), json!(folder.join(format!("{name}.json"))));
                format!(
                    "\n[mcp.{name}]\ndescription = {}\ncommand = {program}\nargs = [\"expert\", \"{name}\", \"--data\", {data}]\n",
                    json!(what)
                )
            })
            .collect();
        let listen = format!("127.0.0.1:{}", free_port()?);
        let strategies: String =
            MODELLED.iter().map(|it| format!("\n[strategies.{it}]\nmodel = \"{model}\"\n")).collect();
        let config = format!(
            "{MARK}\n\n[store]\nurl = {}\n\n[api]\nlisten = \"{listen}\"\n\n{provider}\n\
             {strategies}{experts}",
            json!(format!("sqlite:{}", folder.join("turnfold.db").display()))
        );
        fs::write(folder.join("turnfold.toml"), config)?;
        fs::write(folder.join("model.jsonl"), SCRIPT)?;
        Ok(Self { url: format!("http://{listen}"), folder, listen, model, child: None })
    }

    /// Which model answers, in words.
    pub(super) fn model(&self) -> String {
        match self.model.strip_prefix("scripted/") {
            Some(_) => "answered by a scripted model, as neither OPENAI_API_KEY nor OPENAI_BASE_URL is set"
                .to_owned(),
            None => format!("answered by {}", self.model),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the engine's own words go.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("engine.log")
    }

    /// The engine's store, read from outside.
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
        let began = Instant::now();
        let http = reqwest::Client::new();
        loop {
            if http.get(format!("{}/readyz", self.url)).send().await.is_ok_and(|it| it.status().is_success())
            {
                return Ok(());
            }
            let gone = child.try_wait()?;
            if gone.is_some() || READY < began.elapsed() {
                let said = fs::read_to_string(self.log()).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(5).collect();
                return Err(Stop::because(
                    Exit::Unreachable,
                    format!("the engine did not start: {}", last.join(" / ")),
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// SIGKILL: no chance to tidy up.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM: finish what is under way, then go.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(id) = child.id() {
            Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().await?;
        }
        child.wait().await?;
        Ok(())
    }
}

/// Makes the folder, or empties it if a demo made it.
fn empty(folder: &Path) -> anyhow::Result<()> {
    let ours = || fs::read_to_string(folder.join("turnfold.toml")).is_ok_and(|it| it.starts_with(MARK));
    if folder.exists() {
        let has_any = fs::read_dir(folder)?.next().is_some();
        if has_any && !ours() {
            let words = format!(
                "{} holds something that no demo made: name another folder with --folder",
                folder.display()
            );
            return Err(Stop::because(Exit::Usage, words));
        }
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
