//! A small model of one's own: llama.cpp's server on a free port of loopback, over OpenAI's api.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::account::Account;
use crate::process;
use crate::server::Server;
use crate::weights;

/// How long any one look may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of one model that only this test knows; it ends when this is dropped, or with the process.
///
/// ## Why one thread
///
/// A second one waits for the first by spinning. Where anything else runs on the machine, two are twenty times slower
/// than one.
#[derive(Debug)]
pub struct Llama {
    server: Server,
}

impl Llama {
    /// One that chats: SmolLM2-135M-Instruct. A reply has `tokens` at the most, and is cut off there.
    ///
    /// The first time its server is built, which takes some ten minutes of a processor.
    ///
    /// # Panics
    ///
    /// When a part cannot be had, or it does not start; the words say which, or end with the server's log.
    #[must_use]
    pub fn chat(tokens: u32) -> Self {
        let tokens = tokens.to_string();
        let words = ["--ctx-size", "8192", "--parallel", "1", "--jinja", "--predict", &tokens];
        Self::start("llama-chat", &weights::smollm2(), &words)
    }

    /// One that makes vectors: all-MiniLM-L6-v2.
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

    /// Where it is: `http://127.0.0.1:PORT/v1`.
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
        // It has nothing to put in order.
        self.server.kill();
    }
}

/// Its port is open before its model is read, so it is asked.
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
