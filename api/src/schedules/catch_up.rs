//! Choice of the firing that is due, when some were missed.

use shared::MissedFirings;

use super::timetable::Timetable;

/// Delay after which a firing counts as missed, in microseconds: a minute.
const MISSED_AFTER: i64 = 60_000_000;

/// Maximum number of missed firings that are submitted.
const CAUGHT_UP_MAX: usize = 100;

/// Returns the time of the firing to submit now, if any. `planned` is the next firing of the schedule, which is due.
pub(super) fn due(timetable: &Timetable, missed: MissedFirings, planned: i64, now: i64) -> Option<i64> {
    if now <= planned.saturating_add(MISSED_AFTER) {
        return Some(planned);
    }
    let last = timetable.until(now).filter(|last| planned <= *last).unwrap_or(planned);
    match missed {
        MissedFirings::Skip => Some(last).filter(|last| now <= last.saturating_add(MISSED_AFTER)),
        MissedFirings::Once => Some(last),
        MissedFirings::All => {
            let earlier = |time: &i64| timetable.until(time - 1).filter(|earlier| planned <= *earlier);
            std::iter::successors(Some(last), earlier).take(CAUGHT_UP_MAX).last()
        }
    }
}

#[cfg(test)]
mod tests {
    use queue::clock;

    use super::*;

    fn at(text: &str) -> i64 {
        clock::parse_rfc3339(&format!("2026-11-02T{text}Z")).unwrap()
    }

    /// Returns the times that are submitted from `planned` on while the time is `now`.
    fn submitted(cron: &str, missed: MissedFirings, planned: &str, now: &str) -> Vec<i64> {
        let (timetable, now) = (Timetable::new(cron, "UTC").unwrap(), at(now));
        let (mut next, mut times) = (at(planned), Vec::new());
        while next <= now {
            let fired = due(&timetable, missed, next, now);
            times.extend(fired);
            next = timetable.after(fired.unwrap_or(now)).unwrap();
        }
        assert!(timetable.until(now) < Some(next), "the next one is in the future");
        times
    }

    #[test]
    fn a_firing_within_a_minute_is_not_missed() {
        for missed in MissedFirings::ALL {
            assert_eq!(submitted("0 * * * *", missed, "09:00:00", "09:01:00"), [at("09:00:00")], "{missed}");
        }
    }

    #[test]
    fn missed_firings_are_skipped_submitted_once_or_all() {
        let hourly = |missed, now| submitted("0 * * * *", missed, "09:00:00", now);
        assert!(hourly(MissedFirings::Skip, "12:30:00").is_empty());
        assert_eq!(hourly(MissedFirings::Skip, "12:00:30"), [at("12:00:00")], "the last one is not missed");
        assert_eq!(hourly(MissedFirings::Once, "12:30:00"), [at("12:00:00")]);
        let all = ["09:00:00", "10:00:00", "11:00:00", "12:00:00"].map(at);
        assert_eq!(hourly(MissedFirings::All, "12:30:00"), all);
    }

    #[test]
    fn at_most_the_last_hundred_are_submitted() {
        let all = submitted("* * * * *", MissedFirings::All, "00:00:00", "20:00:30");
        assert_eq!((all.len(), all.first()), (CAUGHT_UP_MAX, Some(&at("18:21:00"))));
    }
}
