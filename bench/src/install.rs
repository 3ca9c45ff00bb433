//! A complete installation: an API and two workers as processes, with PostgreSQL and their own Redis, and the
//! client's requests.
//!
//! ## Why the processes are this binary
//!
//! The binary contains all of turnfold. Started under that name it behaves as turnfold, so nothing else must be built
//! or found.

use std::{
    fs,
    io::{BufWriter, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use reqwest::{Body, Client, StatusCode};
use serde_json::{Value, json};
use store::ThreadId;
use test_servers::{Redis, free_port};
use tokio::{fs::File, io::AsyncReadExt as _, time::sleep};

use crate::{
    machine::resident_mib,
    servers::{Servers, process_of},
};

/// The name under which this binary behaves as turnfold.
pub(crate) const TURNFOLD: &str = "turnfold";

/// Maximum time until a process answers.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Bytes of a file sent at once.
const PIECE: usize = 256 * 1024;

pub(crate) struct Installation {
    folder: PathBuf,
    url: String,
    http: Client,
    listen: String,
    /// Redis, unless everything runs in one process.
    redis: Option<Redis>,
    processes: Vec<(&'static str, Process)>,
}

/// A process that ends with the benchmark.
struct Process(Child);

impl Process {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Installation {
    /// Starts an installation with this database.
    pub(crate) async fn start(database: &str, within: &Path) -> Result<Self> {
        Self::with(Some(database), &within.join("installation"), "").await
    }

    /// Starts an installation whose strategy `chat` asks the model at this URL. Without a database, it is one process with SQLite.
    pub(crate) async fn with_model(database: Option<&str>, within: &Path, model: &str) -> Result<Self> {
        let folder = within.join(if database.is_some() { "chat" } else { "embedded" });
        let config = format!(
            "[providers.instant]\nbase_url = {}\n[strategies.chat]\nmodel = \"instant/model\"\n",
            json!(model)
        );
        Self::with(database, &folder, &config).await
    }

    async fn with(database: Option<&str>, folder: &Path, more: &str) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let redis = database.map(|_| Redis::durable());
        let listen = format!("127.0.0.1:{}", free_port());
        let servers = database.zip(redis.as_ref()).map(|(database, redis)| {
            let (database, redis) = (json!(database), json!(redis.url()));
            format!(
                "[store]\nurl = {database}\n[queue]\nurl = {redis}\nlease_seconds = 5\nsweep_seconds = 2\n"
            )
        });
        let servers = servers.unwrap_or_default();
        let config = format!("{servers}[api]\nlisten = {}\n[log]\nfilter = \"warn\"\n{more}", json!(listen));
        fs::write(folder.join("turnfold.toml"), config)?;
        let http = Client::builder().no_proxy().build()?;
        let (folder, url) = (folder.to_owned(), format!("http://{listen}"));
        let mut installation = Self { folder, url, http, listen, redis, processes: Vec::new() };
        if installation.redis.is_none() {
            installation.start_all().await?;
            return Ok(installation);
        }
        ensure!(installation.command(&["migrate"])?.status()?.success(), "failed to migrate");
        installation.start_all().await?;
        Ok(installation)
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(TURNFOLD).args(args).current_dir(&self.folder);
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    async fn start_all(&mut self) -> Result<()> {
        let listen = self.listen.clone();
        let processes = match self.redis {
            Some(_) => vec![
                ("api", vec!["api"]),
                ("worker1", vec!["worker", "--set", "worker.name=worker1"]),
                ("worker2", vec!["worker", "--set", "worker.name=worker2"]),
            ],
            None => vec![("dev", vec!["dev", "--listen", listen.as_str()])],
        };
        for (name, args) in processes {
            let child = self.command(&args)?.spawn().with_context(|| format!("failed to start {name}"))?;
            self.processes.push((name, Process(child)));
        }
        let began = Instant::now();
        while self.http.get(format!("{}/readyz", self.url)).send().await.is_err() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            ensure!(began.elapsed() < READY_WITHIN, "the api does not answer: {}", log());
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Kills all processes at once, as a power failure would, and starts them again.
    pub(crate) async fn kill_all(&mut self) -> Result<()> {
        self.processes.clear();
        if let Some(redis) = &mut self.redis {
            redis.kill();
            redis.restart();
        }
        self.start_all().await
    }

    /// Process ids of the installation: its own, those of its Redis and of the PostgreSQL of these servers.
    pub(crate) fn processes(&self, servers: &Servers) -> Result<Vec<u32>> {
        let redis = self.redis.as_ref().map(process_of).transpose()?;
        let own = self.processes.iter().map(|(_, process)| process.0.id());
        Ok(own.chain(redis).chain([servers.processes[0]]).collect())
    }

    /// Resident memory of each process in MiB.
    pub(crate) fn memory(&self) -> Result<Vec<(&'static str, f64)>> {
        self.processes.iter().map(|(name, process)| Ok((*name, resident_mib(process.0.id())?))).collect()
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let response = self.http.get(format!("{}{path}", self.url)).send().await?;
        Ok(response.error_for_status()?.json().await?)
    }

    /// Answers a thread that asks nothing. It is read up to its last event before the answer is refused.
    pub(crate) async fn answer_in_vain(&self, thread: ThreadId) -> Result<()> {
        let url = format!("{}/v1/threads/{thread}/answer", self.url);
        let status = self.http.post(url).json(&json!({"text": "yes"})).send().await?.status();
        ensure!(status == StatusCode::CONFLICT, "the answer to no question has the status {status}");
        Ok(())
    }

    /// Submits a turn, and waits for its end. Returns the turn.
    pub(crate) async fn run_turn(&self, body: &Value) -> Result<Value> {
        let request = self.http.post(format!("{}/v1/turns?wait=60", self.url)).json(body);
        let turn: Value = request.send().await?.error_for_status()?.json().await?;
        ensure!(turn["status"] == "completed", "a turn did not complete: {turn:#}");
        Ok(turn)
    }

    /// Uploads a file of this many lines, generated while it is sent. Returns the file's id.
    pub(crate) async fn upload(&self, items: u64) -> Result<String> {
        let path = self.folder.join("lines.jsonl");
        let mut file = BufWriter::new(fs::File::create(&path)?);
        file.write_all(
            b"--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
              Content-Disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n\r\n",
        )?;
        for nth in 0..items {
            let body = json!({"strategy": "probe", "input": format!("echo {nth}")});
            let line = json!({"custom_id": format!("item-{nth}"), "method": "POST", "url": "/v1/turns", "body": body});
            writeln!(file, "{line}")?;
        }
        file.write_all(b"\r\n--x--\r\n")?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        let pieces = futures::stream::try_unfold(File::open(&path).await?, async |mut file| {
            let mut piece = vec![0; PIECE];
            let length = file.read(&mut piece).await?;
            piece.truncate(length);
            Ok::<_, std::io::Error>((0 < length).then_some((piece, file)))
        });
        let request = self.http.post(format!("{}/v1/files", self.url));
        let request = request.header("content-type", "multipart/form-data; boundary=x");
        let file: Value =
            request.body(Body::wrap_stream(pieces)).send().await?.error_for_status()?.json().await?;
        Ok(file["id"].as_str().context("a file has no name")?.to_owned())
    }

    /// Creates a batch of a file. Returns the batch's id.
    pub(crate) async fn make(&self, file: &str) -> Result<String> {
        let body = json!({"input_file_id": file, "endpoint": "/v1/turns", "completion_window": "24h"});
        let request = self.http.post(format!("{}/v1/batches", self.url)).json(&body);
        let batch: Value = request.send().await?.error_for_status()?.json().await?;
        Ok(batch["id"].as_str().context("a batch has no name")?.to_owned())
    }

    /// Checks that every item appears exactly once in the output, which is read line by line.
    pub(crate) async fn check_output(&self, batch: &Value, items: u64) -> Result<()> {
        let file = batch["output_file_id"].as_str().context("there is no output")?;
        let path = format!("{}/v1/files/{file}/content", self.url);
        let mut response = self.http.get(path).send().await?.error_for_status()?;
        let mut seen = vec![false; usize::try_from(items)?];
        let mut held = Vec::new();
        while let Some(piece) = response.chunk().await? {
            held.extend_from_slice(&piece);
            while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let line: Value = serde_json::from_slice(&held[..end])?;
                held.drain(..=end);
                let nth =
                    line["custom_id"].as_str().and_then(|id| id.strip_prefix("item-")?.parse::<usize>().ok());
                let once = nth
                    .and_then(|nth| seen.get_mut(nth))
                    .context("the output contains an item that was not sent")?;
                ensure!(!*once, "an item is in the output twice: {line}");
                *once = true;
            }
        }
        let missing = seen.iter().filter(|count| !**count).count();
        ensure!(held.is_empty() && missing == 0, "{missing} of {items} items are not in the output");
        Ok(())
    }

    /// Number of nodes in one of its turns.
    pub(crate) async fn nodes_of_one(&self) -> Result<f64> {
        let page = self.get("/v1/threads?limit=1").await?;
        let thread = page["data"][0]["id"].as_str().context("there is no thread")?;
        let events = self.get(&format!("/v1/threads/{thread}/events?limit=1000")).await?;
        let events = events["data"].as_array().context("there are no events")?;
        Ok(events.iter().filter(|event| event["kind"] == "decided").count() as f64)
    }
}
