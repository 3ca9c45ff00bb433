//! Times of a cron expression in a time zone.
//!
//! ## Changes of the clock
//!
//! An expression that names its hour and minute fires, when clocks go forward over it, at the first time after the gap, and when
//! they go back, once: the first time. Other expressions leave the gap out, and fire through both hours.

use chrono::{DateTime, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use queue::clock;

use crate::server::problem::{ApiError, Kind};

/// Maximum length of an expression and of the name of a zone in bytes.
const CRON_MAX: usize = 200;
const ZONE_MAX: usize = 100;

/// Maximum number of zones that an error names.
const NEAREST: usize = 5;

/// Fields of an expression, in order.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, or L for the last"),
    ("month", "1-12 or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT"),
];

const CRON_HINT: &str = "use five fields: minute, hour, day of the month, month and day of the week, for example \
    \"30 7 * * MON-FRI\" for 07:30 on weekdays";

/// Times of a cron expression in a time zone.
pub(super) struct Timetable {
    cron: Cron,
    zone: Tz,
}

impl Timetable {
    /// Reads an expression and the IANA name of a zone.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`] if one is wrong; the error names the field.
    pub(super) fn new(cron: &str, zone: &str) -> Result<Self, ApiError> {
        Ok(Self { cron: expression(cron)?, zone: time_zone(zone)? })
    }

    /// Returns the first time after `at`, in microseconds since the Unix epoch; none if it never comes.
    pub(super) fn after(&self, at: i64) -> Option<i64> {
        let next = self.cron.find_next_occurrence(&self.local(at)?, false).ok()?;
        Some(next.timestamp_micros()).filter(|next| at < *next)
    }

    /// Returns the last time until `at`, in microseconds since the Unix epoch.
    pub(super) fn until(&self, at: i64) -> Option<i64> {
        let last = self.cron.find_previous_occurrence(&self.local(at)?, true).ok()?;
        Some(last.timestamp_micros()).filter(|last| *last <= at)
    }

    /// Returns a time in the zone, to the second.
    fn local(&self, at: i64) -> Option<DateTime<Tz>> {
        let at = DateTime::<Utc>::from_timestamp(at.div_euclid(1_000_000), 0)?;
        Some(at.with_timezone(&self.zone))
    }
}

