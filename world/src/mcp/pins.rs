//! Pins: a server whose tools differ from the approved ones is not used.
//!
//! ## Why
//!
//! Tool descriptions go into a model's prompt. A server that was harmless when it was chosen may change its
//! descriptions a month later, and only the model reads them.

use shared::{Fault, Tool, diff_tools, join_few};
use store::Pin;
use tokio::sync::Mutex;
use tracing::warn;

use super::{Pool, Servers, connection::Connection, failure::Failure};
use crate::fault::store_fault;

/// Approver recorded for a pin that no person approved.
const FIRST_USE: &str = "first use";

/// The tools last found to match the pin.
pub(super) type PinnedTools = Mutex<Option<Vec<Tool>>>;

impl Servers {
    /// Lists a server's tools if they match its pin.
    pub(super) async fn pinned_tools(&self, name: &str) -> Result<Vec<Tool>, Failure> {
        let tools = self.listed_tools(name).await?;
        let pool = self.pool(name).map_err(Failure::Fault)?;
        self.check(name, pool, &tools).await.map_err(Failure::Fault)?;
        Ok(tools)
    }

    /// Compares tools with the pin; the first set becomes the pin.
    pub(super) async fn check(&self, name: &str, pool: &Pool, tools: &[Tool]) -> Result<(), Fault> {
        let Some(pins) = &self.pins else { return Ok(()) };
        if tools.is_empty() && pool.server.tool_filter.allow.is_none() {
            // A proxy in front of a server that is away lists nothing. Pinned, that would refuse the tools that come back.
            warn!(server = name, "MCP server lists no tools; it is not pinned to none");
            return Ok(());
        }
        let definitions = encode_tools(tools)?;
        let (pins, new) = (pins.clone(), Pin::new(name, &definitions, FIRST_USE));
        // **Invariant:** the store is awaited in a separate task. The requests of a node run concurrently within one
        // task, and all of them stand still while that task writes the result of one. A request that waited for the
        // same store connection inside the task could be granted it without being polled, and block the very write that
        // would poll it.
        let pin = tokio::spawn(async move { pins.pin_if_absent(new).await }).await;
        let pin = pin.map_err(|error| {
            Fault::transient(format!("cannot read the pin of MCP server {name}: {error}"))
        })?;
        let pin = pin.map_err(|error| store_fault("the pins of the MCP servers", &error))?;
        if pin.definitions != definitions {
            let changed: Vec<String> =
                diff_tools(&decode_pin(&pin)?, tools).iter().map(ToString::to_string).collect();
            if !changed.is_empty() {
                warn!(
                    server = name,
                    cause = join_few(&changed),
                    "the tools of an MCP server differ from its pin; it is not used"
                );
                return Err(Fault::pin_changed(format!(
                    "the tools of MCP server {name} differ from its pin: {}; no tool was called; hint: run: turnfold mcp pins diff {name}; \
                     if the change is intended, run: turnfold mcp pins approve {name}; then: turnfold turn retry",
                    join_few(&changed)
                )));
            }
        }
        *pool.pinned_tools.lock().await = Some(tools.to_vec());
        Ok(())
    }

    /// Checks that a call may be sent: the tools were listed over this connection and match the pin. Before a write, a list that is
    /// older than 30 s is read again: servers that declare to announce changes do not always do so.
    pub(super) async fn admit(
        &self,
        name: &str,
        pool: &Pool,
        connection: &Connection,
        may_repeat: bool,
    ) -> Result<(), Failure> {
        if self.pins.is_none() {
            return Ok(());
        }
        let tools = match may_repeat {
            true => connection.listed(&pool.server).await?,
            false => connection.tools(&pool.server).await?,
        };
        if pool.pinned_tools.lock().await.as_ref() == Some(&tools) {
            return Ok(());
        }
        self.check(name, pool, &tools).await.map_err(Failure::Fault)
    }
}

/// Encodes tools for a pin, as JSON.
///
/// # Errors
///
/// [`Fault`] if a tool is not JSON, which no tool is known to cause.
pub fn encode_tools(tools: &[Tool]) -> Result<String, Fault> {
    serde_json::to_string(tools).map_err(|error| Fault::permanent(format!("the tools are not JSON: {error}")))
}

/// Decodes the tools of a pin.
///
/// # Errors
///
/// [`Fault`] if this version cannot read the pin.
pub fn decode_pin(pin: &Pin) -> Result<Vec<Tool>, Fault> {
    serde_json::from_str(&pin.definitions).map_err(|error| {
        let server = &pin.server;
        Fault::permanent(format!(
            "cannot decode the pin of MCP server {server}: {error}; hint: run: turnfold mcp pins approve {server}"
        ))
    })
}
