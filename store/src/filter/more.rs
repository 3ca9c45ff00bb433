//! Conditions that the search index and the lines of batches answer.

use queue::clock;
use shared::Rating;

use super::{
    condition::{AmountField, Condition, IndexedField},
    reader::{ConditionText, FilterError},
};
use crate::{QueryWords, log::short_ids::PartOfId};

/// Fewest characters of a prompt's hash.
const HASH_MIN: usize = 6;

impl ConditionText<'_> {
    pub(super) fn words(self) -> Result<Condition, FilterError> {
        if self.operator != "=" {
            let what = format!("{} cannot be used with text", self.operator);
            return Err(self.at_operator.wrong(what, "use =, which finds all the words in one event"));
        }
        match QueryWords::parse(&self.value) {
            Ok(words) => Ok(Condition::Words(words)),
            Err((what, hint)) => Err(self.at_value.wrong(what, hint)),
        }
    }

    pub(super) fn indexed(self, field: IndexedField) -> Result<Condition, FilterError> {
        let is = self.is()?;
        let is_hash = |text: &str| {
            (HASH_MIN..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if field == IndexedField::Prompt && !is_hash(&self.value) {
            let hint = "write its first 6 characters or more, which are hexadecimal; `turnfold strategy show` lists the prompts";
            return Err(self.at_value.wrong(format!("{:?} is no hash of a prompt", self.value), hint));
        }
        let value = if field == IndexedField::Prompt { self.value.to_ascii_lowercase() } else { self.value };
        Ok(Condition::Indexed { field, is, value })
    }

    pub(super) fn rated(self) -> Result<Condition, FilterError> {
        let is = self.is()?;
        let value = [Rating::Good, Rating::Bad].into_iter().find(|rating| rating.name() == self.value);
        let wrong = || self.at_value.wrong(format!("{:?} is no rating", self.value), "write good or bad");
        Ok(Condition::Rated { is, value: value.ok_or_else(wrong)? })
    }

    pub(super) fn amount(self, field: AmountField) -> Result<Condition, FilterError> {
        let side = self.side()?;
        let (value, hint) = match field {
            AmountField::MicroUsd => {
                let usd = self.value.parse::<f64>().ok().filter(|usd| (0.0..=1e9).contains(usd));
                (usd.map(|usd| (usd * 1e6).round() as i64), "write US dollars, as in 0.25")
            }
            AmountField::Tokens => {
                let tokens = self.value.parse::<u32>().ok();
                (tokens.map(i64::from), "write a whole number, as in 10000")
            }
            AmountField::Took => {
                let time = clock::parse_duration(&self.value);
                let micros = time.and_then(|time| i64::try_from(time.as_micros()).ok());
                (micros, "write a number and w, d, h, m or s, as in 40s")
            }
        };
        let wrong =
            || self.at_value.wrong(format!("{:?} is not a value of {}", self.value, self.field), hint);
        Ok(Condition::Amount { field, side, value: value.ok_or_else(wrong)? })
    }

    /// Parts of custom ids would be looked for in all lines of all batches.
    pub(super) fn custom_id(self) -> Result<Condition, FilterError> {
        if self.operator == "~" {
            let hint = "use = or != with the whole custom id; `batch = ID` selects the turns of a batch";
            return Err(self.at_operator.wrong("~ cannot be used with custom_id".to_owned(), hint));
        }
        Ok(Condition::CustomId { is: self.is()?, value: self.value })
    }

    pub(super) fn batch(self) -> Result<Condition, FilterError> {
        let is = self.is()?;
        let digits = self.value.strip_prefix("batch_").unwrap_or(&self.value);
        let wrong = || {
            let hint = "write the whole id, its first 4 characters or more, or its last 8";
            self.at_value.wrong(format!("{:?} is not a batch id", self.value), hint)
        };
        Ok(Condition::Batch { is, part: PartOfId::parse(digits).ok_or_else(wrong)? })
    }
}
