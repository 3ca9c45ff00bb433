//! MCP servers, as workers last found them.
//!
//! Nothing depends on these rows: workers ask the servers themselves, and compare their tools with the pins.

mod table;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{EntityTrait as _, IntoActiveModel as _, sea_query::OnConflict};
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::Prompt;

use self::table::Column;
use crate::{
    Error, Store,
    log::{Transaction, one_at_a_time, plain},
    pins::{self, Pin},
    webhooks::{EventType, Happening, announce},
};

/// Everything that a server offers except its tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct McpOffer {
    /// Name and version, if the server reports them.
    pub name: String,
    /// Negotiated protocol version.
    pub protocol: String,
    /// Usage instructions of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Prompts, at most 200.
    pub prompts: Vec<Prompt>,
    /// Resources and templates of resources, at most 200.
    pub resources: Vec<McpResource>,
    /// Reason why the tools are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_withheld: Option<String>,
}

/// A resource of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpResource {
    /// Name of the resource.
    pub name: String,
    /// Purpose of the resource.
    pub description: String,
    /// URI, or an RFC 6570 template of URIs.
    pub uri: String,
    /// True if the URI is a template.
    pub is_template: bool,
}

/// A server, as a worker last found it.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerRecord {
    /// Name of the server.
    pub server: String,
    /// Offer of the server when it was last reached; `None` if it never was.
    pub offer: Option<McpOffer>,
    /// Tools of the server at that time, as JSON; `None` if they cannot be shown.
    pub definitions: Option<String>,
    /// Reason why the last attempt to reach it failed; `None` if it did not.
    pub error: Option<String>,
    /// Name of the worker that reported last.
    pub worker: String,
    /// Time of the report, in microseconds since the Unix epoch.
    pub seen_at: i64,
}

impl Store {
    /// Records the offer of a server, and its tools as JSON.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn record_mcp_offer(
        &self,
        server: &str,
        worker: &str,
        offer: &McpOffer,
        definitions: Option<&str>,
    ) -> Result<(), Error> {
        let offer = serde_json::to_string(offer)
            .map_err(|error| Error::Database(format!("an offer is not JSON: {error}")))?;
        let row = table::Model {
            offer: Some(plain(&offer)),
            definitions: definitions.map(plain),
            ..report(server, worker, None)
        };
        let columns = [Column::Offer, Column::Definitions, Column::Error, Column::Worker, Column::SeenAt];
        self.database
            .transact(move |tx| {
                async move {
                    announce_change(tx, &row).await?;
                    report_mcp_server(tx, row, &columns).await
                }
                .boxed()
            })
            .await
    }

    /// Records that a server cannot be reached. Its last offer remains.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn record_mcp_failure(&self, server: &str, worker: &str, error: &str) -> Result<(), Error> {
        let row = report(server, worker, Some(error));
        let columns = [Column::Error, Column::Worker, Column::SeenAt];
        self.database
            .transact(move |tx| async move { report_mcp_server(tx, row, &columns).await }.boxed())
            .await
    }

    /// Returns the last report about a server, or `None` if no worker has used it.
    ///
    /// # Errors
    ///
    /// [`Error`] if the row cannot be read.
    pub async fn mcp_server(&self, server: &str) -> Result<Option<McpServerRecord>, Error> {
        let row = table::Entity::find_by_id(plain(server)).one(&self.database.pool).await?;
        row.map(record).transpose()
    }
}

async fn report_mcp_server(tx: &Transaction, row: table::Model, columns: &[Column]) -> Result<(), Error> {
    let replaced = OnConflict::column(Column::Server).update_columns(columns.iter().copied()).to_owned();
    let insert = table::Entity::insert_many([row.into_active_model()]).on_conflict(replaced);
    insert.exec_without_returning(tx).await?;
    Ok(())
}

/// Tells webhooks of operators that the tools of a server are neither those of its last report nor those that were approved.
async fn announce_change(tx: &Transaction, new: &table::Model) -> Result<(), Error> {
    let Some(definitions) = &new.definitions else { return Ok(()) };
    // Of several workers that report the same change at the same time, the first announces it.
    one_at_a_time(tx, "mcp_servers", &new.server).await?;
    let last = table::Entity::find_by_id(new.server.as_str()).one(tx).await?;
    if last.is_some_and(|last| last.definitions.as_ref() == Some(definitions)) {
        return Ok(());
    }
    let pin = pins::table::Entity::find_by_id(new.server.as_str()).one(tx).await?;
    let Some(pin) = pin.filter(|pin| pin.definitions != *definitions) else { return Ok(()) };
    let data = json!({
        "id": new.server,
        "server": new.server,
        "worker": new.worker,
        "approved": pin.hash,
        "offered": Pin::hash_of(definitions),
        "hint": format!("see what changed with: turnfold mcp pins diff {}", new.server),
    });
    let event = EventType::PinChanged;
    announce(tx, Happening { tenant: None, event, strategy: None, metadata: None, data }).await
}

fn report(server: &str, worker: &str, error: Option<&str>) -> table::Model {
    table::Model {
        server: plain(server),
        offer: None,
        definitions: None,
        error: error.map(plain),
        worker: plain(worker),
        seen_at: clock::now(),
    }
}

fn record(row: table::Model) -> Result<McpServerRecord, Error> {
    let table::Model { server, offer, definitions, error, worker, seen_at } = row;
    let offer = offer.map(|text| serde_json::from_str(&text)).transpose().map_err(|cause| {
        Error::Database(format!("the row of MCP server {server} has an invalid offer: {cause}"))
    })?;
    Ok(McpServerRecord { server, offer, definitions, error, worker, seen_at })
}
