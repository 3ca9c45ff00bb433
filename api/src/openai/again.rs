//! What OpenAI's clients send again by themselves is the same turn, though they give it no key.
//!
//! They do so after a line that broke or a server that was away, and say how often they have sent the request before. So
//! their turns have a key of ours, made of all that is asked, for as long as nobody has the answer.
//!
//! ## Why the key is given up with the answer
//!
//! Many ask the same again, every minute or ten times at once, and want another answer each time. So a request is known only
//! while one like it has no answer, and only if it is sent again.

use std::sync::Arc;

use store::{Idempotency, NewTurn, Turn, time};
use tracing::warn;

use crate::{
    extract::Sent,
    house::House,
    problem::{Kind, Problem},
    submit::enqueue,
};

/// By what a request is known that was sent by `by` and has this hash.
pub(super) fn key(by: &str, request_hash: String) -> Idempotency {
    Idempotency::ours(&format!("chat:{request_hash}:{by}"), request_hash)
}

/// Queues the turn of a request that is known by [`key`], or finds the one that it has begun before; the turn, and whether it
/// was there.
pub(super) async fn begin(house: &House, new: NewTurn, sent: Sent) -> Result<(Turn, bool), Problem> {
    let (turn, known) = enqueue(house, new.clone()).await?;
    if !known {
        return Ok((turn, false));
    }
    // Whoever asked for it would have an answer by now, or has given up.
    if time::span(house.chat_wait) <= time::now().saturating_sub(turn.created_at) {
        house.parts.store.give_up_key(turn.id).await?;
        return enqueue(house, new).await;
    }
    match sent {
        Sent::Again => Ok((turn, true)),
        // Somebody else asks the same, and waits for an answer.
        Sent::First | Sent::Unsaid => enqueue(house, NewTurn { idempotency: None, ..new }).await,
    }
}

/// Whoever sent the request has its answer: the next one like it is another. Should that not be noted, it is for as long as
/// the answer might have been waited for.
pub(super) fn answered(house: &Arc<House>, turn: &Turn) {
    let (house, turn) = (Arc::clone(house), turn.id);
    tokio::spawn(async move {
        if let Err(error) = house.parts.store.give_up_key(turn).await {
            warn!(%turn, %error, "cannot note that a chat completion was answered");
        }
    });
}

/// What is said of a turn that has a key, and has not ended when this api stops: whoever sends the request again finds it, at
/// another api or at this one when it is back.
pub(super) fn elsewhere(house: &House, problem: Problem) -> Problem {
    if problem.kind != Kind::NotYet || !house.stop.is_cancelled() {
        return problem;
    }
    Kind::Unavailable.because(problem.detail().to_owned()).mend("this api stops: send the request again")
}
