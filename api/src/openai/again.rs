//! What OpenAI's clients send again by themselves is the same turn, though they give it no key.
//!
//! They do so after a line that broke or a server that was away, and say how often they have sent the request before. So
//! their turns have a key of ours, made of all that is asked, for as long as nobody has the answer.
//!
//! ## Why the key is given up with the answer
//!
//! Many ask the same again, every minute or ten times at once, and want another answer each time. So a request is known only
//! while one like it has no answer, and only if it is sent again. Of two that are alike and under way at once, nobody can tell
//! which of them is sent again: whoever does is given the answer of the first.

use std::sync::Arc;

use axum::response::Response;
use store::{Idempotency, NewTurn, Turn, time};
use tracing::warn;

use super::error::passes;
use crate::{
    extract::Sent,
    house::House,
    problem::{Kind, Problem},
    submit::enqueue,
};

/// By what a request is known if it is sent again.
pub(super) enum KnownBy {
    /// It is another then.
    Nothing,
    /// The key that its client gave it.
    Key(Idempotency),
    /// All that it asks, until it is answered.
    Words(Idempotency, Sent),
}

impl KnownBy {
    /// By what it is known, sent like this by `by`, with or without a key.
    pub(super) fn of(key: Option<String>, sent: Option<Sent>, by: &str, request_hash: String) -> Self {
        match (key, sent) {
            (Some(key), _) => Self::Key(Idempotency { key, request_hash }),
            (None, None) => Self::Nothing,
            (None, Some(sent)) => {
                Self::Words(Idempotency::ours(&format!("chat:{request_hash}:{by}"), request_hash), sent)
            }
        }
    }

    /// The key of its turn.
    pub(super) fn idempotency(&self) -> Option<Idempotency> {
        match self {
            Self::Nothing => None,
            Self::Key(it) | Self::Words(it, _) => Some(it.clone()),
        }
    }

    /// Queues its turn, or finds the one that it has begun before; the turn, and whether it was there.
    pub(super) async fn begin(&self, house: &House, new: NewTurn) -> Result<(Turn, bool), Problem> {
        let Self::Words(_, sent) = self else { return enqueue(house, new).await };
        let (turn, known) = enqueue(house, new.clone()).await?;
        if !known {
            return Ok((turn, false));
        }
        // Whoever asked for it would have its answer by now, or has given up.
        let ended_for = turn.status.is_over().then(|| time::now().saturating_sub(turn.updated_at));
        if ended_for.is_some_and(|it| time::span(house.chat_wait) <= it) {
            house.parts.store.give_up_key(turn.id).await?;
            return enqueue(house, new).await;
        }
        match sent {
            Sent::Again => Ok((turn, true)),
            // Somebody else asks the same, and waits for an answer.
            Sent::First => enqueue(house, NewTurn { idempotency: None, ..new }).await,
        }
    }

    /// What is said of a turn that has not ended when this api stops: whoever sends the request again finds it, at another api
    /// or at this one when it is back.
    pub(super) fn elsewhere(&self, house: &House, problem: Problem) -> Problem {
        match self {
            Self::Key(_) | Self::Words(..) if problem.kind == Kind::NotYet && house.stop.is_cancelled() => {
                let words = problem.detail().to_owned();
                Kind::Unavailable.because(words).mend("this api stops: send the request again")
            }
            Self::Nothing | Self::Key(_) | Self::Words(..) => problem,
        }
    }

    /// Whoever sent it has its answer now, and the next one like it is another; unless they are told to come again. Should that
    /// not be noted, that is so once the turn has been over for as long as anybody waits.
    pub(super) fn answered(&self, house: &Arc<House>, turn: &Turn, response: &Response) {
        let comes_again = response.extensions().get().is_some_and(passes);
        if !matches!(self, Self::Words(..)) || comes_again {
            return;
        }
        let (house, turn) = (Arc::clone(house), turn.id);
        tokio::spawn(async move {
            if let Err(error) = house.parts.store.give_up_key(turn).await {
                warn!(%turn, %error, "cannot note that a chat completion was answered");
            }
        });
    }
}
