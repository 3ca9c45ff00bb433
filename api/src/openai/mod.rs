//! OpenAI's chat completions and responses: a strategy is a model, a request is a turn, and the reply of the turn is the answer.
//!
//! ```text
//!   body ──ChatRequest::parse──▶ ChatRequest ──into_turn──▶ a turn in the queue, like any other
//!   chat.completion ◀──completion── that turn, once it has ended
//! ```
//!
//! Batches use the same two conversions for their lines. Neither conversion depends on how the body was received.
//! [`responses`] says the same in the words of OpenAI's Responses.
//!
//! ## Why a disconnected client does not cancel its turn
//!
//! Turns are durable, and a broken connection looks the same as a client that lost interest. To cancel a turn, use
//! `POST /v1/turns/{id}/cancel`.

mod answer_stream;
pub(crate) mod chat;
pub(crate) mod client_request;
mod client_retries;
pub(crate) mod completion;
mod conversation;
pub(crate) mod embeddings;
pub(crate) mod error;
mod fork_after;
mod history;
mod lost_answers;
pub(crate) mod model_names;
pub(crate) mod models;
mod parameters;
pub(crate) mod responses;
mod stream;
pub(crate) mod text_completion;
pub(crate) mod to_turn;
pub(crate) mod waits;
