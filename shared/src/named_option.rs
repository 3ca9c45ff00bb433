//! Options named by the answers of people: by a name, or by a place in the list.

/// Option that an answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedOption {
    /// The option at this index.
    One(usize),
    /// The answer may mean several options, so the question is asked again.
    Several,
    /// The answer names none.
    Nothing,
}

/// Returns the option that `answer` names: by its exact name, by its name without regard to case, or by its place, counted
/// from 1. A full stop at the end is ignored.
///
/// **Invariant:** a number counts an option only if it names none. Where an option is a number, no number counts one, and a
/// number that is a word of another option's name may mean both.
pub fn named_option<S: AsRef<str>>(options: &[S], answer: &str) -> NamedOption {
    named_by_any(&options.iter().map(|option| vec![option.as_ref()]).collect::<Vec<_>>(), answer)
}

/// Returns the option that `answer` names if each option has several names. The first name of an option identifies it.
pub(crate) fn named_by_any(options: &[Vec<&str>], answer: &str) -> NamedOption {
    let whole = answer.trim();
    let text = whole.trim_end_matches('.').trim_end();
    let lower = |text: &str| text.chars().flat_map(lower_case).collect::<String>();
    let (whole_lower, text_lower) = (lower(whole), lower(text));
    let tests: [&dyn Fn(&str) -> bool; 3] =
        [&|name| name.trim() == whole, &|name| name.trim() == text, &|name| {
            [&whole_lower, &text_lower].contains(&&lower(name.trim()))
        }];
    for test in tests {
        let mut found = (0..options.len()).filter(|nth| options[*nth].iter().any(|name| test(name)));
        if let Some(first) = found.next() {
            let is_same = |nth: usize| options[nth].first() == options[first].first();
            return if found.all(is_same) { NamedOption::One(first) } else { NamedOption::Several };
        }
    }
    by_place(options, text)
}

fn by_place(options: &[Vec<&str>], text: &str) -> NamedOption {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let place = text.parse::<usize>().ok().filter(|_| is_number).and_then(|number| number.checked_sub(1));
    let Some(place) = place.filter(|place| *place < options.len()) else { return NamedOption::Nothing };
    let may_mean = |(nth, names): (usize, &Vec<&str>)| {
        let has_number =
            |name: &&str| name.split(|char: char| !char.is_alphanumeric()).any(|word| word == text);
        let is_value = |name: &&str| name.trim().parse::<f64>().is_ok();
        names.iter().any(is_value) || nth != place && names.iter().any(has_number)
    };
    match options.iter().enumerate().any(may_mean) {
        true => NamedOption::Several,
        false => NamedOption::One(place),
    }
}

/// Returns the small form of a letter. A letter of another alphabet does not become a Latin one, as the sign for kelvin
/// would.
fn lower_case(letter: char) -> impl Iterator<Item = char> {
    let kept = !letter.is_ascii() && letter.to_lowercase().any(|small| small.is_ascii_alphabetic());
    let lower = (!kept).then(|| letter.to_lowercase()).into_iter().flatten();
    kept.then_some(letter).into_iter().chain(lower)
}

#[cfg(test)]
mod tests {
    use super::{NamedOption::*, *};

    #[test]
    fn a_number_names_an_option_before_it_counts_one() {
        let named = |options: &str, answer| named_option(&options.split('|').collect::<Vec<_>>(), answer);
        assert_eq!(named("2|3|4", "2"), One(0));
        assert_eq!(named("2|3|4", " 3. "), One(1));
        assert_eq!(named("2|3|1", "1"), One(2));
        assert_eq!(named("red|green", "2"), One(1));
        assert_eq!(named("red|green", "2."), One(1));
        assert_eq!(named("1 guest|2 guests", "2"), One(1), "place and name are of one option");
        for (options, answer) in [
            ("2|3|4", "1"),
            ("10|20|none", "3"),
            ("2.0|3.0|4.0", "2"),
            ("plan 2|plan 1", "2"),
            ("room-3|suite|room-1", "1"),
            ("Red|red|green", "RED"),
        ] {
            assert_eq!(named(options, answer), Several, "{answer} of {options}");
        }
        for answer in ["0", "3", "+1", "-1", "", "one", "redd", "1e0"] {
            assert_eq!(named("red|green", answer), Nothing, "{answer}");
        }
    }

    #[test]
    fn an_exact_name_comes_before_one_in_another_case() {
        let named = |options: &str, answer| named_option(&options.split('|').collect::<Vec<_>>(), answer);
        assert_eq!(named("Red|red|green", "red"), One(1));
        assert_eq!(named("red|GRÜN", "grün"), One(1));
        assert_eq!(named("etc.|etc", "etc."), One(0));
        assert_eq!(named("etc.|other", "etc."), One(0));
        assert_eq!(named("red|red", "red"), One(0), "the same text means the same");
        assert_eq!(named("skip|retry", "s\u{212a}ip"), Nothing, "a sign for kelvin is no letter");
    }

    #[test]
    fn names_of_two_options_may_mean_both() {
        let options = [vec!["1", "2"], vec!["2", "1"], vec!["a", "Monday"]];
        assert_eq!(named_by_any(&options, "1"), Several);
        assert_eq!(named_by_any(&options, "monday"), One(2));
    }
}
