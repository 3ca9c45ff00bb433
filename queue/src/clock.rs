//! Wall-clock time in microseconds since the Unix epoch, and its text forms.
//!
//! ## Why a process follows the clock of its database
//!
//! Times that one process stores are compared by others: when a turn is due, when a lease expires. A machine whose clock
//! is wrong would start turns early and take over leases that are valid. The store therefore reads the clock of its
//! server, and [`now`] continues from there by the monotonic clock, which cannot be set. Reading it costs nothing.

use std::{
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use chrono::{DateTime, SecondsFormat, Utc};
use uuid::{ContextV7, Timestamp, Uuid};

/// Origin of the monotonic clock; tokio's, so that a simulation with a virtual clock has virtual times.
static START: LazyLock<tokio::time::Instant> = LazyLock::new(tokio::time::Instant::now);

/// Time of [`START`] by the followed clock, or [`NONE`].
static FOLLOWED: AtomicI64 = AtomicI64::new(NONE);

const NONE: i64 = i64::MIN;

/// Returns the current time in microseconds since the Unix epoch, by the clock that this process follows.
pub fn now() -> i64 {
    match FOLLOWED.load(Ordering::Relaxed) {
        NONE => system(),
        start => start.saturating_add(duration_micros(START.elapsed())),
    }
}

/// Returns a new UUIDv7 of the followed clock. Lists are in the order of ids, so those of all machines follow one clock.
pub fn new_id() -> Uuid {
    static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let micros = now().max(0).unsigned_abs();
    let nanos = u32::try_from(micros % 1_000_000 * 1_000).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(&CONTEXT, micros / 1_000_000, nanos))
}

/// Returns the current time of this machine's own clock; 0 if it is set before 1970.
pub fn system() -> i64 {
    duration_micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Makes this process follow a clock that showed `micros` at `read_at`. A later reading replaces the earlier one.
pub fn follow(micros: i64, read_at: Instant) {
    let started = duration_micros(START.elapsed());
    let now = micros.saturating_add(duration_micros(read_at.elapsed()));
    FOLLOWED.store(now.saturating_sub(started), Ordering::Relaxed);
}

/// Converts a duration to microseconds, saturating at [`i64::MAX`].
pub fn duration_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Formats microseconds since the Unix epoch as RFC 3339 in UTC, with six decimals. A time outside the calendar's range
/// becomes the first or the last time that the calendar can express.
pub fn rfc3339(micros: i64) -> String {
    let out_of_range = if micros < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    let time = DateTime::from_timestamp_micros(micros).unwrap_or(out_of_range);
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Parses a whole number with one unit of weeks, days, hours, minutes or seconds: `2w`, `90d`, `12h`, `30m`, `10s`. Returns
/// `None` for anything else, and when the result does not fit into 64 bits of seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let units = [('w', 7 * 24 * 60 * 60), ('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];
    let (number, unit_seconds) =
        units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let number: u64 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
    number.checked_mul(unit_seconds).map(Duration::from_secs)
}

/// Parses an RFC 3339 time into microseconds since the Unix epoch. Returns `None` if the text is not RFC 3339.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_micros())
}

#[test]
fn a_duration_is_a_whole_number_with_one_unit() {
    let units = [("2w", 1_209_600), ("90d", 7_776_000), ("12h", 43_200), ("030m", 1_800), ("0s", 0)];
    for (text, seconds) in units {
        assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
    }
    for text in [
        "",
        "d",
        "7",
        "+7d",
        "-1h",
        "1.5h",
        "7 d",
        "7D",
        "é",
        "99999999999999999999s",
        "9999999999999999999w",
    ] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}

#[test]
fn a_followed_clock_replaces_the_own_one() {
    const HOUR: i64 = 3_600_000_000;
    assert!(now().abs_diff(system()) < 60_000_000);
    follow(system() - HOUR, Instant::now());
    assert!(now().abs_diff(system() - HOUR) < 60_000_000);
    let (id, next) = (new_id(), new_id());
    let (seconds, _) = id.get_timestamp().unwrap().to_unix();
    assert!(id < next && seconds.abs_diff((system() - HOUR).unsigned_abs() / 1_000_000) < 60, "{id}, {next}");
    let minute = Duration::from_secs(60);
    if let Some(then) = Instant::now().checked_sub(minute) {
        follow(system() + HOUR, then);
        assert!(now().abs_diff(system() + HOUR + duration_micros(minute)) < 60_000_000 / 2);
    }
}
