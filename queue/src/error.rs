//! Errors of the queue, the rate limits and the notifications.

use std::error::Error;

/// An error of the queue, the rate limits or the notifications. No message contains a password.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Redis cannot be reached or does not answer. Retrying may help; the sweeper enqueues whatever was lost.
    #[error("cannot {action}: {source}; hint: start Redis, or set queue.url")]
    Unavailable {
        /// The attempted action, and the address.
        action: String,
        /// Cause reported by the client or the system.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Redis refused the command. Retrying does not help.
    #[error("cannot {action}: {source}; hint: check the user, password and permissions in queue.url")]
    Refused {
        /// The attempted action, and the address.
        action: String,
        /// Answer of the server.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server lacks commands that the queue needs.
    #[error("Redis {found} is too old; hint: use Redis 6.2 or newer, which has XAUTOCLAIM and ZADD LT")]
    TooOld {
        /// Version of the server.
        found: String,
    },
    /// The address is not a Redis URL.
    #[error(
        "queue.url is not a Redis URL: {source}; hint: write redis://[user:password@]host[:port][/database]"
    )]
    Address {
        /// The error in the address.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The prefix of the keys is too long, or has other characters.
    #[error("queue.prefix {text:?} is not a prefix; hint: use 1 to 64 letters, digits, `.`, `_` and `-`")]
    Prefix {
        /// The text, shortened.
        text: String,
    },
    /// Another store uses the prefix in the same Redis.
    #[error(
        "another deployment with a store of its own uses queue.prefix {prefix:?} in this Redis; hint: set another \
         queue.prefix, or leave it out. If the other deployment is gone, or its store moved here, delete the key {key} in Redis"
    )]
    Foreign {
        /// Prefix that both deployments use.
        prefix: String,
        /// The key that names the store.
        key: String,
    },
    /// The in-process queue is full. The sweeper enqueues the thread once there is space.
    #[error("the in-process queue holds {limit} jobs, its maximum; hint: set queue.url to use Redis")]
    Full {
        /// Most jobs that the queue holds.
        limit: usize,
    },
}
