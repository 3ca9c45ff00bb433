//! Repetitions by OpenAI's client libraries, which send no idempotency key.
//!
//! The libraries repeat a request after a broken connection or an unavailable server, and report the number of earlier
//! attempts. A turn from one of these clients therefore has a key derived from the whole request, until its response has
//! been sent.
//!
//! ## Why the key is released with the response
//!
//! Many clients send the same request again, every minute or ten times at once, and expect a different completion each
//! time. A request is therefore recognized only while an identical one has no response, and only if it is reported as a
//! repetition. If two identical requests are in progress, it is unknown which of them a repetition belongs to; it
//! receives the completion of the first.

use std::sync::Arc;

use axum::response::Response;
use queue::clock;
use store::{Idempotency, NewTurn, Turn};
use tracing::warn;

use super::error::is_retryable;
use crate::{
    server::{
        extract::Attempt,
        problem::{ApiError, Kind},
        state::AppState,
    },
    turns::submit::enqueue,
};

/// Key that identifies repetitions of a request.
pub(super) enum RetryKey {
    /// No key: every request is a new one.
    None,
    /// Idempotency key of the client.
    Client(Idempotency),
    /// Key derived from the request, valid until the response has been sent.
    Request(Idempotency, Attempt),
}

impl RetryKey {
    /// Returns the key of a request sent by `by`.
    pub(super) fn new(key: Option<String>, attempt: Option<Attempt>, by: &str, request_hash: String) -> Self {
        match (key, attempt) {
            (Some(key), _) => Self::Client(Idempotency { key, request_hash }),
            (None, None) => Self::None,
            (None, Some(attempt)) => {
                Self::Request(Idempotency::ours(&format!("chat:{request_hash}:{by}"), request_hash), attempt)
            }
        }
    }

    /// Returns the idempotency key of the turn.
    pub(super) fn idempotency(&self) -> Option<Idempotency> {
        match self {
            Self::None => None,
            Self::Client(key) | Self::Request(key, _) => Some(key.clone()),
        }
    }

    /// Submits the turn, or finds the one submitted before. Returns the turn and whether it was found. `is_awaited` says whether the
    /// client waits for its end.
    pub(super) async fn enqueue(
        &self,
        app: &AppState,
        new: NewTurn,
        is_awaited: bool,
    ) -> Result<(Turn, bool), ApiError> {
        let Self::Request(_, attempt) = self else { return enqueue(app, new, is_awaited).await };
        let (turn, known) = enqueue(app, new.clone(), is_awaited).await?;
        if !known {
            return Ok((turn, false));
        }
        // The client of that turn has received the response or has given up.
        let ended_for = turn.status.is_over().then(|| clock::now().saturating_sub(turn.updated_at));
        if ended_for.is_some_and(|age| clock::duration_micros(app.chat_wait) <= age) {
            app.backends.store.give_up_key(turn.id).await?;
            return enqueue(app, new, is_awaited).await;
        }
        match attempt {
            Attempt::Retry => Ok((turn, true)),
            // Another client sent the same request and expects a completion of its own.
            Attempt::First => enqueue(app, NewTurn { idempotency: None, ..new }, is_awaited).await,
        }
    }

    /// Converts a timeout caused by the shutdown of this process to an error that asks the client to retry. The retry
    /// finds the turn at another process, or at this one after a restart.
    pub(super) fn retry_elsewhere(app: &AppState, error: ApiError) -> ApiError {
        if error.kind != Kind::NotYet || !app.stop.is_cancelled() {
            return error;
        }
        let detail = error.detail().to_owned();
        Kind::Unavailable.because(detail).hint("the API is shutting down; send the request again")
    }

    /// Releases the key after the response, so that the next identical request is a new one. Keeps it if the response
    /// asks the client to retry. If releasing fails, the key expires when the turn has been over for as long as a
    /// client waits.
    pub(super) fn release(&self, app: &Arc<AppState>, turn: &Turn, response: &Response) {
        let will_retry = response.extensions().get().is_some_and(is_retryable);
        if !matches!(self, Self::Request(..)) || will_retry {
            return;
        }
        let (app, turn) = (Arc::clone(app), turn.id);
        tokio::spawn(async move {
            if let Err(error) = app.backends.store.give_up_key(turn).await {
                warn!(%turn, %error, "cannot release the retry key of a chat completion");
            }
        });
    }
}
