//! Placeholders in texts of other programs' files: `${NAME}` and `${NAME:-default}`, anywhere in a text.

/// A part of a text.
enum Part<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

/// Returns true if the text has a placeholder.
pub(super) fn has_placeholder(text: &str) -> bool {
    text.contains("${")
}

/// Checks the placeholders of a text.
///
/// # Errors
///
/// A placeholder that names no environment variable, or does not end.
pub(super) fn check(text: &str) -> Result<(), String> {
    parts(text).map(drop)
}

/// Names of the variables without which the text cannot be filled in.
pub(super) fn required(text: &str) -> Vec<&str> {
    let required = |part| match part {
        Part::Variable { name, default: None } => Some(name),
        Part::Variable { default: Some(_), .. } | Part::Text(_) => None,
    };
    parts(text).unwrap_or_default().into_iter().filter_map(required).collect()
}

/// Fills in a text. An empty variable counts as unset, as in a shell's `:-`.
///
/// # Errors
///
/// The name of the first variable that is not set and has no default.
pub(super) fn fill(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::new();
    for part in parts(text)? {
        match part {
            Part::Text(text) => filled.push_str(text),
            Part::Variable { name, default } => {
                let value = variable(name).filter(|value| !value.is_empty());
                let value = value.or_else(|| default.map(str::to_owned));
                filled.push_str(&value.ok_or_else(|| name.to_owned())?);
            }
        }
    }
    Ok(filled)
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, after)) = after.split_once('}') else {
            return Err("has a ${ without a }".to_owned());
        };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        // The form of some editors.
        let name = name.strip_prefix("env:").unwrap_or(name);
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        if !is_name(name) || default.is_some_and(has_placeholder) {
            return Err(format!("has ${{{inner}}}, which is not ${{NAME}} or ${{NAME:-default}}"));
        }
        parts.extend([Part::Text(before), Part::Variable { name, default }]);
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

#[test]
fn placeholders_are_filled_in_anywhere_and_never_left_as_they_stand() {
    let variable = |name: &str| match name {
        "TOK" => Some("abc".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    for (text, filled) in [
        ("Bearer ${TOK}", Ok("Bearer abc")),
        ("${TOK}/${TOK}", Ok("abc/abc")),
        ("${NO:-there}", Ok("there")),
        ("${EMPTY:-there}", Ok("there")),
        ("${NO:-}", Ok("")),
        ("${env:TOK}", Ok("abc")),
        ("costs $5 and {}", Ok("costs $5 and {}")),
        ("${NO}", Err("NO")),
        ("${input:key}", Err("has ${input:key}, which is not ${NAME} or ${NAME:-default}")),
        ("${TOK", Err("has a ${ without a }")),
    ] {
        let filled: Result<String, String> = filled.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(fill(text, variable), filled, "{text}");
    }
    assert_eq!(required("${A}${B:-b}${C}"), ["A", "C"]);
}
