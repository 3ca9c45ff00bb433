//! Three small MCP servers: an appointment book, an address book and a notebook.
//!
//! `turnfold expert calendar --data FILE` serves them over stdio. The demo and the tests of the worker use them as
//! real servers in processes of their own, with side effects that can be counted.

mod calendar;
mod contacts;
mod ledger;
mod notes;
mod words;

use std::{fmt, path::PathBuf, str::FromStr};

use anyhow::Context as _;
use rmcp::{ServerHandler, ServiceExt as _, service::ServerInitializeError, transport::stdio_pipes};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{calendar::Calendar, contacts::Contacts, notes::Notes};

pub use crate::ledger::{IDEMPOTENCY_KEY, Ledger};

/// The servers in this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expert {
    /// Appointments, by day and hour.
    Calendar,
    /// People and their email addresses.
    Contacts,
    /// Short texts with a title.
    Notes,
}

impl Expert {
    /// All servers of this crate.
    pub const ALL: [Self; 3] = [Self::Calendar, Self::Contacts, Self::Notes];

    /// Name on the command line and in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calendar => "calendar",
            Self::Contacts => "contacts",
            Self::Notes => "notes",
        }
    }

    /// One-line description for a planner.
    pub fn description(&self) -> &'static str {
        match self {
            Self::Calendar => {
                "Knows the user's appointments: lists a day, finds free hours, books and cancels."
            }
            Self::Contacts => {
                "Knows the people around the user: finds, adds and removes names and email addresses."
            }
            Self::Notes => "Keeps the user's notes: searches, reads, writes, extends and deletes them.",
        }
    }
}

impl fmt::Display for Expert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Expert {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|expert| expert.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        found.with_context(|| format!("no expert is called {text:?}, there are {names}"))
    }
}

/// Serves over stdin and stdout until the client disconnects. `data` is the server's file, and need not exist.
pub async fn serve(expert: Expert, data: PathBuf) -> anyhow::Result<()> {
    let (reader, writer) = stdio_pipes();
    serve_over(expert, data, reader, writer).await
}

/// Serves over any pair of streams until the client disconnects, so that a test needs no process.
pub async fn serve_over<R, W>(expert: Expert, data: PathBuf, reader: R, writer: W) -> anyhow::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    match expert {
        Expert::Calendar => attend(Calendar::new(data), reader, writer).await,
        Expert::Contacts => attend(Contacts::new(data), reader, writer).await,
        Expert::Notes => attend(Notes::new(data), reader, writer).await,
    }
}

async fn attend<S, R, W>(server: S, reader: R, writer: W) -> anyhow::Result<()>
where
    S: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let running = match server.serve((reader, writer)).await {
        Ok(running) => running,
        // A client that connects and leaves without a message did nothing wrong.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error).context("failed to greet the client"),
    };
    running.waiting().await.context("the server's task died")?;
    Ok(())
}
