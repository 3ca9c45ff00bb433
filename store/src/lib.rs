//! Storage: the event log, batches, webhooks and everything else that the database keeps.
//!
//! ```text
//!   log           threads of events, and the turns that wait for them     the source of truth
//!   read_models   the rows of threads and turns                           compared with the log
//!   integrity     hash chains, and their verification
//!   filter        conditions on turns and threads
//!   retention     pruning, and legal holds
//!   conversations threads that clients create before their first turn
//!   batches       files of lines, batches of them, and results
//!   webhooks      endpoints, and the outbox of events for them
//!   schedules     requests that are submitted at set times
//!   forgotten_models  models about which everything learned was forgotten
//!   pauses        strategies, models and tenants that start no new work
//!   keys          API keys, as hashes
//!   pins          the approved tools of each MCP server
//!   mcp_servers   MCP servers, as workers last found them
//!   trace_parents spans of clients, of which turns are children
//!   admin         administrative logs: who changed holds, keys, pins and pauses, and who deleted what
//!   checkpoints   checkpoints, as they were last made
//!   workers       workers that run, as they last reported
//!   stats         counts of ended turns and of model responses over time         counted again from the log
//!   search        words of events, and names of tools, models, prompts and workers     built again from the log
//!   vector_index  descriptions of MCP servers, searched by vector         in the database or Milvus; rebuilt from the servers
//! ```
//!
//! **Invariant:** the log alone says what happened and what to do next.
//!
//! **Invariant:** this crate takes rows and returns rows. It never folds a log: that is done in `threads`.

#![warn(missing_docs)]

mod admin;
mod checkpoints;
mod conversations;
mod error;
mod filter;
mod forgotten_models;
mod keys;
mod mcp_servers;
mod pauses;
mod pins;
mod read_models;
mod retention;
mod search;
mod sql_batch;
mod stats;
mod trace_parents;
mod workers;

pub mod batches;
pub mod integrity;
pub mod log;
pub mod schedules;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vector_index;
pub mod webhooks;

pub use admin::{
    AdminEntry, AdminEvent, AdminFilter, AdminVerified, By, KeyDetails, ScheduleDetails, WebhookDetails,
    admin_log, is_admin_log,
};
pub use checkpoints::CheckpointRecord;
pub use conversations::Conversation;
pub use error::Error;
pub use filter::{ConditionReader, ConditionText, Conditions, FilterError};
pub use forgotten_models::ForgottenModel;
pub use integrity::{
    AttestedHeads, Coverage, Finding, HeadCheck, Mistyped, RowFinding, Scope, Verified, Wrong,
};
pub use keys::{Key, MOST_KEYS};
pub use log::{
    ANSWER_BEAT, AttachmentContent, AwaitedAnswer, CancelRequest, Chain, ConnectionSettings, Counts,
    DeadWorker, Distributed, DryRun, EndedTurn, Failure, Failures, Fork, Head, Heads, IdOf, Idempotency,
    LostAnswer, MOST_SUBMITTED, NewLog, NewThread, NewTurn, Opening, Order, PartOfId, PendingCount,
    PendingFilter, PendingTurn, Queued, RANKED_MAX, Range, Rank, RankOrder, ReadModelUpdate, Reader,
    Recorded, Runnable, SHORT_ID, Selected, ServerInfo, Store, Stored, Submitted, Thread, ThreadFilter,
    ThreadId, ThreadScan, Turn, TurnFilter, TurnId, TurnUpdate, WaitReason, Withdrawal, error_fingerprint,
    plain,
};
pub use mcp_servers::{McpOffer, McpResource, McpServerRecord};
pub use pauses::Pause;
pub use pins::Pin;
pub use read_models::{Difference, Differs, ExpectedThread, ExpectedTurn};
pub use retention::{Hold, Prune, Pruned};
pub use search::{Found, IndexRound, IndexingTask, MOST_FOUND, QueryWords, SearchProgress, Speaker};
pub use shared::{PauseKind, ThreadStatus, TurnStatus, UnknownStatus};
pub use stats::{
    AskedModel, CauseCount, Counted, CountedEnd, EndedCount, Intervals, LostCounts, LowCounts, ModelResponse,
    OpenTurns, PromptUse, Ratings, Resolution, Stats, Tally, UsageCount, UsageShare,
};
#[cfg(feature = "milvus")]
pub use vector_index::MilvusIndex;
pub use vector_index::{Embedded, Entry, MemoryIndex, Near, VectorIndex};
pub use workers::{LearnedModel, WorkerRecord};
