//! Request and response types of the HTTP API, shared by the server and its clients.
//!
//! The server writes the OpenAPI document from these types, so their doc comments are its descriptions. A client reads
//! responses with the same types instead of looking fields up by name.
//!
//! **Invariant:** a value is for programs, never a sentence made for display. The exceptions are the explanations in
//! `detail`, `error`, `hint` and `message`, which name a cause that has no code.
//!
//! Lists have one shape, [`Page`], except on the paths that follow OpenAI's API, which use [`OpenAiList`]. Times are RFC 3339
//! strings in UTC, except on those same paths, where they are seconds since the Unix epoch.

#![warn(missing_docs)]

mod audit;
mod batch;
mod cost;
mod diff;
mod event;
mod explanation;
mod failure;
mod file;
mod forgotten_model;
mod hold;
mod id;
mod inbox;
mod interrupt_kind;
mod key;
mod learned_model;
mod list;
mod mcp;
mod message;
mod openai_body;
mod pause;
mod pending;
mod problem;
mod prompt;
mod prompt_version;
mod quote;
mod rating;
mod schedule;
mod search;
mod stats;
mod strategy;
mod strategy_setup;
mod thread;
mod timeline;
mod turn;
mod usage;
mod verification;
mod webhook;
mod worker;

pub use audit::{AdminEntry, AuditPage, BrokenChain, Checkpoint, DivergenceCluster, NotReplayed};
pub use batch::{
    Batch, BatchErrors, BatchExtension, BatchValidation, ExpiresAfter, InvalidLine, NewBatch, RequestCounts,
    Rerun, Resumable, ResumeBatch, Reuse, TopCause,
};
pub use cost::{AttemptTotal, CostBy, CostGroup, CostPage, TurnCost};
pub use diff::{DiffRow, Difference, Divide, ThreadDiff, UsagePair};
pub use event::LogEvent;
pub use explanation::{Decision, EventText, Explanation, WaitReason};
pub use failure::{FailureCause, FailureCauses};
pub use file::{DeletedFile, File, UploadForm};
pub use forgotten_model::ForgottenModel;
pub use hold::{DeletedThread, Hold, NewHold};
pub use id::{FoundId, IdKind};
pub use inbox::{
    ActionRequest, AnswerConfig, AnswerKind, DoubtRef, HumanInterrupt, InboxAnswer, InboxItem, NotSettled,
    SettleRequest, Settled,
};
pub use interrupt_kind::InterruptKindSchema;
pub use key::{Caller, Key, KeyStatus, NewKey, RotateKey, Scope, Session, SignInWays, UnknownScope};
pub use learned_model::LearnedModel;
pub use list::{OpenAiList, Page};
pub use mcp::{
    ApproveTools, McpPin, McpPrompt, McpResource, McpServer, McpServerSummary, McpState, McpTool, PinState,
    ToolChange, ToolChangeKind, ToolPlace,
};
pub use message::{Interrupt, Message, ProposedCall, Role, ToolCall, options_to_text};
pub use openai_body::{
    ChatCompletionBody, ChatMessageBody, ChatRoleBody, ConversationItemsBody, ConversationMetadataBody,
    EmbeddingsBody, RequestExtension, ResponseBody, TextCompletionBody,
};
pub use pause::{NewPause, Pause};
pub use pending::{PendingGroup, PendingTurn, PendingTurns};
pub use problem::{ErrorDetail, Problem};
pub use prompt::{PromptName, SentPrompt, SentPrompts, SentTool};
pub use prompt_version::{
    PromptTurns, PromptUse, PromptVersion, PromptVersions, RatingCounts, StrategyRatings,
};
pub use quote::{Bottleneck, BottleneckKind, Quote, QuoteBasis};
pub use rating::{NewRating, TurnRating};
pub use schedule::{NewSchedule, Schedule, ScheduleChange};
pub use search::{SaidBy, SearchHit, SearchMark, SearchResults};
pub use shared::{
    BatchResult, BatchStatus, DeliveryState, MissedFirings, OutcomeKind as Outcome, PauseKind, PendingCause,
    Policy, Priority, ScheduleStatus, StopReason, ThreadStatus, TurnEnd, TurnStatus,
};
pub use stats::{EndedTurns, ModelUsage, OpenTurns, Stats, StatsCause, StatsInterval, StatsRange};
pub use strategy::{EdgeKind, Strategy, StrategyEdge, StrategySummary};
pub use strategy_setup::{NodeSetup, PromptSetup, Setting, StrategySetup};
pub use thread::{
    AnswerRequest, ForkOrigin, ForkRequest, ListedThread, LogStatus, Reconcile, Thread, ThreadState,
    ThreadSummary, Verdict,
};
pub use timeline::{Takeover, TimeKind, TimeSegment, TimeTotal, TimedAttempt, TurnTimeline};
pub use turn::{Conversation, Input, NewContent, NewMessage, NewRole, NewTurn, Output, Turn};
pub use usage::{
    BudgetExceeded, BudgetMeasure, BudgetScope, CachedTokens, ReasoningTokens, TokenUsage, Usage,
};
pub use verification::{AttachmentCheck, ChainCheck, Divergence, Replay, RowCheck, Verification};
pub use webhook::{Delivery, NewWebhook, Webhook};
pub use worker::{Worker, WorkerStatus};
