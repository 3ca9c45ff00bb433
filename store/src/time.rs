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

/// A length of time as people write it, in weeks, days, hours, minutes or seconds: `2w`, `90d`, `12h`, `30m` or `10s`.
pub fn length(text: &str) -> Option<Duration> {
    let units = [('w', 7 * 24 * 60 * 60), ('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];
    let (number, seconds) = units.into_iter().find_map(|(unit, it)| Some((text.strip_suffix(unit)?, it)))?;
    let number: u64 = number.bytes().all(|it| it.is_ascii_digit()).then(|| number.parse().ok())??;
    number.checked_mul(seconds).map(Duration::from_secs)
}

/// The other way from [`rfc3339`]; `None` if the text is no such time.
pub fn micros(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|it| it.timestamp_micros())
}

#[test]
fn a_length_of_time_is_a_number_and_a_unit() {
    let units = [("2w", 1_209_600), ("90d", 7_776_000), ("12h", 43_200), ("030m", 1_800), ("0s", 0)];
    for (text, seconds) in units {
        assert_eq!(length(text), Some(Duration::from_secs(seconds)), "{text}");
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
        assert_eq!(length(text), None, "{text}");
    }
}
