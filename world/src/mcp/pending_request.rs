//! A request in flight to an MCP server.

use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture as _, FutureExt as _};
use rmcp::{
    RoleClient, ServiceError,
    model::{CancelledNotification, CancelledNotificationParam, RequestId, ServerResult},
    service::{Peer, RequestHandle},
};
use tokio::runtime::Handle;

use super::notifications::ProgressListener;
use crate::running_time;

/// Factor of a request's timeout that progress notifications may extend it to in total.
const PROGRESS_FACTOR: u32 = 10;

/// Reason sent with a cancelled request.
const CANCEL_REASON: &str = "the response is no longer needed";

/// A request in flight. Dropping it before its response arrives cancels it at the server.
pub(super) struct PendingMcpRequest {
    peer: Peer<RoleClient>,
    id: RequestId,
    progress: ProgressListener,
    response: Fuse<BoxFuture<'static, Result<ServerResult, ServiceError>>>,
}

impl PendingMcpRequest {
    /// Takes over a request that rmcp sent without a timeout.
    pub(super) fn new(sent: RequestHandle<RoleClient>, progress: ProgressListener) -> Self {
        let (peer, id) = (sent.peer.clone(), sent.id.clone());
        Self { peer, id, progress, response: sent.await_response().boxed().fuse() }
    }

    /// Waits for the response. Each progress notification restarts the timeout, up to [`PROGRESS_FACTOR`] times the
    /// timeout in total.
    pub(super) async fn response_within(mut self, timeout: Duration) -> Result<ServerResult, ServiceError> {
        let Self { response, progress, .. } = &mut self;
        let waiting = async {
            loop {
                tokio::select! {
                    biased;
                    response = &mut *response => return Some(response),
                    () = progress.notified() => (),
                    () = running_time::sleep(timeout) => return None,
                }
            }
        };
        let response = running_time::timeout(timeout.saturating_mul(PROGRESS_FACTOR), waiting).await;
        response.flatten().unwrap_or(Err(ServiceError::Timeout { timeout }))
    }
}

impl Drop for PendingMcpRequest {
    /// Cancels the request, unless it has ended, and awaits its response in a task.
    ///
    /// ## Why the response is still awaited
    ///
    /// rmcp releases its state of a request only when it delivers the response. After a cancellation, that response
    /// says so and arrives at once.
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.response.is_terminated() {
            return;
        }
        let response = std::mem::replace(&mut self.response, Fuse::terminated());
        let (peer, id) = (self.peer.clone(), self.id.clone());
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), Some(CANCEL_REASON.to_owned()));
            if let Err(error) = peer.send_notification(CancelledNotification::new(params).into()).await {
                tracing::debug!(%error, "cannot cancel request");
            }
            let _ = response.await;
        });
    }
}
