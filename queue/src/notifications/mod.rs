//! Notifications: what happens on a thread right now, for callers that follow it.
//!
//! They are not events, and nothing depends on them. A notification is lost when a subscriber is slow, when Redis is
//! unreachable, and before a subscription exists. A follower therefore reads the log when it starts, after each
//! [`Notification::Appended`], and at a polling interval.
//!
//! [`MemoryNotifications`] serves one process, [`RedisNotifications`] many.

mod memory;
mod notification;
mod redis;
mod registry;
mod subscriber;

pub use self::{
    memory::MemoryNotifications,
    notification::{ALL_APIS, ALL_WORKERS, Delta, MAX_LAG, Notification, Notifications},
    redis::RedisNotifications,
    subscriber::Channels,
};
