//! Every engine under its suite: the log, the index, the queue, the news.

mod index;
mod log;
mod news;
mod queue;
