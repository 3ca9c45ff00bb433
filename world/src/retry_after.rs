//! Parses the `Retry-After` header.

use std::time::{Duration, SystemTime};

/// Maximum delay that an endpoint may request.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// Returns the delay of `Retry-After` in milliseconds; the header holds seconds or a date. Up to a quarter is added, so
/// that requests refused together do not return together.
pub(super) fn delay_ms(retry_after: &str) -> Option<u64> {
    let text = retry_after.trim();
    let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let until =
        || Some(httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default());
    let delay = seconds().or_else(until)?.min(MAX_DELAY).mul_f64(1.0 + fastrand::f64() / 4.0);
    u64::try_from(delay.as_millis()).ok()
}

#[test]
fn a_delay_is_given_in_seconds_or_as_a_date() {
    for (header, least) in [("3", 3_000), (" 1.5 ", 1_500), ("86400", 600_000), ("0", 0)] {
        let delay = delay_ms(header).unwrap_or_default();
        assert!((least..=least + least / 4).contains(&delay), "{header}: {delay}");
    }
    assert_eq!(delay_ms("Fri, 31 Dec 1999 23:59:59 GMT"), Some(0));
    assert!(delay_ms("Fri, 31 Dec 2100 23:59:59 GMT").is_some_and(|ms| 600_000 <= ms));
    assert_eq!((delay_ms("later"), delay_ms("-1"), delay_ms("")), (None, None, None));
    let drawn: std::collections::BTreeSet<_> = (0..50).map(|_| delay_ms("60")).collect();
    assert!(1 < drawn.len(), "no jitter: all requests return together");
}
