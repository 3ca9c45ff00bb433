//! Wall-clock time in microseconds since the Unix epoch, and its text forms.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// Returns the current time in microseconds since the Unix epoch; 0 if the system clock is set before 1970.
pub fn now() -> i64 {
    duration_micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
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
    let number: u64 = number.bytes().all(|it| it.is_ascii_digit()).then(|| number.parse().ok())??;
    number.checked_mul(unit_seconds).map(Duration::from_secs)
}

/// Parses an RFC 3339 time into microseconds since the Unix epoch. Returns `None` if the text is not RFC 3339.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|it| it.timestamp_micros())
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
