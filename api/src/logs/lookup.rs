//! Rows of threads, as far as a principal may see them.

use store::ThreadId;

use crate::server::{principal::Principal, problem::ApiError, state::AppState};

/// Returns the row of a thread. A thread of another tenant does not exist.
pub(crate) async fn find_thread(
    app: &AppState,
    principal: &Principal,
    id: ThreadId,
) -> Result<store::Thread, ApiError> {
    let thread = app.backends.store.thread(id).await?.filter(|thread| principal.sees(&thread.tenant));
    thread.ok_or_else(|| store::Error::UnknownThread(id).into())
}
