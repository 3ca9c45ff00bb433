//! A small language model: llama.cpp's server on a free local port, with OpenAI's API.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::account::Account;
use crate::process;
use crate::server::Server;
use crate::weights;

/// Maximum time for one readiness request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of one model for one test. It ends when this is dropped, or with the process.
///
/// ## Why one thread
///
/// A second thread waits for the first by spinning. If anything else runs on the machine, two threads are twenty
/// times slower than one.
#[derive(Debug)]
pub struct Llama {
    server: Server,
}

impl Llama {
    /// Starts a chat model, SmolLM2-135M-Instruct. Replies are cut off after `tokens` tokens.
    ///
    /// The server is built on first use, which takes about ten minutes of CPU time.
    ///
    /// # Panics
    ///
    /// If a part cannot be installed or the server does not start. The message says which, or ends with the server's
    /// log.
    #[must_use]
    pub fn chat(tokens: u32) -> Self {
        let tokens = tokens.to_string();
        let words = ["--ctx-size", "8192", "--parallel", "1", "--jinja", "--predict", &tokens];
        Self::start("llama-chat", &weights::smollm2(), &words)
    }

    /// Starts an embedding model, all-MiniLM-L6-v2.
    ///
    /// # Panics
    ///
    /// As [`Llama::chat`].
    #[must_use]
    pub fn embeddings() -> Self {
        let words = [
            "--embeddings",
            "--pooling",
            "mean",
            "--ctx-size",
            "512",
            "--batch-size",
            "512",
            "--ubatch-size",
            "512",
        ];
        Self::start("llama-embeddings", &weights::minilm(), &words)
    }

    /// Base URL: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.server.port())
    }

    fn start(name: &'static str, model: &Path, words: &[&str]) -> Self {
        let mut server = Server::new(name);
        let mut command = process::mortal(&weights::server(), Account::Own, server.folder());
        command.arg("--model").arg(model).args(["--host", "127.0.0.1", "--port", &server.port().to_string()]);
        command.args(["--threads", "1", "--threads-batch", "1", "--offline", "--alias", name]).args(words);
        server.start(command, ready);
        Self { server }
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        // No data needs to be saved.
        self.server.kill();
    }
}

/// The port is open before the model is loaded, so readiness is asked for over HTTP.
fn ready(port: u16) -> Result<(), String> {
    let asked = || {
        let mut wire = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        wire.set_read_timeout(Some(PATIENCE))?;
        wire.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        wire.read_to_string(&mut said)?;
        Ok(said)
    };
    let said = asked().map_err(|error: std::io::Error| error.to_string())?;
    let status = said.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") { Ok(()) } else { Err(format!("it says {status:?}")) }
}
