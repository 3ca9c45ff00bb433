//! The filter language for turns: `status = failed and error ~ 'timed out' and age < 7d`.
//!
//! A condition consists of a field, one of the operators `=`, `!=`, `~` (contains), `<` and `>`, and a value, which is
//! one word or a quoted text. Conditions are joined by `and`; there is no `or` and no grouping. A time is an RFC 3339
//! timestamp, a UTC date, or a duration before now: `7d` is the moment seven days ago, so `created > 7d` selects turns
//! submitted since then. Most people read that the other way round; `age < 7d` means the same and is unambiguous.
//!
//! `text`, `tool`, `model`, `prompt`, `worker`, `rating`, `usd` and `tokens` are answered by the search index, which is filled a moment after the
//! log. A list by them is refused while the index may lack what it should find.

use super::{
    condition::{AmountField, Condition, How, Side, TextField, TimeField},
    parse::FIELDS,
    reader::{ConditionReader, FilterError},
};
use crate::log::short_ids::PartOfId;

/// Maximum number of conditions.
const MOST: usize = 20;

/// A conjunction of conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(pub(crate) Vec<Condition>);

impl Conditions {
    /// Parses conditions. Durations are relative to `now`, in microseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the text is not a valid filter.
    pub fn parse(text: &str, now: i64) -> Result<Self, FilterError> {
        let mut reader = ConditionReader::new(text);
        let mut conditions = Vec::new();
        loop {
            conditions.push(reader.condition(FIELDS)?.parse(now)?);
            reader.skip_blanks();
            if reader.rest().is_empty() {
                return Ok(Self(conditions));
            }
            reader.and()?;
            if conditions.len() == MOST {
                return Err(reader.wrong(format!("there are more than {MOST} conditions"), "ask for less"));
            }
        }
    }

    /// Returns the full strategy names that the conditions require or exclude, so that a caller can report an unknown
    /// name.
    pub fn strategies(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|condition| {
            let Condition::Text { field: TextField::Strategy, how: How::Is | How::IsNot, value } = condition
            else {
                return None;
            };
            Some(value.as_str())
        })
    }

    /// Returns the parts of ids by which the conditions name threads, so that a caller can refuse an ambiguous one.
    pub fn parts_of_threads(&self) -> impl Iterator<Item = &PartOfId> {
        self.0.iter().filter_map(|condition| {
            if let Condition::ThreadPart { part, .. } = condition { Some(part) } else { None }
        })
    }

    /// Returns the tenant that the conditions require.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.0.iter().find_map(|condition| {
            let Condition::Text { field: TextField::Tenant, how: How::Is, value } = condition else {
                return None;
            };
            Some(value.as_str())
        })
    }

    /// Returns true if the search index answers one of the conditions.
    pub fn needs_search(&self) -> bool {
        self.0.iter().any(|condition| {
            matches!(
                condition,
                Condition::Words(_)
                    | Condition::Indexed { .. }
                    | Condition::Rated { .. }
                    | Condition::Amount { field: AmountField::MicroUsd | AmountField::Tokens, .. }
            )
        })
    }

    /// Returns true if the conditions select only turns that were last changed before `at`, in microseconds since the Unix epoch.
    pub(crate) fn are_before(&self, at: i64) -> bool {
        self.0.iter().any(|condition| {
            matches!(condition, Condition::Time { field: TimeField::Updated, side: Side::Before, at: end } if *end <= at)
        })
    }

    /// Adds a condition on the tenant.
    pub fn and_tenant(mut self, name: &str) -> Self {
        self.0.push(Condition::Text { field: TextField::Tenant, how: How::Is, value: name.to_owned() });
        self
    }

    /// Adds a condition: submitted later than `at`, in microseconds since the Unix epoch, or in a thread that was made later, such as
    /// a fork.
    pub fn and_since(mut self, at: i64) -> Self {
        self.0.push(Condition::Since(at));
        self
    }
}

#[cfg(test)]
mod tests {
    use queue::{Priority, clock};
    use shared::{OutcomeKind, TurnStatus};
    use uuid::Uuid;

    use super::*;
    use crate::filter::condition;

    const NOW: i64 = 1_800_000_000_000_000;

    fn time(field: TimeField, side: Side, at: i64) -> Condition {
        Condition::Time { field, side, at }
    }

    fn text(field: TextField, how: How, value: &str) -> Condition {
        Condition::Text { field, how, value: value.to_owned() }
    }

