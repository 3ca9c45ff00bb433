//! The meaning of a condition's text: its field, and what the field takes.

use queue::clock;
use shared::OutcomeKind;

use super::{
    condition::{AmountField, Condition, How, IndexedField, Is, Side, TextField, TimeField},
    reader::{ConditionText, FilterError},
};
use crate::log::{short_ids::PartOfId, turns::row::outcome_of};

/// All field names, for the error message about an unknown field.
pub(super) const FIELDS: &str = "status, outcome, strategy, tenant, priority, author, thread, batch, custom_id, text, tool, model, prompt, \
    worker, rating, usd, tokens, took, error, cause, age, created, updated and metadata.KEY";

impl ConditionText<'_> {
    /// Converts the text to a condition. Durations are relative to `now`, in microseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`FilterError`] if the field does not exist, or does not take the operator or the value.
    pub(super) fn parse(self, now: i64) -> Result<Condition, FilterError> {
        let unknown =
            |error: &dyn std::fmt::Display| self.at_value.wrong(error.to_string(), "use one of these");
        match self.field {
            "status" => {
                let value = self.value.parse().map_err(|error| unknown(&error))?;
                Ok(Condition::Status { is: self.is()?, value })
            }
            "outcome" => {
                let value = outcome_of(&self.value).map_err(|error| {
                    let known = OutcomeKind::ALL.map(OutcomeKind::name).join(", ");
                    unknown(&format!("outcome {error:?} is unknown: it is one of {known}"))
                })?;
                Ok(Condition::Outcome { is: self.is()?, value })
            }
            "priority" => {
                let value = self.value.parse().map_err(|error| unknown(&error))?;
                Ok(Condition::Priority { is: self.is()?, value })
            }
            "thread" => {
                let what = || format!("{:?} is not a thread id", self.value);
                let hint = "write the whole id, its first 4 characters or more, or its last 8";
                let is = self.is()?;
                if let Ok(value) = self.value.parse() {
                    return Ok(Condition::Thread { is, value });
                }
                let part = PartOfId::parse(&self.value);
                Ok(Condition::ThreadPart { is, part: part.ok_or_else(|| self.at_value.wrong(what(), hint))? })
            }
            "batch" => self.batch(),
            "custom_id" => self.custom_id(),
            "text" => self.words(),
            "tool" => self.indexed(IndexedField::Tool),
            "model" => self.indexed(IndexedField::Model),
            "prompt" => self.indexed(IndexedField::Prompt),
            "worker" => self.indexed(IndexedField::Worker),
            "rating" => self.rated(),
            "usd" => self.amount(AmountField::MicroUsd),
            "tokens" => self.amount(AmountField::Tokens),
            "took" => self.amount(AmountField::Took),
            "strategy" => self.text(TextField::Strategy),
            "tenant" => self.text(TextField::Tenant),
            "author" => self.text(TextField::Author),
            "error" => self.text(TextField::Error),
            "cause" => self.text(TextField::Cause),
            "age" => self.age(now),
            "created" => self.time(TimeField::Created, now),
            "updated" => self.time(TimeField::Updated, now),
            other => match other.strip_prefix("metadata.") {
                Some(key) if is_key(key) => {
                    let field = TextField::Metadata(key.to_owned());
                    self.text(field)
                }
                Some(_) | None => {
                    let hint = format!("fields are {FIELDS}");
                    Err(self.at_field.wrong(format!("there is no field {other}"), hint))
                }
            },
        }
    }

    pub(super) fn is(&self) -> Result<Is, FilterError> {
        match self.operator {
            "=" => Ok(Is::Is),
            "!=" => Ok(Is::IsNot),
            other => {
                let what = format!("{other} cannot be used with {}", self.field);
                Err(self.at_operator.wrong(what, "use = or !="))
            }
        }
    }

    fn text(self, field: TextField) -> Result<Condition, FilterError> {
        let how = match self.operator {
            "=" => How::Is,
            "!=" => How::IsNot,
            "~" => How::Holds,
            other => {
                let what = format!("{other} compares times and amounts");
                return Err(self.at_operator.wrong(what, "use =, != or ~"));
            }
        };
        Ok(Condition::Text { field, how, value: self.value })
    }

    /// Converts an age to a condition on the submission time. A smaller age means a later time, so the comparison is
    /// reversed.
    fn age(&self, now: i64) -> Result<Condition, FilterError> {
        let side = match self.side()? {
            Side::Before => Side::After,
            Side::After => Side::Before,
        };
        let wrong = || {
            let hint = "write a number and w, d, h, m or s, as in 7d";
            self.at_value.wrong(format!("{:?} is not a duration", self.value), hint)
        };
        Ok(Condition::Time { field: TimeField::Created, side, at: ago(&self.value, now).ok_or_else(wrong)? })
    }

    pub(super) fn side(&self) -> Result<Side, FilterError> {
        match self.operator {
            "<" => Ok(Side::Before),
            ">" => Ok(Side::After),
            other => {
                let what = format!("{other} does not compare times or amounts");
                Err(self.at_operator.wrong(what, "use < or >"))
            }
        }
    }

    fn time(&self, field: TimeField, now: i64) -> Result<Condition, FilterError> {
        let side = self.side()?;
        let hint = "write RFC 3339, a day like 2026-11-20, or a duration before now like 7d, 12h, 30m or 10s";
        let wrong = || self.at_value.wrong(format!("{:?} is not a time", self.value), hint);
        Ok(Condition::Time { field, side, at: moment(&self.value, now).ok_or_else(wrong)? })
    }
}

/// Returns true for a key that both engines read the same way. Filters on other metadata keys are rejected.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'))
}

fn moment(text: &str, now: i64) -> Option<i64> {
    ago(text, now)
        .or_else(|| clock::parse_rfc3339(text))
        .or_else(|| clock::parse_rfc3339(&format!("{text}T00:00:00Z")))
}

/// Returns the moment that lies this duration before now.
fn ago(text: &str, now: i64) -> Option<i64> {
    now.checked_sub(i64::try_from(clock::parse_duration(text)?.as_micros()).ok()?)
}