fn expression(text: &str) -> Result<Cron, ApiError> {
    let wrong = |detail: String| Kind::Invalid.because(format!("cron: {detail}")).with_param("cron");
    if text.len() > CRON_MAX {
        return Err(wrong(format!("it is longer than {CRON_MAX} bytes")));
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let error = match parser.parse(text) {
        Ok(cron) => return Ok(cron),
        Err(error) => error,
    };
    let fields: Vec<&str> = text.split_whitespace().collect();
    if text.trim_start().starts_with('@') || fields.len() != FIELDS.len() {
        let detail = format!("{text:?} has {} fields", fields.len());
        return Err(wrong(detail).hint(CRON_HINT));
    }
    // The parser does not say which field is wrong: each is tried alone.
    let is_wrong = |nth: usize| {
        let mut alone = ["*"; FIELDS.len()];
        alone[nth] = fields[nth];
        parser.parse(&alone.join(" ")).is_err()
    };
    match (0..FIELDS.len()).find(|nth| is_wrong(*nth)) {
        Some(nth) => {
            let (name, range) = FIELDS[nth];
            let detail = format!("the {name} {:?} is invalid", fields[nth]);
            Err(wrong(detail).hint(format!("use {range}, * for all, lists 1,3, ranges 1-5 or steps */2")))
        }
        None => Err(wrong(error.to_string()).hint(CRON_HINT)),
    }
}

fn time_zone(name: &str) -> Result<Tz, ApiError> {
    if let Ok(zone) = name.parse() {
        return Ok(zone);
    }
    let name: String = name.chars().take(ZONE_MAX).collect();
    let lower = name.to_lowercase();
    let contains = |zone: &&str| !lower.is_empty() && zone.to_lowercase().contains(&lower);
    let mut near: Vec<&str> =
        TZ_VARIANTS.iter().map(|zone| zone.name()).filter(contains).take(NEAREST).collect();
    if near.is_empty() {
        let city = |zone: &'static str| zone.rsplit('/').next().unwrap_or(zone);
        let names = || TZ_VARIANTS.iter().map(|zone| zone.name());
        let closest = shared::closest(&name, names()).or_else(|| {
            let nearest = shared::closest(lower.rsplit('/').next().unwrap_or(&lower), names().map(city))?;
            names().find(|zone| city(zone) == nearest)
        });
        near.extend(closest);
    }
    let hint = match near.is_empty() {
        true => "use an IANA name, for example Europe/Berlin or America/New_York".to_owned(),
        false => format!("did you mean {}?", near.join(", ")),
    };
    let error = Kind::Invalid.because(format!("timezone: {name:?} does not exist"));
    Err(error.hint(hint).with_param("timezone"))
}

/// Checks that the expression has a time after now, and returns it.
pub(super) fn first(timetable: &Timetable) -> Result<i64, ApiError> {
    let never = || {
        Kind::Invalid.because("cron: no such time ever comes").hint("check day and month").with_param("cron")
    };
    timetable.after(clock::now()).ok_or_else(never)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        clock::parse_rfc3339(text).unwrap()
    }

    fn berlin(cron: &str) -> Timetable {
        Timetable::new(cron, "Europe/Berlin").unwrap()
    }

    /// Returns the next times after one, as text.
    fn times(timetable: &Timetable, from: &str, count: usize) -> Vec<String> {
        let times = std::iter::successors(timetable.after(at(from)), |last| timetable.after(*last));
        times.take(count).map(|time| clock::rfc3339(time).replace(":00.000000", "")).collect()
    }

    #[test]
    fn a_named_time_in_the_gap_fires_after_it_and_others_leave_it_out() {
        // At 02:00 on 29 March 2026, clocks go to 03:00 (01:00 UTC).
        let daily = berlin("30 2 * * *");
        let days = ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"];
        assert_eq!(times(&daily, "2026-03-27T12:00:00Z", 3), days);
        let half_hours = ["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z"];
        assert_eq!(times(&berlin("*/30 * * * *"), "2026-03-29T00:00:00Z", 3), half_hours);
    }

    #[test]
    fn a_named_time_that_comes_twice_fires_once_and_others_fire_through_both_hours() {
        // At 03:00 on 25 October 2026, clocks go back to 02:00 (01:00 UTC).
        let daily = berlin("30 2 * * *");
        let days = ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"];
        assert_eq!(times(&daily, "2026-10-23T12:00:00Z", 3), days);
        let half_hours = ["2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"];
        assert_eq!(times(&berlin("*/30 * * * *"), "2026-10-25T00:00:00Z", 4), half_hours);
    }

    /// A finding about other libraries: `findings/cron_parser_half_hour_change.sh`.
    #[test]
    fn clocks_that_change_by_half_an_hour_lose_no_time() {
        let lord_howe = |cron: &str| Timetable::new(cron, "Australia/Lord_Howe").unwrap();
        // At 02:00 on 4 October 2026, clocks go to 02:30 (15:30 UTC on the day before).
        let hourly = ["2026-10-03T15:15Z", "2026-10-03T15:45Z", "2026-10-03T16:45Z"];
        assert_eq!(times(&lord_howe("45 * * * *"), "2026-10-03T15:00:00Z", 3), hourly);
        let daily = ["2026-10-02T15:45Z", "2026-10-03T15:30Z", "2026-10-04T15:15Z"];
        assert_eq!(times(&lord_howe("15 2 * * *"), "2026-10-02T12:00:00Z", 3), daily);
        // At 02:00 on 5 April 2026, clocks go back to 01:30 (15:00 UTC on the day before).
        let quarters = ["2026-04-04T14:45Z", "2026-04-04T15:00Z", "2026-04-04T15:15Z", "2026-04-04T15:30Z"];
        assert_eq!(times(&lord_howe("*/15 * * * *"), "2026-04-04T14:30:00Z", 4), quarters);
    }

    /// A finding about other libraries: `findings/croniter_nth_weekday.sh`.
    #[test]
    fn the_second_friday_and_a_day_of_the_month_both_count() {
        let days = ["2026-11-13T00:00Z", "2026-12-11T00:00Z", "2026-12-13T00:00Z", "2027-01-08T00:00Z"];
        assert_eq!(times(&Timetable::new("0 0 13 * 5#2", "UTC").unwrap(), "2026-11-12T12:00:00Z", 4), days);
    }

    #[test]
    fn the_last_time_until_a_time_is_one_of_the_times() {
        for cron in ["30 2 * * *", "0 * * * *", "*/30 1-3 * * *", "0 3 * * SUN"] {
            let timetable = berlin(cron);
            for from in ["2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"] {
                let times = std::iter::successors(timetable.after(at(from)), |last| timetable.after(*last));
                let times: Vec<i64> = times.take(20).collect();
                for pair in times.windows(2) {
                    assert_eq!(timetable.until(pair[1] - 1), Some(pair[0]), "{cron} before {}", pair[1]);
                    assert_eq!(timetable.until(pair[1]), Some(pair[1]), "{cron}");
                }
            }
        }
    }

    #[track_caller]
    fn refusal(cron: &str, zone: &str) -> String {
        Timetable::new(cron, zone).err().unwrap().body().error.message
    }

    #[test]
    fn a_wrong_expression_is_refused_with_its_field() {
        for (cron, word) in [
            ("60 * * * *", "the minute \"60\""),
            ("* 24 * * *", "the hour \"24\""),
            ("* * 32 * *", "the day of the month \"32\""),
            ("* * * FOO *", "the month \"FOO\""),
            ("* * * * 9", "the day of the week \"9\""),
            ("* * * *", "has 4 fields"),
            ("0 * * * * *", "has 6 fields"),
            ("@reboot", "five fields"),
            ("", "five fields"),
        ] {
            let message = refusal(cron, "UTC");
            assert!(message.contains(word), "{cron}: {message}");
        }
        assert!(Timetable::new("@daily", "UTC").is_ok());
        assert!(first(&Timetable::new("0 0 30 2 *", "UTC").unwrap()).is_err(), "30 February never comes");
    }

    #[test]
    fn an_unknown_zone_is_refused_with_the_nearest_names() {
        for (zone, near) in [
            ("berlin", "Europe/Berlin"),
            ("Europe/Berlni", "Europe/Berlin"),
            ("Amerika/New_York", "America/New_York"),
            ("Nowhere", "IANA"),
            ("", "IANA"),
        ] {
            let message = refusal("* * * * *", zone);
            assert!(message.contains(near), "{zone}: {message}");
        }
    }
}
