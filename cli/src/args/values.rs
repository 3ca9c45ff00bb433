//! Values of options, and their parsers.

use std::time::Duration;

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use shared::{MultitaskStrategy, Priority};

/// Parses the name of a priority.
pub(super) fn priority() -> impl TypedValueParser<Value = Priority> {
    PossibleValuesParser::new(Priority::ALL.map(Priority::as_str)).try_map(|name| name.parse::<Priority>())
}

/// Parses the name of a multitask strategy.
pub(super) fn multitask_strategy() -> impl TypedValueParser<Value = MultitaskStrategy> {
    PossibleValuesParser::new(MultitaskStrategy::ALL.map(MultitaskStrategy::as_str))
        .try_map(|name| name.parse::<MultitaskStrategy>())
}

/// Returns the name of an option's value, which is also its name in the API.
pub(crate) fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|possible| possible.get_name().to_owned()).unwrap_or_default()
}

/// Parses a duration such as `2w`, `90d`, `12h`, `30m` or `10s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    ::queue::clock::parse_duration(text)
        .ok_or_else(|| "expected a number and a unit (w, d, h, m or s), such as 90d".to_owned())
}

/// Maximum length of a reason in characters, as in the API.
const REASON_MAX: usize = 500;

/// Parses the reason of an administrative decision.
pub(super) fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_line = !text.chars().any(char::is_control) && (1..=REASON_MAX).contains(&text.chars().count());
    is_line.then(|| text.to_owned()).ok_or_else(|| {
        format!(
            "expected one line of 1 to {REASON_MAX} characters; leave it out if there is no reason to record"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_a_bounded_length() {
        assert_eq!(reason(" ended \u{e4}").unwrap(), "ended \u{e4}");
        assert!(reason(&"\u{e4}".repeat(REASON_MAX)).is_ok());
        for text in ["", " ", "one\ntwo", "\u{1b}[2J", &"x".repeat(REASON_MAX + 1)] {
            reason(text).unwrap_err();
        }
    }
}
