//! The dialect of OpenAI: strategies are models, a conversation goes in, the agent's answer comes out.
//!
//! ```text
//!   body ──Asked::read──▶ Asked ──submission──▶ a turn in the queue, like any other
//!   chat.completion ◀──completion── that turn, once it has ended
//! ```
//!
//! These two are all that a line of a batch needs, and nothing else here knows how the body arrived.
//!
//! ## Why a client that hangs up calls nothing off
//!
//! A turn is durable, and a line that breaks looks like a client that lost interest. Who wants it called off says so
//! with `POST /v1/turns/{id}/cancel`.

pub(crate) mod chat;
pub(crate) mod models;

mod again;
pub(crate) mod ask;
pub(crate) mod completion;
mod conversation;
pub(crate) mod error;
mod parameters;
mod stream;

/// What stands before a strategy's name in the name of a model; it may be left out.
const OWNER: &str = "turnfold";

/// The strategy that a model's name means.
fn strategy(model: &str) -> &str {
    model.strip_prefix(OWNER).and_then(|it| it.strip_prefix('/')).unwrap_or(model)
}

/// The name of a strategy as a model.
fn model(strategy: &str) -> String {
    format!("{OWNER}/{strategy}")
}
