//! Every engine under its suite: the log, the queue, the news.

mod log;
mod news;
mod queue;
