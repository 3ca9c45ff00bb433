//! What cannot be read, in words for whoever wrote it: serde speaks to programmers, and of types they chose.

use serde::{Deserializer, de::DeserializeOwned};

use crate::problem::{Kind, Problem};

/// What is said for what begins so.
const STARTS: [(&str, &str); 12] = [
    ("UUID parsing failed", "it is no UUID"),
    ("invalid digit found in string", "it is no whole number from 0"),
    ("cannot parse integer from empty string", "it is no whole number from 0"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("provided string was not `true` or `false`", "it is neither true nor false"),
    ("data did not match any variant", "it has none of the forms that are known here"),
    ("expected ident", "it is neither true, false nor null"),
    ("expected value", "a value is missing"),
    ("EOF while parsing a value", "it ends where a value is missing"),
    ("EOF while parsing a string", "it ends within a text"),
    ("trailing characters", "there is more after its end"),
];

/// Reads a value out of what stands at `at`, which is nothing for a whole body.
///
/// # Errors
///
/// The problem, which names the field.
pub(crate) fn read<'a, T: DeserializeOwned, D>(at: &str, from: D) -> Result<T, Problem>
where
    D: Deserializer<'a, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(from).map_err(|err| {
        let path = Some(err.path().to_string()).filter(|it| it != ".");
        let error = err.into_inner();
        let (words, place) =
            (said(&error.to_string()), [Some(at.to_owned()).filter(|it| !it.is_empty()), path]);
        let place = place.into_iter().flatten().collect::<Vec<_>>().join(".");
        match (error.is_data(), place.is_empty()) {
            (false, _) => no_json(&error),
            (true, true) => Kind::Invalid.because(format!("the body: {words}")).mend(SHAPE),
            (true, false) => Kind::Invalid.because(format!("{place}: {words}")).mend(SHAPE).about(place),
        }
    })
}

/// What to do about a body that makes no sense.
const SHAPE: &str = "/docs tells what the body may hold";

/// A body that is no JSON.
pub(crate) fn no_json(error: &serde_json::Error) -> Problem {
    Kind::Malformed.because(format!("the body: {}", said(&error.to_string()))).mend("send one JSON object")
}

/// What is said of what cannot be read; where in the text that is stays there.
pub(crate) fn said(error: &str) -> String {
    let (words, place) = error.split_at(error.rfind(" at line ").unwrap_or(error.len()));
    format!("{}{place}", in_words(words))
}

/// The same of a text of one line.
pub(crate) fn said_of_line(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
    match error.line() {
        1 => format!("{} at column {}", in_words(words), error.column()),
        _ => in_words(words),
    }
}

fn in_words(words: &str) -> String {
    if let Some((_, ours)) = STARTS.iter().find(|(start, _)| words.starts_with(start)) {
        return (*ours).to_owned();
    }
    if let Some(within) = words.strip_prefix("EOF while parsing ") {
        return format!("it ends within {}", wanted(within));
    }
    let wrong =
        ["invalid type: ", "invalid value: ", "invalid length "].iter().find(|it| words.starts_with(**it));
    match wrong
        .and_then(|it| words[it.len()..].rsplit_once(", expected ").map(|(is, wants)| (*it, is, wants)))
    {
        Some(("invalid length ", _, wants)) => format!("{} is wanted, and not a list", wanted(wants)),
        Some((_, is, wants)) => format!("{} is wanted, and not {}", wanted(wants), found(is)),
        None => words.to_owned(),
    }
}

/// What is wanted.
fn wanted(it: &str) -> String {
    let ours = match it {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        it if ["struct ", "enum ", "internally tagged enum ", "adjacently tagged enum "]
            .iter()
            .any(|start| it.starts_with(start)) =>
        {
            "an object"
        }
        it => it,
    };
    ours.to_owned()
}

/// What is there.
fn found(it: &str) -> String {
    match it.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer" | "boolean", value)) => value.to_owned(),
        Some(("floating", value)) => value.trim_start_matches("point ").to_owned(),
        Some(("unit", _)) => "null".to_owned(),
        _ => match it {
            "sequence" => "a list".to_owned(),
            "map" => "an object".to_owned(),
            it => it.to_owned(),
        },
    }
}

#[test]
fn no_types_of_programs_are_told() {
    for (error, words) in [
        (
            "invalid type: sequence, expected u64 at line 1 column 2",
            "a whole number from 0 is wanted, and not a list at line 1 column 2",
        ),
        ("invalid type: map, expected a string", "a text is wanted, and not an object"),
        ("invalid value: integer `-1`, expected u32", "a whole number from 0 is wanted, and not `-1`"),
        ("invalid type: floating point `1.5`, expected i64", "a whole number is wanted, and not `1.5`"),
        (
            "invalid type: string \"a, expected b\", expected f64",
            "a number is wanted, and not the text \"a, expected b\"",
        ),
        ("invalid type: null, expected struct NewTurn", "an object is wanted, and not null"),
        ("invalid length 2, expected struct NewTurn with 10 elements", "an object is wanted, and not a list"),
        ("EOF while parsing an object at line 3 column 0", "it ends within an object at line 3 column 0"),
        ("missing field `input`", "missing field `input`"),
    ] {
        assert_eq!(said(error), words);
    }
}
