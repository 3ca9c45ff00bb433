//! Performs requests: the seam between a thread and everything outside it.

use async_trait::async_trait;
use queue::rate_limits::{Demand, Subject};
use shared::{DynThread, Fault, OpenTask, PendingRequest, Request, Response, Usage};
use store::LearnedModel;
use uuid::Uuid;

use crate::rate_limits;

/// Result of a request, with its usage.
pub type Outcome = Result<(Response, Option<Usage>), Fault>;

/// Performs the requests of threads to models and tools.
#[async_trait]
pub trait World: Send + Sync {
    /// Performs a request of a thread.
    ///
    /// # Errors
    ///
    /// [`Fault`], with whether and when the request may be retried.
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome;

    /// Tells a server that the result of a task is not needed any more. A server that does not hear of it finishes the task.
    async fn cancel_task(&self, _thread: Uuid, _task: &OpenTask) {}

    /// Forgets what was learned from the answers of a model's endpoint.
    fn forget_model(&self, _model: &str) {}

    /// Returns what was learned from the answers of the models' endpoints, sorted by model.
    fn learned_models(&self) -> Vec<LearnedModel> {
        Vec::new()
    }

    /// Estimates what a request takes of each limited resource, so that it can be reserved before the request is sent.
    /// Empty for a world without limits.
    fn demands(&self, _thread: &dyn DynThread, _ask: &RequestContext<'_>) -> Vec<Demand> {
        Vec::new()
    }

    /// Returns the model or server to which a request goes. Its availability is shared by all workers.
    fn subject(&self, request: &Request) -> Option<Subject> {
        rate_limits::subject(request)
    }
}

/// A request and its origin.
pub struct RequestContext<'a> {
    /// Thread that sent the request.
    pub thread: Uuid,
    /// The request, its inputs and its previous attempts.
    pub due: &'a PendingRequest,
    /// Idempotency key, `thread:seq:slot`.
    pub key: &'a str,
    /// Node that sent the request.
    pub node: &'a str,
    /// Receiver of a reply while it is streamed.
    pub deltas: &'a dyn DeltaSink,
}

/// Receives a reply while it is streamed.
#[async_trait]
pub trait DeltaSink: Send + Sync {
    /// Receives the next piece of the reply.
    async fn delta(&self, text: &str);
}

/// Discards a streamed reply.
pub struct DiscardDeltas;

#[async_trait]
impl DeltaSink for DiscardDeltas {
    async fn delta(&self, _: &str) {}
}

/// Streams `text` to `deltas`, word by word.
pub(crate) async fn stream_words(text: &str, deltas: &dyn DeltaSink) {
    for word in text.split_inclusive(' ') {
        deltas.delta(word).await;
    }
}
