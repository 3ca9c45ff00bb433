//! Every engine under its suite: the log, the index, the pins, the pauses, the queue, the limits, the news, the webhooks.

mod bulk;
mod index;
mod limits;
mod log;
#[cfg(feature = "milvus")]
mod milvus;
mod news;
mod pauses;
mod pins;
mod plans;
mod queue;
mod webhooks;
