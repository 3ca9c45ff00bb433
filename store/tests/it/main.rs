//! Every engine under its suite: the log, the index, the pins, the queue, the news.

mod bulk;
mod index;
mod log;
#[cfg(feature = "milvus")]
mod milvus;
mod news;
mod pins;
mod queue;
