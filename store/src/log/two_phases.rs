//! Transactions that change rows of the coordinator and of one node.
//!
//! ## Why a transaction may demand two phases
//!
//! Citus commits in two phases when several shards were modified or rows were passed by `COPY`. After a change of one shard by
//! any other statement, it commits on that node first and then on the coordinator, and a crash in between keeps half. An insert of
//! no rows counts as `COPY`, and reaches no node.

use sea_orm::{ConnectionTrait as _, DbBackend};

use crate::{
    Error,
    log::{insert_events::insert_nothing, pool::Transaction},
};

/// Makes the transaction commit in two phases if it changes rows on another node.
pub(crate) async fn commit_in_two_phases(tx: &Transaction) -> Result<(), Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        insert_nothing(tx).await?;
    }
    Ok(())
}
