//! Choices of a form's field, and the values that texts of people choose.

use std::iter;

use serde_json::Value;

use crate::named_option::{NamedOption, named_by_any};

/// A value that a field takes, with the title that a person may see instead of it.
pub(super) struct FormChoice {
    pub(super) value: Value,
    title: Option<String>,
}

impl FormChoice {
    /// Returns the value as a person writes it.
    pub(super) fn text(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }
}

/// Returns the choices that the schema lists, if it lists any.
pub(super) fn choices(schema: &Value) -> Option<Vec<FormChoice>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let titles = schema.get("enumNames").and_then(Value::as_array);
        let title = |nth: usize| Some(titles?.get(nth)?.as_str()?.to_owned());
        let choice = |(nth, value): (usize, &Value)| FormChoice { value: value.clone(), title: title(nth) };
        return Some(values.iter().enumerate().map(choice).collect());
    }
    let titled = ["oneOf", "anyOf"].into_iter().find_map(|keyword| schema.get(keyword)?.as_array())?;
    let choice = |choice: &Value| {
        let title = choice.get("title").and_then(Value::as_str).map(str::to_owned);
        Some(FormChoice { value: choice.get("const")?.clone(), title })
    };
    Some(titled.iter().filter_map(choice).collect())
}

/// Returns the value that `words` choose: by its text, by its title, or by its place.
pub(super) fn chosen<'a>(choices: &'a [FormChoice], words: &str) -> Option<&'a Value> {
    match named(choices, words) {
        NamedOption::One(nth) => Some(&choices[nth].value),
        NamedOption::Several | NamedOption::Nothing => None,
    }
}

/// Returns true if `words`, or a part of them, may mean several choices of a field or of its list.
pub(super) fn is_ambiguous(schema: &Value, words: &str) -> bool {
    let several = |choices: &[FormChoice], words: &str| named(choices, words) == NamedOption::Several;
    if let Some(choices) = choices(schema) {
        return several(&choices, words);
    }
    let of_list = schema.get("items").and_then(choices).unwrap_or_default();
    parts(&of_list, words).into_iter().any(|part| several(&of_list, part))
}

fn named(choices: &[FormChoice], words: &str) -> NamedOption {
    let texts: Vec<String> = choices.iter().map(FormChoice::text).collect();
    let both = texts.iter().zip(choices);
    let names: Vec<Vec<&str>> =
        both.map(|(text, choice)| iter::once(&**text).chain(choice.title.as_deref()).collect()).collect();
    named_by_any(&names, words)
}

/// Splits a text at commas, but not within the name of a choice.
pub(super) fn parts<'a>(choices: &[FormChoice], words: &'a str) -> Vec<&'a str> {
    let commas: Vec<usize> = words.match_indices(',').map(|(at, _)| at).chain([words.len()]).collect();
    let commas_of = |choice: &FormChoice| {
        let names = [Some(choice.text()), choice.title.clone()];
        names.into_iter().flatten().map(|name| name.matches(',').count()).max()
    };
    let longest = choices.iter().filter_map(commas_of).max().unwrap_or_default();
    let (mut parts, mut start, mut next) = (Vec::new(), 0, 0);
    while next < commas.len() {
        let last = (next + longest).min(commas.len() - 1);
        let whole =
            (next + 1..=last).rev().find(|nth| chosen(choices, &words[start..commas[*nth]]).is_some());
        let end = whole.unwrap_or(next);
        parts.push(words[start..commas[end]].trim());
        (start, next) = (commas[end] + 1, end + 1);
    }
    parts
}