    #[test]
    fn conditions_are_read() {
        use {How::*, TextField::*};
        let id = Uuid::from_u128(7);
        let day = clock::parse_rfc3339("2026-11-20T00:00:00Z").unwrap_or_default();
        for (words, read) in [
            ("status = failed", vec![Condition::Status { is: condition::Is::Is, value: TurnStatus::Failed }]),
            (
                "status!=failed",
                vec![Condition::Status { is: condition::Is::IsNot, value: TurnStatus::Failed }],
            ),
            (
                "outcome = partial and outcome != declined",
                vec![
                    Condition::Outcome { is: condition::Is::Is, value: OutcomeKind::Partial },
                    Condition::Outcome { is: condition::Is::IsNot, value: OutcomeKind::Declined },
                ],
            ),
            ("priority = low", vec![Condition::Priority { is: condition::Is::Is, value: Priority::Low }]),
            (
                "strategy = planner and error ~ 'timed out' AND author != \"O'Hara\"",
                vec![
                    text(Strategy, How::Is, "planner"),
                    text(Error, Holds, "timed out"),
                    text(Author, How::IsNot, "O'Hara"),
                ],
            ),
            ("  tenant=acme  and cause='' ", vec![text(Tenant, How::Is, "acme"), text(Cause, How::Is, "")]),
            ("metadata.order-id = a=b/c", vec![text(Metadata("order-id".to_owned()), How::Is, "a=b/c")]),
            (&format!("thread = {id}"), vec![Condition::Thread { is: condition::Is::Is, value: id }]),
            (
                "created > 7d and updated < 2026-11-20",
                vec![
                    time(TimeField::Created, Side::After, NOW - 7 * 86_400_000_000),
                    time(TimeField::Updated, Side::Before, day),
                ],
            ),
            (
                "age < 7d and age > 2w",
                vec![
                    time(TimeField::Created, Side::After, NOW - 7 * 86_400_000_000),
                    time(TimeField::Created, Side::Before, NOW - 14 * 86_400_000_000),
                ],
            ),
            ("created < 2026-11-20T01:00:00+01:00", vec![time(TimeField::Created, Side::Before, day)]),
        ] {
            assert_eq!(Conditions::parse(words, NOW), Ok(Conditions(read)), "{words}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place_and_the_mend() {
        let many = ["error = x"; MOST + 1].join(" and ");
        for (words, at, holds) in [
            ("", 1, "fields are status, outcome, strategy"),
            ("status", 7, "operators are"),
            ("status == failed", 8, "== is not an operator"),
            ("status ~ failed", 8, "use = or !="),
            ("status = broken", 10, "queued, running"),
            ("outcome = good", 11, "answered, partial, declined"),
            ("outcome ~ partial", 9, "use = or !="),
            ("status =", 9, "a value is missing"),
            ("state = failed", 1, "there is no field state"),
            ("metadata = x", 1, "metadata.KEY"),
            ("metadata.a.b = x", 1, "metadata.KEY"),
            ("status = failed or status = queued", 17, "only `and` is supported"),
            ("status = failed || status = queued", 17, "only `and` is supported"),
            ("error ~ timed out", 15, "in quotes"),
            ("error ~ 'timed out", 9, "not closed"),
            ("error < x", 7, "< compares times"),
            ("created = 7d", 9, "use < or >"),
            ("created > soon", 11, "RFC 3339"),
            ("created > -7d", 11, "RFC 3339"),
            ("age < 2026-11-20", 7, "as in 7d"),
            ("age = 7d", 5, "use < or >"),
            ("thread = 7", 10, "whole id"),
            ("text != a", 6, "use ="),
            ("text = '*'", 8, "no word"),
            ("tool ~ a", 6, "use = or !="),
            ("prompt = xyz", 10, "hexadecimal"),
            ("rating = ok", 10, "good or bad"),
            ("rating ~ good", 8, "use = or !="),
            ("usd > cheap", 7, "0.25"),
            ("usd = 1", 5, "use < or >"),
            ("tokens < -1", 10, "whole number"),
            ("took > soon", 8, "as in 40s"),
            ("batch = b", 9, "whole id"),
            ("custom_id ~ a", 11, "whole custom id"),
            ("(status = failed)", 1, "parentheses"),
            ("status = failed and", 20, "a field is missing"),
            ("author = ä and x", 17, "an operator is missing after x"),
            (&many, 280, "more than 20"),
        ] {
            let wrong = Conditions::parse(words, NOW).expect_err(words);
            assert!(wrong.at == at && wrong.to_string().contains(holds), "{words}: {wrong}");
        }
    }
}
