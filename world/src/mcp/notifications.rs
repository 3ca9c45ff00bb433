//! Notifications of MCP servers: changes of their tools, and progress of their calls.
//!
//! A server of an older protocol sends them on its own. A server of the newest protocol requires a subscription.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, Peer, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
        SubscriptionFilter,
    },
    service::NotificationContext,
};
use tokio::sync::Notify;

use super::handshake;

/// Delay before a lost subscription is renewed; it doubles up to the maximum.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Number of changes of a server's tools, known or possible while there was no subscription.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Records a change.
    pub(super) fn record(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Number of changes so far.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Keeps a subscription, and introduces this client. All other messages of a server are
/// [handled before rmcp sees them](super::wire).
#[derive(Clone, Default)]
pub(super) struct NotificationHandler {
    changes: Changes,
    subscribed: Arc<AtomicBool>,
    progress: Progress,
}

/// Requests that listen for their progress.
type Progress = Arc<Mutex<HashMap<ProgressToken, Arc<Notify>>>>;

/// Listener for the progress of one request.
pub(super) struct ProgressListener {
    token: ProgressToken,
    notify: Arc<Notify>,
    all: Progress,
}

impl ProgressListener {
    /// Waits for the next notification.
    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for ProgressListener {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

impl NotificationHandler {
    /// Changes of the server's tools.
    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns true while the subscription is active.
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Acquire)
    }

    /// Listens for the progress of a request.
    pub(super) fn progress_of(&self, token: &ProgressToken) -> ProgressListener {
        let notify = Arc::<Notify>::default();
        let (token, all) = (token.clone(), Arc::clone(&self.progress));
        all.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), Arc::clone(&notify));
        ProgressListener { token, notify, all }
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
                    self.changes.record();
                    self.subscribed.store(true, Ordering::Release);
                    while let Ok(Some(_)) = subscription.next().await {}
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
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let listeners = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = listeners.get(&params.progress_token) {
            listener.notify_one();
        }
    }

    /// Declares no capability to older servers: a question in the middle of a call could not be answered durably.
    /// Servers of the newest protocol receive the [capabilities](super::elicitation::declare_capabilities) with each
    /// request.
    fn get_info(&self) -> ClientConfig {
        let turnfold = Implementation::new("turnfold", env!("CARGO_PKG_VERSION"));
        let mut info = ClientConfig::new(ClientCapabilities::default(), turnfold);
        info.protocol_version = handshake::OLDER;
        info
    }
}
