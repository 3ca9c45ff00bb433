//! Times and durations for people. JSON has them to the microsecond.

use std::time::Duration;

use queue::clock;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Longest time that is shown as a distance; others are dates.
const FAR: i64 = 30 * DAY;

/// Renders an RFC 3339 time as its distance from now: `12 s ago`, `3 h ago`, `in 5 min`; beyond 30 days as a date. Another text stays
/// as it is.
pub(crate) fn when(time: &str) -> String {
    match clock::parse_rfc3339(time) {
        Some(at) => distance(at, clock::now()).unwrap_or_else(|| time.chars().take(10).collect()),
        None => time.to_owned(),
    }
}

/// As [`when`], for microseconds since the Unix epoch.
pub(crate) fn when_at(micros: i64) -> String {
    when(&clock::rfc3339(micros))
}

fn distance(at: i64, now: i64) -> Option<String> {
    let seconds = at.saturating_sub(now) / 1_000_000;
    let amount = match seconds.abs() {
        0 => return Some("now".to_owned()),
        away @ 1..100 => format!("{away} s"),
        away if away < 100 * MINUTE => format!("{} min", away / MINUTE),
        away if away < 2 * DAY => format!("{} h", away / HOUR),
        away if away < FAR => format!("{} days", away / DAY),
        _ => return None,
    };
    Some(if 0 < seconds { format!("in {amount}") } else { format!("{amount} ago") })
}

/// Renders milliseconds as seconds: `0.012 s`, `1.2 s`, `340 s`.
pub(crate) fn seconds(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs_f64();
    match ms {
        0..1_000 => format!("{seconds:.3} s"),
        1_000..100_000 => format!("{seconds:.1} s"),
        100_000.. => format!("{seconds:.0} s"),
    }
}

#[test]
fn times_are_distances_and_far_ones_dates() {
    let now = clock::parse_rfc3339("2026-11-29T12:00:00Z").unwrap();
    let cases = [
        (0, Some("now")),
        (-1, Some("1 s ago")),
        (-99, Some("99 s ago")),
        (-100, Some("1 min ago")),
        (3_600, Some("in 60 min")),
        (-3 * HOUR, Some("3 h ago")),
        (-5 * DAY - 7, Some("5 days ago")),
        (-31 * DAY, None),
    ];
    for (seconds, shown) in cases {
        assert_eq!(distance(now + seconds * 1_000_000, now).as_deref(), shown, "{seconds}");
    }
    assert_eq!(
        (when("2020-01-02T03:04:05.678901Z").as_str(), when("never").as_str()),
        ("2020-01-02", "never")
    );
    assert_eq!([12, 1_234, 340_000].map(seconds), ["0.012 s", "1.2 s", "340 s"]);
}
