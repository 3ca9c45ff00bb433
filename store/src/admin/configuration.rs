//! Entries about the configuration with which processes start.

use std::ops::ControlFlow;

use futures::FutureExt as _;
use sea_orm::ConnectionTrait as _;

use super::{
    append::{Entry, append},
    entry::{AdminEntry, By, admin_log, decode},
    event::AdminEvent,
};
use crate::{
    Error, Store,
    log::{Transaction, event_row::EventRow, one_at_a_time, statement},
};

/// Maximum number of entries among which the last one of a kind of process is looked for.
const LOOKED_AT: i64 = 50;

impl Store {
    /// Writes an entry that a process started with another configuration than the last one of its kind. Returns true if it was
    /// another.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn note_configuration(
        &self,
        process: &str,
        name: &str,
        version: &str,
        sha256: &str,
    ) -> Result<bool, Error> {
        let changed = AdminEvent::ConfigurationChanged {
            process: process.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: sha256.to_owned(),
        };
        self.database.transact(move |tx| note(tx, changed).boxed()).await
    }
}

async fn note(tx: &Transaction, changed: AdminEvent) -> Result<bool, Error> {
    one_at_a_time(tx, "configuration", "").await?;
    if is_last(tx, &changed).await? {
        return Ok(false);
    }
    append(tx, vec![Entry::new(None, By::turnfold(None), changed)]).await?;
    Ok(true)
}

/// Reports whether the last configuration of this kind of process was the same.
async fn is_last(tx: &Transaction, changed: &AdminEvent) -> Result<bool, Error> {
    // With the kind as a text in the statement, both databases use the index of these entries alone.
    let columns = EventRow::columns(tx.get_database_backend());
    let sql = format!(
        "SELECT {columns} FROM (SELECT log_id AS thread_id, seq, at, kind, payload, codec, hash FROM admin_events \
         WHERE log_id = $1 AND kind = 'configuration_changed' ORDER BY seq DESC LIMIT {LOOKED_AT}) AS page ORDER BY page.seq DESC"
    );
    let rows = tx.query_all_raw(statement(tx, &sql, [admin_log(None).into()])).await?;
    let found = rows.iter().try_for_each(|row| {
        match EventRow::read(row).map_err(Error::from).and_then(|row| decode(&row)) {
            Ok(AdminEntry { event: last, .. }) if is_same_process(&last, changed) => {
                ControlFlow::Break(is_same(&last, changed))
            }
            // The verification names an entry that cannot be read.
            Ok(_) | Err(_) => ControlFlow::Continue(()),
        }
    });
    Ok(found.break_value().unwrap_or_default())
}

fn is_same_process(one: &AdminEvent, other: &AdminEvent) -> bool {
    matches!(
        (one, other),
        (
            AdminEvent::ConfigurationChanged { process, .. },
            AdminEvent::ConfigurationChanged { process: other, .. },
        ) if process == other
    )
}

fn is_same(one: &AdminEvent, other: &AdminEvent) -> bool {
    matches!(
        (one, other),
        (
            AdminEvent::ConfigurationChanged { sha256, version, .. },
            AdminEvent::ConfigurationChanged { sha256: other, version: built, .. },
        ) if sha256 == other && version == built
    )
}
