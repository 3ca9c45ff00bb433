//! Reports to the store about what servers offer, for people who look at them.
//!
//! **Invariant:** no request of a node waits for a report, and a report opens no connection.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use shared::{Fault, Prompt, Tool};
use store::{McpOffer, McpResource, Store};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::debug;

use super::{Pool, Servers, connection::Connection, encode_tools, failure::Failure, resources::Resource};
use crate::{redactor::Redactor, text::truncate};

/// Interval between two looks at the connections.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which an unchanged server is reported again.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum prompts, and maximum resources, in a report.
const MAX_ITEMS: usize = 200;

/// Maximum characters of one text in a report, other than the tools.
const MAX_TEXT_CHARS: usize = 4_000;

/// Maximum size of the tools in a report, in bytes of JSON.
const MAX_DEFINITIONS: usize = 1024 * 1024;

/// Result of a look at a connection. It is reported at once if it differs from the last one.
#[derive(Clone, PartialEq)]
enum Finding {
    /// The id of the connection, its number of announced changes, and the tools last listed over it.
    Connected(String, u64, Option<Vec<Tool>>),
    /// The error of the last attempt to connect.
    Failed(String),
}

/// Report about one server.
enum Report {
    Offer(Box<McpOffer>, Option<String>),
    Failure(String),
}

impl Servers {
    /// Reports the servers to the store that holds the pins, in the name of a worker, until the future is dropped.
    pub(crate) async fn keep_reporting(&self, worker: &str, redactor: &Redactor) {
        let Some(store) = &self.pins else { return };
        let mut reported = BTreeMap::new();
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            for (name, pool) in &self.pools {
                report_if_due(store, (name, pool), worker, redactor, &mut reported).await;
            }
        }
    }
}

async fn report_if_due(
    store: &Store,
    (name, pool): (&String, &Pool),
    worker: &str,
    redactor: &Redactor,
    reported: &mut BTreeMap<String, (Finding, Instant)>,
) {
    let Some(state) = pool.connection.peek() else { return };
    let Some(finding) = finding(&state).await else { return };
    let is_known = reported.get(name).is_some_and(|(known, at)| {
        // A failed attempt is reported once: nothing tries again on its own.
        *known == finding && (matches!(finding, Finding::Failed(_)) || at.elapsed() < REPORT_INTERVAL)
    });
    if is_known {
        return;
    }
    let report = report(name, pool, state, redactor).await;
    let written = match &report {
        Report::Offer(offer, definitions) => {
            store.record_mcp_offer(name, worker, offer, definitions.as_deref()).await
        }
        Report::Failure(error) => store.record_mcp_failure(name, worker, error).await,
    };
    match written {
        Ok(()) => {
            reported.insert(name.clone(), (finding, Instant::now()));
        }
        Err(error) => debug!(server = name, %error, "cannot report an MCP server, retrying in 5 s"),
    }
}

async fn finding(state: &Result<Arc<Connection>, Fault>) -> Option<Finding> {
    match state {
        Ok(connection) if connection.is_lost() => None,
        Ok(connection) => {
            let listed = connection.listed.lock().await.as_ref().map(|listed| listed.tools.clone());
            Some(Finding::Connected(connection.id(), connection.changes().0, listed))
        }
        Err(fault) => Some(Finding::Failed(fault.error.clone())),
    }
}

async fn report(
    name: &str,
    pool: &Pool,
    state: Result<Arc<Connection>, Fault>,
    redactor: &Redactor,
) -> Report {
    let offered = match state {
        Ok(connection) => offer(&connection, pool, redactor).await.map_err(|error| error.of_query(name)),
        Err(fault) => Err(fault),
    };
    match offered {
        Ok((offer, definitions)) => Report::Offer(Box::new(offer), definitions),
        Err(fault) => {
            let mut error = Value::from(truncate(&fault.error, MAX_TEXT_CHARS));
            redactor.json(&mut error);
            Report::Failure(error.as_str().unwrap_or_default().to_owned())
        }
    }
}

/// Reads the lists of a server, without its secrets and within bounds.
async fn offer(
    connection: &Connection,
    pool: &Pool,
    redactor: &Redactor,
) -> Result<(McpOffer, Option<String>), Failure> {
    let server = &pool.server;
    let tools = match connection.listed(server).await {
        Ok(tools) => tools,
        // A server with prompts only may not support tools.
        Err(Failure::Refused(_) | Failure::Unclear(_)) if !connection.offers_tools() => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let definitions = definitions(&tools, redactor);
    let cut = |text: &str| truncate(text, MAX_TEXT_CHARS);
    let prompts = connection.prompts(server).await?;
    let resources = connection.resources(server).await?;
    let info = connection.describe();
    let offer = McpOffer {
        name: cut(&info.name),
        protocol: cut(&info.protocol),
        instructions: info.instructions.as_deref().map(cut),
        prompts: prompts.into_iter().take(MAX_ITEMS).map(prompt).collect(),
        resources: resources.into_iter().take(MAX_ITEMS).map(resource).collect(),
        tools_withheld: definitions.as_ref().err().map(ToString::to_string),
    };
    let mut value = json!(offer);
    shorten(&mut value);
    redactor.json(&mut value);
    // A secret may be the name of a field.
    let offer = serde_json::from_value(value)
        .map_err(|_| Failure::Refused("it repeats a configured secret in its lists".to_owned()))?;
    Ok((offer, definitions.ok()))
}

/// Returns the tools as they are pinned, or why they are not shown.
fn definitions(tools: &[Tool], redactor: &Redactor) -> Result<String, String> {
    if 0 < redactor.json(&mut json!(tools)) {
        return Err("they contain a configured secret".to_owned());
    }
    let definitions = encode_tools(tools).map_err(|fault| fault.error)?;
    match definitions.len() {
        0..=MAX_DEFINITIONS => Ok(definitions),
        size => Err(format!("they have {size} bytes, more than {MAX_DEFINITIONS}")),
    }
}

fn prompt(prompt: Prompt) -> Prompt {
    let arguments = prompt.arguments.into_iter().take(MAX_ITEMS).collect();
    Prompt { arguments, ..prompt }
}

fn resource(resource: Resource) -> McpResource {
    let Resource { name, description, uri, is_template } = resource;
    McpResource { name, description, uri, is_template }
}

/// Shortens every text.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if MAX_TEXT_CHARS < text.len() => *text = truncate(text, MAX_TEXT_CHARS),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}
