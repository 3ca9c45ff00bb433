//! The version and the clock of Redis, for people who look for a fault.

use redis::{InfoDict, RedisError};

use super::server::RedisServer;
use crate::{clock, error::QueueError};

/// A Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisInfo {
    /// Version, such as `7.2.4`; empty if this user may not read it.
    pub version: String,
    /// Time by which this machine's clock is ahead of the server's, in microseconds.
    pub clock_ahead: i64,
}

/// Reads the version and the clock of the Redis server at `url`, or of the primary that its sentinels name.
///
/// # Errors
///
/// [`QueueError::Address`], [`QueueError::TooOld`], [`QueueError::Unavailable`] or [`QueueError::Refused`].
pub async fn redis_info(url: &str) -> Result<RedisInfo, QueueError> {
    let server = RedisServer::parse(url)?;
    let connection = server.connect_single().await?;
    let failed = |error: RedisError| server.error("read the version", &error);
    let version = match connection.query::<InfoDict>(redis::cmd("INFO").arg("server")).await {
        Ok(info) => info.get::<String>("redis_version").unwrap_or_default(),
        Err(error) if error.code() == Some("NOPERM") => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let before = clock::system();
    let (seconds, micros): (i64, i64) = connection.query(&redis::cmd("TIME")).await.map_err(failed)?;
    // The server read its clock about halfway.
    let here = before + (clock::system() - before) / 2;
    let there = seconds.saturating_mul(1_000_000).saturating_add(micros);
    Ok(RedisInfo { version, clock_ahead: here.saturating_sub(there) })
}
