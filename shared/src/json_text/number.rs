//! Numbers whose decimal digits survive being read.

use serde_json::Number;

/// True if a number is written back as the same decimal number, or is not a number at all.
pub(super) fn survives(literal: &str) -> bool {
    // Nearly every number.
    if literal.len() <= 15 && !literal.contains(['e', 'E']) {
        return true;
    }
    let Some(sent) = decimal(literal) else { return true };
    serde_json::from_str::<Number>(literal).is_ok_and(|number| decimal(&number.to_string()) == Some(sent))
}

/// Splits a number into its digits, without zeros at either end, and the exponent of the last one. `None` if it is not a
/// number.
fn decimal(literal: &str) -> Option<(bool, String, i64)> {
    let (negative, unsigned) = literal.strip_prefix('-').map_or((false, literal), |digits| (true, digits));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    if whole.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (below, power) = exponent.strip_prefix('-').map_or((false, exponent), |digits| (true, digits));
    let power = power.strip_prefix('+').unwrap_or(power);
    if power.is_empty() || !power.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = power.parse::<i64>().unwrap_or(i64::MAX);
    let exponent = if below { -power } else { power };
    let without_end = all.trim_end_matches('0');
    let zeros = i64::try_from(all.len() - without_end.len()).unwrap_or(i64::MAX);
    let digits = without_end.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return Some((negative, digits, 0));
    }
    let shift = zeros.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    Some((negative, digits, exponent.saturating_add(shift)))
}
