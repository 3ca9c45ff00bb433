//! A turn to submit, and the outcome.

use queue::Priority;
use serde_json::{Map, Value};
use shared::{CallerId, DEFAULT_TENANT, Message, MultitaskStrategy, Opened, Policy, ReplyOptions};

use crate::log::{
    attachments::AttachmentContent,
    ids::{ThreadId, TurnId, plain},
    turns::Turn,
};

/// A turn to submit.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTurn {
    /// The thread of the turn.
    pub thread: Opening,
    /// Treatment of the messages: as an answer or as a new request.
    pub policy: Policy,
    /// Priority within the tenant.
    pub priority: Priority,
    /// Messages of the turn.
    pub messages: Vec<Message>,
    /// Demands of the client on the reply. `None`: none, or in an answer those of the turn that asked.
    pub reply_options: Option<Box<ReplyOptions>>,
    /// Contents of the messages' images and files.
    pub attachments: Vec<AttachmentContent>,
    /// A JSON object of the client, kept with the turn.
    pub metadata: Value,
    /// Name of the submitter.
    pub author: String,
    /// Authenticated submitter; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Span of the client, as its `traceparent` header, of which the turn is a child in traces.
    pub trace_parent: Option<String>,
    /// Key that identifies a repeated submission.
    pub idempotency: Option<Idempotency>,
    /// Earliest start in microseconds since the Unix epoch; `None` starts at once.
    pub due_at: Option<i64>,
    /// Treatment of the turn while another one of its thread is running, in doubt or queued.
    pub multitask: MultitaskStrategy,
    /// The turn of the thread that is in doubt, if there is one. Rows do not distinguish it from one that asked a question.
    pub in_doubt: Option<TurnId>,
    /// Conversation of the turn, whose items come before its messages. A new thread gets the id of the conversation.
    pub conversation: Option<ThreadId>,
    /// Hash of the whole conversation that ends with the messages, if the client sent it.
    pub history_hash: Option<String>,
}

impl NewTurn {
    /// Creates a turn with these messages and default options.
    pub fn of(thread: Opening, messages: Vec<Message>, author: String) -> Self {
        Self {
            thread,
            policy: Policy::Auto,
            priority: Priority::Normal,
            messages,
            reply_options: None,
            attachments: Vec::new(),
            metadata: Value::Object(Map::new()),
            author,
            caller: None,
            trace_parent: None,
            idempotency: None,
            due_at: None,
            multitask: MultitaskStrategy::Enqueue,
            in_doubt: None,
            conversation: None,
            history_hash: None,
        }
    }

    /// Returns true if the turn creates a thread and brings nothing with it.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.thread, Opening::New(_)) && self.attachments.is_empty() && self.conversation.is_none()
    }
}

/// The thread to which a turn is submitted.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made a submission, and used up at once")]
pub enum Opening {
    /// A new thread.
    New(Opened),
    /// An existing thread.
    Existing(ThreadId),
    /// An existing thread whose question the turn answers. The number is the length of the log that ends with the
    /// question; the turn starts only at that length.
    Asking(ThreadId, u64),
}

/// Identifies a repeated submission within a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// Key chosen by the client.
    pub key: String,
    /// Hash of the request; detects a key that is reused for another request.
    pub request_hash: String,
}

impl Idempotency {
    /// Builds the idempotency key for a submission of turnfold itself.
    ///
    /// **Invariant:** the key ends with a character that no client key contains, so the two never collide.
    pub fn ours(name: &str, request_hash: String) -> Self {
        Self { key: format!("{name}{BETWEEN}"), request_hash }
    }
}

/// Outcome of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// Queued on an idle thread, which the caller must enqueue.
    New(Turn),
    /// Queued on a busy thread, whose worker starts the turn next.
    ///
    /// ## Why the caller does not enqueue the thread
    ///
    /// A job would bring a second worker to the thread, and the request that the first worker has in flight would be
    /// sent, and paid for, twice. The thread's row is locked until the turn is queued, and the worker reads the queue
    /// after it has marked the thread idle, so one of the two sees the other.
    Behind(Turn),
    /// Submitted before; the turn in its current state.
    Known(Turn),
}

impl Submitted {
    /// Returns the turn, for every outcome.
    pub fn into_turn(self) -> Turn {
        match self {
            Submitted::New(turn) | Submitted::Behind(turn) | Submitted::Known(turn) => turn,
        }
    }
}

/// Separator between tenant and key, and suffix of keys of batch items. No client key contains it.
pub(crate) const BETWEEN: char = '\u{1f}';

/// Returns the key as stored: unique among all tenants, because the tenant is prefixed. Keys of the default tenant have
/// no prefix; client keys contain no control characters.
pub(crate) fn key_of(tenant: &str, key: &str) -> String {
    let key = plain(key);
    if tenant == DEFAULT_TENANT { key } else { format!("{tenant}{BETWEEN}{key}") }
}
