//! Ends children that no one has called for some time. The next call starts them again.
//!
//! ## Why not when a task is open
//!
//! A child that works on a task loses it when it ends, and a task may wait for a person for hours without being asked for.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{connection::Connection, single_flight::SingleFlight};

/// Part of the idle time after which a child is looked at again.
const LOOKS: u32 = 4;

/// Ends a connection once nothing has used it for the idle time, from a task that ends with the connection.
pub(super) fn end_when_idle(
    slot: &Arc<SingleFlight<Arc<Connection>>>,
    connection: &Arc<Connection>,
    idle_timeout: Duration,
) {
    let (slot, connection) = (Arc::downgrade(slot), Arc::downgrade(connection));
    tokio::spawn(watch(slot, connection, idle_timeout));
}

async fn watch(
    slot: Weak<SingleFlight<Arc<Connection>>>,
    connection: Weak<Connection>,
    idle_timeout: Duration,
) {
    loop {
        tokio::time::sleep(idle_timeout / LOOKS).await;
        let Some(slot) = slot.upgrade() else { return };
        if connection.strong_count() == 0 {
            return;
        }
        // **Invariant:** calls take their connection from this slot, so while it is locked and holds the only one, none is
        // in flight and none begins.
        let is_idle = |held: &Arc<Connection>| {
            if !std::ptr::eq(Arc::as_ptr(held), connection.as_ptr()) {
                return false;
            }
            let in_use = 1 < Arc::strong_count(held);
            if in_use {
                held.touch();
            }
            !in_use && held.is_idle_for(idle_timeout)
        };
        let end = |ended: Arc<Connection>| async move {
            tracing::info!(server = ended.name(), "an idle MCP server ends; its next call starts it again");
            ended.close().await;
        };
        slot.end_if(is_idle, end).await;
    }
}
