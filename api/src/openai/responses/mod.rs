//! OpenAI's Responses: a response is a turn, and its id is that of the turn.
//!
//! ```text
//!   body ──Draft──▶ the body of a chat completion ──ChatRequest──▶ a turn in the queue, like any other
//!   response ◀──ResponseObject── that turn, at any time
//! ```
//!
//! ## Why the body becomes that of a chat completion
//!
//! Both say the same in other words. With one conversion to a turn, a parameter that is supported in one of them is supported in
//! the other, with the same checks. Errors name the parameter of the request that was sent.

mod conversation;
mod conversation_body;
pub(crate) mod conversations;
mod ids;
mod input_items;
mod items;
mod names;
pub(crate) mod object;
mod previous;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod stored;
mod stream;
