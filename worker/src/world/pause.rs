//! How long whoever refuses a request wants to be left alone.

use std::time::{Duration, SystemTime};

/// The longest pause that anybody may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// What `Retry-After` says, in milliseconds: seconds, or a date. Up to a quarter more, so that those who were refused together
/// do not come back together.
pub(super) fn pause_ms(retry_after: &str) -> Option<u64> {
    let text = retry_after.trim();
    let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let until =
        || Some(httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default());
    let pause = seconds().or_else(until)?.min(PAUSE_MAX).mul_f64(1.0 + fastrand::f64() / 4.0);
    u64::try_from(pause.as_millis()).ok()
}

#[test]
fn a_pause_is_named_in_seconds_or_by_a_date() {
    for (said, least) in [("3", 3_000), (" 1.5 ", 1_500), ("86400", 600_000), ("0", 0)] {
        let pause = pause_ms(said).unwrap_or_default();
        assert!((least..=least + least / 4).contains(&pause), "{said}: {pause}");
    }
    assert_eq!(pause_ms("Fri, 31 Dec 1999 23:59:59 GMT"), Some(0));
    assert!(pause_ms("Fri, 31 Dec 2100 23:59:59 GMT").is_some_and(|it| 600_000 <= it));
    assert_eq!((pause_ms("later"), pause_ms("-1"), pause_ms("")), (None, None, None));
    let drawn: std::collections::BTreeSet<_> = (0..50).map(|_| pause_ms("60")).collect();
    assert!(1 < drawn.len(), "all of them come back together");
}
