//! Notifications of MCP servers: changes of their tools.
//!
//! A server of an older protocol sends them on its own. A server of the newest protocol requires a subscription.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        Implementation, JsonObject, SubscriptionFilter,
    },
    service::{NotificationContext, RequestContext},
};

/// Delay before a lost subscription is renewed; it doubles up to the maximum.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Response to an older server that asks a person in the middle of a call.
const DECLINED: &str =
    "no person can be asked in the middle of a call; return input_required of protocol 2026-07-28 instead";

/// Handles notifications of a server.
#[derive(Clone, Default)]
pub(super) struct NotificationHandler {
    changes: Arc<AtomicU64>,
    subscribed: Arc<AtomicBool>,
}

impl NotificationHandler {
    /// Number of changes of the server's tools, known or possible while there was no subscription.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns true while the subscription is active.
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Acquire)
    }

    fn record_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Keeps a subscription to a server of the newest protocol while the connection is open.
    pub(super) async fn subscribe(self, peer: Peer<RoleClient>, server: String) {
        let mut delay = INITIAL_DELAY;
        while !peer.is_transport_closed() {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            match peer.listen(filter).await {
                Ok(mut subscription) => {
                    delay = INITIAL_DELAY;
                    // **Invariant:** earlier lists are not trusted: the tools may have changed while there was no
                    // subscription.
                    self.record_change();
                    self.subscribed.store(true, Ordering::Release);
                    while let Ok(Some(_)) = subscription.next().await {
                        tracing::debug!(server, "tools of MCP server changed");
                        self.record_change();
                    }
                    self.subscribed.store(false, Ordering::Release);
                }
                Err(error) => tracing::debug!(server, %error, "cannot subscribe to MCP server"),
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }
}

impl ClientHandler for NotificationHandler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.record_change();
    }

    /// Declines, with the reason. Older servers may ask although the capability was not declared, and may continue
    /// without an answer.
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tracing::warn!(
            "declined a question of an MCP server in the middle of a call: a person can be asked only with protocol \
             2026-07-28 or newer"
        );
        let why = JsonObject::from_iter([("turnfold/declined".to_owned(), DECLINED.into())]);
        Ok(ElicitResult::new(ElicitationAction::Decline).with_meta(why.into()))
    }

    /// Declares no capability to older servers: a question in the middle of a call could not be answered durably.
    /// Servers of the newest protocol receive the [capabilities](super::elicitation::declare_capabilities) with each
    /// request.
    fn get_info(&self) -> ClientConfig {
        let turnfold = Implementation::new("turnfold", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), turnfold)
    }
}
