//! The event log: threads of events, and the turns that wait for their thread.
//!
//! **Invariant:** the key `(thread, seq)` is the only lock. The writer that inserts a number first has decided it; every
//! other writer gets [`Stale`](crate::Error::Stale), and nothing of its append is kept.
//!
//! `threads` and `turns` are read models of the events. They are written in the transaction of the event that changes
//! them. A queued turn is the exception: no log contains it yet.

mod append;
pub(crate) mod attachments;
mod awaited_answers;
pub(crate) mod batch;
pub(crate) mod caller_column;
pub(crate) mod cancel_requests;
mod connect;
mod connection_settings;
pub(crate) mod database;
pub(crate) mod deaths;
pub(crate) mod distribution;
mod driver;
mod end_turns;
mod ended_turns;
pub(crate) mod error_fingerprint;
mod event_hashes;
pub(crate) mod event_row;
pub(crate) mod failure_groups;
pub(crate) mod fork;
pub(crate) mod group_commit;
pub(crate) mod head;
mod histories;
mod identity;
pub(crate) mod ids;
pub(crate) mod import;
mod insert_events;
mod kept;
pub(crate) mod loader;
mod lost_answers;
mod migration_lock;
pub(crate) mod multi_reader;
pub(crate) mod next_turn;
mod old_wal;
mod one_shard;
mod order;
pub(crate) mod pending_turns;
pub(crate) mod pool;
mod postgres;
mod postgres_address;
mod ranked;
pub(crate) mod read;
pub(crate) mod read_model_update;
pub(crate) mod read_only;
mod readiness;
pub(crate) mod replanned;
pub(crate) mod reply_options_column;
pub(crate) mod rows;
mod scan;
mod server_info;
mod server_watch;
pub(crate) mod short_ids;
mod sqlite;
mod sqlite_file;
mod step;
pub(crate) mod stored_bytes;
pub(crate) mod submit;
pub(crate) mod tables;
pub(crate) mod thread_ranges;
pub(crate) mod threads;
pub(crate) mod turns;
pub(crate) mod two_phases;
pub(crate) mod types;
pub(crate) mod write_step;

use std::sync::Arc;

use metrics::metrics;
use tokio::sync::mpsc;

use self::{
    database::Database,
    ended_turns::EndedTurns,
    group_commit::{Committer, committer},
    loader::Loader,
    next_turn::lookup::Waiters,
    submit::arrivals::Arrivals,
    turns::reader::TurnReader,
};
use crate::{search::state::SearchIndex, stats::UnwrittenCounts, webhooks::TurnSubscriptions};

pub(crate) use database::{looked_up, one_at_a_time, statement};
pub(crate) use ids::{at_most, signed, unsigned};
#[cfg(feature = "testing")]
pub(crate) use insert_events::ROWS_MAX;
pub(crate) use pool::Transaction;
pub(crate) use ranked::placed;
pub(crate) use submit::{BETWEEN, key_of};

pub use attachments::AttachmentContent;
pub use awaited_answers::{ANSWER_BEAT, AwaitedAnswer};
pub use cancel_requests::CancelRequest;
pub use connection_settings::ConnectionSettings;
pub use deaths::DeadWorker;
pub use distribution::Distributed;
pub use ended_turns::EndedTurn;
pub use error_fingerprint::error_fingerprint;
pub use failure_groups::{Failure, Failures};
pub use fork::Fork;
pub use head::Head;
pub use ids::{DryRun, ThreadId, TurnId, plain};
pub use import::{NewLog, NewThread};
pub use lost_answers::LostAnswer;
pub use multi_reader::Reader;
pub use next_turn::Queued;
pub use order::Order;
pub use pending_turns::{PendingCount, PendingFilter, PendingTurn, WaitReason};
pub use ranked::{RANKED_MAX, Rank, RankOrder};
pub use read::Chain;
pub use read_model_update::{ReadModelUpdate, TurnUpdate};
pub use rows::{Recorded, Stored};
pub use server_info::ServerInfo;
pub use short_ids::{IdOf, PartOfId, SHORT_ID};
pub use submit::{Idempotency, MOST_SUBMITTED, NewTurn, Opening, Submitted};
pub use thread_ranges::{Heads, Range, Selected, ThreadScan};
pub use threads::{Counts, Runnable, Thread, ThreadFilter};
pub use turns::{Turn, TurnFilter, Withdrawal};

/// The database of turnfold, SQLite or PostgreSQL. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) database: Database,
    committer: Committer,
    loader: Loader,
    waiters: Waiters,
    turn_reader: TurnReader,
    arrivals: Arrivals,
    ended_turns: EndedTurns,
    /// Counts of this process that are not yet written.
    pub(crate) unwritten_counts: Arc<UnwrittenCounts>,
    pub(crate) turn_subscriptions: Arc<TurnSubscriptions>,
    pub(crate) search: Arc<SearchIndex>,
}

impl Store {
    fn over(database: Database) -> Self {
        let (committer, loader, waiters) =
            (committer(&database), loader::loader(&database), next_turn::lookup::waiters(&database));
        let turn_reader = turns::reader::turn_reader(&database);
        let arrivals = submit::arrivals::arrivals(&database);
        Self {
            database,
            committer,
            loader,
            waiters,
            turn_reader,
            arrivals,
            ended_turns: EndedTurns::default(),
            unwritten_counts: Arc::default(),
            turn_subscriptions: Arc::default(),
            search: Arc::default(),
        }
    }

    /// Reports a turn that ended, without waiting.
    pub fn turn_ended(&self, ended: EndedTurn) {
        self.ended_turns.report(ended);
    }

    /// Reports each turn that ends in this process to `receiver`, without waiting for it.
    #[must_use]
    pub fn reporting_ended_turns(mut self, receiver: mpsc::Sender<EndedTurn>) -> Self {
        self.ended_turns = EndedTurns(Some(receiver));
        self
    }

    /// Sets the metrics of the connections to the database.
    pub fn measure_connections(&self) {
        let Database { pool, writer, hot, .. } = &self.database;
        for (name, pool) in [("read", pool), ("write", writer), ("steps", hot)] {
            let (all, idle) = pool.connections();
            metrics().connections.set(name, all, idle);
        }
    }
}
