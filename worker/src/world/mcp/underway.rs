//! A request that is under way.

use futures::future::{BoxFuture, Fuse, FusedFuture as _, FutureExt as _};
use rmcp::{
    RoleClient, ServiceError,
    model::{CancelledNotification, CancelledNotificationParam, RequestId, ServerResult},
    service::{Peer, RequestHandle},
};
use tokio::runtime::Handle;

/// What a server hears of a request whose answer nobody waits for any more.
const LET_GO: &str = "nobody waits for the answer any more";

/// A request that is under way. Dropped before its answer is in, it is called off.
pub(super) struct Underway {
    peer: Peer<RoleClient>,
    id: RequestId,
    answer: Fuse<BoxFuture<'static, Result<ServerResult, ServiceError>>>,
}

impl Underway {
    pub(super) fn new(sent: RequestHandle<RoleClient>) -> Self {
        let (peer, id) = (sent.peer.clone(), sent.id.clone());
        Self { peer, id, answer: sent.await_response().boxed().fuse() }
    }

    /// Its answer, if it comes in time.
    pub(super) async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        (&mut self.answer).await
    }
}

impl Drop for Underway {
    /// ## Why the answer is waited for all the same
    ///
    /// rmcp lets go of what it keeps of a request only when it hands out the answer; once the request is called off, that
    /// is the word that it was, and comes at once.
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.answer.is_terminated() {
            return;
        }
        let answer = std::mem::replace(&mut self.answer, Fuse::terminated());
        let (peer, id) = (self.peer.clone(), self.id.clone());
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), Some(LET_GO.to_owned()));
            if let Err(error) = peer.send_notification(CancelledNotification::new(params).into()).await {
                tracing::debug!(%error, "a request cannot be called off");
            }
            let _ = answer.await;
        });
    }
}
