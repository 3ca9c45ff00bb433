//! Servers that list no tools by the newest protocol: some proxies answer it and pass nothing on.

use std::time::Duration;

use futures::FutureExt as _;
use shared::Tool;
use tokio::{sync::Mutex, time::Instant};

use super::{Pool, Servers, failure::Failure};

/// Time after which a server whose list stays empty is asked the older way again: what is behind a proxy may have been away.
const ASK_AGAIN: Duration = Duration::from_secs(600);

/// Time at which a server was last asked the older way because its list was empty.
pub(super) type AskedOlder = Mutex<Option<Instant>>;

impl Servers {
    /// Lists a server's tools. One that declares tools and lists none by the newest protocol is asked once the older way, unless
    /// its protocol is configured.
    pub(super) async fn listed_tools(&self, name: &str) -> Result<Vec<Tool>, Failure> {
        let (tools, hides) = self.listed_once(name).await?;
        let pool = self.pool(name).map_err(Failure::Fault)?;
        if !hides || pool.server.protocol.is_some() {
            return Ok(tools);
        }
        let mut asked = pool.asked_older.lock().await;
        if asked.is_some_and(|at| at.elapsed() < ASK_AGAIN) {
            // Another request has asked meanwhile.
            return Ok(self.listed_once(name).await?.0);
        }
        *asked = Some(Instant::now());
        pool.reconnect(true).await;
        if let Ok((tools, _)) = self.listed_once(name).await
            && !tools.is_empty()
        {
            tracing::warn!(
                server = name,
                "MCP server lists its tools only by the older protocol, which is used; hint: set mcp.{name}.protocol = \"older\""
            );
            return Ok(tools);
        }
        pool.reconnect(false).await;
        Ok(tools)
    }

    /// Lists a server's tools, and returns true if it may hide them from the newest protocol.
    async fn listed_once(&self, name: &str) -> Result<(Vec<Tool>, bool), Failure> {
        let ask = self.query(name, |connection, server| {
            async { Ok((connection.tools(server).await?, connection.hides_tools().await)) }.boxed()
        });
        ask.await
    }
}

impl Pool {
    /// Closes the shared connection, so that the next one speaks another protocol.
    async fn reconnect(&self, is_older: bool) {
        self.connector.set_older(is_older);
        if let Some(connection) = self.connection.take().await {
            connection.close().await;
        }
    }
}
