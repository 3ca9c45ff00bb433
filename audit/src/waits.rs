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
    for pause in store.pauses().await? {
        let applies = match pause.kind {
            PauseKind::Strategy => pause.name == thread.strategy,
            PauseKind::Tenant | PauseKind::OwnTenant => pause.name == thread.tenant,
            PauseKind::Model => false,
        };
        if applies {
            waits.push(WaitReason::Paused {
                kind: pause.kind.to_string(),
                name: pause.name,
                text: pause.reason,
            });
        }
    }
    let filter = TurnFilter { thread: Some(id), status: Some(TurnStatus::Queued), ..TurnFilter::default() };
    let turns = store.turns(filter, None, MAX_TURNS).await?;
    if let Some(due) = turns.iter().filter_map(|turn| turn.due_at).filter(|due| clock::now() < *due).min() {
        waits.push(WaitReason::NotDue { until: clock::rfc3339(due) });
    }
    if !turns.is_empty() {
        waits.push(WaitReason::Queued { turns: turns.len() as u64 });
    }
    Ok(waits)
}
