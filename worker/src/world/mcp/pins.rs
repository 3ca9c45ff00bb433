//! The pins at work: a server whose tools are not those that were taken for good is not used.
//!
//! ## Why
//!
//! What a server says of its tools goes into a model's prompt. A server that was harmless when it was chosen may say
//! something else a month later, and nobody reads it but the model.

use futures::FutureExt as _;
use shared::{Fault, Tool};
use store::Pin;
use tokio::sync::Mutex;

use super::{
    Pool, Servers,
    changes::{changes, named},
    connection::Connection,
    failure::Failure,
};
use crate::world::of_store;

/// Who is said to have approved of what nobody was asked about.
const FIRST_USE: &str = "first use";

/// The set of tools that was last found to be the pinned one.
pub(super) type Found = Mutex<Option<Vec<Tool>>>;

impl Servers {
    /// What a server can do, if that is what it is pinned to.
    pub(super) async fn pinned_tools(&self, name: &str) -> Result<Vec<Tool>, Failure> {
        let tools = self.question(name, |connection, server| connection.tools(server).boxed()).await?;
        let pool = self.pool(name).map_err(Failure::Fault)?;
        self.check(name, pool, &tools).await.map_err(Failure::Fault)?;
        Ok(tools)
    }

    /// Holds a set of tools against the pin; the first one becomes the pin.
    pub(super) async fn check(&self, name: &str, pool: &Pool, tools: &[Tool]) -> Result<(), Fault> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let definitions = definitions(tools)?;
        let (pins, new) = (pins.clone(), Pin::new(name, &definitions, FIRST_USE));
        // **Invariant:** the store is waited for in a task of its own. Requests of one node are carried out side by
        // side, and stand still while the hands write what came of one of them: standing in the same queue for the
        // store, a request would be given its turn, not take it, and hold up the very hands that would wake it.
        let pin = tokio::spawn(async move { pins.pin_if_absent(new).await }).await;
        let pin =
            pin.map_err(|error| Fault::again(format!("the pin of MCP server {name} was not read: {error}")))?;
        let pin = pin.map_err(|error| of_store("the pins of the MCP servers", &error))?;
        if pin.definitions != definitions {
            let words: Vec<String> = changes(&pinned(&pin)?, tools).iter().map(ToString::to_string).collect();
            if !words.is_empty() {
                return Err(Fault::operator(format!(
                    "the tools of MCP server {name} are not those that it is pinned to: {}; nothing was called: see \
                     `turnfold mcp pins diff {name}`, and if that is as it should be, `turnfold mcp pins approve {name}`",
                    named(&words)
                )));
            }
        }
        *pool.found.lock().await = Some(tools.to_vec());
        Ok(())
    }

    /// Whether a call may be sent: over a connection whose tools were listed, and are the pinned ones.
    pub(super) async fn admit(
        &self,
        name: &str,
        pool: &Pool,
        connection: &Connection,
    ) -> Result<(), Failure> {
        if self.pins.is_none() {
            return Ok(());
        }
        let tools = connection.listed(&pool.server).await?;
        if pool.found.lock().await.as_ref() == Some(&tools) {
            return Ok(());
        }
        self.check(name, pool, &tools).await.map_err(Failure::Fault)
    }
}

/// A set of tools as a pin keeps it.
///
/// # Errors
///
/// [`Fault`] never, as far as anybody knows: tools are JSON.
pub fn definitions(tools: &[Tool]) -> Result<String, Fault> {
    serde_json::to_string(tools).map_err(|error| Fault::operator(format!("the tools are no JSON: {error}")))
}

/// The set of tools that a pin keeps.
///
/// # Errors
///
/// [`Fault`] if it is none that this version can read.
pub fn pinned(pin: &Pin) -> Result<Vec<Tool>, Fault> {
    serde_json::from_str(&pin.definitions).map_err(|error| {
        let server = &pin.server;
        Fault::operator(format!(
            "the pin of MCP server {server} cannot be read ({error}): pin it anew with `turnfold mcp pins approve {server}`"
        ))
    })
}
