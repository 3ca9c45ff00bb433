//! Reasons for a thread not to continue that its log does not show.

use api_types::WaitReason;
use queue::clock;
use store::{Error, PauseKind, Store, ThreadId, TurnFilter, TurnStatus};

/// Maximum number of queued turns that are counted.
const MAX_TURNS: u64 = 1_000;

/// Returns the pauses that apply to a thread and the turns queued for it. Limits and busy workers are known only to the
/// queue.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn waits(store: &Store, id: ThreadId) -> Result<Vec<WaitReason>, Error> {
    let Some(thread) = store.thread(id).await? else { return Ok(Vec::new()) };
    let mut waits = Vec::new();
    for it in store.pauses().await? {
        let applies = match it.kind {
            PauseKind::Strategy => it.name == thread.strategy,
            PauseKind::Tenant | PauseKind::OwnTenant => it.name == thread.tenant,
            PauseKind::Model => false,
        };
        if applies {
            waits.push(WaitReason::Paused { kind: it.kind.to_string(), name: it.name, text: it.reason });
        }
    }
    let filter = TurnFilter { thread: Some(id), status: Some(TurnStatus::Queued), ..TurnFilter::default() };
    let turns = store.turns(filter, None, MAX_TURNS).await?;
    if let Some(due) = turns.iter().filter_map(|it| it.due_at).filter(|it| clock::now() < *it).min() {
        waits.push(WaitReason::NotDue { until: clock::rfc3339(due) });
    }
    if !turns.is_empty() {
        waits.push(WaitReason::Queued { turns: turns.len() as u64 });
    }
    Ok(waits)
}
