//! The clock of the log: microseconds since the Unix epoch, and how a person reads them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// Now, in microseconds since the Unix epoch.
pub fn now() -> i64 {
    span(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A length of time, in microseconds.
pub fn span(it: Duration) -> i64 {
    i64::try_from(it.as_micros()).unwrap_or(i64::MAX)
}

/// The same as RFC 3339 in UTC, to the microsecond. What no calendar holds is shown as its last or first day.
pub fn rfc3339(micros: i64) -> String {
    let beyond = if micros < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_micros(micros).unwrap_or(beyond).to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// The same the other way; `None` if the text is no such time.
pub fn micros(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|it| it.timestamp_micros())
}
