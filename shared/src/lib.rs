//! The pure core of turnfold: events, fold, strategies as graphs, and replay.
//!
//! A **thread** is a log of [`Event`]s. Everything else is derived from it:
//!
//! ```text
//!   log ──fold──▶ Thread ──ask──▶ Requests ──(the world)──▶ Responses ──learn──▶ Events ──append──▶ log
//!        (pure)       (pure)              (the worker)              (pure)           (the store)
//! ```
//!
//! **Invariant:** this crate performs no I/O and uses neither a clock nor randomness, so the same log always leads to
//! the same next step. Nothing in its dependency tree can open a socket: `tests/it/purity.rs` inspects the tree with
//! cargo and fails otherwise.

#![warn(missing_docs)]

mod answer;
mod attachment;
mod batch_result;
mod budget;
mod client_tools;
mod context;
mod effect;
mod elicitation;
mod event;
mod graph;
mod json_schema;
mod json_text;
mod language;
mod message;
mod named_option;
mod node_config;
mod one_line;
mod outcome;
mod overlay;
mod pending;
mod progress;
mod prompt_name;
mod read_answer;
mod read_back;
mod replay;
mod reply_options;
mod request;
mod rerun;
mod result_condition;
mod status;
mod strategy;
mod suggest;
mod system_prompt;
mod tool_changes;
mod tool_content;
mod tool_names;
mod toolboxes;
mod usage;
mod value_diff;
mod visible;

pub use answer::Answer;
pub use attachment::{Accepts, Attachment, AttachmentKind, IMAGE_TYPES};
pub use batch_result::{BatchResult, ResultError, ResultResponse, ResultRun};
pub use budget::{Budget, BudgetExceeded, Limits, Measure, Scope, price_setting};
pub use client_tools::{
    CLIENT_TOOLS_BYTES_MAX, CLIENT_TOOLS_MAX, ClientFunction, ClientTool, ToolChoice, ToolUse, open_calls,
};
pub use context::{
    CONTEXT_TOKENS_MIN, ContextSettings, READ_MORE, TOOL_RESULT_TOKENS, estimated_tokens,
    known_context_tokens,
};
pub use effect::{
    CallTool, Chat, Describe, Effect, Extract, GetPrompt, Index, Indexed, ListPrompts, ListTools, Search,
    Simulate, TOOL_CHANGED, UnexpectedResponse,
};
pub use elicitation::{Elicitation, InputResponse, InputResponses, InvalidAnswer};
pub use event::{
    Abandoned, Answered, Asked, AttemptFailed, Attempted, CallerId, Cancelled, DEFAULT_TENANT, Decided,
    Event, FORMAT, Failed, Forked, Goto, InDoubt, InputProvided, InputRequired, Interrupt, InterruptKind,
    Opened, RATING_NOTE_MAX, Rated, Rating, Reading, Reconciled, Retried, Shape, Summarised, TakenOver,
    TaskStarted, TurnKind, TurnStarted, Unreadable, Upcast, Verdict, WriteEnded, WriteEnding,
};
pub use graph::{DynThread, Graph, NodeInfo, Topology, Walked, map};
pub use json_schema::argument_mismatch;
pub use json_text::{
    JSON_DEPTH_MAX, UnfaithfulJson, UnfaithfulKind, check_json, check_json_depth, is_readable_event,
    keepable_json,
};
pub use language::Sentence;
pub use message::{
    Citation, Message, Prompt, PromptArgument, Reply, Role, Safety, Tool, ToolCall, ToolOutput,
};
pub use named_option::{NamedOption, named_option};
pub use node_config::{BOUND, EngineConfig, NodeConfig, PROMPT_MAX, models_of, unknown_server};
pub use one_line::one_line;
pub use outcome::{Cause, Outcome, OutcomeKind};
pub use overlay::{overlay, with_config};
pub use pending::{BlockReason, BlockedBy, PendingCause};
pub use progress::{
    ATTEMPTS_MAX, Attempt, EMPTY_REPLY, INPUT_ROUNDS_MAX, InvalidLog, MessageRejected, Next, OpenTask,
    PendingRequest, Progress, RunStatus, SKIPPED, STRAY_CALLS, SUMMARISE_NODE, SUMMARISE_PROMPT,
    UnendedWrite, says_stop,
};
pub use prompt_name::{SHORT_HASH_LENGTH, is_template_hash, prompt_hash, template_hash};
pub use read_answer::{ModelReading, ReadAnswer};
pub use read_back::{AFTER_SECONDS_MAX, ReadArgument, ReadBack};
pub use replay::{Divergence, DivergenceCounts, Field, Replayer, is_same_decision, replay};
pub use reply_options::{
    InvalidReplyOption, REPLY_SCHEMA_DEPTH_MAX, REPLY_SCHEMA_MAX, ReplyOption, ReplyOptions, ReplySchema,
    ResponseFormat,
};
pub use request::{
    COMMANDS, Description, Fault, FaultKind, Hit, Metric, ModelParameters, Oversize, Request, Response,
    SearchOptions, Simulation, WebSearch, matches_pattern,
};
pub use rerun::{Rerun, rerun, transcript};
pub use result_condition::{Comparison, ConditionVerdict, ResultCondition};
pub use status::{
    BatchStatus, DeliveryState, MissedFirings, MultitaskStrategy, PauseKind, Policy, Priority,
    ScheduleStatus, ScheduleTarget, StopReason, ThreadStatus, TurnEnd, TurnStatus, UnknownStatus,
};
pub use strategy::{
    Edge, Edges, Node, PartialResult, ProposedCall, Question, ServerScope, Step, Strategy, Thread,
    Transition, TurnSoFar, verbatim,
};
pub use suggest::closest;
pub use system_prompt::{SystemPrompt, placeholders};
pub use tool_changes::{FieldChange, ToolChange, diff_tools, join_few};
pub use tool_content::{Content, ResponseExtras};
pub use tool_names::{OfferedTool, offered_tools};
pub use toolboxes::Toolboxes;
pub use usage::{Usage, UsageTotal, micro_usd, usd};
pub use value_diff::{ValueDifference, diff_values};
pub use visible::{printable, visible, visible_line, visible_start};
