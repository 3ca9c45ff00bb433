//! Hears what a server says without being asked: that its tools have changed.
//!
//! A server of an older protocol says so by itself. One of the newest must be listened to.

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

/// How long nobody listens after a server has stopped telling; the pause doubles up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What an older server hears that asks a person in the middle of a call.
const DECLINED: &str =
    "nobody can be asked in the middle of a call: answer with input_required of protocol 2026-07-28";

/// Hears what a server says without being asked.
#[derive(Clone, Default)]
pub(super) struct Ears {
    changes: Arc<AtomicU64>,
    listening: Arc<AtomicBool>,
}

impl Ears {
    /// How often its tools have changed, or may have while nobody listened.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether a server that must be listened to is.
    pub(super) fn listen(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Listens to a server of the newest protocol for as long as there is a connection.
    pub(super) async fn to(self, peer: Peer<RoleClient>, server: String) {
        let mut pause = PAUSE;
        while !peer.is_transport_closed() {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            match peer.listen(filter).await {
                Ok(mut subscription) => {
                    pause = PAUSE;
                    // **Invariant:** what is known from before is not trusted: nobody listened between the two.
                    self.changed();
                    self.listening.store(true, Ordering::Release);
                    while let Ok(Some(_)) = subscription.next().await {
                        tracing::debug!(server, "its tools have changed");
                        self.changed();
                    }
                    self.listening.store(false, Ordering::Release);
                }
                Err(error) => tracing::debug!(server, %error, "it cannot be listened to"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl ClientHandler for Ears {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed();
    }

    /// An older server asks although nothing was offered. It is told no, and why, and may do without.
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tracing::warn!(
            "an MCP server of an older protocol asked a person in the middle of a call, and was declined: nobody can \
             be asked durably before protocol 2026-07-28"
        );
        let why = JsonObject::from_iter([("turnfold/declined".to_owned(), DECLINED.into())]);
        Ok(ElicitResult::new(ElicitationAction::Decline).with_meta(why.into()))
    }

    /// No capability is offered to an older server: one that wants to ask a person in the middle of a call could not
    /// be answered durably. A server of the newest protocol hears with each request what is
    /// [offered](super::wants::offered).
    fn get_info(&self) -> ClientConfig {
        let turnfold = Implementation::new("turnfold", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), turnfold)
    }
}
